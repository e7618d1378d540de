//! Small versions of the product's types: numbers instead of names, so that a world is
//! a few bytes that are cheap to copy and hash.
//!
//! This module decides nothing. It converts a question to the product's types, asks the
//! product for a worker's next action or a fence's next state, and converts the answer
//! back. The product's functions are pure, so answers are memoized.

use std::cell::RefCell;
use std::hash::Hash;

// The standard hasher resists chosen keys, which costs a third of an exploration.
use ahash::AHashMap as HashMap;
use ballast_domain::moving::{self, MigrationId};
use ballast_domain::tenant::Epoch;
use ballast_migration_engine::protocol::{self, MigrationIntent, ObservedMigration};
use ballast_vote_shard::shard::{self, Holding};

/// A shard's number: 0 owns the slice at first.
pub(super) type ShardNumber = u8;
/// A migration's number: four times its sequence number, plus how often it was
/// reversed.
pub(super) type MigrationNumber = u8;

/// A migration's phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelPhase {
    /// The data is copied.
    Copying,
    /// The source is being sealed at this epoch.
    Sealing(u8),
    /// The migration is being aborted.
    Aborting,
    /// The target owns it; the source keeps its copy.
    Window,
    /// The source's copy is being removed.
    Cleaning,
}

/// An active migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelMigration {
    /// Its number.
    pub id: MigrationNumber,
    /// The source.
    pub from: ShardNumber,
    /// The target.
    pub to: ShardNumber,
    /// The epoch that the target is prepared at.
    pub prepared: u8,
    /// Whether the source is abandoned.
    pub gives_up: bool,
    /// Whether both sides acknowledge writes after the cutover.
    pub sync: bool,
    /// Its phase.
    pub phase: ModelPhase,
}

/// The slice's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelRoute {
    /// The owner.
    pub owner: ShardNumber,
    /// The owner's epoch.
    pub epoch: u8,
    /// The highest epoch that was ever issued.
    pub spent: u8,
    /// The active migration.
    pub moving: Option<ModelMigration>,
    /// The last migration, and whether it reached its target.
    pub last: Option<(MigrationNumber, bool)>,
}

/// The token of a command to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelToken {
    /// The migration.
    pub id: MigrationNumber,
    /// The token's two parts: the epoch that the migration's target is prepared at, and
    /// the worker's lease.
    pub token: (u8, u8),
}

/// A shard's fence for the slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelFence {
    /// The epoch.
    pub epoch: u8,
    /// What the shard holds.
    pub holding: ModelHolding,
    /// The migration that changed it last.
    pub id: Option<MigrationNumber>,
    /// The highest token.
    pub token: (u8, u8),
}

/// What a shard holds of the slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "as in the product")]
pub enum ModelHolding {
    Importing,
    Owner,
    Sealed,
    Retired,
    Gone,
}

/// A command to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "as in the product")]
pub enum ModelCommand {
    Prepare(u8),
    Ready(u8),
    Seal(u8),
    Reinstate(u8),
    Activate(u8),
    Retire(u8),
    Purge(u8),
}

/// The next action of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ModelAction {
    UpdateRecord(ModelRoute),
    SendCommand(ShardNumber, ModelCommand),
    CopyData,
    Watch,
    Nothing,
}

