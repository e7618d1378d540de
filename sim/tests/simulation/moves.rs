//! Operators who move tenants to and fro, and the workers that do it: taken
//! for dead while they are not, killed, halted, and followed by others.

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
use ballast_domain::migration::Migration;
use ballast_domain::moving::{MoveId, Moving, Phase};
use ballast_domain::shard::PressureThresholds;
use ballast_domain::tenant::{SliceId, Tenant};
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
        for number in 0..moves {
            sleep(chance::ms(0, 1_000)).await;
            let name = MoveId(format!("{}-m{number}", slice.tenant_id));
            let to = chance::one_of(&ids).clone();
            let sync = chance::happens(400);
            if self.claimed(&slice, &name, (&to, sync)).await {
                note!("{name} to {to} begins, sync: {sync}");
                let moved = self.see_through(&slice, &name, sync).await;
                if sync && !moved {
                    self.empty(&slice, &name, &to).await;
                }
                note!("{name} is over: {moved}");
                trace::count(|counts| match moved {
                    true => counts.moved += 1,
                    false => counts.undone += 1,
                });
            }
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

    /// Has a move worked on until it is over; whether it moved.
    async fn see_through(&self, slice: &SliceId, name: &MoveId, sync: bool) -> bool {
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
        // Whether the target is to be left behind, in a window in which both sides
        // acknowledge.
        let mut leaves = false;
        let moved = loop {
            lease += 1;
            let goal = *goals.last().unwrap();
            let job = Job {
                move_id: name.clone(),
                slice: slice.clone(),
                lease,
                seal_max_ms: chance::happens(700).then(|| chance::within(20, 3_000)),
            };
            note!("{name} worker {lease} to {goal:?}, leaves: {leaves}");
            let troupe = stage::troupe();
            let (sender, mut receiver) = oneshot::channel();
            match leaves {
                true => stage::spawn(troupe, leave(self.clone(), job, sender)),
                false => stage::spawn(troupe, work(self.clone(), job, goal, notes.clone(), sender)),
            }
            let outcome = self.wait(troupe, &mut receiver).await;
            match outcome {
                Some(Ok(Reached::Over { moved, back })) => break moved && !back,
                Some(Ok(Reached::Goal)) if leaves => leaves = false,
                Some(Ok(Reached::Goal)) => {
                    leaves = sync && goal == Goal::CutOver && chance::happens(500);
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
                    sleep(chance::ms(5, 300)).await;
                }
                // Taken for dead. It is, or it will go on later.
                None => {
                    late.push(troupe);
                    if chance::happens(150) {
                        goals = vec![Goal::Undone];
                    }
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

    /// Tells a shard that may have been left behind, however long that takes, and
    /// has what it has removed.
    async fn empty(&self, slice: &SliceId, name: &MoveId, shard: &ShardId) {
        let worker = self.worker(Caller::Worker(0)).await;
        let epoch = loop {
            match worker.route(slice).await {
                Ok(route) => break route.epoch,
                Err(_) => sleep(chance::ms(5, 300)).await,
            }
        };
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

    async fn in_window(&self, slice: &SliceId) -> Option<Moving> {
        let near = self.registry.near().ok()?;
        let tenant = typed::get::<Tenant>(&near, slice.tenant_id.as_str()).await;
        let slices = tenant.ok()??.value.slices;
        let found = slices.into_iter().find(|one| one.slice == slice.slice);
        let moving = found?.moving?;
        (moving.phase == Phase::Window).then_some(moving)
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
