//! Somebody removes or replaces files under a running shard: nothing is
//! acknowledged into a file without a name, and everything acknowledged is in the
//! directory again.

use std::sync::Arc;
use std::time::Duration;

use crate::conformance::START_MS;
use crate::conformance::builders::{
    at_epoch, ballot, make_owner, poll, retry_until_available, slice,
};
use crate::embedded::disk::{Crash, Disk, SimulatedDisk};
use crate::embedded::tests::conformance::SMALL;
use crate::embedded::{EmbeddedShard, ShardOptions};
use crate::shard::{ShardResult, VoteShard};
use crate::testing::{SeedEntropy, SteppedClock};

/// A shard, its disk, and the clock that times its checks.
struct Guarded {
    shard: EmbeddedShard,
    disk: SimulatedDisk,
    clock: Arc<SteppedClock>,
}

impl Guarded {
    async fn start() -> Self {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::new(SteppedClock::new(START_MS)));
        let shard = open(&disk, clock.clone());
        make_owner(&shard, &[poll(1)]).await;
        Self { shard, disk, clock }
    }

    async fn vote(&self, name: &str) -> ShardResult<()> {
        let cast = [ballot(&poll(1), name, 0, 1)];
        self.shard.cast(&at_epoch(1), &cast).await.map(drop)
    }

    fn files(&self, prefix: &str) -> Vec<String> {
        let names = self.disk.list().unwrap();
        let is_ours = |name: &String| name.starts_with(prefix) && !name.ends_with(".old");
        names.into_iter().filter(is_ours).collect()
    }

    fn remove(&self, prefix: &str) -> Vec<String> {
        let names = self.files(prefix);
        assert!(!names.is_empty(), "{prefix}");
        for name in &names {
            self.disk.remove(name).unwrap();
        }
        names
    }

    /// Waits until something holds, while the shard's checks fall due.
    async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let waited = tokio::time::timeout(Duration::from_secs(60), async {
            while !holds().await {
                self.clock.advance(500);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("timed out: {what}"));
    }

    async fn trouble(&self) -> String {
        self.shard.usage().await.trouble.unwrap_or_default()
    }

    /// Asserts that the directory has every vote after a power failure.
    async fn assert_votes_after_power_loss(self, votes: u64) {
        let found = self.disk.after(Crash::PowerLost);
        drop(self.shard);
        let shard = open(&found, self.clock);
        let tally = shard.tally(&slice(), poll(1).poll_id).await.unwrap();
        assert_eq!((tally.total(), tally.voters), (votes, votes));
        let digests = shard.digests(&slice()).await.unwrap();
        assert_eq!(shard.scrub(&slice()).await.unwrap(), digests);
    }
}

fn open(disk: &SimulatedDisk, clock: Arc<SteppedClock>) -> EmbeddedShard {
    let options = ShardOptions {
        log: SMALL,
        ..ShardOptions::default()
    };
    let entropy = Arc::new(SeedEntropy(7.into()));
    EmbeddedShard::open("shard-1", Arc::new(disk.clone()), options, clock, entropy).unwrap()
}

/// The vote that finds the log removed is not acknowledged before the log is back.
#[tokio::test]
async fn votes_after_the_log_was_removed_are_in_the_directory() {
    let guarded = Guarded::start().await;
    for number in 0..200 {
        guarded.vote(&format!("before {number}")).await.unwrap();
    }
    assert!(guarded.files("log-").len() > 1, "several segments");
    guarded.remove("log-");
    assert!(guarded.vote("finds it").await.is_err());
    retry_until_available(|| guarded.vote("finds it"))
        .await
        .unwrap();
    guarded.assert_votes_after_power_loss(201).await;
}

#[tokio::test]
async fn a_removed_log_is_written_again_though_nothing_is_voted() {
    let guarded = Guarded::start().await;
    guarded.vote("ada").await.unwrap();
    guarded.remove("log-");
    let is_back = async || !guarded.files("log-").is_empty() && guarded.trouble().await.is_empty();
    guarded.until("the log is back", is_back).await;
    guarded.assert_votes_after_power_loss(1).await;
}

#[tokio::test]
async fn removed_rows_and_checkpoints_are_written_again() {
    let guarded = Guarded::start().await;
    guarded.vote("ada").await.unwrap();
    guarded.shard.checkpoint().await.unwrap();
    guarded.vote("ben").await.unwrap();
    for prefix in ["rows-", "checkpoint-"] {
        let removed = guarded.remove(prefix);
        let is_back = async || guarded.files(prefix) == removed;
        guarded.until("the files are back", is_back).await;
    }
    let is_well = async || guarded.trouble().await.is_empty();
    guarded.until("the shard is well", is_well).await;
    guarded.assert_votes_after_power_loss(2).await;
}

/// The other file may be what an operator wants to keep.
#[tokio::test]
async fn a_file_in_the_place_of_the_log_is_not_overwritten() {
    let guarded = Guarded::start().await;
    guarded.vote("ada").await.unwrap();
    let log = guarded.files("log-").pop().unwrap();
    guarded.disk.remove(&log).unwrap();
    guarded.disk.create(&log, 3).unwrap();
    assert!(guarded.vote("ben").await.is_err());
    let is_named = async || {
        guarded
            .trouble()
            .await
            .contains("another file took the place")
    };
    guarded.until("the shard names the file", is_named).await;
    assert_eq!(guarded.disk.open(&log).unwrap().bytes().unwrap(), 3);
    assert!(guarded.vote("ben").await.is_err());
    guarded.disk.rename(&log, "elsewhere").unwrap();
    retry_until_available(|| guarded.vote("ben")).await.unwrap();
    guarded.assert_votes_after_power_loss(2).await;
}

/// Files that the shard itself replaces raise no alarm.
#[tokio::test]
async fn checkpoints_and_merges_raise_no_alarm() {
    let guarded = Guarded::start().await;
    for round in 0..20 {
        for number in 0..20 {
            let name = format!("{round} {number}");
            guarded.vote(&name).await.unwrap();
            guarded.clock.advance(500);
        }
        guarded.shard.checkpoint().await.unwrap();
    }
    guarded.assert_votes_after_power_loss(400).await;
}
