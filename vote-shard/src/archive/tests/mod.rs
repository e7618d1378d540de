//! Archives: what is written is read back, whatever breaks is named, and
//! whoever is interrupted can go on.
//!
//! ```text
//!   files.rs        rows, bytes and rows again
//!   golden.rs       a file that must always be readable
//!   world.rs        a shard with closed polls, and a store that fails
//!   steps.rs        backfill, copy, compare, remove, read back
//!   interrupted.rs  ended at every operation of the store, and begun again
//! ```

mod files;
mod golden;
mod interrupted;
mod steps;
mod world;
