//! The machine stops during a checkpoint, or while the shard is being opened.

use std::sync::Arc;

use crate::conformance::START_MS;
use crate::conformance::builders::{at_epoch, ballot, make_owner, poll, slice};
use crate::embedded::disk::{Crash, Disk as _, SimulatedDisk};
use crate::embedded::tests::conformance::SMALL;
use crate::embedded::{EmbeddedShard, ShardOpenError, ShardOptions};
use crate::shard::{Cursor, VoteShard};
use crate::testing::{SeedEntropy, SteppedClock};

fn open(disk: &SimulatedDisk) -> Result<EmbeddedShard, ShardOpenError> {
    open_with(disk, 0)
}

fn open_with(disk: &SimulatedDisk, feed_bytes: u64) -> Result<EmbeddedShard, ShardOpenError> {
    let options = ShardOptions {
        log: SMALL,
        feed_bytes,
        ..ShardOptions::default()
    };
    let disk = Arc::new(disk.clone());
    let clock = Arc::new(SteppedClock::new(START_MS));
    EmbeddedShard::open(
        "shard-1",
        disk,
        options,
        clock,
        Arc::new(SeedEntropy(7.into())),
    )
}

/// A shard with this many checkpoints, and more votes since.
async fn with_checkpoints(seed: u64, checkpoints: u64) -> (SimulatedDisk, EmbeddedShard) {
    // Spread the seed: the disk takes random numbers from all bits.
    let disk = SimulatedDisk::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let shard = open(&disk).unwrap();
    make_owner(&shard, &[poll(1)]).await;
    for round in 0..=checkpoints {
        let name = |n| format!("voter {n} of round {round}");
        let ballots: Vec<_> = (0..5).map(|n| ballot(&poll(1), &name(n), 0, 1)).collect();
        shard.cast(&at_epoch(1), &ballots).await.unwrap();
        if round < checkpoints {
            shard.checkpoint().await.unwrap();
        }
    }
    (disk, shard)
}

/// Asserts that the shard opens and has every vote.
async fn assert_opens(disk: &SimulatedDisk, voters: u64, what: &str) {
    let shard = match open(disk) {
        Ok(shard) => shard,
        Err(error) => panic!("{what}: {error:?}, {:?}", disk.list()),
    };
    let tally = shard.tally(&slice(), poll(1).poll_id).await.unwrap();
    assert_eq!((tally.total(), tally.voters), (voters, voters), "{what}");
    let kept = shard.digests(&slice()).await.unwrap();
    assert_eq!(shard.scrub(&slice()).await.unwrap(), kept, "{what}");
}

/// The fifth checkpoint merges runs, and removes checkpoints and runs.
#[tokio::test]
async fn a_checkpoint_may_be_interrupted_anywhere() {
    for stop_in in 1..40 {
        for seed in 1..17 {
            let checkpoints = [0, 4][(seed % 2) as usize];
            let (disk, shard) = with_checkpoints(seed, checkpoints).await;
            disk.stop_in(stop_in);
            let _ = shard.checkpoint().await;
            let found = disk.after(Crash::PowerLostInTheMiddle);
            drop(shard);
            let what = format!("checkpoint {checkpoints}, change {stop_in}, seed {seed}");
            assert_opens(&found, 5 * (checkpoints + 1), &what).await;
        }
    }
}

#[tokio::test]
async fn opening_may_be_interrupted_anywhere() {
    for stop_in in 1..20 {
        for seed in 1..17 {
            let (disk, shard) = with_checkpoints(seed, 2).await;
            let found = disk.after(Crash::Killed);
            drop(shard);
            found.stop_in(stop_in);
            drop(open(&found));
            let found = found.after(Crash::PowerLostInTheMiddle);
            let what = format!("change {stop_in}, seed {seed}");
            assert_opens(&found, 15, &what).await;
        }
    }
}

/// Opens a shard, adds three votes with a checkpoint after each, and closes it.
async fn restart(disk: &SimulatedDisk, feed_bytes: u64, round: u64) {
    let shard = open_with(disk, feed_bytes).unwrap();
    for n in 0..3 {
        let name = format!("voter {n} of restart {round}");
        let vote = [ballot(&poll(1), &name, 0, 1)];
        shard.cast(&at_epoch(1), &vote).await.unwrap();
        shard.checkpoint().await.unwrap();
    }
}

/// Segments before the checkpoint stay part of the log when it is opened.
#[tokio::test]
async fn the_log_keeps_its_promised_bytes_across_restarts() {
    let (disk, shard) = with_checkpoints(1, 0).await;
    let first = shard.export(&slice(), &Cursor::Start, 1).await.unwrap();
    let Cursor::Snapshot { position, .. } = first.next else {
        panic!("{first:?}");
    };
    drop(shard);
    for round in 0..3 {
        restart(&disk, 1 << 30, round).await;
        let shard = open_with(&disk, 1 << 30).unwrap();
        let followed = Cursor::Changes { position };
        let resumed = shard.export(&slice(), &followed, 1 << 20).await;
        let votes = resumed.unwrap().changes.len() as u64;
        assert_eq!(votes, 3 * (round + 1));
    }
}

/// They are removed when no longer needed.
#[tokio::test]
async fn the_log_s_files_do_not_pile_up_across_restarts() {
    let (disk, shard) = with_checkpoints(1, 0).await;
    drop(shard);
    for round in 0..20 {
        // The last rounds no longer keep them.
        let feed_bytes = if round < 15 { 1 << 30 } else { 0 };
        restart(&disk, feed_bytes, round).await;
    }
    let names = disk.list().unwrap();
    let segments = names.iter().filter(|name| name.ends_with(".seg"));
    assert!(segments.count() < 5, "{names:?}");
}
