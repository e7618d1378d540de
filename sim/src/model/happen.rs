//! The events that can happen to a world, and their effects.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use ballast_domain::moving;
use ballast_migration_engine::protocol::route;
use ballast_vote_shard::shard;
use stateright::{Model, Property};

use super::forget::forget;
use super::invariants::Invariant;
use super::rules::BrokenRule;
use super::small::{self, ModelFence, ModelHolding, ModelRoute, ShardNumber};
use super::world::{
    CLIENTS, Message, ModelShard, ModelWorker, ModelWorld, RemainingBudget, WORKERS,
};

/// The bounds of a model: how many events of each kind may happen.
#[derive(Debug, Clone, Copy)]
pub struct ModelBounds {
    /// Clients, each of which is one voter; at most two.
    pub clients: u8,
    /// Choices that each of them makes, one after the other.
    pub choices: u8,
    /// Workers, each with a later lease than the one before; at most three.
    pub workers: u8,
    /// Whether the last worker is the reconciler, which undoes seals that last too long.
    pub reconciler: bool,
    /// Whether workers read the record first and the shards later.
    pub torn: bool,
    /// Migrations that start, forward or reverse.
    pub moves: u8,
    /// Postponed seals.
    pub retreats: u8,
    /// Messages whose sender crashes or gives up on them; at most two.
    pub strays: u8,
    /// Repairs of a damaged copy.
    pub repairs: u8,
    /// Owners that are abandoned, in a window or during a reverse migration, whether
    /// reachable or not.
    pub abandonments: u8,
    /// Copies left to be removed later, because their shard seems unreachable.
    pub leaves: u8,
    /// Whether both sides acknowledge writes after a cutover, until a worker ends that,
    /// which it may at any time.
    pub sync: bool,
}

/// The protocol, as shipped or with a rule broken.
#[derive(Debug, Clone)]
pub struct MigrationModel {
    /// The bounds.
    pub bounds: ModelBounds,
    /// The rule that is broken.
    pub rule: BrokenRule,
    /// Whether to drop state that no longer matters.
    pub(super) forgets: bool,
    /// Worlds that are known to come to rest.
    pub(super) calm: Arc<Mutex<HashSet<ModelWorld, ahash::RandomState>>>,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelEvent {
    /// The next migration is claimed.
    Claim,
    /// A worker reads the record.
    ReadRecord(usize),
    /// A worker decides what to do, and sends the message.
    Act(usize, Message),
    /// A worker's message arrives, and the worker can act again.
    Arrive(usize),
    /// A worker crashes and restarts, or gives up: its message becomes a stray.
    Detach(usize),
    /// A stray arrives, again or for the first time.
    ArriveStray(usize),
    /// A vote arrives, through a router with this belief.
    Vote {
        /// The voter.
        voter: usize,
        /// Which of the voter's choices.
        choice: u8,
        /// The shard that the router believes to be the owner.
        shard: usize,
        /// The owner's epoch that the router believes.
        epoch: u8,
    },
    /// A router copies this shard's rows to the other side, and acknowledges the writes
    /// that wait for it.
    Mirror(usize),
    /// A sealed shard takes votes again by itself, if that rule is broken.
    UnsealByItself(usize),
}

impl MigrationModel {
    /// Creates the model.
    pub fn new(bounds: ModelBounds, rule: BrokenRule) -> Self {
        Self {
            bounds,
            rule,
            forgets: rule == BrokenRule::None,
            calm: Arc::default(),
        }
    }

    fn begin(&self) -> ModelWorld {
        let founded = shard::Fence::new_owner(ballast_domain::tenant::Epoch::FIRST);
        let owner = ModelShard {
            fence: Some(ModelFence::from_full(&founded)),
            ..ModelShard::default()
        };
        let route = ModelRoute::from_full(&moving::SliceRoute::placed(0));
        ModelWorld {
            route,
            shards: [owner, ModelShard::default()],
            heard: [1 << route.epoch, 0],
            alone: [1 << route.epoch, 0],
            acknowledged: [0; CLIENTS],
            kept: [0; CLIENTS],
            lost: None,
            behind: None,
            workers: [ModelWorker::default(); WORKERS],
            strays: Default::default(),
            left: RemainingBudget {
                moves: self.bounds.moves,
                retreats: self.bounds.retreats,
                strays: self.bounds.strays,
                repairs: self.bounds.repairs,
                abandonments: self.bounds.abandonments,
                leaves: self.bounds.leaves,
            },
        }
    }

    /// From now on, abandoning an owner must not lose what is acknowledged so far.
    pub(super) fn protect_acknowledged(&self, world: &mut ModelWorld) {
        if self.bounds.abandonments > 0 {
            world.kept = world.acknowledged;
        }
    }

    fn claim(&self, world: &mut ModelWorld) -> Option<()> {
        let begun = self.bounds.moves - world.left.moves;
        let to: ShardNumber = 1 - world.route.owner;
        // No migration goes to an abandoned shard.
        if world.is_lost(usize::from(to)) {
            return None;
        }
        // Nor to a shard with a copy that waits to be removed.
        if let Some((shard, epoch)) = world.behind
            && shard == to
        {
            let fence = world.shards[usize::from(to)].fence;
            fence.filter(|fence| fence.holding == ModelHolding::Gone && fence.epoch >= epoch)?;
            world.behind = None;
        }
        let then = route::claim(
            &world.route.to_full(),
            &small::name(begun * 4),
            to,
            self.bounds.sync,
        )
        .ok()?;
        world.left.moves -= 1;
        self.protect_acknowledged(world);
        self.swap(world, ModelRoute::from_full(&then));
        Some(())
    }

