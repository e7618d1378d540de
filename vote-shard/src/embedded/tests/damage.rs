//! Stored data gets damaged under a running shard: the damage is attributed to
//! its polls, everything else works, and copying again repairs it.

use std::sync::Arc;

use ballast_domain::poll::{
    Ballot, BallotOutcome, ItemSpec, Poll, PollOptions, PollSpec, RequestId, VoteChoice,
};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, Timestamp, VoterId};

use crate::embedded::disk::{Disk, SimulatedDisk};
use crate::embedded::{EmbeddedShard, ShardOptions};
use crate::shard::{Cursor, FencedSlice, MigrationId, MigrationToken, ShardError, VoteShard};
use crate::testing::{SeedEntropy, SteppedClock};

fn open(disk: &SimulatedDisk) -> EmbeddedShard {
    let mut options = ShardOptions {
        checkpoint_bytes: 1 << 40,
        // The log is removed as early as possible.
        feed_bytes: 0,
        ..ShardOptions::default()
    };
    options.log.segment_bytes = 8 << 10;
    options.log.first_segment_bytes = 4 << 10;
    EmbeddedShard::open(
        "shard-1",
        Arc::new(disk.clone()),
        options,
        Arc::new(SteppedClock::new(1_000)),
        Arc::new(SeedEntropy(7.into())),
    )
    .unwrap()
}

fn at_epoch(epoch: u64) -> FencedSlice {
    FencedSlice {
        slice: SliceId {
            tenant_id: "acme".parse().unwrap(),
            slice: 0,
        },
        epoch: Epoch(epoch),
    }
}

fn token() -> MigrationToken {
    MigrationToken {
        migration_id: MigrationId("m-1".to_owned()),
        token: 1,
    }
}

fn poll(number: u128) -> Poll {
    let items = ["one", "two"].map(|name| ItemSpec {
        item_name: name.to_owned(),
        description: None,
    });
    Poll {
        poll_id: PollId::from_number(number),
        request: RequestId(number as u64),
        spec: PollSpec {
            title: None,
            items: items.to_vec(),
            opening_time: None,
            expiration_time: Timestamp::from_unix_ms(9_000),
            expected_voters: None,
            options: PollOptions::default(),
        },
        created_at: Timestamp::from_unix_ms(0),
        closed_at: None,
    }
}

async fn vote(shard: &EmbeddedShard, number: u128, voters: std::ops::Range<u64>) {
    let (poll, now) = (poll(number), Timestamp::from_unix_ms(1_000));
    let ballots: Vec<_> = voters
        .map(|n| Ballot {
            poll: poll.poll_id,
            item: poll.item_id(0),
            voter: VoterId::new(&format!("voter-{n}")).unwrap(),
            choice: VoteChoice::For,
            request: RequestId(n),
            arrived_at: now,
            if_revision: None,
        })
        .collect();
    for verdict in shard.cast(&at_epoch(1), &ballots).await.unwrap() {
        assert_eq!(verdict, BallotOutcome::Counted { revision: 1 });
    }
}

/// A shard with two polls; the first has rows in many blocks.
async fn source() -> EmbeddedShard {
    let shard = open(&SimulatedDisk::new(1));
    shard.adopt(&at_epoch(1)).await.unwrap();
    for (number, voters) in [(5, 3_000), (6, 50)] {
        shard.create_poll(&at_epoch(1), poll(number)).await.unwrap();
        vote(&shard, number, 0..voters).await;
    }
    shard
}

async fn copy(source: &EmbeddedShard, target: &EmbeddedShard) {
    let slice = at_epoch(1).slice;
    let mut cursor = Cursor::Start;
    loop {
        let page = source.export(&slice, &cursor, 1 << 16).await.unwrap();
        target
            .import(&slice, &token(), &page.changes)
            .await
            .unwrap();
        cursor = page.next;
        if page.caught_up {
            return;
        }
    }
}

/// A copy of the slice, with its rows in runs.
async fn target(source: &EmbeddedShard, disk: &SimulatedDisk) -> EmbeddedShard {
    let (slice, shard) = (at_epoch(1).slice, open(disk));
    let key = source.slice_key(&slice).await.unwrap();
    shard
        .prepare(&at_epoch(2), &token(), key, HashRange::WHOLE)
        .await
        .unwrap();
    copy(source, &shard).await;
    shard.checkpoint().await.unwrap();
    shard
}

fn the_run(disk: &SimulatedDisk) -> String {
    let names = disk.list().unwrap().into_iter();
    let mut runs = names.filter(|name| crate::embedded::runs::id_in(name).is_some());
    runs.next().unwrap()
}

/// The polls whose stored rows differ from the written ones.
async fn wrong(shard: &EmbeddedShard) -> Vec<PollId> {
    let slice = at_epoch(1).slice;
    let stored = shard.scrub(&slice).await.unwrap();
    let kept = shard.digests(&slice).await.unwrap();
    let unequal = stored.iter().zip(&kept).filter(|(one, two)| one != two);
    unequal.map(|((poll, _), _)| *poll).collect()
}

