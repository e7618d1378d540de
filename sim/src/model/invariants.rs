//! The invariants of every world.

use stateright::Property;

use super::happen::MigrationModel;
use super::rules::BrokenRule;
use super::small::{self, ModelFence, ModelHolding, ModelPhase};
use super::world::{ModelRow, ModelShard, ModelWorld};

/// An invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Invariant {
    /// INV-1: the owner's rows contain every acknowledged choice, or a later one.
    NothingLost,
    /// INV-2: no voter is counted twice.
    NothingDoubled,
    /// INV-3: at most one shard takes writes, at whatever epoch.
    OneOwner,
    /// INV-4: an owner is the one that the record names, at no higher epoch.
    OwnerIsRecorded,
    /// INV-5: nothing was written to the source after the seal: the owner has all of
    /// its rows, at no lower version.
    NoStraggler,
    /// INV-6: no shard knows an epoch that the record did not issue.
    EpochsAreGiven,
    /// INV-7: during the window the source still has all of its rows, so that the slice
    /// can return.
    WayBack,
    /// INV-8: every world comes to rest: no seal, no partial copy, every voter answered.
    EndsCalm,
    /// INV-38: however stale a router is, its reads are no older than what was
    /// acknowledged.
    ReadsAreTrue,
    /// INV-41: abandoning an owner loses no write that was acknowledged before the
    /// cutover or was streamed back, and its data is not removed.
    LossIsBounded,
}

impl Invariant {
    /// All invariants.
    pub const ALL: [Self; 10] = [
        Self::NothingLost,
        Self::NothingDoubled,
        Self::OneOwner,
        Self::OwnerIsRecorded,
        Self::NoStraggler,
        Self::EpochsAreGiven,
        Self::WayBack,
        Self::EndsCalm,
        Self::ReadsAreTrue,
        Self::LossIsBounded,
    ];

    /// The invariant's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NothingLost => "INV-1 nothing acknowledged is lost",
            Self::NothingDoubled => "INV-2 nothing is counted twice",
            Self::OneOwner => "INV-3 at most one shard takes writes",
            Self::OwnerIsRecorded => "INV-4 the owner is the recorded one",
            Self::NoStraggler => "INV-5 no write comes after the seal",
            Self::EpochsAreGiven => "INV-6 epochs are issued by the record",
            Self::WayBack => "INV-7 the window keeps the source's copy",
            Self::EndsCalm => "INV-8 every world comes to rest",
            Self::ReadsAreTrue => "INV-38 reads are not stale",
            Self::LossIsBounded => "INV-41 no more is lost than was accepted",
        }
    }

    pub(super) fn property(self) -> Property<MigrationModel> {
        let condition: fn(&MigrationModel, &ModelWorld) -> bool = match self {
            Self::NothingLost => |_, world| nothing_lost(world),
            Self::NothingDoubled => |_, world| nothing_doubled(world),
            Self::OneOwner => |_, world| one_owner(world),
            Self::OwnerIsRecorded => |_, world| owner_is_recorded(world),
            Self::NoStraggler => |_, world| no_straggler(world),
            Self::EpochsAreGiven => |_, world| epochs_are_given(world),
            Self::WayBack => |_, world| way_back(world),
            Self::EndsCalm => MigrationModel::ends_calm,
            Self::ReadsAreTrue => reads_are_true,
            Self::LossIsBounded => |_, world| loss_is_bounded(world),
        };
        Property::always(self.name(), condition)
    }
}

fn nothing_lost(world: &ModelWorld) -> bool {
    has_all(world, world.truth())
}

fn has_all(world: &ModelWorld, shard: &ModelShard) -> bool {
    let held = shard.rows.iter().map(|row| row.choice);
    held.zip(world.acknowledged)
        .all(|(held, acknowledged)| held >= acknowledged)
}

