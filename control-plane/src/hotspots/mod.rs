//! Hotspots: detection, diagnosis and cures.
//!
//! ```text
//!   reconciler     after every sample: rules, diagnosis, records, plans
//!   state          state of the rules and past cures, in memory
//!   findings       one record per hotspot, from detection to its end
//!   matching       which finding continues which hotspot: pure
//!   decide         whether to act on a finding: pure
//!   fleet          the fleet as the planner sees it
//!   plans          plans: created, approved, rejected
//!   plan_progress  advances open plans: begun, followed, judged
//!   cures          applies cures other than moving slices
//!   tasks          tasks of the workflow `rebalance`
//!   queries        operators' questions about hotspots
//!   terms          rules and terms, for evaluation elsewhere
//! ```
//! The pure half (rules, detection, diagnosis, planner) is the crate
//! `hotspot-detector`.

pub(crate) mod cures;
mod decide;
mod findings;
pub mod fleet;
mod matching;
mod plan_progress;
pub mod plans;
pub mod queries;
pub mod reconciler;
pub mod records;
pub mod settings;
pub mod state;
pub mod tasks;
pub mod terms;

pub use settings::{HotspotMode, HotspotSettings};
pub use state::HotspotState;
