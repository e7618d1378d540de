//! From a hotspot to what is really hot, and to the cure that helps.
//!
//! ```text
//!   a key whose calls are mostly refused      ──► throttle it
//!   a poll's counter at the limit of its lanes ──► more lanes (fewer when it cools)
//!   one tenant is most of the load            ──► move it, or split it when no shard could hold it
//!                                                 (never when one poll is most of it)
//!   several warm tenants                      ──► move the cheapest that are enough
//!   all shards of the region are warm         ──► add shards, so many
//!   too short to be worth a cure              ──► wait
//!   none of these                             ──► say why moving will not help
//! ```
//! Throttles and lanes cost nothing and act on the short window. What moves
//! data waits until the long window says the same, and until the last cure on
//! that shard has been judged. Pure: load, time and memory arrive as data.

mod bearable;
mod borne;
mod cheap;
mod counters;
mod cure;
mod doubt;
mod facts;
mod finding;
mod keys;
pub mod letter;
mod measure;
mod memory;
mod region;
mod round;
mod run;
mod settings;
mod split;
mod subset;
mod tenants;

pub use cure::{Cause, Cure, Placed};
pub use finding::{Effect, Finding, Rejected, WhyNot};
pub use memory::{CureId, Memory, PastCure, Verdict};
pub use run::{Inputs, diagnose};
pub use settings::Settings;
