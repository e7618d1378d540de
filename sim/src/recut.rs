//! Cutting slices anew, checked exhaustively within bounds.
//!
//! What decides is the production code:
//! [`recut`], the record's
//! transitions, and the shard's [`Fence`]. Around it two workers look and act
//! at different times, orders and votes are delayed and repeated, a cut is
//! called off at any moment, and routers believe what was true long ago.
//!
//! ```text
//!   split ──► merge ──► …     each may be called off
//!   two voters, one in each half; a router that knows, and one that is behind
//! ```

use std::collections::{BTreeMap, BTreeSet};

use ballast_domain::PollId;
use ballast_domain::moving::MoveId;
use ballast_domain::slicing::{HashRange, Layout, Part, Recut, RecutPhase};
use ballast_domain::tenant::Epoch;
use ballast_migration_engine::protocol::recut::{self, Op, Step, View};
use ballast_migration_engine::protocol::token;
use ballast_vote_shard::shard::{Fence, Holding, Order};
use stateright::{Model, Property};

/// How much may happen.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Voters: the second one's poll is in the other half.
    pub voters: u8,
    /// Cuts: a split, a merge, a split, …
    pub cuts: u8,
    /// How often a cut is called off.
    pub calls_off: u8,
    /// Letters that arrive twice.
    pub copies: u8,
    /// How often a voter sends again while an answer is on its way.
    pub repeats: u8,
}

/// The protocol as it is, or with one rule broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// As it is.
    Kept,
    /// The record is changed before the parents are sealed.
    CutBeforeSeal,
    /// The shard takes votes whatever the fence says.
    NoFence,
    /// A cut is called off at the epoch that it was sealed at.
    AbortAtSameEpoch,
    /// Who finds a cut too slow unseals without changing the record first.
    UnsealWithoutAbort,
}

/// Something that must be true of every world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// What was acknowledged is where votes of its poll are.
    NothingLost,
    /// No voter is counted twice.
    NothingDoubled,
    /// At most one slice takes writes to a poll.
    OneOwner,
    /// The record has exactly one slice for each poll.
    EveryPollHasASlice,
    /// Whatever happened, everything ends: no seal stays, every voter is
    /// answered.
    EndsCalm,
}

impl Claim {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NothingLost => "nothing acknowledged is lost",
            Self::NothingDoubled => "nothing is counted twice",
            Self::OneOwner => "at most one slice takes writes to a poll",
            Self::EveryPollHasASlice => "every poll has one slice",
            Self::EndsCalm => "everything ends without a seal",
        }
    }
}

/// A slice as the shard has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Held {
    fence: Fence,
    range: HashRange,
    /// Who voted in it. Each voter has a poll of its own.
    votes: BTreeSet<u8>,
}

/// What is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Letter {
    /// To the shard, from whoever works on a cut.
    Order(Recut, Op),
    /// A vote, by the route that its router believed in.
    Vote(u8, u32, Epoch),
}

/// A worker that has looked, and is about to act.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Intends {
    seen: Layout,
    then: Then,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Then {
    Swap(Layout),
    Tell(Recut, Op),
}

/// Everything there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    record: Layout,
    shard: BTreeMap<u32, Held>,
    routers: [Vec<Part>; 2],
    workers: [Option<Intends>; 2],
    letters: BTreeSet<Letter>,
    acknowledged: BTreeSet<u8>,
    /// Voters who wait for an answer.
    waiting: BTreeSet<u8>,
    begun: u8,
    called_off: u8,
    copied: u8,
    repeated: u8,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// A worker begins a cut.
    Claim(u8),
    /// A worker looks.
    Look(u8),
    /// A worker looks, and finds that it has taken too long.
    LookLate(u8),
    /// A worker does what it decided when it looked.
    Act(u8),
    /// A router learns what the record says.
    Learn(u8),
    /// A voter's vote is sent through a router.
    Send(u8, u8),
    /// A letter arrives.
    Arrive(Letter),
    /// A letter arrives, and will arrive again.
    ArriveTwice(Letter),
}

/// The model.
#[derive(Debug, Clone, Copy)]
pub struct RecutModel {
    /// How much may happen.
    pub bounds: Bounds,
    /// Which rule is broken.
    pub rule: Rule,
}

