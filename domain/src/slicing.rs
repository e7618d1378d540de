//! Into how many slices a tenant is cut: the ranges of poll hashes, and how a
//! tenant's record changes while they are cut anew.
//!
//! ```text
//!   Slicing   that somebody wants so many slices: stays until it is so
//!   Recut     one cut at work: some neighbouring slices of one shard, the
//!             parents, become others, the children, which lie there too
//!
//!                    commit: parents → children, one compare-and-swap
//!   Sealing(E) ───────────────────────────────────► Cut ──► (none)
//!       └────────── abort, at a newer epoch ──► Aborting ──► (none)
//! ```
//! A slice's number is never given again, and its range never changes: whoever
//! knows a number knows which polls are meant, however old that knowledge is.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::clock::Timestamp;
use crate::id::ShardId;
use crate::moving::MoveId;
use crate::poll::PollId;
use crate::tenant::Epoch;

/// Which polls a slice holds: those whose hash lies between two numbers, both
/// included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HashRange {
    /// The lowest hash.
    pub from: u64,
    /// The highest hash.
    pub to: u64,
}

impl HashRange {
    /// Every poll.
    pub const WHOLE: Self = Self {
        from: 0,
        to: u64::MAX,
    };

    /// Whether a poll is among them.
    #[must_use]
    pub fn contains(self, poll: PollId) -> bool {
        self == Self::WHOLE || (self.from..=self.to).contains(&poll.hash())
    }

    /// Whether it is every poll.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Self::WHOLE
    }
}

impl Default for HashRange {
    fn default() -> Self {
        Self::WHOLE
    }
}

/// That a tenant is to have so many slices. It is in the tenant's record until
/// it is so: whoever looks after the record next goes on with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Slicing {
    /// So many slices are wanted, of equal ranges.
    pub into: u32,
    /// Whether slices that belong elsewhere are moved there afterwards.
    #[serde(default)]
    pub spread: bool,
    /// Who wants it.
    pub actor: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when.
    pub asked_at: Timestamp,
    /// How often a cut was called off because it took too long.
    #[serde(default)]
    pub failures: u32,
    /// The next cut does not begin before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The cut that is at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recut: Option<Recut>,
}

/// How the last slicing ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sliced {
    /// So many slices were wanted.
    pub into: u32,
    /// When it ended.
    pub at: Timestamp,
    /// Why it was given up, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A cut at work.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Recut {
    /// Its name.
    #[serde(rename = "recutID")]
    pub recut_id: MoveId,
    /// The shard that holds all of its slices.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The fresh epoch at which the parents are sealed and the children begin.
    pub epoch: Epoch,
    /// The slices that end, in the order of their ranges.
    pub parents: Vec<u32>,
    /// The slices that begin, in the order of their ranges.
    pub children: Vec<Piece>,
    /// How far it is.
    pub phase: RecutPhase,
}

/// A slice that a cut makes.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Piece {
    /// Its number.
    pub slice: u32,
    /// The lowest hash of its polls.
    pub hash_from: u64,
    /// The highest hash of its polls.
    pub hash_to: u64,
}

impl Piece {
    /// Its polls.
    #[must_use]
    pub fn range(&self) -> HashRange {
        HashRange {
            from: self.hash_from,
            to: self.hash_to,
        }
    }
}

/// How far a cut is.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum RecutPhase {
    /// The parents are to be sealed, or are: they take no writes.
    Sealing,
    /// The children have taken their place; the shard is to be told.
    Cut,
    /// It is not to be: the parents are to take writes again.
    Aborting,
}

/// A tenant's slices as cuts see them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layout {
    /// The slices, in the order of their ranges.
    pub parts: Vec<Part>,
    /// The number of the next slice: those below it are never given again.
    pub next_slice: u32,
    /// The cut that is at work.
    pub recut: Option<Recut>,
}

/// A slice as cuts see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part {
    /// Its number.
    pub slice: u32,
    /// The lowest hash of its polls.
    pub hash_from: u64,
    /// The shard that owns it.
    pub owner: ShardId,
    /// The epoch that it owns it at.
    pub epoch: Epoch,
    /// The highest epoch that was ever given out for it.
    pub spent: Epoch,
    /// The move that is at work on it.
    pub moving: Option<MoveId>,
}

impl Layout {
    /// The polls of the part at this place.
    #[must_use]
    pub fn range(&self, place: usize) -> HashRange {
        let from = self.parts.get(place).map_or(0, |part| part.hash_from);
        let next = self.parts.get(place + 1).map(|part| part.hash_from);
        HashRange {
            from,
            to: next.map_or(u64::MAX, |next| next.saturating_sub(1)),
        }
    }

    /// The part with this number.
    #[must_use]
    pub fn part(&self, slice: u32) -> Option<&Part> {
        self.parts.iter().find(|part| part.slice == slice)
    }

    /// The cut that is at work on a slice.
    #[must_use]
    pub fn cut_of(&self, slice: u32) -> Option<&Recut> {
        let recut = self.recut.as_ref()?;
        let children = recut.children.iter().map(|child| child.slice);
        let mut own = recut.parents.iter().copied().chain(children);
        own.any(|own| own == slice).then_some(recut)
    }
}

/// Where equal ranges begin.
#[must_use]
pub fn equal_cuts(into: u32) -> Vec<u64> {
    let into = u128::from(into.max(1));
    let width = (1_u128 << 64) / into;
    (0..into)
        .map(|place| u64::try_from(place * width).unwrap_or(u64::MAX))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ranges_cover_every_poll_once() {
        for into in [1, 2, 4, 64] {
            let cuts = equal_cuts(into);
            assert_eq!(cuts.len(), into as usize);
            assert_eq!(cuts[0], 0);
            let widths = cuts.windows(2).map(|two| two[1] - two[0]);
            let width = u64::try_from((1_u128 << 64) / u128::from(into)).unwrap_or(0);
            assert!(widths.into_iter().all(|one| one == width));
        }
    }

    #[test]
    fn a_range_has_both_of_its_ends() {
        let poll = PollId::from_number(7);
        let hash = poll.hash();
        let range = |from, to| HashRange { from, to };
        assert!(HashRange::WHOLE.contains(poll));
        assert!(range(hash, hash).contains(poll));
        assert!(!range(hash + 1, u64::MAX).contains(poll));
        assert!(!range(0, hash - 1).contains(poll));
    }
}
