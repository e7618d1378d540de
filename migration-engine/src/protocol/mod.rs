//! The protocol of a move, pure: what is to be done next, from what is seen.
//!
//! ```text
//!   record (route.rs)  ┐
//!   source's fence     ├──► next ──► one step: change the record, order a
//!   target's fence     ┘             shard, copy, wait, or done
//! ```
//! Nothing is remembered in between. Whoever works on a move looks at the
//! record and at both shards, asks [`next`], does that one thing, and looks
//! again; so a crash between any two lines is a look that was not followed.
//! What is done is guarded where it is done: the record by compare-and-swap,
//! a shard by its fence. So a look that was stale, or a worker that was taken
//! for dead, does no harm. The model checker (`sim`) tries all of that with
//! this very code.

pub mod recut;
pub mod route;

use ballast_domain::moving::{MoveId, Phase, Route};
use ballast_domain::tenant::Epoch;
use ballast_vote_shard::shard::{Fence, Holding};

/// What is wanted of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Get the slice to its target.
    Go,
    /// Not now: whoever is kept from voting shall vote, and the copy goes on.
    Wait,
    /// Leave, or bring, it where it was.
    GoBack,
    /// The window may end.
    Finish,
    /// Bring it back although its owner is away for good: what only the owner
    /// has is given up.
    GiveUp,
}

/// What is seen of a move. Each part may be of another moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View<S> {
    /// The slice's record.
    pub route: Route<S>,
    /// What the source remembers of the slice.
    pub source: Option<Fence>,
    /// What the target remembers of it.
    pub target: Option<Fence>,
    /// While the source takes writes: the target is close enough behind it.
    /// While it is sealed: count and digest are equal on both sides.
    pub equal: bool,
    /// What is wanted.
    pub wish: Wish,
}

/// What a shard is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// Make room for the slice at this epoch, or keep what there is for it.
    Prepare(Epoch),
    /// Only add to what was imported: what is compared from now on is what will
    /// be owned.
    Ready(Epoch),
    /// Take no more writes.
    Seal(Epoch),
    /// Own the slice, at this newer epoch, as before the move.
    Reinstate(Epoch),
    /// Own what was imported.
    Activate(Epoch),
    /// Own it no longer.
    Retire(Epoch),
    /// Remove what there is, and remember that the slice is gone at no lower
    /// epoch than this.
    Purge(Epoch),
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step<S> {
    /// Change the record from what was seen to this, by compare-and-swap.
    Swap(Box<Route<S>>),
    /// Tell a shard.
    Order(S, Op),
    /// Copy from the source what the target lacks.
    Copy,
    /// The window is open: reads are compared, until something else is wanted.
    Watch,
    /// The move is over; whether the slice is at its target.
    Over {
        /// Whether it is.
        moved: bool,
    },
    /// The move was never claimed, or was given up long ago.
    Unknown,
}

/// The next thing to do for a move.
pub fn next<S: Clone + PartialEq>(id: &MoveId, view: &View<S>) -> Step<S> {
    let route = &view.route;
    let Some(moving) = route.move_of(id) else {
        return match &route.last {
            Some(last) if last.move_id == *id => Step::Over { moved: last.moved },
            _ => Step::Unknown,
        };
    };
    let order = |shard: &S, op| Step::Order(shard.clone(), op);
    let (from, to) = (&moving.from, &moving.to);
    // Only what goes back can leave something behind that was given up: where it
    // goes to, everything is that was there before the move.
    let (gives_up, wish) = match view.wish {
        // Whatever else is wanted: it is decided.
        _ if moving.gives_up => (true, Wish::Finish),
        Wish::GiveUp if id.is_back() => (true, Wish::Finish),
        Wish::GiveUp => (true, Wish::GoBack),
        wish => (false, wish),
    };
    match moving.phase {
        Phase::Copying => {
            if wish == Wish::GoBack {
                return swap(route::abort(route, id));
            }
            // After a retreat.
            if !gives_up && !owns(&view.source, route.epoch) {
                return order(from, Op::Reinstate(route.epoch));
            }
            if !imports(&view.target, moving.prepared, id) {
                return order(to, Op::Prepare(moving.prepared));
            }
            match view.equal || gives_up {
                false => Step::Copy,
                true => swap(route::seal(route, id)),
            }
        }
        Phase::Sealing { epoch } => {
            match wish {
                Wish::GoBack => return swap(route::abort(route, id)),
                Wish::Wait => return swap(route::retreat(route, id)),
                Wish::Go | Wish::Finish | Wish::GiveUp => {}
            }
            // Before the seal: nobody waits for it.
            if !holds(&view.target, Holding::Importing, epoch, id) {
                return order(to, Op::Ready(epoch));
            }
            if gives_up {
                return swap(route::give_up(route, id));
            }
            if !holds(&view.source, Holding::Sealed, epoch, id) {
                // After a retreat that somebody went on from who meant to give the
                // owner up: it is still sealed at the epoch before.
                let op = match owns(&view.source, route.epoch) {
                    true => Op::Seal(epoch),
                    false => Op::Reinstate(route.epoch),
                };
                return order(from, op);
            }
            match view.equal {
                false => Step::Copy,
                true => swap(route::commit(route, id)),
            }
        }
        Phase::Window => {
            let epoch = route.epoch;
            // Whether it owns the slice yet does not matter if it is given up.
            let is_lost = gives_up && !moving.gives_up && !id.is_back();
            if !is_lost && !holds(&view.target, Holding::Owner, epoch, id) {
                return order(to, Op::Activate(epoch));
            }
            // Whatever is wanted: there is nothing to go back to, and nothing
            // that may be removed.
            if moving.gives_up {
                return swap(route::release(route, id));
            }
            if !holds(&view.source, Holding::Retired, epoch, id) {
                return order(from, Op::Retire(epoch));
            }
            match wish {
                Wish::Finish | Wish::GiveUp => swap(route::clean(route, id)),
                Wish::GoBack if is_lost => swap(route::forsake(route, id, &id.back())),
                Wish::GoBack => swap(route::reverse(route, id, &id.back())),
                Wish::Go | Wish::Wait => Step::Watch,
            }
        }
        Phase::Cleaning => {
            if !moving.gives_up && !is_gone(&view.source, route.epoch) {
                return order(from, Op::Purge(route.epoch));
            }
            swap(route::release(route, id))
        }
        Phase::Aborting => {
            if !owns(&view.source, route.epoch) {
                return order(from, Op::Reinstate(route.epoch));
            }
            if !is_gone(&view.target, moving.prepared) {
                return order(to, Op::Purge(moving.prepared));
            }
            swap(route::release(route, id))
        }
    }
}

