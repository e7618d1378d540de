//! Placement: decides where a slice belongs, by weighted rendezvous hashing under hard
//! rules.
//!
//! ```text
//!   fleet + subject ──► veto ──► score ──► verdict ──► explanation
//!                       rules    weights   stay/go     what would move it
//! ```
//! Everything here is a pure function of the [`PlacementFleet`] and the [`PlacementSubject`].
//!
//! * Each shard draws a number from the slice's name and its own ([`score()`]); the highest
//!   weighted draw wins. Adding a shard moves only the slices that it wins, in proportion to
//!   its weight. Removing a shard moves only its own slices.
//! * Rules come before scores ([`veto`]): region by residency, zones, state,
//!   density.
//! * A *new* slice prefers calm shards to busy ones. A *placed* slice ignores that
//!   preference and remembers the shards that were passed over ([`decide()`]). So changes of
//!   load never move a tenant, and a tenant that was just placed does not move at once.

mod decide;
mod explain;
mod fleet;
mod score;
mod veto;
mod would_move;

pub use decide::{PlacementDecision, PlacementReason, decide};
pub use explain::{Explanation, ShardExplanation, explain};
pub use fleet::{PlacementFleet, PlacementShard, PlacementSubject};
pub use score::{draw, score, slice_hash};
pub use veto::{Veto, VetoCode, region_fit_unless_vetoed, vetoes};
pub use would_move::{PlacementChange, WouldMove};

#[cfg(test)]
mod properties;
