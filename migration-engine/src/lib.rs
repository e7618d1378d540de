//! Migrates a slice to another shard, and splits and merges slices (recuts).
//!
//! ```text
//!   protocol   the next action, from what was observed: pure, and model-checked (`sim`)
//!   audit      checks that a record's history is one that the protocol allows
//!   worker     observes, asks the protocol, performs one action, repeats
//!   cutter     the same for recuts
//!   copy       copies a slice's data page by page, resumable
//!   ports      what a migration needs in addition to the shards
//!   steps      the tasks of the workflow `move-tenant`
//!   throttle   the speed of a copy, by the load that it causes
//!   budget     whether the tenant's calls are worse on the target than they may be
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