fn byte(number: u64) -> u8 {
    // Bounds keep epochs far below that.
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn large(epoch: u8) -> Epoch {
    Epoch(epoch.into())
}

pub(super) fn name(id: MigrationNumber) -> MigrationId {
    let first = MigrationId(format!("m{}", id / 4));
    (0..id % 4).fold(first, |id, _| id.way_back())
}

fn number(id: &MigrationId) -> MigrationNumber {
    (0..=u8::MAX).find(|no| name(*no) == *id).unwrap_or(u8::MAX)
}

pub(super) fn token((prepared, lease): (u8, u8)) -> u64 {
    protocol::command_token(large(prepared), lease.into())
}

fn parts(token: u64) -> (u8, u8) {
    let leases = protocol::command_token(Epoch(1), 0);
    (byte(token / leases), byte(token % leases))
}

impl ModelRoute {
    /// Converts to the product's type.
    pub(super) fn to_full(self) -> moving::SliceRoute<ShardNumber> {
        let moving = self.moving.map(|small| moving::ActiveMigration {
            migration_id: name(small.id),
            from: small.from,
            to: small.to,
            prepared: large(small.prepared),
            gives_up: small.gives_up,
            sync: small.sync,
            phase: match small.phase {
                ModelPhase::Copying => moving::MigrationPhase::Copying,
                ModelPhase::Sealing(epoch) => moving::MigrationPhase::Sealing {
                    epoch: large(epoch),
                },
                ModelPhase::Aborting => moving::MigrationPhase::Aborting,
                ModelPhase::Window => moving::MigrationPhase::Window,
                ModelPhase::Cleaning => moving::MigrationPhase::Cleaning,
            },
        });
        let last = self.last.map(|(id, moved)| moving::LastMigration {
            migration_id: name(id),
            moved,
        });
        moving::SliceRoute {
            owner: self.owner,
            epoch: large(self.epoch),
            spent: large(self.spent),
            moving,
            last,
        }
    }

    /// Converts from the product's type.
    pub(super) fn from_full(whole: &moving::SliceRoute<ShardNumber>) -> Self {
        let moving = whole.moving.as_ref().map(|whole| ModelMigration {
            id: number(&whole.migration_id),
            from: whole.from,
            to: whole.to,
            prepared: byte(whole.prepared.0),
            gives_up: whole.gives_up,
            sync: whole.sync,
            phase: match whole.phase {
                moving::MigrationPhase::Copying => ModelPhase::Copying,
                moving::MigrationPhase::Sealing { epoch } => ModelPhase::Sealing(byte(epoch.0)),
                moving::MigrationPhase::Aborting => ModelPhase::Aborting,
                moving::MigrationPhase::Window => ModelPhase::Window,
                moving::MigrationPhase::Cleaning => ModelPhase::Cleaning,
            },
        });
        let last = whole.last.as_ref();
        Self {
            owner: whole.owner,
            epoch: byte(whole.epoch.0),
            spent: byte(whole.spent.0),
            moving,
            last: last.map(|last| (number(&last.migration_id), last.moved)),
        }
    }

    /// Whether the owner alone acknowledges, according to the product.
    pub(super) fn is_alone(&self) -> bool {
        let moving = self.to_full().moving;
        moving.is_none_or(|moving| moving.also_durable_on().is_none())
    }

    /// The record after `release`, if only a copy is left to remove.
    pub(super) fn released(&self) -> Option<Self> {
        let id = name(self.moving?.id);
        let then = protocol::route::release(&self.to_full(), &id);
        then.ok().map(|then| Self::from_full(&then))
    }

    /// The record after `relax`, if both sides acknowledge.
    pub(super) fn relaxed(&self) -> Option<Self> {
        let id = name(self.moving?.id);
        protocol::route::relax(&self.to_full(), &id)
            .ok()
            .map(|then| Self::from_full(&then))
    }

    pub(super) fn gives_up(&self) -> bool {
        self.moving.is_some_and(|moving| moving.gives_up)
    }

    pub(super) fn phase(&self) -> Option<ModelPhase> {
        self.moving.map(|moving| moving.phase)
    }
}

impl ModelToken {
    pub(super) fn to_full(self) -> shard::MigrationToken {
        shard::MigrationToken {
            migration_id: name(self.id),
            token: token(self.token),
        }
    }
}

impl ModelFence {
    pub(super) fn to_full(self) -> shard::Fence {
        shard::Fence {
            epoch: large(self.epoch),
            holding: match self.holding {
                ModelHolding::Importing => Holding::Importing,
                ModelHolding::Owner => Holding::Owner,
                ModelHolding::Sealed => Holding::Sealed,
                ModelHolding::Retired => Holding::Retired,
                ModelHolding::Gone => Holding::Gone,
            },
            migration_id: self.id.map(name),
            token: token(self.token),
        }
    }

    pub(super) fn from_full(whole: &shard::Fence) -> Self {
        Self {
            epoch: byte(whole.epoch.0),
            holding: match whole.holding {
                Holding::Importing => ModelHolding::Importing,
                Holding::Owner => ModelHolding::Owner,
                Holding::Sealed => ModelHolding::Sealed,
                Holding::Retired => ModelHolding::Retired,
                Holding::Gone => ModelHolding::Gone,
            },
            id: whole.migration_id.as_ref().map(number),
            token: parts(whole.token),
        }
    }
}

impl ModelCommand {
    fn from_full(whole: protocol::FenceCommand) -> Self {
        match whole {
            protocol::FenceCommand::Prepare(epoch) => Self::Prepare(byte(epoch.0)),
            protocol::FenceCommand::Ready(epoch) => Self::Ready(byte(epoch.0)),
            protocol::FenceCommand::Seal(epoch) => Self::Seal(byte(epoch.0)),
            protocol::FenceCommand::Reinstate(epoch) => Self::Reinstate(byte(epoch.0)),
            protocol::FenceCommand::Activate(epoch) => Self::Activate(byte(epoch.0)),
            protocol::FenceCommand::Retire(epoch) => Self::Retire(byte(epoch.0)),
            protocol::FenceCommand::Purge(epoch) => Self::Purge(byte(epoch.0)),
        }
    }

    /// The command's epoch.
    pub(super) fn epoch(self) -> u8 {
        match self {
            Self::Prepare(epoch)
            | Self::Ready(epoch)
            | Self::Seal(epoch)
            | Self::Reinstate(epoch)
            | Self::Activate(epoch)
            | Self::Retire(epoch)
            | Self::Purge(epoch) => epoch,
        }
    }
}

/// What a worker observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ModelObservation {
    pub route: ModelRoute,
    pub source: Option<ModelFence>,
    pub target: Option<ModelFence>,
    pub equal: bool,
    pub intent: MigrationIntent,
}

