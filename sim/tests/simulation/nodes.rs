//! The shards of a world: engines on simulated disks, whose log and compaction run as
//! scheduled tasks, and which crash and restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ballast_domain::ShardId;
use ballast_vote_shard::embedded::disk::{Crash, SimulatedDisk};
use ballast_vote_shard::embedded::{
    CompactorOutcome, CompactorSteps, EmbeddedShard, LogStepOutcome, LogSteps, ShardOpenError,
    ShardOptions,
};
use tokio::time::{sleep, timeout};

use crate::bugs::{self, Bug};
use crate::chance::{self, SeededEntropy};
use crate::scheduler::{self, ProcessId};
use crate::trace::{self, SimClock, note};

/// A machine that a shard runs on.
struct Node {
    disk: SimulatedDisk,
    up: Option<(Arc<EmbeddedShard>, ProcessId)>,
}

/// All machines.
pub(crate) struct Nodes(Mutex<BTreeMap<ShardId, Node>>);

/// Small sizes, so that a short run has many segments, checkpoints, merges and dropped
/// changes.
fn options() -> ShardOptions {
    let mut options = ShardOptions {
        checkpoint_bytes: 3 << 10,
        feed_bytes: 2 << 10,
        ..ShardOptions::default()
    };
    options.log.segment_bytes = 8 << 10;
    options.log.first_segment_bytes = 2 << 10;
    options.log.group_bytes_max = 1 << 20;
    options
}

impl Nodes {
    pub(crate) fn start(ids: &[ShardId]) -> Arc<Self> {
        let disk = |id: &ShardId| {
            let disk = SimulatedDisk::new(chance::draw());
            if bugs::is_planted(Bug::SyncsSkipped) {
                disk.lie_about_syncs();
            }
            (id.clone(), Node { disk, up: None })
        };
        let nodes = Arc::new(Self(Mutex::new(ids.iter().map(disk).collect())));
        for id in ids {
            nodes.open(id);
        }
        nodes
    }

    fn with<T>(&self, id: &ShardId, act: impl FnOnce(&mut Node) -> T) -> T {
        act(self.0.lock().unwrap().get_mut(id).unwrap())
    }

    pub(crate) fn ids(&self) -> Vec<ShardId> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    /// The shard, if it runs.
    pub(crate) fn up(&self, id: &ShardId) -> Option<(Arc<EmbeddedShard>, ProcessId)> {
        self.with(id, |node| node.up.clone())
    }

    /// The shard, at the end, when it must run.
    pub(crate) fn shard(&self, id: &ShardId) -> Arc<EmbeddedShard> {
        self.up(id).unwrap().0
    }

    fn try_open(
        &self,
        id: &ShardId,
    ) -> Result<(EmbeddedShard, LogSteps, CompactorSteps), ShardOpenError> {
        EmbeddedShard::open_stepped(
            id.as_str(),
            Arc::new(self.with(id, |node| node.disk.clone())),
            options(),
            Arc::new(SimClock),
            Arc::new(SeededEntropy),
        )
    }

    /// Starts a shard that does not run.
    pub(crate) fn open(&self, id: &ShardId) {
        let (shard, log, keeper) = match self.try_open(id) {
            Ok(opened) => opened,
            // The disk failed in between: the process ends and restarts.
            Err(error) => {
                note!("{id} does not start: {error}");
                self.with(id, |node| node.disk = node.disk.after(Crash::Killed));
                match self.try_open(id) {
                    Ok(opened) => opened,
                    Err(error) => panic!("{id} does not start: {error:?}"),
                }
            }
        };
        note!("{id} starts");
        let process = scheduler::new_process();
        self.with(id, |node| node.up = Some((Arc::new(shard), process)));
        scheduler::spawn(process, run_log(id.clone(), log));
        scheduler::spawn(process, run_compactor(id.clone(), keeper));
    }

    /// Ends a shard's process at once.
    pub(crate) fn crash(&self, id: &ShardId, how: Crash) {
        let Some((shard, process)) = self.with(id, |node| node.up.take()) else {
            return;
        };
        note!("{id} crashes: {how:?}");
        trace::count(|counts| counts.crashes += 1);
        scheduler::kill(process);
        drop(shard);
        self.with(id, |node| node.disk = node.disk.after(how));
    }

    /// Injects a fault into a shard's disk.
    pub(crate) fn spoil(&self, id: &ShardId, act: impl FnOnce(&SimulatedDisk)) {
        self.with(id, |node| act(&node.disk));
    }
}

/// How long a disk takes.
fn latency() -> Duration {
    match chance::happens(50) {
        true => chance::ms(5, 80),
        false => chance::ms(0, 3),
    }
}

async fn run_log(id: ShardId, mut log: LogSteps) {
    loop {
        match log.step() {
            LogStepOutcome::Nothing => {
                let _ = timeout(Duration::from_millis(500), log.wait_for_work()).await;
            }
            LogStepOutcome::Taken => sleep(latency()).await,
            LogStepOutcome::Group => {}
            LogStepOutcome::Failed => {
                note!("{id}: the disk failed");
                sleep(chance::ms(20, 300)).await;
            }
            LogStepOutcome::Reopened => note!("{id}: reopened the log"),
        }
    }
}

async fn run_compactor(id: ShardId, mut keeper: CompactorSteps) {
    loop {
        match keeper.step() {
            CompactorOutcome::Nothing => {
                let _ = timeout(Duration::from_millis(200), keeper.wait_for_work()).await;
            }
            CompactorOutcome::Waits => sleep(chance::ms(0, 2)).await,
            CompactorOutcome::Checkpoint => {
                note!("{id}: a checkpoint");
                trace::count(|counts| counts.checkpoints += 1);
                sleep(latency()).await;
            }
            CompactorOutcome::Failed => {
                note!("{id}: no checkpoint");
                sleep(chance::ms(100, 2_000)).await;
            }
        }
    }
}
