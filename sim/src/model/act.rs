//! What workers do next, as the product decides it from what they see.

use ballast_migration_engine::protocol::Wish;

use super::happen::MoveModel;
use super::rules::Rule;
use super::small::{self, Fence, Held, Moving, Op, Order, Phase, Route, Seen, ShardNo, Step};
use super::world::{Row, Rows, Work, World};

/// What may be wanted of a move: anything, at any look.
const WISHES: [Wish; 5] = [
    Wish::Go,
    Wish::Wait,
    Wish::GoBack,
    Wish::Finish,
    Wish::GiveUp,
];

impl MoveModel {
    /// Everything that a worker may do next.
    pub(super) fn acts(&self, world: &World, worker: usize) -> Vec<Work> {
        let mut works: Vec<Work> = Vec::new();
        for wish in WISHES {
            for close in [true, false] {
                let work = self.intends(world, worker, wish, close);
                works.extend(work.filter(|work| !works.contains(work)));
            }
        }
        works.extend(self.repairs(world, worker));
        works.extend(self.relaxes(world, worker));
        works.extend(self.leaves(world, worker));
        works.extend(self.disowns(world).filter(|_| !self.is_watchman(worker)));
        works.extend(self.removes(world).filter(|_| !self.is_watchman(worker)));
        works
    }

    /// Whoever meets a shard that was given up tells it, at any time.
    pub(super) fn disowns(&self, world: &World) -> Option<Work> {
        let (shard, _) = world.lost?;
        let fence = world.shards[usize::from(shard)].fence;
        let op = match (self.rule, fence?.holding) {
            (Rule::LostIsPurged, Held::Retired) => Op::Purge(world.route.epoch),
            _ => small::disown(fence, world.route.epoch)?,
        };
        let back = world.route.moving.map(|moving| moving.id);
        let back = back.or(world.route.last.map(|(id, _)| id))?;
        let id = match fence?.holding {
            Held::Importing => fence?.id?,
            _ => back,
        };
        let token = fence?.token;
        Some(Work::Tell {
            shard,
            op,
            order: Order { id, token },
        })
    }

    /// Whoever has nothing left to do but to remove a copy may leave it: its shard
    /// seems to be away, and is not looked at. Whoever owns the slice has to know.
    fn leaves(&self, world: &World, worker: usize) -> Option<Work> {
        let seen = world.workers[worker].seen.unwrap_or(world.route);
        let owner = world.shards[usize::from(seen.owner)].fence?;
        let knows = owner.holding == Held::Owner && owner.epoch == seen.epoch;
        let may = world.left.leaves > 0 && !seen.gives_up() && !self.is_watchman(worker);
        let then = seen.released().filter(|_| may && knows)?;
        Some(Work::Swap { seen, then })
    }

    /// Whoever meets a shard with a copy that was left has it removed, at any time.
    pub(super) fn removes(&self, world: &World) -> Option<Work> {
        let (shard, epoch) = world.behind?;
        let fence = world.shards[usize::from(shard)].fence;
        let op = match fence {
            Some(fence) if fence.holding == Held::Retired && fence.epoch <= epoch => {
                Op::Purge(epoch)
            }
            fence => small::disown(fence, epoch)?,
        };
        let id = fence.and_then(|fence| fence.id).unwrap_or_default();
        let token = fence.map_or((0, 0), |fence| fence.token);
        let order = Order { id, token };
        Some(Work::Tell { shard, op, order })
    }

    /// Whoever reads a copy back may find it wrong, and has it made anew. Each
    /// worker may, at any look that shows it being copied.
    fn repairs(&self, world: &World, worker: usize) -> Option<Work> {
        let route = world.workers[worker].seen.unwrap_or(world.route);
        let moving = route.moving?;
        let copies = moving.phase == Phase::Copying && !self.is_watchman(worker);
        (copies && world.left.repairs > 0).then_some(Work::Discard {
            shard: moving.to,
            known: route.spent,
            order: order_of(&moving, worker),
        })
    }

