//! Which writes share a group, on a slow disk.

use std::sync::Arc;

use crate::conformance::START_MS;
use crate::conformance::builders::{
    at_epoch, ballot, changeable, make_owner, poll, slice, time, voter,
};
use crate::embedded::disk::{Crash, SimulatedDisk};
use crate::embedded::tests::conformance::SMALL;
use crate::embedded::{EmbeddedShard, ShardOptions, log};
use crate::shard::VoteShard;
use crate::testing::{SeedEntropy, SteppedClock};

fn open(
    disk: &SimulatedDisk,
    log: log::LogOptions,
    clock: &Arc<SteppedClock>,
) -> Arc<EmbeddedShard> {
    let options = ShardOptions {
        log,
        ..ShardOptions::default()
    };
    let disk = Arc::new(disk.clone());
    let entropy = Arc::new(SeedEntropy(7.into()));
    let shard = EmbeddedShard::open("shard-1", disk, options, clock.clone(), entropy);
    Arc::new(shard.unwrap())
}

async fn until_held(disk: &SimulatedDisk) {
    while disk.syncs_held() == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_group_never_exceeds_the_log_s_limit() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::new(SteppedClock::new(START_MS)));
    let tight = log::LogOptions {
        group_bytes_max: 8_192,
        ..SMALL
    };
    let shard = open(&disk, tight, &clock);
    make_owner(&*shard, &[poll(1)]).await;
    disk.hold_syncs();
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..300 {
        let shard = shard.clone();
        callers.spawn(async move {
            let name = |n| format!("voter {n} of caller {caller}");
            let ballots: Vec<_> = (0..10).map(|n| ballot(&poll(1), &name(n), 0, 1)).collect();
            shard.cast(&at_epoch(1), &ballots).await
        });
    }
    until_held(&disk).await;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    disk.release_syncs();
    for answer in callers.join_all().await {
        assert_eq!(answer.unwrap().len(), 10);
    }
    let tally = shard.tally(&slice(), poll(1).poll_id).await.unwrap();
    assert_eq!(tally.voters, 3_000);
}

#[tokio::test]
async fn time_does_not_run_backwards_within_a_group() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::new(SteppedClock::new(START_MS)));
    let shard = open(&disk, SMALL, &clock);
    make_owner(&*shard, &[changeable(1)]).await;
    disk.hold_syncs();
    let mut callers = tokio::task::JoinSet::new();
    // The first one is syncing, the others share the next group.
    for (caller, ms) in [0, 1_000, 1_000, -1_500].into_iter().enumerate() {
        clock.advance(ms);
        let shard = shard.clone();
        callers.spawn(async move {
            let mut vote = ballot(&changeable(1), &format!("v{caller}"), 0, 1);
            vote.arrived_at = time(60_000);
            shard.cast(&at_epoch(1), &[vote]).await.unwrap()
        });
        until_held(&disk).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    disk.release_syncs();
    callers.join_all().await;
    let voted_at = |shard: Arc<EmbeddedShard>, name: &'static str| async move {
        let id = changeable(1).poll_id;
        let row = shard.voter(&slice(), id, &voter(name)).await.unwrap();
        row.unwrap().voted_at
    };
    assert_eq!(voted_at(shard.clone(), "v2").await, time(2_000));
    assert_eq!(voted_at(shard.clone(), "v3").await, time(2_000));
    let disk = disk.after(Crash::PowerLost);
    drop(shard);
    let shard = open(&disk, SMALL, &clock);
    let made = shard.create_poll(&at_epoch(1), poll(2)).await.unwrap();
    assert_eq!(made.created_at, time(2_000));
}
