//! Everything that can happen to a world, and what it becomes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use ballast_domain::moving;
use ballast_migration_engine::protocol::route;
use ballast_vote_shard::shard;
use stateright::{Model, Property};

use super::claims::Claim;
use super::forget::forget;
use super::rules::Rule;
use super::small::{self, Fence, Held, Route, ShardNo};
use super::world::{CLIENTS, Left, Shard, WORKERS, Work, Worker, World};

/// How much may happen.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Clients, each a voter; two at most.
    pub clients: u8,
    /// Choices that each of them makes, one after the other.
    pub choices: u8,
    /// Workers, each with a later lease than the one before; three at most.
    pub workers: u8,
    /// Whether the last of them is the watchman, who undoes seals that last.
    pub watchman: bool,
    /// Whether workers read the record first, and look at the shards later.
    pub torn: bool,
    /// Moves that begin, ordered or turned round.
    pub moves: u8,
    /// Seals that are put off.
    pub retreats: u8,
    /// Letters whose sender crashes or gives up on them; two at most.
    pub strays: u8,
    /// Times that a copy is found wrong and made anew.
    pub repairs: u8,
    /// Times that an owner is given up, in a window or on the way back, whether
    /// it is away or not: nobody looks at it.
    pub give_ups: u8,
    /// Copies that are left to be removed later, because their shard seems away.
    pub leaves: u8,
    /// Whether both sides acknowledge after a cutover, until the record says
    /// otherwise, which it may at any time.
    pub sync: bool,
}

/// The protocol, as it is or with a rule broken.
#[derive(Debug, Clone)]
pub struct MoveModel {
    /// How much may happen.
    pub bounds: Bounds,
    /// The rule that is broken.
    pub rule: Rule,
    /// Whether what no longer matters is forgotten.
    pub(super) forgets: bool,
    /// Worlds that are known to end calm.
    pub(super) calm: Arc<Mutex<HashSet<World>>>,
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Happening {
    /// The next move is ordered.
    Claim,
    /// A worker reads the record.
    Look(usize),
    /// A worker decides what to do next, and it is on its way.
    Act(usize, Work),
    /// What a worker did arrives, and the worker is free again.
    Arrive(usize),
    /// A worker crashes and starts again, or gives up: what it did stays on its
    /// way.
    Leave(usize),
    /// What somebody did who no longer waits for it arrives, once more or for
    /// the first time.
    Again(usize),
    /// A vote arrives, through a router that believes this.
    Vote {
        /// Who votes.
        voter: usize,
        /// Which of the voter's choices.
        choice: u8,
        /// The shard that is believed to be the owner.
        shard: usize,
        /// The epoch that is believed.
        epoch: u8,
    },
    /// A router that has both sides acknowledge carries what this shard has to the
    /// other one, for all who wait.
    Mirror(usize),
    /// A sealed shard takes votes again by itself: only with that rule broken.
    Wake(usize),
}

impl MoveModel {
    /// The protocol within bounds.
    pub fn new(bounds: Bounds, rule: Rule) -> Self {
        Self {
            bounds,
            rule,
            forgets: rule == Rule::Kept,
            calm: Arc::default(),
        }
    }

    fn begin(&self) -> World {
        let founded = shard::Fence::founded(ballast_domain::tenant::Epoch::FIRST);
        let owner = Shard {
            fence: Some(Fence::of(&founded)),
            ..Shard::default()
        };
        let route = Route::of(&moving::Route::placed(0));
        World {
            route,
            shards: [owner, Shard::default()],
            heard: [1 << route.epoch, 0],
            alone: [1 << route.epoch, 0],
            acknowledged: [0; CLIENTS],
            kept: [0; CLIENTS],
            lost: None,
            behind: None,
            workers: [Worker::default(); WORKERS],
            strays: Default::default(),
            left: Left {
                moves: self.bounds.moves,
                retreats: self.bounds.retreats,
                strays: self.bounds.strays,
                repairs: self.bounds.repairs,
                give_ups: self.bounds.give_ups,
                leaves: self.bounds.leaves,
            },
        }
    }

    /// What is acknowledged by now stays, whatever is given up later.
    pub(super) fn keep(&self, world: &mut World) {
        if self.bounds.give_ups > 0 {
            world.kept = world.acknowledged;
        }
    }

    fn claim(&self, world: &mut World) -> Option<()> {
        let begun = self.bounds.moves - world.left.moves;
        let to: ShardNo = 1 - world.route.owner;
        // Nothing is moved to where a copy was given up.
        if world.is_lost(usize::from(to)) {
            return None;
        }
        // Nor where one waits to be removed.
        if let Some((shard, epoch)) = world.behind
            && shard == to
        {
            let fence = world.shards[usize::from(to)].fence;
            fence.filter(|fence| fence.holding == Held::Gone && fence.epoch >= epoch)?;
            world.behind = None;
        }
        let then = route::claim(
            &world.route.whole(),
            &small::name(begun * 4),
            to,
            self.bounds.sync,
        )
        .ok()?;
        world.left.moves -= 1;
        self.keep(world);
        self.swap(world, Route::of(&then));
        Some(())
    }

