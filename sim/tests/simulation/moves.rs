//! Operators who move tenants to and fro, and the workers that do it: taken
//! for dead while they are not, killed, halted, and followed by others.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ballast_domain::ShardId;
use ballast_domain::moving::MoveId;
use ballast_domain::tenant::SliceId;
use ballast_migration_engine::copy::Copied;
use ballast_migration_engine::worker::{
    ClaimError, Goal, Job, MoveError, Pause, Reached, Worker, claim,
};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::chance;
use crate::net::{Caller, Wires};
use crate::nodes::Nodes;
use crate::records::TenantRecords;
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
    fn records(&self) -> Arc<TenantRecords> {
        Arc::new(TenantRecords {
            registry: Arc::new(self.registry.clone()),
            nodes: self.nodes.clone(),
        })
    }

    fn worker(&self, number: u64) -> Worker {
        let wires = Wires {
            caller: Caller::Worker(number),
            nodes: self.nodes.clone(),
        };
        Worker::new(self.records(), Arc::new(wires), Arc::new(SimClock))
    }

    /// Moves a slice a number of times, one after the other.
    pub(crate) async fn operate(self, slice: SliceId, moves: u64) {
        let ids = self.nodes.ids();
        for number in 0..moves {
            sleep(chance::ms(50, 3_000)).await;
            let name = MoveId(format!("{}-m{number}", slice.tenant_id));
            let to = chance::one_of(&ids).clone();
            if self.claimed(&slice, &name, &to).await {
                note!("{name} to {to} begins");
                let moved = self.see_through(&slice, &name).await;
                note!("{name} is over: {moved}");
                trace::count(|counts| match moved {
                    true => counts.moved += 1,
                    false => counts.undone += 1,
                });
            }
        }
    }

    async fn claimed(&self, slice: &SliceId, name: &MoveId, to: &ShardId) -> bool {
        loop {
            match claim(&*self.records(), slice, name, to).await {
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
    async fn see_through(&self, slice: &SliceId, name: &MoveId) -> bool {
        let mut goals: Vec<Goal> = match chance::below(8) {
            0 => vec![Goal::Undone],
            1 => vec![Goal::Undone, Goal::Prepared],
            2 | 3 => vec![Goal::Undone, Goal::CutOver],
            4 | 5 => vec![Goal::Finished, Goal::CutOver],
            _ => vec![Goal::Finished],
        };
        let mut lease = 0;
        let mut late = Vec::new();
        let copied = Arc::new(Mutex::new(Copied::default()));
        let moved = loop {
            lease += 1;
            let goal = *goals.last().unwrap();
            let job = Job {
                move_id: name.clone(),
                slice: slice.clone(),
                lease,
            };
            note!("{name} worker {lease} to {goal:?}");
            let troupe = stage::troupe();
            let (sender, mut receiver) = oneshot::channel();
            stage::spawn(
                troupe,
                work(self.worker(lease), job, goal, copied.clone(), sender),
            );
            let outcome = self.wait(troupe, &mut receiver).await;
            match outcome {
                Some(Ok(Reached::Over { moved })) => break moved,
                Some(Ok(Reached::Goal)) => {
                    if goals.len() > 1 {
                        goals.pop();
                        sleep(chance::ms(0, 2_000)).await;
                    }
                }
                Some(Ok(Reached::Unknown)) => panic!("{name} is forgotten"),
                Some(Err(MoveError::Different { .. })) => {
                    // It is copied anew; if that does not help, it goes back.
                    *copied.lock().unwrap() = Copied::default();
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
                None => late.push(troupe),
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
    worker: Worker,
    job: Job,
    goal: Goal,
    copied: Arc<Mutex<Copied>>,
    told: oneshot::Sender<Outcome>,
) {
    let mut own = copied.lock().unwrap().clone();
    let mut pause = Pause::default();
    let outcome = worker.work(&job, goal, &mut own, &mut pause).await;
    note!("{} worker {}: {}", job.move_id, job.lease, shown(&outcome));
    if told.send(outcome).is_ok() {
        *copied.lock().unwrap() = own;
    }
}

fn shown(outcome: &Outcome) -> String {
    match outcome {
        Ok(reached) => format!("{reached:?}"),
        Err(error) => error.to_string(),
    }
}
