//! Tests of archives: stored rows are read back, damage is reported, and
//! interrupted work can be resumed.
//!
//! ```text
//!   files.rs        encoding and decoding
//!   golden.rs       a file that must stay readable
//!   world.rs        a shard with closed polls, and a store with faults
//!   steps.rs        backfill, copy, verify, remove
//!   interrupted.rs  interrupted at every operation of the store, and resumed
//! ```

mod files;
mod golden;
mod interrupted;
mod steps;
mod world;
