//! The product's types, small: numbers instead of names, so that a world is a
//! few bytes that are copied and hashed in no time.
//!
//! Nothing is decided here. What a worker does next and what becomes of a fence
//! is asked of the product, in its own types, and the answer is made small
//! again. Both are pure, so an answer is asked for once and remembered.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;

use ballast_domain::moving::{self, MoveId};
use ballast_domain::tenant::Epoch;
use ballast_migration_engine::protocol::{self, View, Wish};
use ballast_vote_shard::shard::{self, Holding};

/// A shard's number: 0 owns the slice at first.
pub(super) type ShardNo = u8;
/// A move's number: four times the number of its order, and how often it was
/// turned round.
pub(super) type MoveNo = u8;

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// The data is copied.
    Copying,
    /// The source is to be sealed, at this epoch, or is.
    Sealing(u8),
    /// It is not to be.
    Aborting,
    /// The target owns it; the source keeps its copy.
    Window,
    /// The source's copy is being removed.
    Cleaning,
}

/// A move at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moving {
    /// Its number.
    pub id: MoveNo,
    /// The shard that the slice is to leave.
    pub from: ShardNo,
    /// The shard that it is to come to.
    pub to: ShardNo,
    /// The epoch that the target is prepared at.
    pub prepared: u8,
    /// Whether what only the source has is given up.
    pub gives_up: bool,
    /// Whether both sides acknowledge after the cutover.
    pub sync: bool,
    /// How far it is.
    pub phase: Phase,
}

/// The slice's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Route {
    /// The shard that owns it.
    pub owner: ShardNo,
    /// The epoch that it owns it at.
    pub epoch: u8,
    /// The highest epoch that was ever given out.
    pub spent: u8,
    /// The move that is at work on it.
    pub moving: Option<Moving>,
    /// The last move, and whether it came to its target.
    pub last: Option<(MoveNo, bool)>,
}

/// On whose behalf a shard is told something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Order {
    /// The move.
    pub id: MoveNo,
    /// The token's two parts: the epoch that the move's target is prepared at,
    /// and the worker's lease.
    pub token: (u8, u8),
}

/// What a shard remembers of the slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence {
    /// The epoch.
    pub epoch: u8,
    /// What the slice is to the shard.
    pub holding: Held,
    /// The move that changed it last.
    pub id: Option<MoveNo>,
    /// The highest token.
    pub token: (u8, u8),
}

/// What the slice is to the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "as in the product")]
pub enum Held {
    Importing,
    Owner,
    Sealed,
    Retired,
    Gone,
}

/// What a shard is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "as in the product")]
pub enum Op {
    Prepare(u8),
    Ready(u8),
    Seal(u8),
    Reinstate(u8),
    Activate(u8),
    Retire(u8),
    Purge(u8),
}

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Swap(Route),
    Order(ShardNo, Op),
    Copy,
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

pub(super) fn name(id: MoveNo) -> MoveId {
    let first = MoveId(format!("m{}", id / 4));
    (0..id % 4).fold(first, |id, _| id.back())
}

fn number(id: &MoveId) -> MoveNo {
    (0..=u8::MAX).find(|no| name(*no) == *id).unwrap_or(u8::MAX)
}

pub(super) fn token((prepared, lease): (u8, u8)) -> u64 {
    protocol::token(large(prepared), lease.into())
}

fn parts(token: u64) -> (u8, u8) {
    let leases = protocol::token(Epoch(1), 0);
    (byte(token / leases), byte(token % leases))
}

impl Route {
    /// The record as the product has it.
    pub(super) fn whole(&self) -> moving::Route<ShardNo> {
        let moving = self.moving.map(|small| moving::Moving {
            move_id: name(small.id),
            from: small.from,
            to: small.to,
            prepared: large(small.prepared),
            gives_up: small.gives_up,
            sync: small.sync,
            phase: match small.phase {
                Phase::Copying => moving::Phase::Copying,
                Phase::Sealing(epoch) => moving::Phase::Sealing {
                    epoch: large(epoch),
                },
                Phase::Aborting => moving::Phase::Aborting,
                Phase::Window => moving::Phase::Window,
                Phase::Cleaning => moving::Phase::Cleaning,
            },
        });
        let last = self.last.map(|(id, moved)| moving::Ended {
            move_id: name(id),
            moved,
        });
        moving::Route {
            owner: self.owner,
            epoch: large(self.epoch),
            spent: large(self.spent),
            moving,
            last,
        }
    }

    /// The product's record, small.
    pub(super) fn of(whole: &moving::Route<ShardNo>) -> Self {
        let moving = whole.moving.as_ref().map(|whole| Moving {
            id: number(&whole.move_id),
            from: whole.from,
            to: whole.to,
            prepared: byte(whole.prepared.0),
            gives_up: whole.gives_up,
            sync: whole.sync,
            phase: match whole.phase {
                moving::Phase::Copying => Phase::Copying,
                moving::Phase::Sealing { epoch } => Phase::Sealing(byte(epoch.0)),
                moving::Phase::Aborting => Phase::Aborting,
                moving::Phase::Window => Phase::Window,
                moving::Phase::Cleaning => Phase::Cleaning,
            },
        });
        let last = whole.last.as_ref();
        Self {
            owner: whole.owner,
            epoch: byte(whole.epoch.0),
            spent: byte(whole.spent.0),
            moving,
            last: last.map(|last| (number(&last.move_id), last.moved)),
        }
    }

