//! Journeys of operators: the console, migrations, hotspots, workflows and
//! load, against real processes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod browser;
mod calendar;
mod console;
mod console_acts;
mod console_load;
mod cures;
mod demo;
mod drains;
mod execution;
mod handbook;
mod hotspot;
mod load;
mod migration;
mod moves_by_hand;
mod sync_window;
mod webhooks;
mod workflow;
mod workflows;