/// Asks the product for the next action.
pub(super) fn next_action(seen: &ModelObservation) -> ModelAction {
    thread_local! {
        static CACHE: RefCell<HashMap<ModelObservation, ModelAction>> = RefCell::default();
    }
    memoized(&CACHE, *seen, || {
        let Some(moving) = seen.route.moving else {
            return ModelAction::Nothing;
        };
        let view = ObservedMigration {
            route: seen.route.to_full(),
            source: seen.source.map(|fence| fence.to_full()),
            target: seen.target.map(|fence| fence.to_full()),
            equal: seen.equal,
            intent: seen.intent,
        };
        match protocol::next_action(&name(moving.id), &view) {
            protocol::ProtocolAction::UpdateRecord(then) => {
                ModelAction::UpdateRecord(ModelRoute::from_full(&then))
            }
            protocol::ProtocolAction::SendCommand(shard, op) => {
                ModelAction::SendCommand(shard, ModelCommand::from_full(op))
            }
            protocol::ProtocolAction::CopyData => ModelAction::CopyData,
            protocol::ProtocolAction::Watch => ModelAction::Watch,
            protocol::ProtocolAction::Ended { .. } | protocol::ProtocolAction::Unknown => {
                ModelAction::Nothing
            }
        }
    })
}

/// A fence and a command: the key of the cache.
type CommandKey = (Option<ModelFence>, ModelCommand, ModelToken);

/// Asks the product for the fence after a command; `None` if it refuses.
pub(super) fn apply_command(
    fence: Option<ModelFence>,
    op: ModelCommand,
    order: ModelToken,
) -> Option<ModelFence> {
    thread_local! {
        static CACHE: RefCell<HashMap<CommandKey, Option<ModelFence>>> =
            RefCell::default();
    }
    memoized(&CACHE, (fence, op, order), || {
        let (known, order) = (fence.map(|fence| fence.to_full()), order.to_full());
        let (held, epoch) = (known.as_ref(), large(op.epoch()));
        let then = match op {
            ModelCommand::Prepare(_) => shard::Fence::prepare(held, epoch, &order).ok()?,
            ModelCommand::Ready(_) => held?.mark_ready(epoch, &order).ok()?,
            ModelCommand::Seal(_) => held?.seal(epoch, &order).ok()?,
            ModelCommand::Reinstate(_) => held?.unseal(epoch, &order).ok()?,
            ModelCommand::Activate(_) => held?.activate(epoch, &order).ok()?,
            ModelCommand::Retire(_) => held?.retire(epoch, &order).ok()?,
            ModelCommand::Purge(_) => {
                if let Some(held) = held {
                    held.may_purge(&order).ok()?;
                }
                shard::Fence::new_tombstone(held, epoch, &order)
            }
        };
        Some(ModelFence::from_full(&then))
    })
}

/// Whether this is a reverse migration.
pub(super) fn is_back(id: MigrationNumber) -> bool {
    !id.is_multiple_of(4)
}

