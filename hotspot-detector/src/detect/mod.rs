//! Hotspot detection: one small state machine per rule and subject.
//!
//! ```text
//!   quiet ──► pending ──► firing ──► clearing ──► quiet (and cooling down)
//!     ▲          │           ▲           │
//!     └──────────┘           └───────────┘
//! ```
//! Pure: a pass evaluates the rules on the load history and returns the transitions. Gaps in
//! the measurements neither start nor end a hotspot, and their time does not count.

mod explain;
mod hotspot;
mod pass;
mod state;
mod subject;
mod variables;

pub use explain::{RuleExplanation, explain, explain_shard};
pub use hotspot::{Hotspot, Reading};
pub use pass::{Detector, HotspotEvent};
pub use state::{HotspotTransition, RuleState, Timing, apply};
pub use subject::HotspotSubject;