/// What a shard is to be told whose copy was left behind at this epoch when it
/// answers again: it may believe to own the slice, and must take no more votes.
/// What it has is kept. Nothing when it knows.
pub fn disown(fence: &Option<Fence>, epoch: Epoch) -> Option<Op> {
    let Some(fence) = fence else {
        // It never came, or its disk is another: what was ordered before and comes
        // late must find that.
        return Some(Op::Purge(epoch));
    };
    match fence.holding {
        Holding::Owner if epoch > fence.epoch => Some(Op::Seal(epoch)),
        Holding::Sealed if epoch >= fence.epoch => Some(Op::Retire(epoch)),
        // It never owned it, and has nothing of its own.
        Holding::Importing if epoch >= fence.epoch => Some(Op::Purge(epoch)),
        // Gone since an earlier move: what was ordered for this one and comes late
        // must find that, too.
        Holding::Gone if epoch > fence.epoch => Some(Op::Purge(epoch)),
        // Told already, or the slice came to it once more.
        _ => None,
    }
}

/// Whether the source is sealed as the record says, and nothing is taken from
/// the target any more: only then does it mean anything that both sides are
/// equal.
pub fn is_sealed<S>(view: &View<S>) -> bool {
    view.route.moving.as_ref().is_some_and(|moving| {
        matches!(moving.phase, Phase::Sealing { epoch }
            if holds(&view.source, Holding::Sealed, epoch, &moving.move_id)
                && holds(&view.target, Holding::Importing, epoch, &moving.move_id))
    })
}

/// Whether a shard takes in what a move brings: as it was prepared, or at the
/// later epoch of a seal that was put off.
pub fn imports(fence: &Option<Fence>, prepared: Epoch, id: &MoveId) -> bool {
    fence.as_ref().is_some_and(|fence| {
        fence.holding == Holding::Importing
            && fence.epoch >= prepared
            && fence.move_id.as_ref() == Some(id)
    })
}

/// The token of a worker's orders. Shards keep the highest they have seen of a
/// slice: a later move has a higher one, and of one move a later lease.
pub fn token(prepared: Epoch, lease: u64) -> u64 {
    const LEASES: u64 = 1 << 20;
    prepared.0 * LEASES + lease.min(LEASES - 1)
}

fn swap<S>(changed: Result<Route<S>, route::Refused>) -> Step<S> {
    // The phase was looked at before, so it is never refused.
    changed.map_or(Step::Unknown, |route| Step::Swap(Box::new(route)))
}

fn holds(fence: &Option<Fence>, holding: Holding, epoch: Epoch, id: &MoveId) -> bool {
    fence.as_ref().is_some_and(|fence| {
        fence.holding == holding && fence.epoch == epoch && fence.move_id.as_ref() == Some(id)
    })
}

fn owns(fence: &Option<Fence>, epoch: Epoch) -> bool {
    fence
        .as_ref()
        .is_some_and(|fence| fence.holding == Holding::Owner && fence.epoch == epoch)
}

/// Gone, and nobody who comes late can bring it back.
fn is_gone(fence: &Option<Fence>, epoch: Epoch) -> bool {
    fence
        .as_ref()
        .is_some_and(|fence| fence.holding == Holding::Gone && fence.epoch >= epoch)
}
