//! Everything that can happen to a world, and what it becomes.

use ballast_domain::moving::{MoveId, Phase, Route};
use ballast_domain::tenant::Epoch;
use ballast_migration_engine::protocol::{Op, Step, View, Wish, next, route, token};
use ballast_vote_shard::shard::{Fence, Holding, Order, Unfit};
use stateright::{Model, Property};

use super::claims::Claim;
use super::rules::Rule;
use super::world::{
    Client, Faults, Letter, Row, Rows, Shard, ShardNo, Voter, Wanted, Work, Worker, World,
};

/// How much may happen.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Clients, each a voter.
    pub clients: u8,
    /// Choices that each of them makes, one after the other.
    pub choices: u8,
    /// Routers.
    pub routers: u8,
    /// Workers, one after the other.
    pub workers: u8,
    /// Moves, one after the other.
    pub moves: u8,
    /// Faults.
    pub faults: Faults,
}

/// The protocol, as it is or with a rule broken.
#[derive(Debug, Clone)]
pub struct MoveModel {
    /// How much may happen.
    pub bounds: Bounds,
    /// The rule that is broken.
    pub rule: Rule,
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Happening {
    /// The next move is ordered.
    Claim,
    /// Something else is wanted of it.
    Want(Wish),
    /// A worker is taken for dead, and the next one takes over.
    TakeOver,
    /// A worker looks and does the next thing; whether it finds the target
    /// close enough behind the source.
    Act(u8, bool),
    /// A worker gives up on what it did last, which may still arrive.
    GiveUp(u8),
    /// A client sends its vote through a router.
    Send(Voter, u8),
    /// A client gives up on its vote, which may still arrive, and tries again.
    Retry(Voter),
    /// A router reads the record.
    Refresh(u8),
    /// A letter arrives.
    Arrive(usize),
    /// A letter arrives, and will arrive again.
    ArriveTwice(usize),
    /// A letter arrives, and its answer is lost.
    ArriveUnanswered(usize),
    /// A letter is lost.
    Lose(usize),
}

fn name(number: u8) -> MoveId {
    MoveId(format!("m{number}"))
}

impl MoveModel {
    fn begin(&self) -> World {
        let Bounds { faults, .. } = self.bounds;
        let many = |count: u8| usize::from(count);
        let owner = Shard {
            fence: Some(Fence::founded(Epoch::FIRST)),
            rows: Rows::new(),
        };
        let worker = |number: usize| Worker {
            alive: number == 0,
            waits: false,
            notes: None,
        };
        let client = Client {
            wants: 1,
            sent: false,
            acknowledged: 0,
        };
        World {
            route: Route::placed(0),
            shards: vec![owner, Shard::default()],
            routers: vec![(0, Epoch::FIRST); many(self.bounds.routers)],
            clients: vec![client; many(self.bounds.clients)],
            workers: (0..many(self.bounds.workers)).map(worker).collect(),
            wanted: Wanted {
                move_id: name(0),
                wish: Wish::Go,
                more: self.bounds.moves,
            },
            mail: Default::default(),
            faults,
        }
    }

