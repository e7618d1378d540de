//! Splitting and merging the slices of a tenant: the ranges of poll hashes, and the part
//! of the tenant's record that a recut changes.
//!
//! ```text
//!   Slicing   a request for a number of slices: stays until it is carried out
//!   Recut     one running step: neighbouring slices of one shard, the parents,
//!             become other slices of the same shard, the children
//!
//!                    commit: parents → children, one compare-and-swap
//!   Sealing(E) ───────────────────────────────────► Cut ──► (none)
//!       └────────── abort, at a newer epoch ──► Aborting ──► (none)
//! ```
//! The number of a slice is never reused and its range never changes. So a number always
//! identifies the same polls, however old the route that names it.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::clock::Timestamp;
use crate::id::ShardId;
use crate::moving::MigrationId;
use crate::poll::PollId;
use crate::tenant::Epoch;

/// The polls of a slice: those whose hash is between two numbers, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HashRange {
    /// The lowest hash.
    pub from: u64,
    /// The highest hash.
    pub to: u64,
}

impl HashRange {
    /// All polls.
    pub const WHOLE: Self = Self {
        from: 0,
        to: u64::MAX,
    };

    /// Whether it contains a poll.
    #[must_use]
    pub fn contains(self, poll: PollId) -> bool {
        self == Self::WHOLE || (self.from..=self.to).contains(&poll.hash())
    }

    /// Whether it contains all polls.
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

/// A request to split or merge a tenant into a number of slices. It stays in the tenant's
/// record until it is carried out, and the slicing reconciler works on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Slicing {
    /// The requested number of slices, of equal ranges.
    pub into: u32,
    /// Whether slices are moved to the shards where they belong afterwards.
    #[serde(default)]
    pub spread: bool,
    /// Who requested it.
    pub actor: Actor,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when.
    pub asked_at: Timestamp,
    /// How often a recut was aborted because it took too long.
    #[serde(default)]
    pub failures: u32,
    /// When the next recut may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The running recut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recut: Option<Recut>,
}

impl Slicing {
    /// Whether a tenant that has this many slices now is being merged, not split.
    #[must_use]
    pub fn is_merge(&self, slices: usize) -> bool {
        match &self.recut {
            Some(recut) => recut.parents.len() > recut.children.len(),
            None => slices > self.into as usize || self.into == 1,
        }
    }
}

/// How a slicing ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Sliced)]
pub struct SlicingResult {
    /// The requested number of slices.
    pub into: u32,
    /// When it ended.
    pub at: Timestamp,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A running recut.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Recut {
    /// Its id.
    #[serde(rename = "recutID")]
    pub recut_id: MigrationId,
    /// The shard that holds all of its slices.
    #[serde(rename = "shardID")]
    pub shard_id: ShardId,
    /// The fresh epoch at which the parents are sealed and the children begin.
    pub epoch: Epoch,
    /// The slices that are replaced, in the order of their ranges.
    pub parents: Vec<u32>,
    /// The new slices, in the order of their ranges.
    pub children: Vec<ChildSlice>,
    /// Its phase.
    pub phase: RecutPhase,
}

/// A slice that a recut makes.
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
#[schema(as = Piece)]
pub struct ChildSlice {
    /// Its number.
    pub slice: u32,
    /// The lowest hash of its polls.
    pub hash_from: u64,
    /// The highest hash of its polls.
    pub hash_to: u64,
}

impl ChildSlice {
    /// Its polls.
    #[must_use]
    pub fn range(&self) -> HashRange {
        HashRange {
            from: self.hash_from,
            to: self.hash_to,
        }
    }
}

/// The phase of a recut.
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
    /// The parents are sealed, or about to be: they take no writes.
    Sealing,
    /// The children have replaced the parents; the shard must still apply it.
    Cut,
    /// The recut is aborted: the parents must take writes again.
    Aborting,
}

/// The slices of a tenant, as recuts use them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SliceLayout {
    /// The slices, in the order of their ranges.
    pub parts: Vec<LayoutSlice>,
    /// The number of the next slice: lower numbers are never reused.
    pub next_slice: u32,
    /// The running recut.
    pub recut: Option<Recut>,
}

/// A slice of a layout.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayoutSlice {
    /// Its number.
    pub slice: u32,
    /// The lowest hash of its polls.
    pub hash_from: u64,
    /// The shard that owns it.
    pub owner: ShardId,
    /// The epoch of its ownership.
    pub epoch: Epoch,
    /// The highest epoch that was ever issued for it.
    pub spent: Epoch,
    /// Its running migration.
    pub moving: Option<MigrationId>,
}

impl SliceLayout {
    /// The polls of the slice at this position.
    #[must_use]
    pub fn range(&self, place: usize) -> HashRange {
        let from = self.parts.get(place).map_or(0, |part| part.hash_from);
        let next = self.parts.get(place + 1).map(|part| part.hash_from);
        HashRange {
            from,
            to: next.map_or(u64::MAX, |next| next.saturating_sub(1)),
        }
    }

    /// The slice with this number.
    #[must_use]
    pub fn part(&self, slice: u32) -> Option<&LayoutSlice> {
        self.parts.iter().find(|part| part.slice == slice)
    }

    /// The running recut, if it involves this slice.
    #[must_use]
    pub fn recut_of_slice(&self, slice: u32) -> Option<&Recut> {
        let recut = self.recut.as_ref()?;
        let children = recut.children.iter().map(|child| child.slice);
        let mut own = recut.parents.iter().copied().chain(children);
        own.any(|own| own == slice).then_some(recut)
    }
}

/// The lowest hashes of `into` equal ranges.
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
    fn a_running_merge_is_no_split() {
        let slicing = |into: u32, recut: serde_json::Value| {
            let body = serde_json::json!({
                "into": into, "actor": {"type": "ballast", "name": "a"},
                "askedAt": "2026-11-16T09:00:00Z", "recut": recut,
            });
            serde_json::from_value::<Slicing>(body).unwrap()
        };
        let none = serde_json::Value::Null;
        assert!(!slicing(4, none.clone()).is_merge(1));
        assert!(slicing(2, none.clone()).is_merge(4));
        assert!(slicing(1, none).is_merge(1));
        // The last recut has replaced the parents already.
        let recut = |parents: &[u32], children: &[u32]| {
            let children: Vec<_> = children
                .iter()
                .map(|slice| serde_json::json!({"slice": slice, "hashFrom": 0, "hashTo": 1}))
                .collect();
            serde_json::json!({"recutID": "rc-1", "shardID": "shard-1", "epoch": 2,
                "parents": parents, "children": children, "phase": "cut"})
        };
        assert!(slicing(2, recut(&[3, 4], &[5])).is_merge(2));
        assert!(!slicing(2, recut(&[0], &[1, 2])).is_merge(2));
    }

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
