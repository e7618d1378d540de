//! Operators who move tenants to and fro, and the workers that do it: taken
//! for dead while they are not, killed, halted, and followed by others.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ballast_control_plane::calendar::CalendarSettings;
use ballast_control_plane::hotspots::HotspotSettings;
use ballast_control_plane::load::LoadSettings;
use ballast_control_plane::migrations::MoveSettings;
use ballast_control_plane::migrations::records::SliceRecords;
use ballast_control_plane::registry::typed;
use ballast_control_plane::{ControlPlane, Settings};
use ballast_domain::ShardId;
use ballast_domain::migration::{Left, Migration};
use ballast_domain::moving::{MoveId, Moving, Phase};
use ballast_domain::shard::PressureThresholds;
use ballast_domain::tenant::{Epoch, Slice, SliceId, Tenant};
use ballast_migration_engine::copy::Copied;
use ballast_migration_engine::worker::{
    ClaimError, Goal, Gone, Job, MoveError, Notes, Reached, Worker, claim,
};
use ballast_vote_shard::VoteShard;
use ballast_vote_shard::shard::Holding;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::chance::{self, Drawn};
use crate::net::{Caller, Wires};
use crate::nodes::Nodes;
use crate::records::BrokenRecords;
use crate::registry::Far;
use crate::stage;
use crate::trace::{self, SimClock, note};

/// What operators and workers work with.
#[derive(Clone)]
pub(crate) struct Yard {
    pub(crate) registry: Far,
    pub(crate) nodes: Arc<Nodes>,
    /// Whether workers die and are halted.
    pub(crate) rough: bool,
}

type Outcome = Result<Reached, MoveError>;

/// What the next worker is to do without, though it may be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Nothing,
    /// The target, in a window in which both sides acknowledge.
    Owner,
    /// The copy that is to be removed last.
    Copy,
}

impl Leaves {
    /// After something failed: perhaps the move ends without its last act.
    fn or_a_copy(self, goals: &[Goal]) -> Self {
        match self {
            Self::Nothing if goals.len() == 1 && chance::happens(150) => Self::Copy,
            Self::Copy if chance::happens(500) => Self::Nothing,
            same => same,
        }
    }
}

impl Yard {
    /// The control plane of a process that has just started.
    async fn plane(&self) -> ControlPlane {
        loop {
            let registry = Arc::new(self.registry.clone());
            let (clock, entropy) = (Arc::new(SimClock), Arc::new(Drawn));
            match ControlPlane::open(registry, clock, entropy, settings()).await {
                Ok(plane) => return plane,
                Err(_) => sleep(chance::ms(10, 100)).await,
            }
        }
    }

    async fn records(&self) -> Arc<BrokenRecords> {
        Arc::new(BrokenRecords {
            whole: SliceRecords::new(self.plane().await),
            nodes: self.nodes.clone(),
        })
    }

    async fn worker(&self, caller: Caller) -> Worker {
        let wires = Wires {
            caller,
            nodes: self.nodes.clone(),
        };
        Worker::new(self.records().await, Arc::new(wires), Arc::new(SimClock))
    }

    /// Has a slice take votes again that is sealed for too long, again and
    /// again.
    pub(crate) async fn watch(self, slice: SliceId) {
        let worker = self.worker(Caller::Watchman).await;
        loop {
            sleep(chance::ms(300, 1_000)).await;
            self.owners_are_recorded(&slice).await;
            let stage = *chance::one_of(&["admitted", "cutOver"]);
            let migration: Migration = serde_json::from_value(json!({
                "migrationID": "looked after",
                "tenantID": slice.tenant_id,
                "slice": slice.slice,
                "fromShardID": "shard-1",
                "toShardID": "shard-2",
                "regions": [],
                "actor": { "name": "watchman" },
                "requestedAt": "2026-11-16T09:30:00Z",
                "terms": { "windowMs": 1 },
                "stage": stage,
            }))
            .unwrap();
            let seal_max_ms = settings().moves.seal_max_ms;
            if let Err(error) = worker.unseal_overdue(&migration, seal_max_ms).await {
                note!("{} stays sealed for now: {error}", slice.tenant_id);
            }
        }
    }