    /// What a worker would do next.
    pub(super) fn intends(&self, world: &World, worker: u8, close: bool) -> Option<Work> {
        let notes = world.workers[usize::from(worker)].notes.as_deref();
        let route = notes.unwrap_or(&world.route);
        let id = match &route.moving {
            Some(moving) => moving.move_id.clone(),
            None => world.wanted.move_id.clone(),
        };
        let moving = route.move_of(&id)?;
        let (from, to) = (usize::from(moving.from), usize::from(moving.to));
        let (source, target) = (&world.shards[from], &world.shards[to]);
        let equal = match moving.phase {
            Phase::Sealing { .. } => match self.rule {
                Rule::PositionBeforeSeal => true,
                Rule::HistoryLeftBehind => source.rows.keys().eq(target.rows.keys()),
                _ => source.rows == target.rows,
            },
            _ => close,
        };
        let view = View {
            route: route.clone(),
            source: source.fence.clone(),
            target: target.fence.clone(),
            equal,
            wish: world.wanted.wish,
        };
        let order = Order {
            move_id: id.clone(),
            token: token(moving.prepared, u64::from(worker) + 1),
        };
        let mut step = next(&id, &view);
        if self.rule == Rule::UnsealWithoutAbort
            && let (Wish::GoBack, Phase::Sealing { epoch }) = (view.wish, moving.phase)
        {
            step = Step::Order(moving.from, Op::Reinstate(Epoch(epoch.0 + 1)));
        }
        if self.rule == Rule::PublishBeforeCommit
            && let (Step::Swap(_), Phase::Sealing { epoch }) = (&step, moving.phase)
            && view.wish != Wish::GoBack
            && target.fence.as_ref().map(|fence| fence.holding) != Some(Holding::Owner)
        {
            step = Step::Order(moving.to, Op::Activate(epoch));
        }
        let bring = || {
            let mut rows = source.rows.clone();
            if self.rule == Rule::HistoryLeftBehind {
                // Without it a vote that comes again looks like a new one.
                rows.values_mut().for_each(|row| row.choice = 0);
            }
            // There is nothing to do when there is nothing to bring.
            let is_known = rows
                .iter()
                .all(|(voter, row)| target.rows.get(voter).is_some_and(|known| known >= row));
            (!is_known).then_some((moving.to, rows))
        };
        let bring_back = || {
            let rows = target.rows.clone();
            let is_known = rows
                .iter()
                .all(|(voter, row)| source.rows.get(voter).is_some_and(|known| known >= row));
            (!is_known).then_some((moving.from, rows))
        };
        let seen = route.clone();
        let work = match step {
            Step::Swap(then) => Work::Swap {
                seen: Box::new(seen),
                then,
            },
            Step::Order(shard, op) => Work::Tell { shard, op, order },
            Step::Copy => {
                let (shard, rows) = bring()?;
                Work::Bring { shard, rows, order }
            }
            // While both sides are kept, what is new is brought back.
            Step::Watch => {
                let (shard, rows) = bring_back()?;
                Work::Bring { shard, rows, order }
            }
            Step::Over { .. } | Step::Unknown => return None,
        };
        Some(work)
    }

    /// A letter arrives; whether a vote was taken.
    fn arrive(&self, world: &mut World, letter: &Letter) -> bool {
        match letter {
            Letter::Vote {
                voter,
                shard,
                epoch,
                choice,
            } => self.vote(
                &mut world.shards[usize::from(*shard)],
                *voter,
                *epoch,
                *choice,
            ),
            Letter::Work { work, .. } => {
                self.work(world, work);
                false
            }
        }
    }

    /// A vote comes to a shard; whether it is taken.
    fn vote(&self, shard: &mut Shard, voter: Voter, epoch: Epoch, choice: u8) -> bool {
        let holding = shard.fence.as_ref().map(|fence| fence.holding);
        let admitted = match self.rule {
            Rule::NoFence => matches!(holding, Some(Holding::Owner | Holding::Sealed)),
            Rule::SealIsNoBarrier => {
                let sealed = shard
                    .fence
                    .as_ref()
                    .filter(|fence| fence.holding == Holding::Sealed && epoch < fence.epoch);
                sealed.is_some() || Fence::admits(shard.fence.as_ref(), epoch).is_ok()
            }
            _ => Fence::admits(shard.fence.as_ref(), epoch).is_ok(),
        };
        if !admitted {
            return false;
        }
        let row = shard.rows.get(&voter).copied();
        match row {
            // It was counted before.
            Some(row) if row.choice >= choice => {}
            Some(row) => {
                let counted = match row.choice {
                    // Nobody knows that this voter voted.
                    0 => row.counted + 1,
                    _ => row.counted,
                };
                let row = Row {
                    epoch,
                    choice,
                    counted,
                };
                shard.rows.insert(voter, row);
            }
            None => {
                let row = Row {
                    epoch,
                    choice,
                    counted: 1,
                };
                shard.rows.insert(voter, row);
            }
        }
        true
    }

    fn work(&self, world: &mut World, work: &Work) {
        match work {
            Work::Swap { seen, then } => {
                if world.route != **seen {
                    return;
                }
                let before = world.route.moving.as_ref().map(|moving| &moving.move_id);
                let after = then.moving.as_ref().map(|moving| &moving.move_id);
                if let (Some(before), Some(after)) = (before, after)
                    && before != after
                {
                    // It goes back, and that is what is wanted now.
                    world.wanted.move_id = after.clone();
                    world.wanted.wish = Wish::Finish;
                }
                let sealing = |route: &Route<ShardNo>| {
                    let moving = route.moving.as_ref();
                    moving.is_some_and(|moving| matches!(moving.phase, Phase::Sealing { .. }))
                };
                let copying = then.moving.as_ref().map(|moving| moving.phase);
                if sealing(&world.route) && copying == Some(Phase::Copying) {
                    // It was put off, and is to be tried again.
                    world.wanted.wish = Wish::Go;
                }
                world.route = (**then).clone();
                if self.rule == Rule::EpochReused
                    && let Some(moving) = &then.moving
                    && moving.phase == Phase::Aborting
                {
                    world.route.epoch = seen.epoch;
                }
            }
            Work::Tell { shard, op, order } => {
                let shard = &mut world.shards[usize::from(*shard)];
                // What is refused changes nothing.
                let _ = self.tell(shard, *op, order);
            }
            Work::Bring { shard, rows, order } => {
                let shard = &mut world.shards[usize::from(*shard)];
                let order = self.shown(order, shard);
                let may = shard.fence.as_ref().map(|fence| fence.may_import(&order));
                if let (Some(Ok(())), Some(fence)) = (may, shard.fence.as_mut()) {
                    fence.token = fence.token.max(order.token);
                    for (voter, row) in rows {
                        let known = shard.rows.get(voter);
                        let newer = known.is_none_or(|known| {
                            (known.epoch, known.choice) < (row.epoch, row.choice)
                        });
                        if newer || self.rule == Rule::NoVersions {
                            shard.rows.insert(*voter, *row);
                        }
                    }
                }
            }
        }
    }