/// A voter's poll: voter 0 votes in the lower half, voter 1 in the upper one.
fn poll_of(voter: u8) -> PollId {
    let upper = voter == 1;
    let mut polls = (1..).map(PollId::from_number);
    let found = polls.find(|poll| (poll.hash() > u64::MAX / 2) == upper);
    found.unwrap_or(PollId::from_number(0))
}

fn order(cut: &Recut) -> Order {
    Order {
        move_id: cut.recut_id.clone(),
        token: token(cut.epoch, 0),
    }
}

impl World {
    fn new() -> Self {
        let part = Part {
            slice: 0,
            hash_from: 0,
            owner: "s".parse().unwrap_or_else(|_| unreachable!()),
            epoch: Epoch::FIRST,
            spent: Epoch::FIRST,
            moving: None,
        };
        let held = Held {
            fence: Fence::founded(Epoch::FIRST),
            range: HashRange::WHOLE,
            votes: BTreeSet::new(),
        };
        Self {
            routers: [vec![part.clone()], vec![part.clone()]],
            record: Layout {
                parts: vec![part],
                next_slice: 1,
                recut: None,
            },
            shard: [(0, held)].into(),
            workers: [None, None],
            letters: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            waiting: BTreeSet::new(),
            begun: 0,
            called_off: 0,
            copied: 0,
            repeated: 0,
        }
    }

    fn claimed(&self) -> Option<Layout> {
        let into = if self.begun.is_multiple_of(2) { 2 } else { 1 };
        let (parents, cuts) = recut::wanted(&self.record, into)?;
        let id = MoveId(format!("rc-{}", self.begun));
        recut::claim(&self.record, &id, &parents, &cuts).ok()
    }

    fn look(&self, rule: Rule, give_up: bool) -> Option<Intends> {
        let seen = self.record.clone();
        let cut = seen.recut.clone()?;
        let fence = |slice: &u32| self.shard.get(slice).map(|held| held.fence.clone());
        let children = cut.children.iter().map(|child| &child.slice);
        let mut view = View {
            layout: seen.clone(),
            parents: cut.parents.iter().map(fence).collect(),
            children: children.map(fence).collect(),
            give_up,
        };
        let sealing = cut.phase == RecutPhase::Sealing;
        if rule == Rule::UnsealWithoutAbort && give_up && sealing {
            let newer = Epoch(cut.epoch.0 + 1);
            let then = Then::Tell(cut.clone(), Op::Reinstate(cut.parents[0], newer));
            return Some(Intends { seen, then });
        }
        if rule == Rule::CutBeforeSeal && sealing && !give_up {
            let sealed = |_: &u32| {
                let owner = Fence::founded(Epoch::FIRST);
                owner.seal(cut.epoch, &order(&cut)).ok()
            };
            view.parents = cut.parents.iter().map(sealed).collect();
        }
        let then = match recut::next(&cut.recut_id, &view) {
            Step::Swap(then) => Then::Swap(self.broken(rule, &cut, *then)),
            Step::Order(op) => Then::Tell(cut, op),
            Step::Over => return None,
        };
        Some(Intends { seen, then })
    }

    fn broken(&self, rule: Rule, cut: &Recut, mut then: Layout) -> Layout {
        let aborts = then
            .recut
            .as_ref()
            .is_some_and(|it| it.phase == RecutPhase::Aborting);
        if rule == Rule::AbortAtSameEpoch && aborts {
            for part in &mut then.parts {
                if cut.parents.contains(&part.slice) {
                    part.epoch = cut.epoch;
                }
            }
        }
        then
    }

    fn act(&mut self, intends: Intends) {
        match intends.then {
            Then::Swap(then) if self.record == intends.seen => self.record = then,
            Then::Swap(_) => {}
            Then::Tell(cut, op) => {
                self.letters.insert(Letter::Order(cut, op));
            }
        }
    }