    /// Moves a slice a number of times, one after the other.
    pub(crate) async fn operate(self, slice: SliceId, moves: u64) {
        let ids = self.nodes.ids();
        // Shards that still have a copy which nobody needs: nothing comes there.
        let full = Arc::new(Mutex::new(BTreeSet::new()));
        for number in 0..moves {
            sleep(chance::ms(0, 1_000)).await;
            let name = MoveId(format!("{}-m{number}", slice.tenant_id));
            let to = chance::one_of(&ids).clone();
            if full.lock().unwrap().contains(&to) {
                note!("{name} to {to} is refused: a copy is left there");
                continue;
            }
            let sync = chance::happens(400);
            if self.claimed(&slice, &name, (&to, sync)).await {
                note!("{name} to {to} begins, sync: {sync}");
                let left = Arc::new(Mutex::new(None));
                let moved = self.see_through(&slice, &name, sync, &left).await;
                let left: Option<Left> = left.lock().unwrap().take();
                if let Some(left) = left {
                    full.lock().unwrap().insert(left.shard.clone());
                    let later = self.clone().empty_later(slice.clone(), name.clone(), left);
                    let full = full.clone();
                    stage::spawn(stage::WORLD, async move {
                        let shard = later.await;
                        full.lock().unwrap().remove(&shard);
                    });
                } else if sync && !moved {
                    let epoch = self.epoch(&slice).await;
                    self.empty(&slice, &name, (&to, epoch)).await;
                }
                note!("{name} is over: {moved}");
                trace::count(|counts| match moved {
                    true => counts.moved += 1,
                    false => counts.undone += 1,
                });
            }
        }
        while !full.lock().unwrap().is_empty() {
            sleep(chance::ms(5, 300)).await;
        }
    }

    async fn claimed(&self, slice: &SliceId, name: &MoveId, (to, sync): (&ShardId, bool)) -> bool {
        let records = self.records().await;
        loop {
            match claim(&*records, slice, name, to, sync).await {
                Ok(_) => return true,
                Err(ClaimError::Refused(refused)) => {
                    note!("{name} is refused: {refused}");
                    // Its own claim may have happened, its answer lost, and
                    // the record read in between: the next look tells.
                    if refused.to_string().contains("there already") {
                        return false;
                    }
                    sleep(Duration::from_millis(100)).await;
                }
                Err(_) => sleep(chance::ms(1, 100)).await,
            }
        }
    }

    /// Has a move worked on until it is over; whether it moved. What it could not
    /// remove is noted in `left`.
    async fn see_through(
        &self,
        slice: &SliceId,
        name: &MoveId,
        sync: bool,
        left: &Arc<Mutex<Option<Left>>>,
    ) -> bool {
        let mut goals: Vec<Goal> = match chance::below(8) {
            0 => vec![Goal::Undone],
            1 => vec![Goal::Undone, Goal::Prepared],
            2 | 3 => vec![Goal::Undone, Goal::CutOver],
            4 | 5 => vec![Goal::Finished, Goal::CutOver],
            _ => vec![Goal::Finished],
        };
        let mut lease = 0;
        let mut late = Vec::new();
        let notes = Arc::new(Mutex::new(Notes::default()));
        let mut leaves = Leaves::Nothing;
        let moved = loop {
            lease += 1;
            let goal = *goals.last().unwrap();
            let job = Job {
                move_id: name.clone(),
                slice: slice.clone(),
                lease,
                seal_max_ms: chance::happens(700).then(|| chance::within(20, 3_000)),
            };
            note!("{name} worker {lease} to {goal:?}, leaves: {leaves:?}");
            let troupe = stage::troupe();
            let (sender, mut receiver) = oneshot::channel();
            match leaves {
                Leaves::Owner => stage::spawn(troupe, leave(self.clone(), job, sender)),
                Leaves::Copy => {
                    let undo = goal == Goal::Undone;
                    let left = left.clone();
                    stage::spawn(troupe, leave_copy(self.clone(), job, undo, left, sender));
                }
                Leaves::Nothing => {
                    stage::spawn(troupe, work(self.clone(), job, goal, notes.clone(), sender));
                }
            }
            let outcome = self.wait(troupe, &mut receiver).await;
            match outcome {
                Some(Ok(Reached::Over { moved, back })) => break moved && !back,
                Some(Ok(Reached::Goal)) if leaves != Leaves::Nothing => leaves = Leaves::Nothing,
                Some(Ok(Reached::Goal)) => {
                    if sync && goal == Goal::CutOver && chance::happens(500) {
                        leaves = Leaves::Owner;
                    }
                    if goals.len() > 1 {
                        goals.pop();
                        sleep(chance::ms(0, 2_000)).await;
                    }
                    self.keeps_the_way_back(slice).await;
                }
                Some(Ok(Reached::PutOff)) => sleep(chance::ms(5, 300)).await,
                Some(Ok(Reached::Unknown)) => panic!("{name} is forgotten"),
                Some(Err(MoveError::Different { .. })) => {
                    // It is copied anew; if that does not help, it goes back.
                    notes.lock().unwrap().copied = Copied::default();
                    if chance::happens(300) {
                        goals = vec![Goal::Undone];
                    }
                }
                Some(Err(_)) => {
                    if chance::happens(100) {
                        goals = vec![Goal::Undone];
                    }
                    leaves = leaves.or_a_copy(&goals);
                    sleep(chance::ms(5, 300)).await;
                }
                // Taken for dead. It is, or it will go on later.
                None => {
                    late.push(troupe);
                    if chance::happens(150) {
                        goals = vec![Goal::Undone];
                    }
                    leaves = leaves.or_a_copy(&goals);
                }
            }
        };
        for troupe in late {
            if chance::happens(500) {
                stage::kill(troupe);
            } else {
                stage::resume(troupe);
            }
        }
        moved
    }