    /// Whether the owner alone acknowledges, as the product has it.
    pub(super) fn is_alone(&self) -> bool {
        let moving = self.whole().moving;
        moving.is_none_or(|moving| moving.also_durable_on().is_none())
    }

    /// The record without its move, if that has nothing left to do but to remove a
    /// copy.
    pub(super) fn released(&self) -> Option<Self> {
        let id = name(self.moving?.id);
        let then = protocol::route::release(&self.whole(), &id);
        then.ok().map(|then| Self::of(&then))
    }

    /// The record by which the owner alone acknowledges, if both do.
    pub(super) fn relaxed(&self) -> Option<Self> {
        let id = name(self.moving?.id);
        protocol::route::relax(&self.whole(), &id)
            .ok()
            .map(|then| Self::of(&then))
    }

    pub(super) fn gives_up(&self) -> bool {
        self.moving.is_some_and(|moving| moving.gives_up)
    }

    pub(super) fn phase(&self) -> Option<Phase> {
        self.moving.map(|moving| moving.phase)
    }
}

impl Order {
    pub(super) fn whole(&self) -> shard::Order {
        shard::Order {
            move_id: name(self.id),
            token: token(self.token),
        }
    }
}

impl Fence {
    pub(super) fn whole(&self) -> shard::Fence {
        shard::Fence {
            epoch: large(self.epoch),
            holding: match self.holding {
                Held::Importing => Holding::Importing,
                Held::Owner => Holding::Owner,
                Held::Sealed => Holding::Sealed,
                Held::Retired => Holding::Retired,
                Held::Gone => Holding::Gone,
            },
            move_id: self.id.map(name),
            token: token(self.token),
        }
    }

    pub(super) fn of(whole: &shard::Fence) -> Self {
        Self {
            epoch: byte(whole.epoch.0),
            holding: match whole.holding {
                Holding::Importing => Held::Importing,
                Holding::Owner => Held::Owner,
                Holding::Sealed => Held::Sealed,
                Holding::Retired => Held::Retired,
                Holding::Gone => Held::Gone,
            },
            id: whole.move_id.as_ref().map(number),
            token: parts(whole.token),
        }
    }
}

impl Op {
    fn of(whole: protocol::Op) -> Self {
        match whole {
            protocol::Op::Prepare(epoch) => Self::Prepare(byte(epoch.0)),
            protocol::Op::Ready(epoch) => Self::Ready(byte(epoch.0)),
            protocol::Op::Seal(epoch) => Self::Seal(byte(epoch.0)),
            protocol::Op::Reinstate(epoch) => Self::Reinstate(byte(epoch.0)),
            protocol::Op::Activate(epoch) => Self::Activate(byte(epoch.0)),
            protocol::Op::Retire(epoch) => Self::Retire(byte(epoch.0)),
            protocol::Op::Purge(epoch) => Self::Purge(byte(epoch.0)),
        }
    }

    /// The epoch that it is told with.
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

/// What is seen of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    pub route: Route,
    pub source: Option<Fence>,
    pub target: Option<Fence>,
    pub equal: bool,
    pub wish: Wish,
}

/// What the product does next about what is seen.
pub(super) fn next(seen: &Seen) -> Step {
    thread_local! {
        static KNOWN: RefCell<HashMap<Seen, Step>> = RefCell::default();
    }
    remembered(&KNOWN, *seen, || {
        let Some(moving) = seen.route.moving else {
            return Step::Nothing;
        };
        let view = View {
            route: seen.route.whole(),
            source: seen.source.map(|fence| fence.whole()),
            target: seen.target.map(|fence| fence.whole()),
            equal: seen.equal,
            wish: seen.wish,
        };
        match protocol::next(&name(moving.id), &view) {
            protocol::Step::Swap(then) => Step::Swap(Route::of(&then)),
            protocol::Step::Order(shard, op) => Step::Order(shard, Op::of(op)),
            protocol::Step::Copy => Step::Copy,
            protocol::Step::Watch => Step::Watch,
            protocol::Step::Over { .. } | protocol::Step::Unknown => Step::Nothing,
        }
    })
}

/// A fence, and what it is told.
type Told = (Option<Fence>, Op, Order);