    /// Whoever has looked may have the owner alone acknowledge from now on.
    fn relaxes(&self, world: &World, worker: usize) -> Option<Work> {
        let seen = world.workers[worker].seen.unwrap_or(world.route);
        let then = seen.relaxed().filter(|_| !self.is_watchman(worker))?;
        Some(Work::Swap { seen, then })
    }

    fn is_watchman(&self, worker: usize) -> bool {
        self.bounds.watchman && worker + 1 == usize::from(self.bounds.workers)
    }

    /// What a worker would do next: of whom this is wanted, and who finds the
    /// target close enough behind the source, or not.
    pub(super) fn intends(
        &self,
        world: &World,
        worker: usize,
        wish: Wish,
        close: bool,
    ) -> Option<Work> {
        let route = world.workers[worker].seen.unwrap_or(world.route);
        let moving = route.moving?;
        let (from, to) = (usize::from(moving.from), usize::from(moving.to));
        let (source, target) = (&world.shards[from], &world.shards[to]);
        let equal = match moving.phase {
            Phase::Sealing(_) => self.finds_equal(&source.rows, &target.rows),
            _ => close,
        };
        let gives_up = wish == Wish::GiveUp;
        if gives_up && (world.left.give_ups == 0 || !self.may_give_up(&moving)) {
            return None;
        }
        // The owner is not looked at.
        let is_back = small::is_back(moving.id);
        let (no_source, no_target) = (gives_up && is_back, gives_up && !is_back);
        let target_seen = self.shown_target(&moving, target.fence);
        let seen = Seen {
            route,
            source: source.fence.filter(|_| !no_source),
            target: target_seen.filter(|_| !no_target),
            equal,
            wish,
        };
        let step = self.broken(world, &seen, small::next(&seen));
        if !self.is_within(world, &route, &step) {
            return None;
        }
        let mut order = order_of(&moving, worker);
        if self.is_watchman(worker) {
            // It undoes a seal and tells who owns the slice, and nothing else;
            // and nobody is refused because of it.
            let does = match step {
                Step::Swap(_) => matches!(moving.phase, Phase::Sealing(_)),
                Step::Order(_, op) => matches!(op, Op::Reinstate(_) | Op::Activate(_)),
                _ => false,
            };
            if wish != Wish::Wait || !does {
                return None;
            }
            let fences = [source.fence, target.fence].into_iter().flatten();
            let highest = fences.map(|fence| fence.token).max().unwrap_or_default();
            order.token = highest.max((moving.prepared, 0));
        }
        let bring = |shard: ShardNo, rows: Rows| {
            let lacks = world.shards[usize::from(shard)].lacks(&rows);
            let work = Work::Bring { shard, rows, order };
            // There is nothing to do when there is nothing to bring.
            lacks.then_some(work)
        };
        match step {
            Step::Swap(then) => Some(Work::Swap { seen: route, then }),
            Step::Order(shard, op) => Some(Work::Tell { shard, op, order }),
            Step::Copy => bring(moving.to, self.carried(&source.rows)),
            // While both sides are kept, what is new is brought back.
            Step::Watch => bring(moving.from, target.rows),
            Step::Nothing => None,
        }
    }

    /// Whether a move is where its owner can be given up, as the product has it.
    fn may_give_up(&self, moving: &Moving) -> bool {
        match moving.phase {
            Phase::Window => !small::is_back(moving.id),
            Phase::Copying | Phase::Sealing(_) => {
                small::is_back(moving.id) || self.rule == Rule::GiveUpForth
            }
            Phase::Aborting | Phase::Cleaning => false,
        }
    }

    /// What is seen of the target's fence.
    fn shown_target(&self, moving: &Moving, fence: Option<Fence>) -> Option<Fence> {
        match (self.rule, moving.phase) {
            (Rule::NeverReady, Phase::Sealing(epoch)) => {
                fence.map(|fence| Fence { epoch, ..fence })
            }
            _ => fence,
        }
    }

    /// Whether there may be as many moves, and seals put off.
    fn is_within(&self, world: &World, route: &Route, step: &Step) -> bool {
        let Step::Swap(then) = step else {
            return true;
        };
        if is_giving_up(route, then) && world.left.give_ups == 0 {
            return false;
        }
        if is_turned(route, then) {
            return world.left.moves > 0;
        }
        !is_put_off(route, then) || world.left.retreats > 0
    }