    /// The owner's epoch.
    async fn epoch(&self, slice: &SliceId) -> Epoch {
        let worker = self.worker(Caller::Worker(0)).await;
        loop {
            match worker.route(slice).await {
                Ok(route) => return route.epoch,
                Err(_) => sleep(chance::ms(5, 300)).await,
            }
        }
    }

    /// Has a copy removed that a move has left, while others may be under way;
    /// where it was.
    async fn empty_later(self, slice: SliceId, name: MoveId, left: Left) -> ShardId {
        sleep(chance::ms(0, 3_000)).await;
        self.empty(&slice, &name, (&left.shard, left.epoch)).await;
        left.shard
    }

    /// Tells a shard that may have been left behind, however long that takes, and
    /// has what it has removed.
    async fn empty(&self, slice: &SliceId, name: &MoveId, (shard, epoch): (&ShardId, Epoch)) {
        let worker = self.worker(Caller::Worker(0)).await;
        loop {
            let told = worker.disown(slice, (shard, epoch), name).await;
            let done = match told {
                Ok(None | Some(Holding::Gone)) => return,
                Ok(Some(_)) => worker.remove_lost(slice, (shard, epoch), name).await,
                Err(error) => Err(error),
            };
            note!("{name} leaves {shard}: {done:?}");
            sleep(chance::ms(5, 300)).await;
        }
    }

    /// While both sides are kept, the source's copy is there.
    async fn keeps_the_way_back(&self, slice: &SliceId) {
        let Some(moving) = self.in_window(slice).await else {
            return;
        };
        let Some((shard, _)) = self.nodes.up(&moving.from) else {
            return;
        };
        let Ok(fence) = shard.fence(slice).await else {
            return;
        };
        if self.in_window(slice).await == Some(moving) {
            let holding = fence.map(|fence| fence.holding);
            let is_kept = matches!(holding, Some(Holding::Sealed | Holding::Retired));
            assert!(is_kept, "{slice} has no way back: {holding:?}");
        }
    }

    /// No shard owns the slice at an epoch that the record has not come to.
    async fn owners_are_recorded(&self, slice: &SliceId) {
        for id in self.nodes.ids() {
            let Some((shard, _)) = self.nodes.up(&id) else {
                continue;
            };
            let Ok(Some(fence)) = shard.fence(slice).await else {
                continue;
            };
            if let (Holding::Owner, Some(recorded)) = (fence.holding, self.recorded(slice).await) {
                let (owned, recorded) = (fence.epoch, recorded.epoch);
                assert!(
                    owned <= recorded,
                    "{id} owns {slice} at {owned:?}, not {recorded:?}"
                );
            }
        }
    }

    async fn in_window(&self, slice: &SliceId) -> Option<Moving> {
        let moving = self.recorded(slice).await?.moving?;
        (moving.phase == Phase::Window).then_some(moving)
    }