/// What the product makes of a fence that is told something; none if it is
/// refused.
pub(super) fn told(fence: Option<Fence>, op: Op, order: Order) -> Option<Fence> {
    thread_local! {
        static KNOWN: RefCell<HashMap<Told, Option<Fence>>> =
            RefCell::default();
    }
    remembered(&KNOWN, (fence, op, order), || {
        let (known, order) = (fence.map(|fence| fence.whole()), order.whole());
        let (held, epoch) = (known.as_ref(), large(op.epoch()));
        let then = match op {
            Op::Prepare(_) => shard::Fence::prepare(held, epoch, &order).ok()?,
            Op::Ready(_) => held?.ready(epoch, &order).ok()?,
            Op::Seal(_) => held?.seal(epoch, &order).ok()?,
            Op::Reinstate(_) => held?.unseal(epoch, &order).ok()?,
            Op::Activate(_) => held?.activate(epoch, &order).ok()?,
            Op::Retire(_) => held?.retire(epoch, &order).ok()?,
            Op::Purge(_) => {
                if let Some(held) = held {
                    held.may_purge(&order).ok()?;
                }
                shard::Fence::gone(held, epoch, &order)
            }
        };
        Some(Fence::of(&then))
    })
}

/// Whether a move is a way back.
pub(super) fn is_back(id: MoveNo) -> bool {
    !id.is_multiple_of(4)
}

/// A fence, and the epoch at which its shard was given up.
type GivenUp = (Option<Fence>, u8);

/// What the product tells a shard that was given up.
pub(super) fn disown(fence: Option<Fence>, epoch: u8) -> Option<Op> {
    thread_local! {
        static KNOWN: RefCell<HashMap<GivenUp, Option<Op>>> = RefCell::default();
    }
    remembered(&KNOWN, (fence, epoch), || {
        let fence = fence.map(|fence| fence.whole());
        protocol::disown(&fence, large(epoch)).map(Op::of)
    })
}

/// Whether the product takes rows in for an order.
pub(super) fn may_import(fence: Option<Fence>, order: Order) -> bool {
    thread_local! {
        static KNOWN: RefCell<HashMap<(Option<Fence>, Order), bool>> = RefCell::default();
    }
    remembered(&KNOWN, (fence, order), || {
        fence.is_some_and(|fence| fence.whole().may_import(&order.whole()).is_ok())
    })
}

/// A fence, the epoch that somebody knows of, and the order.
type Discarded = (Option<Fence>, u8, Order);

/// Whether the product forgets rows for an order of somebody who knows of no
/// later epoch.
pub(super) fn may_discard(fence: Option<Fence>, known: u8, order: Order) -> bool {
    thread_local! {
        static KNOWN: RefCell<HashMap<Discarded, bool>> = RefCell::default();
    }
    remembered(&KNOWN, (fence, known, order), || {
        let fence = fence.map(|fence| fence.whole());
        fence.is_some_and(|fence| fence.may_discard(large(known), &order.whole()).is_ok())
    })
}

/// Whether the product takes a write at an epoch.
pub(super) fn admits(fence: Option<Fence>, epoch: u8) -> bool {
    thread_local! {
        static KNOWN: RefCell<HashMap<(Option<Fence>, u8), bool>> = RefCell::default();
    }
    remembered(&KNOWN, (fence, epoch), || {
        let whole = fence.map(|fence| fence.whole());
        shard::Fence::admits(whole.as_ref(), large(epoch)).is_ok()
    })
}

/// Whether the product asks the record about what it reads under this fence.
pub(super) fn must_be_confirmed(fence: Option<Fence>) -> bool {
    thread_local! {
        static KNOWN: RefCell<HashMap<Option<Fence>, bool>> = RefCell::default();
    }
    remembered(&KNOWN, fence, || {
        let whole = fence.map(|fence| fence.whole());
        shard::Fence::must_be_confirmed(whole.as_ref())
    })
}

/// Whether the product reads at an epoch.
pub(super) fn serves(fence: Option<Fence>, epoch: u8) -> bool {
    thread_local! {
        static KNOWN: RefCell<HashMap<(Option<Fence>, u8), bool>> = RefCell::default();
    }
    remembered(&KNOWN, (fence, epoch), || {
        let whole = fence.map(|fence| fence.whole());
        shard::Fence::serves(whole.as_ref(), large(epoch)).is_ok()
    })
}

type Memory<K, V> = std::thread::LocalKey<RefCell<HashMap<K, V>>>;

fn remembered<K: Eq + Hash + Copy, V: Copy>(
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
    fn what_is_made_small_is_made_whole_again() {
        for id in 0..12 {
            assert_eq!(number(&name(id)), id);
            assert_eq!(is_back(id), name(id).is_back());
        }
        let fence = shard::Fence::founded(Epoch::FIRST);
        assert_eq!(Fence::of(&fence).whole(), fence);
        assert_eq!(parts(token((7, 3))), (7, 3));
        let placed = moving::Route::placed(0);
        let claimed = protocol::route::claim(&placed, &name(4), 1, true).unwrap();
        let sealed = protocol::route::seal(&claimed, &name(4)).unwrap();
        for route in [placed, claimed, sealed] {
            assert_eq!(Route::of(&route).whole(), route);
        }
    }
}