fn reads_are_true(model: &MigrationModel, world: &ModelWorld) -> bool {
    let mut shards = (0..).zip(&world.shards);
    shards.all(|(number, shard)| {
        let Some(fence) = shard.fence else {
            return true;
        };
        // A router that still reaches an abandoned shard reads what it has.
        if world.is_lost(usize::from(number)) {
            return true;
        }
        // A router that is answered here reads at an epoch at which the record named
        // this shard. Lower epochs may have been dropped by `forget`, so the fence's
        // own epoch represents them.
        let is_read = (0..=fence.epoch).any(|epoch| small::serves(shard.fence, epoch));
        let asks =
            small::must_be_confirmed(shard.fence) && model.rule != BrokenRule::SealedReadsTrusted;
        let is_told = is_read && (!asks || world.route.owner == number);
        !is_told || has_all(world, shard)
    })
}

fn nothing_doubled(world: &ModelWorld) -> bool {
    let mut rows = world.shards.iter().flat_map(|shard| &shard.rows);
    rows.all(|row| row.counted <= 1)
}

fn owners(world: &ModelWorld) -> impl Iterator<Item = (usize, &ModelFence)> {
    let numbered = world.shards.iter().enumerate();
    numbered.filter_map(|(number, shard)| {
        let fence = shard.fence.as_ref()?;
        (fence.holding == ModelHolding::Owner).then_some((number, fence))
    })
}

/// An abandoned shard that has not learned of it yet may take writes at its old epoch, but no
/// other shard takes writes at that epoch.
fn one_owner(world: &ModelWorld) -> bool {
    let is_lost = |number: usize| world.is_lost(number);
    let lost = owners(world).find(|(number, _)| is_lost(*number));
    let mut others = owners(world).filter(|(number, _)| !is_lost(*number));
    let first = others.next();
    let at = |fence: &ModelFence| fence.epoch;
    let apart = lost.is_none_or(|(_, lost)| first.is_none_or(|(_, one)| at(one) != at(lost)));
    others.next().is_none() && apart
}

fn loss_is_bounded(world: &ModelWorld) -> bool {
    let held = world.truth().rows.iter().map(|row| row.choice);
    let stays = held.zip(world.kept).all(|(held, kept)| held >= kept);
    let is_there = world.lost.is_none_or(|(lost, owned)| {
        !owned || world.shards[usize::from(lost)].holding() != Some(ModelHolding::Gone)
    });
    stays && is_there
}

fn owner_is_recorded(world: &ModelWorld) -> bool {
    let (owner, epoch) = (usize::from(world.route.owner), world.route.epoch);
    let mut owners = owners(world).filter(|(number, _)| !world.is_lost(*number));
    owners.all(|(number, fence)| number == owner && fence.epoch <= epoch)
}

fn old_side(world: &ModelWorld) -> Option<&ModelShard> {
    let moving = world.route.moving?;
    let decided =
        matches!(moving.phase, ModelPhase::Window | ModelPhase::Cleaning) && !moving.gives_up;
    decided.then(|| &world.shards[usize::from(moving.from)])
}

fn no_straggler(world: &ModelWorld) -> bool {
    let truth = &world.truth().rows;
    old_side(world).is_none_or(|old| {
        let mut both = old.rows.iter().zip(truth);
        both.all(|(old, known)| known.version() >= old.version())
    })
}

fn epochs_are_given(world: &ModelWorld) -> bool {
    let mut fences = world.shards.iter().filter_map(|shard| shard.fence);
    let spent = world.route.spent;
    fences.all(|fence| fence.epoch <= spent) && world.route.epoch <= spent
}

fn way_back(world: &ModelWorld) -> bool {
    if world.route.phase() != Some(ModelPhase::Window) {
        return true;
    }
    // Rows of the current epoch were written after the seal.
    let before = |row: &ModelRow| row.is_some() && row.epoch < world.route.epoch;
    let truth = &world.truth().rows;
    old_side(world).is_none_or(|old| {
        let mut both = truth.iter().zip(&old.rows);
        both.all(|(row, old)| !before(row) || old.is_some())
    })
}
