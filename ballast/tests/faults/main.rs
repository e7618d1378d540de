//! Journeys that need a build with fault injection (feature `faults`): processes
//! that die at a named place, rows that rot, disks that fail, planted bugs; and
//! traces, which need the feature `otlp`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/ledger/mod.rs"]
mod ledger;
#[path = "../support/mod.rs"]
mod support;

mod archived_move;
mod console_away;
mod corruption;
mod disk;
mod lost_target;
mod moving;
mod planted;
mod splitting;
#[cfg(feature = "otlp")]
mod traces;
