//! The shards of a world: engines on simulated disks, whose log is written and
//! whose files are kept when the stage says so, and which crash and start.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ballast_domain::ShardId;
use ballast_vote_shard::embedded::disk::{Crash, SimulatedDisk};
use ballast_vote_shard::embedded::{
    EmbeddedShard, KeepSteps, Kept, LogSteps, OpenError, Options, Written,
};
use tokio::time::{sleep, timeout};

use crate::bugs::{self, Bug};
use crate::chance::{self, Drawn};
use crate::stage::{self, Troupe};
use crate::trace::{self, SimClock, note};

/// A machine that a shard runs on.
struct Node {
    disk: SimulatedDisk,
    up: Option<(Arc<EmbeddedShard>, Troupe)>,
}

/// All of them.
pub(crate) struct Nodes(Mutex<BTreeMap<ShardId, Node>>);

/// Small, so that a short run has many segments, checkpoints and merges, and
/// changes that are no longer kept.
fn options() -> Options {
    let mut options = Options {
        checkpoint_bytes: 3 << 10,
        feed_bytes: 2 << 10,
        ..Options::default()
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
            if bugs::has(Bug::SyncsSkipped) {
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
    pub(crate) fn up(&self, id: &ShardId) -> Option<(Arc<EmbeddedShard>, Troupe)> {
        self.with(id, |node| node.up.clone())
    }

    /// The shard, at the end, when it must run.
    pub(crate) fn shard(&self, id: &ShardId) -> Arc<EmbeddedShard> {
        self.up(id).unwrap().0
    }

    fn try_open(&self, id: &ShardId) -> Result<(EmbeddedShard, LogSteps, KeepSteps), OpenError> {
        EmbeddedShard::open_stepped(
            id.as_str(),
            Arc::new(self.with(id, |node| node.disk.clone())),
            options(),
            Arc::new(SimClock),
            Arc::new(Drawn),
        )
    }

    /// Starts a shard that does not run.
    pub(crate) fn open(&self, id: &ShardId) {
        let (shard, log, keeper) = match self.try_open(id) {
            Ok(opened) => opened,
            // The disk failed meanwhile: the process ends, and starts again.
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
        let troupe = stage::troupe();
        self.with(id, |node| node.up = Some((Arc::new(shard), troupe)));
        stage::spawn(troupe, write(id.clone(), log));
        stage::spawn(troupe, keep(id.clone(), keeper));
    }

    /// A shard's process ends here and now.
    pub(crate) fn crash(&self, id: &ShardId, how: Crash) {
        let Some((shard, troupe)) = self.with(id, |node| node.up.take()) else {
            return;
        };
        note!("{id} crashes: {how:?}");
        trace::count(|counts| counts.crashes += 1);
        stage::kill(troupe);
        drop(shard);
        self.with(id, |node| node.disk = node.disk.after(how));
    }

    /// Lets a shard's disk fail.
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

async fn write(id: ShardId, mut log: LogSteps) {
    loop {
        match log.step() {
            Written::Nothing => {
                let _ = timeout(Duration::from_millis(500), log.stirred()).await;
            }
            Written::Taken => sleep(latency()).await,
            Written::Group => {}
            Written::Failed => {
                note!("{id}: the disk failed");
                sleep(chance::ms(20, 300)).await;
            }
            Written::Reopened => note!("{id}: the log was opened anew"),
        }
    }
}

async fn keep(id: ShardId, mut keeper: KeepSteps) {
    loop {
        match keeper.step() {
            Kept::Nothing => {
                let _ = timeout(Duration::from_millis(200), keeper.stirred()).await;
            }
            Kept::Waits => sleep(chance::ms(0, 2)).await,
            Kept::Checkpoint => {
                note!("{id}: a checkpoint");
                trace::count(|counts| counts.checkpoints += 1);
                sleep(latency()).await;
            }
            Kept::Failed => {
                note!("{id}: no checkpoint");
                sleep(chance::ms(100, 2_000)).await;
            }
        }
    }
}
