//! The move of a slice to another shard.
//!
//! ```text
//!   protocol   what is to be done next, from what is seen: pure, and checked
//!              by trying everything that can happen (`sim`)
//!   audit      whether what has happened to a record is what the protocol allows
//!   worker     looks, decides, does one thing, looks again
//!   cutter     the same for slices that are cut anew
//!   copy       a slice's data, page by page, resumable
//!   ports      what a move needs of the world, besides the shards
//!   steps      what the states of the workflow `move-tenant` do
//!   throttle   how fast a copy may be, by what it does to others
//!   budget     whether a slice is worse off where it came to than it may be
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod audit;
pub mod budget;
pub mod copy;
pub mod cutter;
mod faults;
pub mod ports;
pub mod protocol;
pub mod steps;
pub mod throttle;
pub mod worker;
