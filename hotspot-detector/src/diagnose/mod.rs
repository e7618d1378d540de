//! Diagnosis: the cause of hotspots and the cure that helps.
//!
//! ```text
//!   a key whose calls are mostly rejected     ──► throttle it
//!   a poll's counter at the limit of its lanes ──► more lanes (fewer when it cools)
//!   one tenant is most of the load            ──► move it, or split it if no shard could hold it
//!                                                 (never if one poll is most of it)
//!   several warm tenants                      ──► move the cheapest sufficient set
//!   all shards of the region are too full     ──► add shards
//!   too short to be worth a cure              ──► wait
//!   none of these                             ──► explain why moving will not help
//! ```
//! Throttles and lanes cost nothing and act on the short window. Cures that move data wait
//! for confirmation by the long window, and until the last cure on the shard has been judged.
//! Pure: load, time and the cure history are inputs.

mod counters;
mod cure;
mod doubt;
mod facts;
mod finding;
mod keys;
mod measure;
mod memory;
mod not_overloaded;
mod region;
pub mod report;
mod run;
mod settings;
mod shard;
mod split;
mod subset;
mod tenants;
mod throttles_and_lanes;
mod within_limits;

pub use cure::{Cure, HotspotCause, SlicePlacement};
pub use finding::{CureDeferral, ExpectedEffect, Finding, Rejected};
pub use memory::{CureHistory, CureId, CureRecord, CureVerdict};
pub use run::{DiagnosisInputs, diagnose};
pub use settings::DiagnosisSettings;