    /// An order as the shard sees it.
    fn shown(&self, order: &Order, shard: &Shard) -> Order {
        let mut order = order.clone();
        if self.rule == Rule::NoToken {
            let known = shard.fence.as_ref().map_or(0, |fence| fence.token);
            order.token = order.token.max(known);
        }
        order
    }

    fn tell(&self, shard: &mut Shard, op: Op, order: &Order) -> Result<(), Unfit> {
        let order = &self.shown(order, shard);
        let known = shard.fence.as_ref();
        let held = || known.ok_or(Unfit::Unknown);
        let fence = match op {
            Op::Prepare(epoch) => Fence::prepare(known, epoch, order)?,
            Op::Seal(epoch) => held()?.seal(epoch, order)?,
            Op::Activate(epoch) => held()?.activate(epoch, order)?,
            Op::Retire(epoch) => held()?.retire(epoch, order)?,
            Op::Reinstate(epoch) if self.rule == Rule::EpochReused => {
                // The epoch is no newer one, so it is not asked for.
                let fence = held()?.clone();
                Fence {
                    holding: Holding::Owner,
                    epoch,
                    ..fence
                }
            }
            Op::Reinstate(epoch) => held()?.unseal(epoch, order)?,
            Op::Purge(epoch) => {
                if self.rule == Rule::NoGravestone && known.is_none() {
                    // There is nothing to remove, so nothing is written down.
                    return Ok(());
                }
                if let Some(known) = known
                    && self.rule != Rule::CleanupWithoutFence
                {
                    known.may_purge(order)?;
                }
                shard.rows.clear();
                Fence::gone(known, epoch, order)
            }
        };
        shard.fence = Some(fence);
        Ok(())
    }

    /// What a router that asks now is told.
    fn published(&self, world: &World) -> (ShardNo, Epoch) {
        let route = &world.route;
        if self.rule == Rule::PublishBeforeCommit
            && let Some(moving) = &route.moving
            && let Phase::Sealing { epoch } = moving.phase
        {
            return (moving.to, epoch);
        }
        (route.owner, route.epoch)
    }

    fn answered(&self, world: &mut World, letter: &Letter, taken: bool) {
        match letter {
            Letter::Work { worker, .. } => world.workers[usize::from(*worker)].waits = false,
            Letter::Vote { voter, choice, .. } => {
                let client = &mut world.clients[usize::from(*voter)];
                // One that has given up on it hears nothing.
                if !client.sent || client.wants != *choice {
                    return;
                }
                client.sent = false;
                if taken {
                    client.acknowledged = *choice;
                    if client.wants < self.bounds.choices {
                        client.wants += 1;
                    }
                }
            }
        }
    }

