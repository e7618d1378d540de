//! The move of a slice to another shard.
//!
//! ```text
//!   protocol   what is to be done next, from what is seen: pure, and checked
//!              by trying everything that can happen (`sim`)
//! ```
//! The steps that do it come next: one file each, with do and undo side by
//! side.

pub mod protocol;
