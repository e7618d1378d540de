//! Journeys of voters and of applications: keys, tenants, polls, votes, results and the APIs'
//! contract, against real processes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod archive;
mod bad_input;
mod bad_request;
mod cli;
mod contract;
mod import;
mod keys;
mod live;
mod nginx;
mod placement;
mod polls;
mod reload;
mod roles;
mod times;
mod up;
mod votes;