    pub(super) fn after(&self, before: &World, happening: Happening) -> Option<World> {
        let mut world = before.clone();
        match happening {
            Happening::Claim => {
                let number = self.bounds.moves - world.wanted.more;
                let id = name(number);
                let to = 1 - world.route.owner;
                world.route = route::claim(&world.route, &id, to).ok()?;
                world.wanted = Wanted {
                    move_id: id,
                    wish: Wish::Go,
                    more: world.wanted.more - 1,
                };
            }
            Happening::Want(wish) => {
                world.wanted.wish = wish;
                world.faults.wishes -= 1;
            }
            Happening::TakeOver => {
                let next = world.workers.iter().position(|worker| !worker.alive)?;
                world.workers[next].alive = true;
                world.faults.takeovers -= 1;
            }
            Happening::Act(worker, close) => {
                let work = self.intends(&world, worker, close)?;
                let this = &mut world.workers[usize::from(worker)];
                this.waits = true;
                if self.rule == Rule::DecideFromNotes
                    && let Work::Swap { then, .. } = &work
                {
                    this.notes = Some(then.clone());
                }
                world.mail.insert(Letter::Work { worker, work });
            }
            Happening::GiveUp(worker) => {
                world.workers[usize::from(worker)].waits = false;
                world.faults.losses -= 1;
            }
            Happening::Send(voter, router) => {
                let (shard, epoch) = world.routers[usize::from(router)];
                let client = &mut world.clients[usize::from(voter)];
                client.sent = true;
                world.mail.insert(Letter::Vote {
                    voter,
                    shard,
                    epoch,
                    choice: client.wants,
                });
            }
            Happening::Retry(voter) => {
                world.clients[usize::from(voter)].sent = false;
                world.faults.losses -= 1;
            }
            Happening::Refresh(router) => {
                world.routers[usize::from(router)] = self.published(&world);
            }
            Happening::Arrive(place) => {
                let letter = world.mail.iter().nth(place)?.clone();
                world.mail.remove(&letter);
                let taken = self.arrive(&mut world, &letter);
                self.answered(&mut world, &letter, taken);
            }
            Happening::ArriveTwice(place) => {
                let letter = world.mail.iter().nth(place)?.clone();
                let taken = self.arrive(&mut world, &letter);
                self.answered(&mut world, &letter, taken);
                world.faults.copies -= 1;
            }
            Happening::ArriveUnanswered(place) => {
                let letter = world.mail.iter().nth(place)?.clone();
                world.mail.remove(&letter);
                self.arrive(&mut world, &letter);
                self.answered(&mut world, &letter, false);
                world.faults.losses -= 1;
            }
            Happening::Lose(place) => {
                let letter = world.mail.iter().nth(place)?.clone();
                world.mail.remove(&letter);
                self.answered(&mut world, &letter, false);
                world.faults.losses -= 1;
            }
        }
        Some(world)
    }

    fn everything(&self, world: &World) -> Vec<Happening> {
        let mut all = Vec::new();
        if world.wanted.more > 0 && world.route.moving.is_none() {
            all.push(Happening::Claim);
        }
        if world.faults.wishes > 0 && world.route.moving.is_some() {
            for wish in [Wish::Finish, Wish::GoBack] {
                if world.wanted.wish != wish {
                    all.push(Happening::Want(wish));
                }
            }
            let phase = world.route.moving.as_ref().map(|moving| moving.phase);
            if world.wanted.wish == Wish::Go && matches!(phase, Some(Phase::Sealing { .. })) {
                all.push(Happening::Want(Wish::Wait));
            }
        }
        let all_alive = world.workers.iter().all(|worker| worker.alive);
        if world.faults.takeovers > 0 && world.route.moving.is_some() && !all_alive {
            all.push(Happening::TakeOver);
        }
        let is_copying = matches!(
            world.route.moving.as_ref().map(|moving| moving.phase),
            Some(Phase::Copying)
        );
        for (number, worker) in (0..).zip(&world.workers) {
            if worker.alive && !worker.waits {
                all.push(Happening::Act(number, true));
                if is_copying {
                    all.push(Happening::Act(number, false));
                }
            } else if worker.waits && world.faults.losses > 0 {
                all.push(Happening::GiveUp(number));
            }
        }
        for (voter, client) in (0..).zip(&world.clients) {
            if client.sent {
                if world.faults.losses > 0 {
                    all.push(Happening::Retry(voter));
                }
            } else if client.acknowledged < client.wants {
                all.extend((0..self.bounds.routers).map(|router| Happening::Send(voter, router)));
            }
        }
        let published = self.published(world);
        for (number, believed) in (0..).zip(&world.routers) {
            if *believed != published {
                all.push(Happening::Refresh(number));
            }
        }
        for place in 0..world.mail.len() {
            all.push(Happening::Arrive(place));
            if world.faults.copies > 0 {
                all.push(Happening::ArriveTwice(place));
            }
            if world.faults.losses > 0 {
                all.push(Happening::ArriveUnanswered(place));
                all.push(Happening::Lose(place));
            }
        }
        all
    }
}

impl Model for MoveModel {
    type State = World;
    type Action = Happening;

    fn init_states(&self) -> Vec<World> {
        vec![self.begin()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Happening>) {
        actions.extend(self.everything(world));
    }

    fn next_state(&self, world: &World, happening: Happening) -> Option<World> {
        self.after(world, happening)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Claim::ALL.iter().map(|claim| claim.property()).collect()
    }
}
