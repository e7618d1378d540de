//! Hotspot detection, diagnosis and planning. Pure: load and time are inputs, and every
//! decision carries its evidence. Measuring is done elsewhere.
//!
//! ```text
//!   load       measurements, and the windows over them
//!   rules      the configured conditions of hotspots
//!   detect     windows and rules become hotspots
//!   diagnose   the cause of hotspots, and the cure
//!   resources  loads and capacities in every dimension
//!   fleet      generated fleets and loads, for tests and benchmarks
//!   cost       each tenant's daily usage and its price
//!   forecast   capacity forecasts, and preparation of scheduled polls
//!   plan       migrations with the fewest bytes so that every shard is under its limits
//!   whatif     changes simulated on a copy of the fleet, and predictions compared
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod cost;
pub mod detect;
pub mod diagnose;
pub mod fleet;
pub mod forecast;
mod format;
pub mod load;
pub mod plan;
pub mod resources;
pub mod rules;
pub mod whatif;
