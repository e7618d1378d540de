//! Proves that nothing acknowledged is lost or counted twice, across `kill -9` and backups.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/ledger/mod.rs"]
mod ledger;
#[path = "../support/mod.rs"]
mod support;

mod backup;
mod durability;
mod runs;