    /// A slice as the registry has it, unless that is away.
    async fn recorded(&self, slice: &SliceId) -> Option<Slice> {
        let near = self.registry.near().ok()?;
        let tenant = typed::get::<Tenant>(&near, slice.tenant_id.as_str()).await;
        let mut slices = tenant.ok()??.value.slices.into_iter();
        slices.find(|one| one.slice == slice.slice)
    }

    /// Waits for a worker, as long as its lease lasts.
    async fn wait(
        &self,
        troupe: stage::Troupe,
        receiver: &mut oneshot::Receiver<Outcome>,
    ) -> Option<Outcome> {
        if !self.rough || !crate::weather::is_stormy() {
            return receiver.await.ok();
        }
        let lease = match chance::happens(600) {
            true => chance::ms(1, 400),
            false => chance::ms(400, 8_000),
        };
        if let Ok(outcome) = timeout(lease, &mut *receiver).await {
            return outcome.ok();
        }
        match chance::below(3) {
            0 => stage::kill(troupe),
            1 => {
                stage::halt(troupe);
                let pause = chance::ms(10, 15_000);
                stage::spawn(stage::WORLD, async move {
                    sleep(pause).await;
                    stage::resume(troupe);
                });
            }
            _ => {}
        }
        None
    }
}

async fn work(
    yard: Yard,
    job: Job,
    goal: Goal,
    notes: Arc<Mutex<Notes>>,
    told: oneshot::Sender<Outcome>,
) {
    let worker = yard.worker(Caller::Worker(job.lease)).await;
    let mut own = notes.lock().unwrap().clone();
    let outcome = worker.work(&job, goal, &mut own).await;
    note!("{} worker {}: {}", job.move_id, job.lease, shown(&outcome));
    if told.send(outcome).is_ok() {
        *notes.lock().unwrap() = own;
    }
}

/// Takes a slice back without its target, though that may be there: routers may
/// still vote on it.
async fn leave(yard: Yard, job: Job, told: oneshot::Sender<Outcome>) {
    let worker = yard.worker(Caller::Worker(job.lease)).await;
    let leaving = async {
        match worker.give_up(&job, false).await? {
            Gone::NotSo => Ok(Reached::Goal),
            Gone::GivenUp { synced, .. } => {
                assert!(synced, "{} gives up what was acknowledged", job.move_id);
                trace::count(|counts| counts.left_behind += 1);
                worker.let_go(&job).await?;
                Ok(Reached::Goal)
            }
        }
    };
    let outcome = leaving.await;
    note!(
        "{} worker {} leaves: {}",
        job.move_id,
        job.lease,
        shown(&outcome)
    );
    let _ = told.send(outcome);
}

/// Ends a move without its last act: a copy that nobody needs is left where it is,
/// and removed later. That is noted before the record is free.
async fn leave_copy(
    yard: Yard,
    job: Job,
    undo: bool,
    noted: Arc<Mutex<Option<Left>>>,
    told: oneshot::Sender<Outcome>,
) {
    let worker = yard.worker(Caller::Worker(job.lease)).await;
    let leaving = async {
        let Some(leaving) = worker.leave(&job, undo).await? else {
            return Ok(Reached::Goal);
        };
        noted.lock().unwrap().get_or_insert(leaving.left);
        worker.release(&job).await?;
        trace::count(|counts| counts.left_copies += 1);
        Ok(Reached::Over {
            moved: !leaving.undone,
            back: leaving.back,
        })
    };
    let outcome = leaving.await;
    let (name, lease) = (&job.move_id, job.lease);
    note!("{name} worker {lease} leaves a copy: {}", shown(&outcome));
    let _ = told.send(outcome);
}

fn shown(outcome: &Outcome) -> String {
    match outcome {
        Ok(reached) => format!("{reached:?}"),
        Err(error) => error.to_string(),
    }
}

/// How the control plane is set.
pub(crate) fn settings() -> Settings {
    Settings {
        default_region: "local".parse().unwrap(),
        pressure: PressureThresholds::default(),
        rotate_overlap_seconds: 60,
        moves: MoveSettings::default(),
        load: LoadSettings::default(),
        hotspots: HotspotSettings::default(),
        calendar: CalendarSettings::default(),
    }
}