    /// Applies an event to a world.
    pub(super) fn after(&self, before: &ModelWorld, happening: ModelEvent) -> Option<ModelWorld> {
        let mut world = *before;
        match happening {
            ModelEvent::Claim => self.claim(&mut world)?,
            ModelEvent::ReadRecord(worker) => world.workers[worker].seen = Some(world.route),
            ModelEvent::Act(worker, work) => {
                if matches!(work, Message::Discard { .. }) {
                    world.left.repairs = world.left.repairs.saturating_sub(1);
                }
                let this = &mut world.workers[worker];
                this.message = Some(work);
                this.seen = match work {
                    Message::UpdateRecord { then, .. }
                        if self.rule == BrokenRule::DecideFromMemory =>
                    {
                        Some(then)
                    }
                    _ if self.rule == BrokenRule::DecideFromMemory => this.seen,
                    _ => None,
                };
            }
            ModelEvent::Arrive(worker) => {
                let work = world.workers[worker].message.take()?;
                self.deliver(&mut world, &work);
            }
            ModelEvent::Detach(worker) => {
                let work = world.workers[worker].message.take()?;
                let place = world.strays.iter().position(Option::is_none)?;
                world.strays[place] = Some(work);
                world.left.strays -= 1;
            }
            ModelEvent::ArriveStray(place) => {
                let work = world.strays[place]?;
                self.deliver(&mut world, &work);
            }
            ModelEvent::Vote {
                voter,
                choice,
                shard,
                epoch,
            } => {
                let taken = self.vote(&mut world.shards[shard], voter, choice, epoch);
                let is_alone = world.alone[shard] & (1 << epoch) != 0;
                // An abandoned shard's writes do not count as acknowledged.
                if taken && (is_alone && !world.is_lost(shard) || self.rule == BrokenRule::AckAlone)
                {
                    let acknowledged = &mut world.acknowledged[voter];
                    *acknowledged = choice.max(*acknowledged);
                }
            }
            ModelEvent::Mirror(shard) => self.mirror(&mut world, shard),
            ModelEvent::UnsealByItself(shard) => {
                let fence = world.shards[shard].fence.as_mut()?;
                fence.holding = ModelHolding::Owner;
            }
        }
        if self.forgets {
            forget(&mut world);
        }
        Some(world.canonical())
    }

    fn all_events(&self, world: &ModelWorld, all: &mut Vec<ModelEvent>) {
        if world.left.moves > 0 && world.route.moving.is_none() {
            all.push(ModelEvent::Claim);
        }
        for worker in 0..usize::from(self.bounds.workers) {
            self.worker_events(world, worker, all);
        }
        for place in 0..world.strays.len() {
            if world.strays[place].is_some() {
                all.push(ModelEvent::ArriveStray(place));
            }
        }
        self.vote_events(world, all);
        if self.bounds.sync {
            all.extend((0..2).map(ModelEvent::Mirror));
        }
        if self.rule == BrokenRule::UnsealByClock {
            let sealed =
                |shard: &usize| world.shards[*shard].holding() == Some(ModelHolding::Sealed);
            all.extend((0..2).filter(sealed).map(ModelEvent::UnsealByItself));
        }
    }

    fn worker_events(&self, world: &ModelWorld, worker: usize, all: &mut Vec<ModelEvent>) {
        let this = &world.workers[worker];
        if this.message.is_some() {
            all.push(ModelEvent::Arrive(worker));
            if world.left.strays > 0 {
                all.push(ModelEvent::Detach(worker));
            }
            return;
        }
        let works = self.acts(world, worker);
        all.extend(works.into_iter().map(|work| ModelEvent::Act(worker, work)));
        if self.bounds.torn && this.seen != Some(world.route) && world.route.moving.is_some() {
            all.push(ModelEvent::ReadRecord(worker));
        }
    }

    /// Votes that can arrive: any choice that was made, through a router that believes
    /// anything that was ever true.
    fn vote_events(&self, world: &ModelWorld, all: &mut Vec<ModelEvent>) {
        for voter in 0..usize::from(self.bounds.clients) {
            let made = (world.acknowledged[voter] + 1).min(self.bounds.choices);
            for choice in 1..=made {
                for shard in 0..world.shards.len() {
                    let believed = (0..32).filter(|epoch| world.heard[shard] & (1 << epoch) != 0);
                    all.extend(believed.map(|epoch| ModelEvent::Vote {
                        voter,
                        choice,
                        shard,
                        epoch,
                    }));
                }
            }
        }
    }
}

impl Model for MigrationModel {
    type State = ModelWorld;
    type Action = ModelEvent;

    fn init_states(&self) -> Vec<ModelWorld> {
        vec![self.begin()]
    }

    fn actions(&self, world: &ModelWorld, actions: &mut Vec<ModelEvent>) {
        self.all_events(world, actions);
    }

    fn next_state(&self, world: &ModelWorld, happening: ModelEvent) -> Option<ModelWorld> {
        // An event that changes nothing need not be explored.
        self.after(world, happening).filter(|after| after != world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Invariant::ALL
            .iter()
            .map(|claim| claim.property())
            .collect()
    }
}
