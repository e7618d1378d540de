//! What must be true of every world.

use stateright::Property;

use super::happen::MoveModel;
use super::rules::Rule;
use super::small::{self, Fence, Held, Phase};
use super::world::{Row, Shard, World};

/// Something that must be true of every world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claim {
    /// INV-1: what was acknowledged is in the owner's rows, that choice or a
    /// later one.
    NothingLost,
    /// INV-2: no voter is counted twice.
    NothingDoubled,
    /// INV-3: at most one shard takes writes, at whatever epoch.
    OneOwner,
    /// INV-4: whoever owns the slice is who the record names, or is not told
    /// yet.
    OwnerIsRecorded,
    /// INV-5: nothing was written to the old side after it was sealed: what it
    /// holds, the owner holds, at no lower version.
    NoStraggler,
    /// INV-6: no shard knows an epoch that was not given out.
    EpochsAreGiven,
    /// INV-7: in the window the old side still has everything it had: the way
    /// back.
    WayBack,
    /// INV-8: whatever happened, everything ends: no seal stays, no partial
    /// data, every voter is answered.
    EndsCalm,
    /// INV-38: whatever a router believes, what it reads is no older than what
    /// was acknowledged.
    ReadsAreTrue,
    /// INV-41: whatever is given up, what was acknowledged before the cutover or
    /// had come back stays; and what the lost shard has is not removed.
    LossIsBounded,
}

impl Claim {
    /// All of them.
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

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NothingLost => "INV-1 nothing acknowledged is lost",
            Self::NothingDoubled => "INV-2 nothing is counted twice",
            Self::OneOwner => "INV-3 at most one shard takes writes",
            Self::OwnerIsRecorded => "INV-4 the owner is the record's",
            Self::NoStraggler => "INV-5 no write came after the seal",
            Self::EpochsAreGiven => "INV-6 epochs are given out by the record",
            Self::WayBack => "INV-7 the window keeps the way back",
            Self::EndsCalm => "INV-8 everything ends",
            Self::ReadsAreTrue => "INV-38 what is read is true",
            Self::LossIsBounded => "INV-41 no more is lost than was accepted",
        }
    }

    pub(super) fn property(self) -> Property<MoveModel> {
        let condition: fn(&MoveModel, &World) -> bool = match self {
            Self::NothingLost => |_, world| nothing_lost(world),
            Self::NothingDoubled => |_, world| nothing_doubled(world),
            Self::OneOwner => |_, world| one_owner(world),
            Self::OwnerIsRecorded => |_, world| owner_is_recorded(world),
            Self::NoStraggler => |_, world| no_straggler(world),
            Self::EpochsAreGiven => |_, world| epochs_are_given(world),
            Self::WayBack => |_, world| way_back(world),
            Self::EndsCalm => MoveModel::ends_calm,
            Self::ReadsAreTrue => reads_are_true,
            Self::LossIsBounded => |_, world| loss_is_bounded(world),
        };
        Property::always(self.name(), condition)
    }
}

fn nothing_lost(world: &World) -> bool {
    has_all(world, world.truth())
}

fn has_all(world: &World, shard: &Shard) -> bool {
    let held = shard.rows.iter().map(|row| row.choice);
    held.zip(world.acknowledged)
        .all(|(held, acknowledged)| held >= acknowledged)
}

fn reads_are_true(model: &MoveModel, world: &World) -> bool {
    let mut shards = (0..).zip(&world.shards);
    shards.all(|(number, shard)| {
        let Some(fence) = shard.fence else {
            return true;
        };
        // Whoever still reaches a shard that was given up reads what it has.
        if world.is_lost(usize::from(number)) {
            return true;
        }
        // What a router believes that reads here: its epoch, if it is ever
        // answered, is one at which the record named this shard. Lower ones may
        // have been forgotten, so the fence's own stands for them.
        let is_read = (0..=fence.epoch).any(|epoch| small::serves(shard.fence, epoch));
        let asks = small::must_be_confirmed(shard.fence) && model.rule != Rule::SealedIsTrusted;
        let is_told = is_read && (!asks || world.route.owner == number);
        !is_told || has_all(world, shard)
    })
}

fn nothing_doubled(world: &World) -> bool {
    let mut rows = world.shards.iter().flat_map(|shard| &shard.rows);
    rows.all(|row| row.counted <= 1)
}

fn owners(world: &World) -> impl Iterator<Item = (usize, &Fence)> {
    let numbered = world.shards.iter().enumerate();
    numbered.filter_map(|(number, shard)| {
        let fence = shard.fence.as_ref()?;
        (fence.holding == Held::Owner).then_some((number, fence))
    })
}

/// A shard that was given up does not know yet, and may take writes at its old
/// epoch; but no other one does at that epoch.
fn one_owner(world: &World) -> bool {
    let is_lost = |number: usize| world.is_lost(number);
    let lost = owners(world).find(|(number, _)| is_lost(*number));
    let mut others = owners(world).filter(|(number, _)| !is_lost(*number));
    let first = others.next();
    let at = |fence: &Fence| fence.epoch;
    let apart = lost.is_none_or(|(_, lost)| first.is_none_or(|(_, one)| at(one) != at(lost)));
    others.next().is_none() && apart
}

fn loss_is_bounded(world: &World) -> bool {
    let held = world.truth().rows.iter().map(|row| row.choice);
    let stays = held.zip(world.kept).all(|(held, kept)| held >= kept);
    let is_there = world.lost.is_none_or(|(lost, owned)| {
        !owned || world.shards[usize::from(lost)].holding() != Some(Held::Gone)
    });
    stays && is_there
}

fn owner_is_recorded(world: &World) -> bool {
    let (owner, epoch) = (usize::from(world.route.owner), world.route.epoch);
    let mut owners = owners(world).filter(|(number, _)| !world.is_lost(*number));
    owners.all(|(number, fence)| number == owner && fence.epoch <= epoch)
}

fn old_side(world: &World) -> Option<&Shard> {
    let moving = world.route.moving?;
    let decided = matches!(moving.phase, Phase::Window | Phase::Cleaning) && !moving.gives_up;
    decided.then(|| &world.shards[usize::from(moving.from)])
}

fn no_straggler(world: &World) -> bool {
    let truth = &world.truth().rows;
    old_side(world).is_none_or(|old| {
        let mut both = old.rows.iter().zip(truth);
        both.all(|(old, known)| known.version() >= old.version())
    })
}

fn epochs_are_given(world: &World) -> bool {
    let mut fences = world.shards.iter().filter_map(|shard| shard.fence);
    let spent = world.route.spent;
    fences.all(|fence| fence.epoch <= spent) && world.route.epoch <= spent
}

fn way_back(world: &World) -> bool {
    if world.route.phase() != Some(Phase::Window) {
        return true;
    }
    // What was written at this epoch came after the seal.
    let before = |row: &Row| row.is_some() && row.epoch < world.route.epoch;
    let truth = &world.truth().rows;
    old_side(world).is_none_or(|old| {
        let mut both = truth.iter().zip(&old.rows);
        both.all(|(row, old)| !before(row) || old.is_some())
    })
}
