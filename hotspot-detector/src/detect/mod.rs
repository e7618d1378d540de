//! From windows to hotspots: one small state machine per rule and subject.
//!
//! ```text
//!   quiet ──► pending ──► firing ──► clearing ──► quiet (and cooling down)
//!     ▲          │           ▲           │
//!     └──────────┘           └───────────┘
//! ```
//! Pure: a pass takes the rules and the book and gives what changed. What was
//! not measured neither raises nor ends anything, and its time does not count.

mod explain;
mod hotspot;
mod pass;
mod scene;
mod state;
mod subject;

pub use explain::{Standing, explain, explain_shard};
pub use hotspot::{Hotspot, Reading};
pub use pass::{Detector, Event};
pub use state::{Change, State, Timing, apply};
pub use subject::Subject;
