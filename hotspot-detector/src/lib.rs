//! From load to a plan. Pure: load and time arrive as data, a decision leaves
//! with its evidence. Where measurements come from is decided elsewhere.
//!
//! ```text
//!   load       what was measured, and the windows over it
//!   rules      when something is a hotspot, as configuration
//!   detect     what is hot: windows and rules become hotspots
//!   diagnose   what is really hot, and the cure that helps
//!   resources  what is used and what there is, in every dimension
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod detect;
pub mod diagnose;
pub mod load;
pub mod resources;
pub mod rules;
mod words;