/// A fence, and the epoch at which its shard was abandoned.
type AbandonedKey = (Option<ModelFence>, u8);

/// Asks the product for the command to an abandoned shard.
pub(super) fn command_for_abandoned(fence: Option<ModelFence>, epoch: u8) -> Option<ModelCommand> {
    thread_local! {
        static CACHE: RefCell<HashMap<AbandonedKey, Option<ModelCommand>>> = RefCell::default();
    }
    memoized(&CACHE, (fence, epoch), || {
        let fence = fence.map(|fence| fence.to_full());
        protocol::command_for_abandoned(&fence, large(epoch)).map(ModelCommand::from_full)
    })
}

/// Whether the product imports rows with this token.
pub(super) fn may_import(fence: Option<ModelFence>, order: ModelToken) -> bool {
    thread_local! {
        static CACHE: RefCell<HashMap<(Option<ModelFence>, ModelToken), bool>> = RefCell::default();
    }
    memoized(&CACHE, (fence, order), || {
        fence.is_some_and(|fence| fence.to_full().may_import(&order.to_full()).is_ok())
    })
}

/// A fence, the sender's highest known epoch, and the token.
type DiscardKey = (Option<ModelFence>, u8, ModelToken);

/// Whether the product discards rows for a sender that knows no later epoch.
pub(super) fn may_discard(fence: Option<ModelFence>, known: u8, order: ModelToken) -> bool {
    thread_local! {
        static CACHE: RefCell<HashMap<DiscardKey, bool>> = RefCell::default();
    }
    memoized(&CACHE, (fence, known, order), || {
        let fence = fence.map(|fence| fence.to_full());
        fence.is_some_and(|fence| fence.may_discard(large(known), &order.to_full()).is_ok())
    })
}

/// Whether the product accepts a write at an epoch.
pub(super) fn admits(fence: Option<ModelFence>, epoch: u8) -> bool {
    thread_local! {
        static CACHE: RefCell<HashMap<(Option<ModelFence>, u8), bool>> = RefCell::default();
    }
    memoized(&CACHE, (fence, epoch), || {
        let whole = fence.map(|fence| fence.to_full());
        shard::Fence::admits(whole.as_ref(), large(epoch)).is_ok()
    })
}

/// Whether the product checks the record before it answers a read under this fence.
pub(super) fn must_be_confirmed(fence: Option<ModelFence>) -> bool {
    thread_local! {
        static CACHE: RefCell<HashMap<Option<ModelFence>, bool>> = RefCell::default();
    }
    memoized(&CACHE, fence, || {
        let whole = fence.map(|fence| fence.to_full());
        shard::Fence::must_be_confirmed(whole.as_ref())
    })
}

/// Whether the product answers a read at an epoch.
pub(super) fn serves(fence: Option<ModelFence>, epoch: u8) -> bool {
    thread_local! {
        static CACHE: RefCell<HashMap<(Option<ModelFence>, u8), bool>> = RefCell::default();
    }
    memoized(&CACHE, (fence, epoch), || {
        let whole = fence.map(|fence| fence.to_full());
        shard::Fence::serves(whole.as_ref(), large(epoch)).is_ok()
    })
}

type Memory<K, V> = std::thread::LocalKey<RefCell<HashMap<K, V>>>;

fn memoized<K: Eq + Hash + Copy, V: Copy>(
    memory: &'static Memory<K, V>,
    key: K,
    asked: impl FnOnce() -> V,
) -> V {
    if let Some(known) = memory.with_borrow(|known| known.get(&key).copied()) {
        return known;
    }
    let answer = asked();
    memory.with_borrow_mut(|known| known.insert(key, answer));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_convert_back_to_full_ones() {
        for id in 0..12 {
            assert_eq!(number(&name(id)), id);
            assert_eq!(is_back(id), name(id).is_back());
        }
        let fence = shard::Fence::new_owner(Epoch::FIRST);
        assert_eq!(ModelFence::from_full(&fence).to_full(), fence);
        assert_eq!(parts(token((7, 3))), (7, 3));
        let placed = moving::SliceRoute::placed(0);
        let claimed = protocol::route::claim(&placed, &name(4), 1, true).unwrap();
        let sealed = protocol::route::seal(&claimed, &name(4)).unwrap();
        for route in [placed, claimed, sealed] {
            assert_eq!(ModelRoute::from_full(&route).to_full(), route);
        }
    }
}