    fn arrive(&mut self, rule: Rule, letter: &Letter) {
        match letter {
            Letter::Order(cut, Op::Recut) => self.cut(cut),
            Letter::Order(cut, Op::Seal(slice, epoch)) => {
                self.step(*slice, |fence| fence.seal(*epoch, &order(cut)).ok());
            }
            Letter::Order(cut, Op::Reinstate(slice, epoch)) => {
                self.step(*slice, |fence| fence.unseal(*epoch, &order(cut)).ok());
            }
            Letter::Vote(voter, slice, epoch) => {
                let Some(held) = self.shard.get_mut(slice) else {
                    self.waiting.remove(voter);
                    return;
                };
                let admitted = Fence::admits(Some(&held.fence), *epoch).is_ok();
                let admitted = admitted || rule == Rule::NoFence;
                if admitted && held.range.contains(poll_of(*voter)) {
                    held.votes.insert(*voter);
                    self.acknowledged.insert(*voter);
                }
                self.waiting.remove(voter);
            }
        }
    }

    fn step(&mut self, slice: u32, step: impl Fn(&Fence) -> Option<Fence>) {
        if let Some(held) = self.shard.get_mut(&slice)
            && let Some(fence) = step(&held.fence)
        {
            held.fence = fence;
        }
    }

    /// As the engine does it: all of it or nothing.
    fn cut(&mut self, cut: &Recut) {
        let known = |slice: &u32| self.shard.get(slice).map(|held| &held.fence);
        let mut children = cut.children.iter();
        if children.any(|child| known(&child.slice).is_some()) {
            return;
        }
        let fences: Option<Vec<Fence>> = cut
            .parents
            .iter()
            .map(|slice| known(slice)?.cut(cut.epoch, &order(cut)).ok())
            .collect();
        let Some(fences) = fences else { return };
        let mut votes = BTreeSet::new();
        for (slice, fence) in cut.parents.iter().zip(fences) {
            if let Some(held) = self.shard.get_mut(slice) {
                held.fence = fence;
                votes.append(&mut held.votes);
            }
        }
        for child in &cut.children {
            let range = child.range();
            let own = votes.iter().copied();
            let own = own.filter(|voter| range.contains(poll_of(*voter)));
            let held = Held {
                fence: Fence::part(cut.epoch, &order(cut)),
                range,
                votes: own.collect(),
            };
            self.shard.insert(child.slice, held);
        }
    }

    fn keeps(&self, rule: Rule, claim: Claim) -> bool {
        let lives = |held: &&Held| matches!(held.fence.holding, Holding::Owner | Holding::Sealed);
        match claim {
            Claim::NothingLost => self.acknowledged.iter().all(|voter| {
                let mut own = self.shard.values().filter(lives);
                own.any(|held| held.votes.contains(voter))
            }),
            Claim::NothingDoubled => (0..2).all(|voter| {
                let own = self.shard.values();
                own.filter(|held| held.votes.contains(&voter)).count() <= 1
            }),
            Claim::OneOwner => (0..2).all(|voter| {
                let owners = self.shard.values().filter(|held| {
                    held.fence.holding == Holding::Owner && held.range.contains(poll_of(voter))
                });
                owners.count() <= 1
            }),
            Claim::EveryPollHasASlice => {
                let mut froms = self.record.parts.iter().map(|part| part.hash_from);
                let grow = self.record.parts.windows(2);
                froms.next() == Some(0)
                    && grow
                        .into_iter()
                        .all(|two| two[0].hash_from < two[1].hash_from)
            }
            Claim::EndsCalm => self.ends_calm(rule),
        }
    }

    /// From a world in which nothing is on its way: one worker goes on alone,
    /// then everybody votes by the record. Any other world leads to one of
    /// these by letting its letters arrive.
    fn ends_calm(&self, rule: Rule) -> bool {
        if !self.letters.is_empty() || self.workers.iter().any(Option::is_some) {
            return true;
        }
        let mut world = self.clone();
        for _ in 0..30 {
            let Some(intends) = world.look(rule, false) else {
                break;
            };
            world.act(intends);
            for letter in std::mem::take(&mut world.letters) {
                world.arrive(rule, &letter);
            }
        }
        let sealed = |held: &Held| held.fence.holding == Holding::Sealed;
        if world.record.recut.is_some() || world.shard.values().any(sealed) {
            return false;
        }
        for voter in 0..2 {
            if let Some((slice, epoch)) = routed(&world.record.parts, voter) {
                world.arrive(rule, &Letter::Vote(voter, slice, epoch));
            }
        }
        world.acknowledged.len() == 2
    }
}

