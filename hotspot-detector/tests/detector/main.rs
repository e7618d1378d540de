//! Tests of the detector's public interface: hotspots are found, explained and
//! relieved. One binary, so that the support code is compiled once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, in its helpers too"
)]

mod diagnosis_cases;
mod diagnosis_reports;
mod fleets;
mod planner_cases;
mod planner_properties;
mod scenarios;
mod what_if;
