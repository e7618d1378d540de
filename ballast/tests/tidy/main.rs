//! Checks the repository itself: dependencies between packages, paths and tests that documents
//! mention, module docs, names, sizes.
//!
//! Each check is one test whose message says what to do. The checks read the working tree and
//! change nothing.

#![allow(
    clippy::expect_used,
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