/// Where a voter's vote goes, by a route.
fn routed(parts: &[Part], voter: u8) -> Option<(u32, Epoch)> {
    let hash = poll_of(voter).hash();
    let own = parts.iter().filter(|part| part.hash_from <= hash);
    let own = own.max_by_key(|part| part.hash_from)?;
    Some((own.slice, own.epoch))
}

impl Model for RecutModel {
    type State = World;
    type Action = Happening;

    fn init_states(&self) -> Vec<World> {
        vec![World::new()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Happening>) {
        let bounds = &self.bounds;
        for worker in 0..2_u8 {
            let place = usize::from(worker);
            if world.workers[place].is_some() {
                actions.push(Happening::Act(worker));
                continue;
            }
            match &world.record.recut {
                None if world.begun < bounds.cuts => actions.push(Happening::Claim(worker)),
                None => {}
                Some(cut) => {
                    actions.push(Happening::Look(worker));
                    if cut.phase == RecutPhase::Sealing && world.called_off < bounds.calls_off {
                        actions.push(Happening::LookLate(worker));
                    }
                }
            }
        }
        // The first router hears of everything at once; the second when it does.
        if world.routers[1] != world.record.parts {
            actions.push(Happening::Learn(1));
        }
        for voter in 0..bounds.voters {
            let again = world.waiting.contains(&voter) || world.acknowledged.contains(&voter);
            if !again || world.repeated < bounds.repeats {
                actions.extend((0..2).map(|router| Happening::Send(voter, router)));
            }
        }
        for letter in &world.letters {
            actions.push(Happening::Arrive(letter.clone()));
            if world.copied < bounds.copies {
                actions.push(Happening::ArriveTwice(letter.clone()));
            }
        }
    }

    fn next_state(&self, last: &World, happening: Happening) -> Option<World> {
        let mut world = last.clone();
        match happening {
            Happening::Claim(_) => {
                world.record = last.claimed()?;
                world.begun += 1;
            }
            Happening::Look(worker) => {
                world.workers[usize::from(worker)] = last.look(self.rule, false);
            }
            Happening::LookLate(worker) => {
                world.workers[usize::from(worker)] = last.look(self.rule, true);
                world.called_off += 1;
            }
            Happening::Act(worker) => {
                let intends = world.workers[usize::from(worker)].take()?;
                world.act(intends);
            }
            Happening::Learn(router) => {
                world.routers[usize::from(router)] = world.record.parts.clone();
            }
            Happening::Send(voter, router) => {
                let again = world.waiting.contains(&voter) || world.acknowledged.contains(&voter);
                world.repeated += u8::from(again);
                let parts = &world.routers[usize::from(router)];
                let (slice, epoch) = routed(parts, voter)?;
                world.letters.insert(Letter::Vote(voter, slice, epoch));
                world.waiting.insert(voter);
            }
            Happening::Arrive(letter) => {
                world.letters.remove(&letter);
                world.arrive(self.rule, &letter);
            }
            Happening::ArriveTwice(letter) => {
                world.copied += 1;
                world.arrive(self.rule, &letter);
            }
        }
        world.routers[0] = world.record.parts.clone();
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(Claim::NothingLost.name(), |model: &Self, world: &World| {
                world.keeps(model.rule, Claim::NothingLost)
            }),
            Property::always(
                Claim::NothingDoubled.name(),
                |model: &Self, world: &World| world.keeps(model.rule, Claim::NothingDoubled),
            ),
            Property::always(Claim::OneOwner.name(), |model: &Self, world: &World| {
                world.keeps(model.rule, Claim::OneOwner)
            }),
            Property::always(
                Claim::EveryPollHasASlice.name(),
                |model: &Self, world: &World| world.keeps(model.rule, Claim::EveryPollHasASlice),
            ),
            Property::always(Claim::EndsCalm.name(), |model: &Self, world: &World| {
                world.keeps(model.rule, Claim::EndsCalm)
            }),
        ]
    }
}