    /// What a world becomes.
    pub(super) fn after(&self, before: &World, happening: Happening) -> Option<World> {
        let mut world = *before;
        match happening {
            Happening::Claim => self.claim(&mut world)?,
            Happening::Look(worker) => world.workers[worker].seen = Some(world.route),
            Happening::Act(worker, work) => {
                if matches!(work, Work::Discard { .. }) {
                    world.left.repairs = world.left.repairs.saturating_sub(1);
                }
                let this = &mut world.workers[worker];
                this.letter = Some(work);
                this.seen = match work {
                    Work::Swap { then, .. } if self.rule == Rule::DecideFromNotes => Some(then),
                    _ if self.rule == Rule::DecideFromNotes => this.seen,
                    _ => None,
                };
            }
            Happening::Arrive(worker) => {
                let work = world.workers[worker].letter.take()?;
                self.deliver(&mut world, &work);
            }
            Happening::Leave(worker) => {
                let work = world.workers[worker].letter.take()?;
                let place = world.strays.iter().position(Option::is_none)?;
                world.strays[place] = Some(work);
                world.left.strays -= 1;
            }
            Happening::Again(place) => {
                let work = world.strays[place]?;
                self.deliver(&mut world, &work);
            }
            Happening::Vote {
                voter,
                choice,
                shard,
                epoch,
            } => {
                let taken = self.vote(&mut world.shards[shard], voter, choice, epoch);
                let is_alone = world.alone[shard] & (1 << epoch) != 0;
                // What a shard takes that was given up is given up, too.
                if taken && (is_alone && !world.is_lost(shard) || self.rule == Rule::AckAlone) {
                    let acknowledged = &mut world.acknowledged[voter];
                    *acknowledged = choice.max(*acknowledged);
                }
            }
            Happening::Mirror(shard) => self.mirror(&mut world, shard),
            Happening::Wake(shard) => {
                let fence = world.shards[shard].fence.as_mut()?;
                fence.holding = Held::Owner;
            }
        }
        if self.forgets {
            forget(&mut world);
        }
        Some(world.canonical())
    }

    fn everything(&self, world: &World, all: &mut Vec<Happening>) {
        if world.left.moves > 0 && world.route.moving.is_none() {
            all.push(Happening::Claim);
        }
        for worker in 0..usize::from(self.bounds.workers) {
            self.of_worker(world, worker, all);
        }
        for place in 0..world.strays.len() {
            if world.strays[place].is_some() {
                all.push(Happening::Again(place));
            }
        }
        self.votes(world, all);
        if self.bounds.sync {
            all.extend((0..2).map(Happening::Mirror));
        }
        if self.rule == Rule::UnsealByClock {
            let sealed = |shard: &usize| world.shards[*shard].holding() == Some(Held::Sealed);
            all.extend((0..2).filter(sealed).map(Happening::Wake));
        }
    }

    fn of_worker(&self, world: &World, worker: usize, all: &mut Vec<Happening>) {
        let this = &world.workers[worker];
        if this.letter.is_some() {
            all.push(Happening::Arrive(worker));
            if world.left.strays > 0 {
                all.push(Happening::Leave(worker));
            }
            return;
        }
        let works = self.acts(world, worker);
        all.extend(works.into_iter().map(|work| Happening::Act(worker, work)));
        if self.bounds.torn && this.seen != Some(world.route) && world.route.moving.is_some() {
            all.push(Happening::Look(worker));
        }
    }

    /// Votes that arrive: of any choice that was made, through a router that
    /// believes anything that was ever true.
    fn votes(&self, world: &World, all: &mut Vec<Happening>) {
        for voter in 0..usize::from(self.bounds.clients) {
            let made = (world.acknowledged[voter] + 1).min(self.bounds.choices);
            for choice in 1..=made {
                for shard in 0..world.shards.len() {
                    let believed = (0..32).filter(|epoch| world.heard[shard] & (1 << epoch) != 0);
                    all.extend(believed.map(|epoch| Happening::Vote {
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

impl Model for MoveModel {
    type State = World;
    type Action = Happening;

    fn init_states(&self) -> Vec<World> {
        vec![self.begin()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Happening>) {
        self.everything(world, actions);
    }

    fn next_state(&self, world: &World, happening: Happening) -> Option<World> {
        // What changes nothing need not be looked at again.
        self.after(world, happening).filter(|after| after != world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Claim::ALL.iter().map(|claim| claim.property()).collect()
    }
}
