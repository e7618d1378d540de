//! Where a slice belongs: weighted rendezvous hashing under hard rules.
//!
//! ```text
//!   fleet + subject ──► veto ──► score ──► verdict ──► explanation
//!                       rules    weights   stay/go     what would move it
//! ```
//! Everything here is a pure function of the [`PlacementFleet`] and the [`PlacementSubject`].
//!
//! * Each shard draws a number from the slice's name and its own
//!   ([`score()`]); the highest weighted draw wins. Adding a shard moves only
//!   what it wins, in proportion to its weight; removing one moves only what
//!   it held.
//! * Rules come before scores ([`veto`]): region by residency, zones, state,
//!   density.
//! * A *new* slice prefers calm shards to busy ones. A *placed* slice ignores
//!   that preference and remembers the shards it passed over ([`decide()`]), so
//!   filling up never makes a tenant move and a tenant that was just placed
//!   is never asked to move at once.

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
