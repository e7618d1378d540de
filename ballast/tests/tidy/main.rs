//! Keeps the house honest: the arrows between rooms, the paths that the
//! documents name, the words on the doors.
//!
//! Each check is a test of its own, and its message says what to do. It
//! reads the repository as it lies on disk and changes nothing.

#![allow(
    clippy::panic,
    reason = "a check fails by panicking, in its helpers too"
)]

mod documents;
mod generated;
mod invariants;
mod markdown;
mod names;
mod packages;
mod paths;
mod repository;
mod sizes;
mod sources;
