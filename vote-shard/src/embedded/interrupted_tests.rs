//! The machine stops in the middle of making a checkpoint, or of opening.

use std::sync::Arc;

use super::conformance_tests::SMALL;
use super::disk::{Crash, Disk as _, SimulatedDisk};
use super::{EmbeddedShard, OpenError, Options};
use crate::conformance::START_MS;
use crate::conformance::words::{at, ballot, owner_of, poll, slice};
use crate::shard::VoteShard;
use crate::testing::{ManualClock, Seed};

fn open(disk: &SimulatedDisk) -> Result<EmbeddedShard, OpenError> {
    let options = Options {
        log: SMALL,
        feed_bytes: 0,
        ..Options::default()
    };
    let disk = Arc::new(disk.clone());
    let clock = Arc::new(ManualClock::at(START_MS));
    EmbeddedShard::open("shard-1", disk, options, clock, Arc::new(Seed(7.into())))
}

/// A shard that has made this many checkpoints, and more votes since.
async fn with_checkpoints(seed: u64, checkpoints: u64) -> (SimulatedDisk, EmbeddedShard) {
    // Spread: the disk draws its chances from all bits.
    let disk = SimulatedDisk::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let shard = open(&disk).unwrap();
    owner_of(&shard, &[poll(1)]).await;
    for round in 0..=checkpoints {
        let name = |n| format!("voter {n} of round {round}");
        let ballots: Vec<_> = (0..5).map(|n| ballot(&poll(1), &name(n), 0, 1)).collect();
        shard.cast(&at(1), &ballots).await.unwrap();
        if round < checkpoints {
            shard.checkpoint().await.unwrap();
        }
    }
    (disk, shard)
}

/// Whatever is found has every vote.
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
