//! Tests of the whole engine, on simulated and on real disks.

mod conformance;
mod damage;
mod disk_trouble;
mod exports;
mod groups;
mod interrupted;
mod ledger;
mod lost_files;
mod panics;
mod whole_engine;
