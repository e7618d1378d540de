//! The recut protocol, checked exhaustively within bounds.
//!
//! The production code decides: [`recut`], the record's transitions, and the shard's
//! [`Fence`]. Around it two workers observe and act at different times, commands and
//! votes are delayed and repeated, a recut is aborted at any moment, and routers are
//! stale.
//!
//! ```text
//!   split ──► merge ──► …     each may be aborted
//!   two voters, one in each half; one router that is up to date, and one that is stale
//! ```

use std::collections::{BTreeMap, BTreeSet};

use ballast_domain::PollId;
use ballast_domain::moving::MigrationId;
use ballast_domain::slicing::{HashRange, LayoutSlice, Recut, RecutPhase, SliceLayout};
use ballast_domain::tenant::Epoch;
use ballast_migration_engine::protocol::command_token;
use ballast_migration_engine::protocol::recut::{self, ObservedRecut, RecutAction, RecutCommand};
use ballast_vote_shard::shard::{Fence, Holding, MigrationToken};
use stateright::{Model, Property};

/// How many events of each kind may happen.
#[derive(Debug, Clone, Copy)]
pub struct RecutBounds {
    /// Voters: the second one's poll is in the other half.
    pub voters: u8,
    /// Recuts: a split, a merge, a split, …
    pub cuts: u8,
    /// How often a recut is aborted.
    pub calls_off: u8,
    /// Messages that arrive twice.
    pub copies: u8,
    /// How often a voter sends again while an answer is on its way.
    pub repeats: u8,
}

/// The rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecutRule {
    /// None: the protocol as shipped.
    None,
    /// The record is committed before the parents are sealed.
    CutBeforeSeal,
    /// The shard ignores its fences.
    NoFence,
    /// A recut is aborted at the epoch of its seal.
    AbortAtSameEpoch,
    /// A worker that finds a recut too slow unseals without aborting it in the record.
    UnsealWithoutAbort,
}

/// An invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecutInvariant {
    /// Every acknowledged vote is in a live slice.
    NothingLost,
    /// No voter is counted twice.
    NothingDoubled,
    /// At most one slice takes writes to a poll.
    OneOwner,
    /// The record has exactly one slice for each poll.
    EveryPollHasASlice,
    /// Every world comes to rest: no seal, every voter answered.
    EndsCalm,
}

impl RecutInvariant {
    /// The invariant's name.
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
pub struct SliceState {
    fence: Fence,
    range: HashRange,
    /// The voters in it, each of which has its own poll.
    votes: BTreeSet<u8>,
}

/// A message in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecutMessage {
    /// A command to the shard.
    Command(Recut, RecutCommand),
    /// A vote, with the slice and epoch that its router believed.
    Vote(u8, u32, Epoch),
}

