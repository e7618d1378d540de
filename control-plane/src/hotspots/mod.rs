//! Hotspots: what is hot, why, and what is done about it.
//!
//! ```text
//!   watch     after every sample: rules, diagnosis, records, plans
//!   mind      where rules stand, and what was done before, in memory
//!   findings  what is found becomes a record, from its beginning to its end
//!   decide    whether something is done about it, or why not: pure
//!   fleet     the fleet as the planner sees it
//!   plans     plans made, approved, rejected
//!   follow    plans under way: begun, followed, judged
//!   act       cures that are no moves
//!   tasks     what the workflow `rebalance` has done
//!   ask       what operators ask about hotspots
//!   terms     what all of it goes by, for who does the same elsewhere
//! ```
//! The pure half (rules, detection, diagnosis, planner) is the room
//! `hotspot-detector`.

pub(crate) mod act;
pub mod ask;
mod decide;
mod findings;
pub mod fleet;
mod follow;
pub mod mind;
pub mod plans;
pub mod records;
mod same;
pub mod settings;
pub mod tasks;
pub mod terms;
pub mod watch;

pub use mind::Mind;
pub use settings::{HotspotSettings, Mode};
