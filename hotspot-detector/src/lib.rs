//! From load to a plan. Pure: load and time arrive as data, a decision leaves
//! with its evidence. Where measurements come from is decided elsewhere.
//!
//! ```text
//!   load       what was measured, and the windows over it
//!   rules      when something is a hotspot, as configuration
//!   detect     what is hot: windows and rules become hotspots
//!   diagnose   what is really hot, and the cure that helps
//!   resources  what is used and what there is, in every dimension
//!   fleet      fleets and load that do not exist, for tests and figures
//!   cost       what each tenant used, day by day, and its price
//!   forecast   what shards will use, and what the calendar of polls asks for
//!   plan       the fewest bytes moved so that every shard is under its limits
//!   whatif     a change tried on a copy, and what came of it for real
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod cost;
pub mod detect;
pub mod diagnose;
pub mod fleet;
pub mod forecast;
pub mod load;
pub mod plan;
pub mod resources;
pub mod rules;
pub mod whatif;
mod words;
