//! A running shard whose disk refuses writes for a while: nothing is
//! acknowledged meanwhile, no acknowledged data is lost, and the shard recovers
//! with the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::conformance::START_MS;
use crate::conformance::builders::{
    at_epoch, ballot, counted, make_owner, poll, retry_until_available, slice,
};
use crate::embedded::disk::watched::{Touch, WatchedDisk};
use crate::embedded::disk::{Crash, Disk, SimulatedDisk};
use crate::embedded::tests::conformance::SMALL;
use crate::embedded::{EmbeddedShard, ShardOptions};
use crate::shard::{ShardError, ShardResult, VoteShard};
use crate::testing::{SeedEntropy, SteppedClock};

fn open(disk: Arc<dyn Disk>) -> EmbeddedShard {
    let options = ShardOptions {
        log: SMALL,
        ..ShardOptions::default()
    };
    let clock = Arc::new(SteppedClock::new(START_MS));
    let entropy = Arc::new(SeedEntropy(7.into()));
    EmbeddedShard::open("shard-1", disk, options, clock, entropy).unwrap()
}

/// Counts attempts to create or remove segments, and opened checkpoints: these
/// are opened by a new checkpoint, by usage, and when memory is rebuilt.
#[derive(Default)]
struct Touched {
    segments: AtomicU32,
    checkpoints: AtomicU32,
}

impl Touched {
    fn watch(self: &Arc<Self>, disk: &SimulatedDisk) -> Arc<dyn Disk> {
        let touched = self.clone();
        let touch = move |touch, name: &str| match touch {
            Touch::Create | Touch::Remove if name.starts_with("log-") => {
                touched.segments.fetch_add(1, Ordering::AcqRel);
            }
            Touch::Open if name.starts_with("checkpoint") => {
                touched.checkpoints.fetch_add(1, Ordering::AcqRel);
            }
            _ => {}
        };
        Arc::new(WatchedDisk(disk.clone(), Arc::new(touch)))
    }

    fn checkpoints(&self) -> u32 {
        self.checkpoints.load(Ordering::Acquire)
    }

    /// Waits for this many more attempts.
    async fn more_attempts(&self, more: u32) {
        let enough = self.segments.load(Ordering::Acquire) + more;
        let trying = async {
            while self.segments.load(Ordering::Acquire) < enough {
                tokio::task::yield_now().await;
            }
        };
        let patience = std::time::Duration::from_secs(60);
        let tried = tokio::time::timeout(patience, trying).await;
        tried.expect("it should be retried");
    }
}

/// Casts a vote for the first item.
async fn vote(shard: &EmbeddedShard, name: &str) -> ShardResult<()> {
    let answer = shard
        .cast(&at_epoch(1), &[ballot(&poll(1), name, 0, 1)])
        .await?;
    assert_eq!(answer, [counted(1)]);
    Ok(())
}

/// Votes until a vote fails; returns the number of acknowledged votes.
async fn vote_until_refused(shard: &EmbeddedShard) -> u64 {
    let mut acknowledged = 0;
    loop {
        match vote(shard, &format!("voter {acknowledged}")).await {
            Ok(()) => acknowledged += 1,
            Err(ShardError::Unavailable { .. }) => return acknowledged,
            Err(other) => panic!("{other}"),
        }
    }
}

/// Asserts that the shard refuses everything, and gives this reason.
async fn assert_troubled(shard: &EmbeddedShard, because: &str) {
    let asked = vote(shard, "too early").await;
    assert!(
        matches!(asked, Err(ShardError::Unavailable { .. })),
        "{asked:?}"
    );
    let asked = shard.tally(&slice(), poll(1).poll_id).await;
    assert!(
        matches!(asked, Err(ShardError::Unavailable { .. })),
        "{asked:?}"
    );
    let trouble = shard.usage().await.trouble.unwrap();
    assert!(trouble.contains(because), "{trouble}");
}

/// Asserts that the shard, its files and the data after a crash have all
/// voters.
async fn assert_voters(shard: EmbeddedShard, disk: &SimulatedDisk, voters: u64) {
    assert_eq!(shard.usage().await.trouble, None);
    let id = poll(1).poll_id;
    let tally = shard.tally(&slice(), id).await.unwrap();
    assert_eq!((tally.total(), tally.voters), (voters, voters));
    let digests = shard.digests(&slice()).await.unwrap();
    assert_eq!(shard.scrub(&slice()).await.unwrap(), digests);
    let found = disk.after(Crash::PowerLost);
    drop(shard);
    let shard = open(Arc::new(found));
    let tally = shard.tally(&slice(), id).await.unwrap();
    assert_eq!((tally.total(), tally.voters), (voters, voters));
    assert_eq!(shard.digests(&slice()).await.unwrap(), digests);
}

#[tokio::test]
async fn votes_refused_by_a_full_disk_are_not_counted_later() {
    let disk = SimulatedDisk::new(1);
    let touched = Arc::new(Touched::default());
    let shard = open(touched.watch(&disk));
    make_owner(&shard, &[poll(1)]).await;
    vote(&shard, "before").await.unwrap();
    shard.checkpoint().await.unwrap();
    disk.set_free_bytes(Some(0));
    let acknowledged = vote_until_refused(&shard).await;
    assert_troubled(&shard, "create a segment: no storage space").await;
    let read = touched.checkpoints();
    touched.more_attempts(3).await;
    assert_eq!(touched.checkpoints(), read, "nothing should be read");
    assert!(vote(&shard, "too early").await.is_err());
    disk.set_free_bytes(None);
    // The refused voters may choose again.
    retry_until_available(|| vote(&shard, "after"))
        .await
        .unwrap();
    let id = poll(1).poll_id;
    for refused in [format!("voter {acknowledged}"), "too early".to_owned()] {
        let voter = refused.parse().unwrap();
        assert_eq!(shard.voter(&slice(), id, &voter).await.unwrap(), None);
    }
    assert_voters(shard, &disk, acknowledged + 2).await;
}

#[tokio::test]
async fn a_disk_that_turns_read_only_keeps_the_shard_away_until_it_can_be_written() {
    let disk = SimulatedDisk::new(1);
    let touched = Arc::new(Touched::default());
    let shard = open(touched.watch(&disk));
    make_owner(&shard, &[poll(1)]).await;
    vote(&shard, "before").await.unwrap();
    shard.checkpoint().await.unwrap();
    let mut voters = 1;
    for round in 0..3 {
        disk.set_read_only(true);
        assert_eq!(vote_until_refused(&shard).await, 0);
        assert_troubled(&shard, "read-only").await;
        assert!(shard.checkpoint().await.is_err());
        let read = touched.checkpoints();
        touched.more_attempts(3).await;
        assert_eq!(touched.checkpoints(), read, "nothing should be read");
        assert_troubled(&shard, "read-only").await;
        disk.set_read_only(false);
        // A failed vote may not have happened; a retry counts once.
        let name = format!("voter of round {round}");
        retry_until_available(|| vote(&shard, &name)).await.unwrap();
        voters += 1;
        let tally = shard.tally(&slice(), poll(1).poll_id).await.unwrap();
        assert_eq!(tally.voters, voters);
    }
    vote(&shard, "voter 0").await.unwrap();
    assert_voters(shard, &disk, voters + 1).await;
}
