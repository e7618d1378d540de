//! Panics: no acknowledged data is lost, nothing is counted that the log does
//! not hold, and the shard recovers by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ballast_domain::{Clock, Timestamp};

use crate::conformance::START_MS;
use crate::conformance::builders::{
    at_epoch, ballot, counted, make_owner, poll, retry_until_available, slice,
};
use crate::embedded::disk::watched::{Touch, WatchedDisk};
use crate::embedded::disk::{Crash, Disk, SimulatedDisk};
use crate::embedded::faults::{self, Fault};
use crate::embedded::tests::conformance::SMALL;
use crate::embedded::{EmbeddedShard, ShardOptions};
use crate::shard::{ShardError, ShardResult, VoteShard};
use crate::testing::{SeedEntropy, SteppedClock};

fn open(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Arc<EmbeddedShard> {
    let options = ShardOptions {
        log: SMALL,
        ..ShardOptions::default()
    };
    let entropy = Arc::new(SeedEntropy(7.into()));
    let shard = EmbeddedShard::open("shard-1", disk, options, clock, entropy);
    Arc::new(shard.unwrap())
}

fn clock() -> Arc<SteppedClock> {
    Arc::new(SteppedClock::new(START_MS))
}

/// Casts a vote for the first item.
async fn vote(shard: &EmbeddedShard, name: &str) -> ShardResult<()> {
    let answer = shard
        .cast(&at_epoch(1), &[ballot(&poll(1), name, 0, 1)])
        .await?;
    assert_eq!(answer, [counted(1)]);
    Ok(())
}

fn assert_unavailable<T: std::fmt::Debug>(answer: ShardResult<T>) {
    assert!(
        matches!(answer, Err(ShardError::Unavailable { .. })),
        "{answer:?}"
    );
}

/// Asserts that memory, the stored rows and the data after a crash agree.
async fn assert_voters(shard: Arc<EmbeddedShard>, disk: &SimulatedDisk, voters: u64) {
    let id = poll(1).poll_id;
    let tally = shard.tally(&slice(), id).await.unwrap();
    assert_eq!((tally.total(), tally.voters), (voters, voters));
    let digests = shard.digests(&slice()).await.unwrap();
    assert_eq!(shard.scrub(&slice()).await.unwrap(), digests);
    let found = disk.after(Crash::PowerLost);
    drop(shard);
    let shard = open(Arc::new(found), clock());
    let tally = shard.tally(&slice(), id).await.unwrap();
    assert_eq!((tally.total(), tally.voters), (voters, voters));
    assert_eq!(shard.digests(&slice()).await.unwrap(), digests);
}

#[tokio::test]
async fn a_panic_while_deciding_stops_the_shard_until_memory_is_rebuilt() {
    let disk = SimulatedDisk::new(1);
    let shard = open(Arc::new(disk.clone()), clock());
    make_owner(&*shard, &[poll(1)]).await;
    vote(&shard, "before").await.unwrap();
    let cast = |name: &'static str| {
        let shard = shard.clone();
        tokio::spawn(async move { vote(&shard, name).await })
    };
    // One vote is syncing, one is in the open group, one panics.
    disk.hold_syncs();
    let on_its_way = cast("on its way");
    while disk.syncs_held() == 0 {
        tokio::task::yield_now().await;
    }
    let gathered = cast("gathered");
    tokio::task::yield_now().await;
    faults::plant(Some(Fault::CountingPanics));
    let panicked = cast("panicked").await;
    faults::plant(None);
    assert!(panicked.unwrap_err().is_panic());
    // Memory may be inconsistent: nothing is answered from it.
    assert_unavailable(vote(&shard, "too early").await);
    assert_unavailable(shard.tally(&slice(), poll(1).poll_id).await);
    let trouble = shard.usage().await.trouble.unwrap();
    assert!(trouble.contains("panic"), "{trouble}");
    disk.release_syncs();
    on_its_way.await.unwrap().unwrap();
    assert_unavailable(gathered.await.unwrap());
    retry_until_available(|| vote(&shard, "after"))
        .await
        .unwrap();
    assert_eq!(shard.usage().await.trouble, None);
    let tally = shard.tally(&slice(), poll(1).poll_id).await.unwrap();
    assert_eq!(tally.voters, 3, "before, syncing and after");
    vote(&shard, "gathered").await.unwrap();
    vote(&shard, "panicked").await.unwrap();
    assert_voters(shard, &disk, 5).await;
}

/// A clock that panics once when the committer thread reads it.
struct PanickingClock {
    armed: AtomicBool,
}

impl Clock for PanickingClock {
    fn now(&self) -> Timestamp {
        let writes = std::thread::current().name() == Some("log shard-1");
        if writes && self.armed.swap(false, Ordering::AcqRel) {
            panic!("planted: the clock panicked");
        }
        Timestamp::from_unix_ms(START_MS)
    }
}

#[tokio::test]
async fn a_panic_of_the_committer_is_survived() {
    let disk = SimulatedDisk::new(1);
    let trap = Arc::new(PanickingClock {
        armed: false.into(),
    });
    let shard = open(Arc::new(disk.clone()), trap.clone());
    make_owner(&*shard, &[poll(1)]).await;
    vote(&shard, "before").await.unwrap();
    trap.armed.store(true, Ordering::Release);
    let panicked = async {
        while trap.armed.load(Ordering::Acquire) {
            let _ = vote(&shard, "again and again").await;
        }
    };
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, panicked).await.unwrap();
    retry_until_available(|| vote(&shard, "again and again"))
        .await
        .unwrap();
    assert_eq!(shard.usage().await.trouble, None);
    assert_voters(shard, &disk, 2).await;
}

#[tokio::test]
async fn a_panic_of_the_compactor_is_reported_and_survived() {
    let disk = SimulatedDisk::new(1);
    let armed = AtomicBool::new(true);
    let panics = move |touch, name: &str| {
        let made = touch == Touch::Create && name.starts_with("checkpoint");
        if made && armed.swap(false, Ordering::AcqRel) {
            panic!("planted: making a checkpoint panicked");
        }
    };
    let watched = WatchedDisk(disk.clone(), Arc::new(panics));
    let shard = open(Arc::new(watched), clock());
    make_owner(&*shard, &[poll(1)]).await;
    vote(&shard, "before").await.unwrap();
    let patience = std::time::Duration::from_secs(60);
    let answer = tokio::time::timeout(patience, shard.checkpoint()).await;
    assert_unavailable(answer.expect("the caller should get an answer"));
    retry_until_available(|| shard.checkpoint()).await.unwrap();
    assert_voters(shard, &disk, 1).await;
}
