//! What must be true of every world.

use ballast_domain::moving::Phase;
use ballast_migration_engine::protocol::Wish;
use ballast_vote_shard::shard::Holding;
use stateright::Property;

use super::happen::{Happening, MoveModel};
use super::world::{Letter, World};

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
}

impl Claim {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::NothingLost,
        Self::NothingDoubled,
        Self::OneOwner,
        Self::OwnerIsRecorded,
        Self::NoStraggler,
        Self::EpochsAreGiven,
        Self::WayBack,
        Self::EndsCalm,
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
        }
    }

    pub(super) fn property(self) -> Property<MoveModel> {
        let condition: fn(&MoveModel, &World) -> bool = match self {
            Self::NothingLost => |_, world| nothing_lost(world),
            Self::NothingDoubled => |_, world| nothing_doubled(world),
            Self::OneOwner => |_, world| owners(world).count() <= 1,
            Self::OwnerIsRecorded => |_, world| owner_is_recorded(world),
            Self::NoStraggler => |_, world| no_straggler(world),
            Self::EpochsAreGiven => |_, world| epochs_are_given(world),
            Self::WayBack => |_, world| way_back(world),
            Self::EndsCalm => ends_calm,
        };
        Property::always(self.name(), condition)
    }
}

fn nothing_lost(world: &World) -> bool {
    let truth = &world.truth().rows;
    (0..).zip(&world.clients).all(|(voter, client)| {
        let held = truth.get(&voter).map_or(0, |row| row.choice);
        held >= client.acknowledged
    })
}

fn nothing_doubled(world: &World) -> bool {
    let rows = world.shards.iter().flat_map(|shard| shard.rows.values());
    rows.into_iter().all(|row| row.counted <= 1)
}

fn owners(world: &World) -> impl Iterator<Item = usize> + '_ {
    let numbered = world.shards.iter().enumerate();
    numbered.filter_map(|(number, shard)| {
        let fence = shard.fence.as_ref()?;
        (fence.holding == Holding::Owner).then_some(number)
    })
}

fn owner_is_recorded(world: &World) -> bool {
    owners(world).all(|number| number == usize::from(world.route.owner))
}

fn old_side(world: &World) -> Option<&super::world::Shard> {
    let moving = world.route.moving.as_ref()?;
    let decided = matches!(moving.phase, Phase::Window | Phase::Cleaning);
    decided.then(|| &world.shards[usize::from(moving.from)])
}

fn no_straggler(world: &World) -> bool {
    let truth = &world.truth().rows;
    old_side(world).is_none_or(|old| {
        old.rows.iter().all(|(voter, row)| {
            let known = truth.get(voter);
            known.is_some_and(|known| (known.epoch, known.choice) >= (row.epoch, row.choice))
        })
    })
}

fn epochs_are_given(world: &World) -> bool {
    let fences = world.shards.iter().filter_map(|shard| shard.fence.as_ref());
    fences
        .into_iter()
        .all(|fence| fence.epoch <= world.route.spent)
        && world.route.epoch <= world.route.spent
}

fn way_back(world: &World) -> bool {
    let Some(moving) = &world.route.moving else {
        return true;
    };
    let truth = &world.truth().rows;
    // What was written at this epoch came after the seal.
    moving.phase != Phase::Window
        || old_side(world).is_none_or(|old| {
            let before = truth
                .iter()
                .filter(|(_, row)| row.epoch < world.route.epoch);
            before
                .into_iter()
                .all(|(voter, _)| old.rows.contains_key(voter))
        })
}

/// From here on nothing goes wrong any more: everything that is on its way
/// arrives, the last worker works, routers read the record, clients try again.
fn ends_calm(model: &MoveModel, world: &World) -> bool {
    // What is on its way can arrive, and the world that it leads to is looked
    // at as well: that is enough.
    if !world.mail.is_empty() {
        return true;
    }
    let mut now = world.clone();
    now.wanted.more = 0;
    if matches!(now.wanted.wish, Wish::Go | Wish::Wait) {
        now.wanted.wish = Wish::Finish;
    }
    for worker in &mut now.workers {
        worker.alive = true;
        worker.waits = false;
    }
    let last = u8::try_from(now.workers.len() - 1).unwrap_or(0);
    for _ in 0..60 {
        while !now.mail.is_empty() {
            match model.after(&now, Happening::Arrive(0)) {
                Some(after) => now = after,
                None => return false,
            }
        }
        if now.is_calm() && all_answered(&now) {
            return true;
        }
        for router in 0..model.bounds.routers {
            now = model.after(&now, Happening::Refresh(router)).unwrap_or(now);
        }
        for (voter, client) in (0..).zip(now.clients.clone()) {
            if client.acknowledged < client.wants {
                now.clients[usize::from(voter)].sent = false;
                now = model.after(&now, Happening::Send(voter, 0)).unwrap_or(now);
            }
        }
        // First what the target lacks, then the seal.
        let copies = model.intends(&now, last, false);
        let step = Happening::Act(last, copies.is_none());
        now = model.after(&now, step).unwrap_or(now);
    }
    false
}

fn all_answered(world: &World) -> bool {
    let no_votes = !world
        .mail
        .iter()
        .any(|letter| matches!(letter, Letter::Vote { .. }));
    let done = world
        .clients
        .iter()
        .all(|client| client.acknowledged == client.wants);
    no_votes && done
}
