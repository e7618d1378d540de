//! Attacks: somebody with access to the files, the network or the API tries to make Ballast lose
//! votes, stop or tell what it must not. Each is bounded, and reaches only addresses of this
//! machine. Run them with `scripts/test attacks`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod connections;
mod executions;
mod lost_files;
mod registry;