#[tokio::test]
async fn a_damaged_block_affects_only_its_polls_and_copying_again_repairs_it() {
    let (source, disk) = (source().await, SimulatedDisk::new(2));
    let shard = target(&source, &disk).await;
    assert_eq!(wrong(&shard).await, []);
    disk.flip(&the_run(&disk), 5_000);
    assert_eq!(wrong(&shard).await, [poll(5).poll_id]);
    let slice = at_epoch(1).slice;
    let cursor = Cursor::Snapshot {
        position: shard.export_position().await.unwrap(),
        after: None,
    };
    let read = shard.export(&slice, &cursor, 1 << 20).await;
    assert!(matches!(read, Err(ShardError::Damaged { .. })), "{read:?}");

    shard
        .discard_poll(&at_epoch(2), &token(), poll(5).poll_id)
        .await
        .unwrap();
    copy(&source, &shard).await;
    assert_eq!(wrong(&shard).await, []);
    let cursor = Cursor::Snapshot {
        position: shard.export_position().await.unwrap(),
        after: None,
    };
    let read = shard.export(&slice, &cursor, 1 << 22).await.unwrap();
    assert!(read.changes.len() >= 3_050);
    // Opening skips the damaged block.
    drop(shard);
    let shard = open(&disk);
    assert_eq!(wrong(&shard).await, []);
    // Runs are merged, and the damage is gone.
    for _ in 0..5 {
        shard
            .discard_poll(&at_epoch(2), &token(), poll(5).poll_id)
            .await
            .unwrap();
        copy(&source, &shard).await;
        shard.checkpoint().await.unwrap();
    }
    assert_eq!(wrong(&shard).await, []);
    drop(shard);
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let seen = crate::embedded::inspect::inspect(&disk, true).unwrap();
    assert_eq!(seen.problems, [""; 0]);
}

/// The last block of a run is damaged, and later rows are looked up behind it:
/// they are not in the run, and the index shows that.
#[tokio::test]
async fn damage_at_the_end_of_a_run_does_not_block_new_rows() {
    let (source, disk) = (source().await, SimulatedDisk::new(2));
    let shard = target(&source, &disk).await;
    let run = the_run(&disk);
    let bytes = usize::try_from(disk.open(&run).unwrap().bytes().unwrap()).unwrap();
    // Before the index and the footer.
    disk.flip(&run, bytes - 600);
    let found = wrong(&shard).await;
    assert!(found.contains(&poll(6).poll_id), "{found:?}");
    for poll in found {
        shard
            .discard_poll(&at_epoch(2), &token(), poll)
            .await
            .unwrap();
    }
    copy(&source, &shard).await;
    assert_eq!(wrong(&shard).await, []);
}

/// A damaged run is not merged, votes and checkpoints continue, and the files
/// that can restore its rows stay until the next start.
#[tokio::test]
async fn a_restart_repairs_damage_from_the_log() {
    let disk = SimulatedDisk::new(3);
    let shard = open(&disk);
    shard.adopt(&at_epoch(1)).await.unwrap();
    shard.create_poll(&at_epoch(1), poll(5)).await.unwrap();
    vote(&shard, 5, 0..10).await;
    shard.checkpoint().await.unwrap();
    disk.flip(&the_run(&disk), 100);
    assert_eq!(wrong(&shard).await, [poll(5).poll_id]);
    for round in 1..12_u64 {
        vote(&shard, 5, round * 200..round * 200 + 200).await;
        shard.checkpoint().await.unwrap();
    }
    assert_eq!(wrong(&shard).await, [poll(5).poll_id]);
    let votes = async |shard: &EmbeddedShard| {
        let tally = shard.tally(&at_epoch(1).slice, poll(5).poll_id).await;
        tally.unwrap().counts
    };
    assert_eq!(votes(&shard).await, [2_210, 0]);
    drop(shard);
    let shard = open(&disk);
    assert_eq!(wrong(&shard).await, []);
    assert_eq!(votes(&shard).await, [2_210, 0]);
}

/// A damaged log is reported as damage, not as an unavailable shard.
#[tokio::test]
async fn a_damaged_log_is_reported_as_damage() {
    let disk = SimulatedDisk::new(4);
    let shard = open(&disk);
    shard.adopt(&at_epoch(1)).await.unwrap();
    shard.create_poll(&at_epoch(1), poll(5)).await.unwrap();
    for round in 0..5_u64 {
        vote(&shard, 5, round * 10..round * 10 + 10).await;
    }
    let names = disk.list().unwrap();
    let log = names.iter().find(|name| name.ends_with(".seg")).unwrap();
    disk.flip(log, 1_500);
    let slice = at_epoch(1).slice;
    for read in [
        shard.scrub(&slice).await.map(drop),
        shard
            .export(&slice, &Cursor::Changes { position: 0 }, 1 << 20)
            .await
            .map(drop),
    ] {
        assert!(matches!(read, Err(ShardError::Damaged { .. })), "{read:?}");
    }
}
