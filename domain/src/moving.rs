//! The route of a slice and the migration that changes it, as stored in the tenant's
//! record. This record alone decides a migration. It is changed only by
//! compare-and-swap, so that of two conflicting changes one is refused.
//!
//! Shards are named by their ids, or by numbers in the model checker.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::ShardId;
use crate::tenant::Epoch;

/// The id of a migration.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[schema(as = MoveId)]
pub struct MigrationId(pub String);

/// The suffix of the id of a migration that brings a slice back.
const BACK: &str = "-back";

impl MigrationId {
    /// The id of the migration that brings the slice back.
    #[must_use]
    pub fn way_back(&self) -> Self {
        Self(format!("{}{BACK}", self.0))
    }

    /// Whether it brings a slice back. Ids of other migrations never have the suffix.
    #[must_use]
    pub fn is_back(&self) -> bool {
        self.0.ends_with(BACK)
    }

    /// The id of the migration there: this one, or the one that this one reverses.
    #[must_use]
    pub fn outbound(&self) -> Self {
        Self(self.0.strip_suffix(BACK).unwrap_or(&self.0).to_owned())
    }
}

impl fmt::Display for MigrationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The owner of a slice, and the state of its migration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceRoute<S = ShardId> {
    /// The shard that owns it.
    pub owner: S,
    /// The epoch of its ownership; every write carries it.
    pub epoch: Epoch,
    /// The highest epoch that was ever issued: none is issued twice.
    pub spent: Epoch,
    /// The running migration, if there is one.
    pub moving: Option<ActiveMigration<S>>,
    /// How the last migration ended.
    pub last: Option<LastMigration>,
}

/// A running migration.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
#[schema(as = Moving)]
pub struct ActiveMigration<S = ShardId> {
    /// Its id.
    #[serde(rename = "migrationID")]
    pub migration_id: MigrationId,
    /// The source: the shard that the slice leaves.
    #[serde(rename = "fromShardID")]
    pub from: S,
    /// The target: the shard that it moves to.
    #[serde(rename = "toShardID")]
    pub to: S,
    /// The fresh epoch at which the target is prepared. It also orders migrations: a
    /// later one has a higher epoch.
    #[serde(rename = "preparedEpoch")]
    pub prepared: Epoch,
    /// Whether it abandons the source, with the data that only it has, because it is
    /// permanently unavailable and an operator accepted the loss. The source's copy is
    /// never removed.
    #[serde(default, skip_serializing_if = "is_not")]
    pub gives_up: bool,
    /// Whether, after the cutover, a write is acknowledged only when both sides have it.
    /// The slice can then be taken back without its owner, and no acknowledged write is
    /// lost.
    #[serde(default, skip_serializing_if = "is_not")]
    pub sync: bool,
    /// Its phase.
    #[serde(flatten)]
    pub phase: MigrationPhase,
}

impl<S> ActiveMigration<S> {
    /// The shard that must have a write, in addition to the owner, before it is
    /// acknowledged: the previous owner, from the cutover on and also while the slice
    /// moves back there. There is none once that copy is being removed or the way back
    /// is cancelled.
    pub fn also_durable_on(&self) -> Option<&S> {
        let is_back = self.migration_id.is_back();
        match self.phase {
            _ if !self.sync => None,
            MigrationPhase::Window if !is_back => Some(&self.from),
            MigrationPhase::Copying | MigrationPhase::Sealing { .. } if is_back => Some(&self.to),
            _ => None,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_not(flag: &bool) -> bool {
    !flag
}

/// The phase of a migration.
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
#[schema(as = Phase)]
pub enum MigrationPhase {
    /// The data is being copied; the source takes writes.
    Copying,
    /// The source is sealed, or about to be: it takes no writes, and the remaining
    /// changes are copied.
    Sealing {
        /// The fresh epoch of the cutover.
        #[serde(rename = "sealingEpoch")]
        epoch: Epoch,
    },
    /// The migration is aborted: the source is restored and the target is emptied.
    Aborting,
    /// The target owns the slice; the source keeps its copy for a way back.
    Window,
    /// The source's copy is being removed: there is no way back.
    Cleaning,
}

impl MigrationPhase {
    /// Its name, for messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Copying => "copying",
            Self::Sealing { .. } => "sealing",
            Self::Aborting => "aborting",
            Self::Window => "window",
            Self::Cleaning => "cleaning",
        }
    }
}

/// How a migration ended.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
#[schema(as = Ended)]
pub struct LastMigration {
    /// The migration.
    #[serde(rename = "migrationID")]
    pub migration_id: MigrationId,
    /// Whether the slice is at its target.
    pub moved: bool,
}

impl<S> SliceRoute<S> {
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

    /// The migration with this id, if it is running.
    pub fn active_migration(&self, move_id: &MigrationId) -> Option<&ActiveMigration<S>> {
        self.moving
            .as_ref()
            .filter(|moving| moving.migration_id == *move_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_writes_need_both_sides_while_there_is_a_way_back() {
        let epoch = Epoch(3);
        let phases = [
            MigrationPhase::Copying,
            MigrationPhase::Sealing { epoch },
            MigrationPhase::Aborting,
            MigrationPhase::Window,
            MigrationPhase::Cleaning,
        ];
        let waits = |name: &str, sync| {
            phases.map(|phase| {
                let moving = ActiveMigration {
                    migration_id: MigrationId(name.to_owned()),
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
    fn a_way_back_is_recognised_by_its_id() {
        let there = MigrationId("m".to_owned());
        assert!(!there.is_back() && there.way_back().is_back());
        assert_eq!(there.way_back().outbound(), there);
        assert_eq!(there.outbound(), there);
    }
}
