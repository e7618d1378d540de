//! What a move makes of a slice, in the slice's own record: this record alone
//! decides a move. It is changed only by compare-and-swap, so of two who want
//! different things one is refused.
//!
//! Shards are named by their ids; the model checker names them by numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::ShardId;
use crate::tenant::Epoch;

/// A move's name.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
pub struct MoveId(pub String);

/// What the name of a way back ends in.
const BACK: &str = "-back";

impl MoveId {
    /// The name of the move that brings a slice back.
    #[must_use]
    pub fn back(&self) -> Self {
        Self(format!("{}{BACK}", self.0))
    }

    /// Whether it is the name of a way back: no other move is called so.
    #[must_use]
    pub fn is_back(&self) -> bool {
        self.0.ends_with(BACK)
    }

    /// The move that this is, or is the way back of.
    #[must_use]
    pub fn there(&self) -> Self {
        Self(self.0.strip_suffix(BACK).unwrap_or(&self.0).to_owned())
    }
}

impl fmt::Display for MoveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a slice is, and what is becoming of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route<S = ShardId> {
    /// The shard that owns it.
    pub owner: S,
    /// The epoch that it owns it at; every write carries it.
    pub epoch: Epoch,
    /// The highest epoch that was ever given out: none is given out twice.
    pub spent: Epoch,
    /// The move that is at work on it.
    pub moving: Option<Moving<S>>,
    /// How the last move ended.
    pub last: Option<Ended>,
}

/// A move at work.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Moving<S = ShardId> {
    /// Its name.
    #[serde(rename = "migrationID")]
    pub move_id: MoveId,
    /// The shard that the slice is to leave.
    #[serde(rename = "fromShardID")]
    pub from: S,
    /// The shard that it is to come to.
    #[serde(rename = "toShardID")]
    pub to: S,
    /// A fresh epoch that the target is prepared at. It also orders moves: a
    /// later one has a higher one.
    #[serde(rename = "preparedEpoch")]
    pub prepared: Epoch,
    /// Whether it gives up what only the shard that it leaves has: that shard
    /// was away for good, and somebody accepted it. What is there is never
    /// removed.
    #[serde(default, skip_serializing_if = "is_not")]
    pub gives_up: bool,
    /// Whether, after the cutover, a write is acknowledged only when both sides
    /// have it. Then whoever takes the slice back without its owner loses nothing
    /// that was acknowledged.
    #[serde(default, skip_serializing_if = "is_not")]
    pub sync: bool,
    /// How far it is.
    #[serde(flatten)]
    pub phase: Phase,
}

impl<S> Moving<S> {
    /// The shard that must have a write, beside the owner, before it is
    /// acknowledged: from the cutover on where the slice came from, also while it
    /// goes back there. Once that copy is being removed, or the way back is called
    /// off, there is nobody to wait for.
    pub fn also_durable_on(&self) -> Option<&S> {
        let is_back = self.move_id.is_back();
        match self.phase {
            _ if !self.sync => None,
            Phase::Window if !is_back => Some(&self.from),
            Phase::Copying | Phase::Sealing { .. } if is_back => Some(&self.to),
            _ => None,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_not(flag: &bool) -> bool {
    !flag
}

/// How far a move is.
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
#[serde(rename_all = "camelCase", tag = "phase")]
pub enum Phase {
    /// The data is copied; the source takes writes.
    Copying,
    /// The source is to be sealed, or is: it takes no writes, and what is left
    /// is copied.
    Sealing {
        /// The fresh epoch of the cutover.
        #[serde(rename = "sealingEpoch")]
        epoch: Epoch,
    },
    /// It is not to be: the source is, or is to be, as it was; the target is
    /// to be emptied.
    Aborting,
    /// The target owns it; the source keeps its copy for the way back.
    Window,
    /// The source's copy is being removed: there is no way back.
    Cleaning,
}

/// How a move ended.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The move.
    #[serde(rename = "migrationID")]
    pub move_id: MoveId,
    /// Whether the slice is at its target.
    pub moved: bool,
}

impl<S> Route<S> {
    /// The route of a slice that has just been placed.
    pub fn placed(owner: S) -> Self {
        Self {
            owner,
            epoch: Epoch::FIRST,
            spent: Epoch::FIRST,
            moving: None,
            last: None,
        }
    }

    /// The move of this name, while it is at work.
    pub fn move_of(&self, move_id: &MoveId) -> Option<&Moving<S>> {
        self.moving
            .as_ref()
            .filter(|moving| moving.move_id == *move_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_waits_for_both_sides_from_the_cutover_until_there_is_no_way_back() {
        let epoch = Epoch(3);
        let phases = [
            Phase::Copying,
            Phase::Sealing { epoch },
            Phase::Aborting,
            Phase::Window,
            Phase::Cleaning,
        ];
        let waits = |name: &str, sync| {
            phases.map(|phase| {
                let moving = Moving {
                    move_id: MoveId(name.to_owned()),
                    from: "from",
                    to: "to",
                    prepared: Epoch(2),
                    gives_up: false,
                    sync,
                    phase,
                };
                moving.also_durable_on().copied()
            })
        };
        assert_eq!(waits("m", true), [None, None, None, Some("from"), None]);
        let back = [Some("to"), Some("to"), None, None, None];
        assert_eq!(waits("m-back", true), back);
        assert_eq!(waits("m", false), [None; 5]);
        assert_eq!(waits("m-back", false), [None; 5]);
    }

    #[test]
    fn a_way_back_is_known_by_its_name() {
        let there = MoveId("m".to_owned());
        assert!(!there.is_back() && there.back().is_back());
        assert_eq!(there.back().there(), there);
        assert_eq!(there.there(), there);
    }
}