/// A worker that has observed, and is about to act.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlannedAction {
    seen: SliceLayout,
    then: PlannedStep,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum PlannedStep {
    UpdateRecord(SliceLayout),
    SendCommand(Recut, RecutCommand),
}

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecutWorld {
    record: SliceLayout,
    shard: BTreeMap<u32, SliceState>,
    routers: [Vec<LayoutSlice>; 2],
    workers: [Option<PlannedAction>; 2],
    messages: BTreeSet<RecutMessage>,
    acknowledged: BTreeSet<u8>,
    /// Voters that wait for an answer.
    waiting: BTreeSet<u8>,
    begun: u8,
    called_off: u8,
    copied: u8,
    repeated: u8,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecutEvent {
    /// A worker claims a recut.
    Claim(u8),
    /// A worker observes.
    Look(u8),
    /// A worker observes, and finds that the recut has taken too long.
    LookLate(u8),
    /// A worker performs the action that it decided on.
    Act(u8),
    /// A router reads the record.
    Learn(u8),
    /// A voter's vote is sent through a router.
    Send(u8, u8),
    /// A message arrives.
    Arrive(RecutMessage),
    /// A message arrives, and will arrive again.
    ArriveTwice(RecutMessage),
}

/// The model of the recut protocol.
#[derive(Debug, Clone, Copy)]
pub struct RecutModel {
    /// The bounds.
    pub bounds: RecutBounds,
    /// The rule that is broken.
    pub rule: RecutRule,
}

/// A voter's poll: voter 0 votes in the lower half, voter 1 in the upper one.
fn poll_of_voter(voter: u8) -> PollId {
    let upper = voter == 1;
    let mut polls = (1..).map(PollId::from_number);
    let found = polls.find(|poll| (poll.hash() > u64::MAX / 2) == upper);
    found.unwrap_or(PollId::from_number(0))
}

fn token_of_recut(cut: &Recut) -> MigrationToken {
    MigrationToken {
        migration_id: cut.recut_id.clone(),
        token: command_token(cut.epoch, 0),
    }
}

impl RecutWorld {
    fn new() -> Self {
        let part = LayoutSlice {
            slice: 0,
            hash_from: 0,
            owner: "s".parse().unwrap_or_else(|_| unreachable!()),
            epoch: Epoch::FIRST,
            spent: Epoch::FIRST,
            moving: None,
        };
        let held = SliceState {
            fence: Fence::new_owner(Epoch::FIRST),
            range: HashRange::WHOLE,
            votes: BTreeSet::new(),
        };
        Self {
            routers: [vec![part.clone()], vec![part.clone()]],
            record: SliceLayout {
                parts: vec![part],
                next_slice: 1,
                recut: None,
            },
            shard: [(0, held)].into(),
            workers: [None, None],
            messages: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            waiting: BTreeSet::new(),
            begun: 0,
            called_off: 0,
            copied: 0,
            repeated: 0,
        }
    }

    fn next_claim(&self) -> Option<SliceLayout> {
        let into = if self.begun.is_multiple_of(2) { 2 } else { 1 };
        let (parents, cuts) = recut::plan_next_recut(&self.record, into)?;
        let id = MigrationId(format!("rc-{}", self.begun));
        recut::claim(&self.record, &id, &parents, &cuts).ok()
    }

    fn observe(&self, rule: RecutRule, call_off: bool) -> Option<PlannedAction> {
        let seen = self.record.clone();
        let cut = seen.recut.clone()?;
        let fence = |slice: &u32| self.shard.get(slice).map(|held| held.fence.clone());
        let children = cut.children.iter().map(|child| &child.slice);
        let mut view = ObservedRecut {
            layout: seen.clone(),
            parents: cut.parents.iter().map(fence).collect(),
            children: children.map(fence).collect(),
            call_off,
        };
        let sealing = cut.phase == RecutPhase::Sealing;
        if rule == RecutRule::UnsealWithoutAbort && call_off && sealing {
            let newer = Epoch(cut.epoch.0 + 1);
            let then = PlannedStep::SendCommand(
                cut.clone(),
                RecutCommand::Reinstate(cut.parents[0], newer),
            );
            return Some(PlannedAction { seen, then });
        }
        if rule == RecutRule::CutBeforeSeal && sealing && !call_off {
            let sealed = |_: &u32| {
                let owner = Fence::new_owner(Epoch::FIRST);
                owner.seal(cut.epoch, &token_of_recut(&cut)).ok()
            };
            view.parents = cut.parents.iter().map(sealed).collect();
        }
        let then = match recut::next_action(&cut.recut_id, &view) {
            RecutAction::UpdateRecord(then) => {
                PlannedStep::UpdateRecord(self.break_update(rule, &cut, *then))
            }
            RecutAction::SendCommand(op) => PlannedStep::SendCommand(cut, op),
            RecutAction::Ended => return None,
        };
        Some(PlannedAction { seen, then })
    }

    fn break_update(&self, rule: RecutRule, cut: &Recut, mut then: SliceLayout) -> SliceLayout {
        let aborts = then
            .recut
            .as_ref()
            .is_some_and(|it| it.phase == RecutPhase::Aborting);
        if rule == RecutRule::AbortAtSameEpoch && aborts {
            for part in &mut then.parts {
                if cut.parents.contains(&part.slice) {
                    part.epoch = cut.epoch;
                }
            }
        }
        then
    }

    fn act(&mut self, planned: PlannedAction) {
        match planned.then {
            PlannedStep::UpdateRecord(then) if self.record == planned.seen => self.record = then,
            PlannedStep::UpdateRecord(_) => {}
            PlannedStep::SendCommand(cut, op) => {
                self.messages.insert(RecutMessage::Command(cut, op));
            }
        }
    }

    fn arrive(&mut self, rule: RecutRule, message: &RecutMessage) {
        match message {
            RecutMessage::Command(cut, RecutCommand::Recut) => self.cut(cut),
            RecutMessage::Command(cut, RecutCommand::Seal(slice, epoch)) => {
                self.step(*slice, |fence| {
                    fence.seal(*epoch, &token_of_recut(cut)).ok()
                });
            }
            RecutMessage::Command(cut, RecutCommand::Reinstate(slice, epoch)) => {
                self.step(*slice, |fence| {
                    fence.unseal(*epoch, &token_of_recut(cut)).ok()
                });
            }
            RecutMessage::Vote(voter, slice, epoch) => {
                let Some(held) = self.shard.get_mut(slice) else {
                    self.waiting.remove(voter);
                    return;
                };
                let admitted = Fence::admits(Some(&held.fence), *epoch).is_ok();
                let admitted = admitted || rule == RecutRule::NoFence;
                if admitted && held.range.contains(poll_of_voter(*voter)) {
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

    /// Hands the polls over like the engine: completely or not at all.
    fn cut(&mut self, cut: &Recut) {
        let known = |slice: &u32| self.shard.get(slice).map(|held| &held.fence);
        let mut children = cut.children.iter();
        if children.any(|child| known(&child.slice).is_some()) {
            return;
        }
        let fences: Option<Vec<Fence>> = cut
            .parents
            .iter()
            .map(|slice| known(slice)?.recut(cut.epoch, &token_of_recut(cut)).ok())
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
            let own = own.filter(|voter| range.contains(poll_of_voter(*voter)));
            let held = SliceState {
                fence: Fence::new_child_owner(cut.epoch, &token_of_recut(cut)),
                range,
                votes: own.collect(),
            };
            self.shard.insert(child.slice, held);
        }
    }

    fn keeps(&self, rule: RecutRule, claim: RecutInvariant) -> bool {
        let lives =
            |held: &&SliceState| matches!(held.fence.holding, Holding::Owner | Holding::Sealed);
        match claim {
            RecutInvariant::NothingLost => self.acknowledged.iter().all(|voter| {
                let mut own = self.shard.values().filter(lives);
                own.any(|held| held.votes.contains(voter))
            }),
            RecutInvariant::NothingDoubled => (0..2).all(|voter| {
                let own = self.shard.values();
                own.filter(|held| held.votes.contains(&voter)).count() <= 1
            }),
            RecutInvariant::OneOwner => (0..2).all(|voter| {
                let owners = self.shard.values().filter(|held| {
                    held.fence.holding == Holding::Owner
                        && held.range.contains(poll_of_voter(voter))
                });
                owners.count() <= 1
            }),
            RecutInvariant::EveryPollHasASlice => {
                let mut froms = self.record.parts.iter().map(|part| part.hash_from);
                let grow = self.record.parts.windows(2);
                froms.next() == Some(0)
                    && grow
                        .into_iter()
                        .all(|two| two[0].hash_from < two[1].hash_from)
            }
            RecutInvariant::EndsCalm => self.ends_calm(rule),
        }
    }

    /// Starts from worlds without messages in flight: one worker continues alone, then
    /// all voters vote by the record. Every other world leads to one of these when its
    /// messages arrive.
    fn ends_calm(&self, rule: RecutRule) -> bool {
        if !self.messages.is_empty() || self.workers.iter().any(Option::is_some) {
            return true;
        }
        let mut world = self.clone();
        for _ in 0..30 {
            let Some(planned) = world.observe(rule, false) else {
                break;
            };
            world.act(planned);
            for message in std::mem::take(&mut world.messages) {
                world.arrive(rule, &message);
            }
        }
        let sealed = |held: &SliceState| held.fence.holding == Holding::Sealed;
        if world.record.recut.is_some() || world.shard.values().any(sealed) {
            return false;
        }
        for voter in 0..2 {
            if let Some((slice, epoch)) = routed(&world.record.parts, voter) {
                world.arrive(rule, &RecutMessage::Vote(voter, slice, epoch));
            }
        }
        world.acknowledged.len() == 2
    }
}

/// The slice and epoch that a router sends a voter's vote to.
fn routed(parts: &[LayoutSlice], voter: u8) -> Option<(u32, Epoch)> {
    let hash = poll_of_voter(voter).hash();
    let own = parts.iter().filter(|part| part.hash_from <= hash);
    let own = own.max_by_key(|part| part.hash_from)?;
    Some((own.slice, own.epoch))
}

impl Model for RecutModel {
    type State = RecutWorld;
    type Action = RecutEvent;

    fn init_states(&self) -> Vec<RecutWorld> {
        vec![RecutWorld::new()]
    }

    fn actions(&self, world: &RecutWorld, actions: &mut Vec<RecutEvent>) {
        let bounds = &self.bounds;
        for worker in 0..2_u8 {
            let place = usize::from(worker);
            if world.workers[place].is_some() {
                actions.push(RecutEvent::Act(worker));
                continue;
            }
            match &world.record.recut {
                None if world.begun < bounds.cuts => actions.push(RecutEvent::Claim(worker)),
                None => {}
                Some(cut) => {
                    actions.push(RecutEvent::Look(worker));
                    if cut.phase == RecutPhase::Sealing && world.called_off < bounds.calls_off {
                        actions.push(RecutEvent::LookLate(worker));
                    }
                }
            }
        }
        // The first router is always up to date; the second reads the record by an event.
        if world.routers[1] != world.record.parts {
            actions.push(RecutEvent::Learn(1));
        }
        for voter in 0..bounds.voters {
            let again = world.waiting.contains(&voter) || world.acknowledged.contains(&voter);
            if !again || world.repeated < bounds.repeats {
                actions.extend((0..2).map(|router| RecutEvent::Send(voter, router)));
            }
        }
        for message in &world.messages {
            actions.push(RecutEvent::Arrive(message.clone()));
            if world.copied < bounds.copies {
                actions.push(RecutEvent::ArriveTwice(message.clone()));
            }
        }
    }

    fn next_state(&self, last: &RecutWorld, happening: RecutEvent) -> Option<RecutWorld> {
        let mut world = last.clone();
        match happening {
            RecutEvent::Claim(_) => {
                world.record = last.next_claim()?;
                world.begun += 1;
            }
            RecutEvent::Look(worker) => {
                world.workers[usize::from(worker)] = last.observe(self.rule, false);
            }
            RecutEvent::LookLate(worker) => {
                world.workers[usize::from(worker)] = last.observe(self.rule, true);
                world.called_off += 1;
            }
            RecutEvent::Act(worker) => {
                let planned = world.workers[usize::from(worker)].take()?;
                world.act(planned);
            }
            RecutEvent::Learn(router) => {
                world.routers[usize::from(router)] = world.record.parts.clone();
            }
            RecutEvent::Send(voter, router) => {
                let again = world.waiting.contains(&voter) || world.acknowledged.contains(&voter);
                world.repeated += u8::from(again);
                let parts = &world.routers[usize::from(router)];
                let (slice, epoch) = routed(parts, voter)?;
                world
                    .messages
                    .insert(RecutMessage::Vote(voter, slice, epoch));
                world.waiting.insert(voter);
            }
            RecutEvent::Arrive(message) => {
                world.messages.remove(&message);
                world.arrive(self.rule, &message);
            }
            RecutEvent::ArriveTwice(message) => {
                world.copied += 1;
                world.arrive(self.rule, &message);
            }
        }
        world.routers[0] = world.record.parts.clone();
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                RecutInvariant::NothingLost.name(),
                |model: &Self, world: &RecutWorld| {
                    world.keeps(model.rule, RecutInvariant::NothingLost)
                },
            ),
            Property::always(
                RecutInvariant::NothingDoubled.name(),
                |model: &Self, world: &RecutWorld| {
                    world.keeps(model.rule, RecutInvariant::NothingDoubled)
                },
            ),
            Property::always(
                RecutInvariant::OneOwner.name(),
                |model: &Self, world: &RecutWorld| {
                    world.keeps(model.rule, RecutInvariant::OneOwner)
                },
            ),
            Property::always(
                RecutInvariant::EveryPollHasASlice.name(),
                |model: &Self, world: &RecutWorld| {
                    world.keeps(model.rule, RecutInvariant::EveryPollHasASlice)
                },
            ),
            Property::always(
                RecutInvariant::EndsCalm.name(),
                |model: &Self, world: &RecutWorld| {
                    world.keeps(model.rule, RecutInvariant::EndsCalm)
                },
            ),
        ]
    }
}