    fn finds_equal(&self, source: &Rows, target: &Rows) -> bool {
        let there = |rows: &Rows| rows.map(|row| row.is_some());
        match self.rule {
            Rule::PositionBeforeSeal => true,
            Rule::HistoryLeftBehind | Rule::CountForDigest => there(source) == there(target),
            _ => source == target,
        }
    }

    fn carried(&self, rows: &Rows) -> Rows {
        match self.rule {
            // Without it a vote that comes again looks like a new one.
            Rule::HistoryLeftBehind => rows.map(|row| Row { choice: 0, ..row }),
            _ => *rows,
        }
    }

    /// What a broken rule makes of a step.
    fn broken(&self, world: &World, seen: &Seen, step: Step) -> Step {
        let Some(moving) = seen.route.moving else {
            return step;
        };
        let is_swap = matches!(step, Step::Swap(_));
        match (self.rule, moving.phase) {
            (Rule::UnsealWithoutAbort, Phase::Sealing(epoch)) if seen.wish == Wish::GoBack => {
                Step::Order(moving.from, Op::Reinstate(epoch + 1))
            }
            (Rule::PublishBeforeCommit | Rule::ActivateBeforeCommit, Phase::Sealing(epoch))
                if is_swap
                    && !matches!(seen.wish, Wish::GoBack | Wish::Wait)
                    && world.shards[usize::from(moving.to)].holding() != Some(Held::Owner) =>
            {
                Step::Order(moving.to, Op::Activate(epoch))
            }
            (Rule::SealBeforeRecord, Phase::Copying)
                if is_swap
                    && seen.wish != Wish::GoBack
                    && seen.source.map(|fence| fence.holding) == Some(Held::Owner) =>
            {
                Step::Order(moving.from, Op::Seal(seen.route.spent + 1))
            }
            (Rule::GiveUpForth, Phase::Copying | Phase::Sealing(_))
                if seen.wish == Wish::GiveUp && !small::is_back(moving.id) =>
            {
                given_up_forth(seen, &moving)
            }
            (Rule::AbortAfterCommit, Phase::Window) if is_swap && seen.wish == Wish::GoBack => {
                let mut then = seen.route;
                then.spent += 1;
                then.epoch = then.spent;
                then.owner = moving.from;
                then.moving = Some(Moving {
                    phase: Phase::Aborting,
                    ..moving
                });
                Step::Swap(then)
            }
            _ => step,
        }
    }
}

/// A move that gives its source up before everything is at its target.
fn given_up_forth(seen: &Seen, moving: &Moving) -> Step {
    let Phase::Sealing(epoch) = moving.phase else {
        return small::next(&Seen {
            wish: Wish::Go,
            equal: true,
            ..*seen
        });
    };
    let mut then = seen.route;
    (then.owner, then.epoch) = (moving.to, epoch);
    then.moving = Some(Moving {
        gives_up: true,
        phase: Phase::Window,
        ..*moving
    });
    Step::Swap(then)
}

/// What a worker's orders carry.
fn order_of(moving: &Moving, worker: usize) -> Order {
    let lease = u8::try_from(worker + 1).unwrap_or(u8::MAX);
    Order {
        id: moving.id,
        token: (moving.prepared, lease),
    }
}

/// Whether a move became its way back.
pub(super) fn is_turned(before: &Route, after: &Route) -> bool {
    let ids = (
        before.moving.map(|one| one.id),
        after.moving.map(|one| one.id),
    );
    matches!(ids, (Some(before), Some(after)) if before != after)
}

/// Whether it was decided that an owner is given up.
pub(super) fn is_giving_up(before: &Route, after: &Route) -> bool {
    after.gives_up() && !before.gives_up()
}

/// Whether a seal was put off.
pub(super) fn is_put_off(before: &Route, after: &Route) -> bool {
    matches!(before.phase(), Some(Phase::Sealing(_))) && after.phase() == Some(Phase::Copying)
}
