//! The cost and the completeness of exports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::Epoch;
use ballast_domain::{Timestamp, VoterId};

use crate::conformance::START_MS;
use crate::conformance::builders::{
    at_epoch, ballot, changeable, counted, make_owner, poll, slice,
};
use crate::embedded::disk::SimulatedDisk;
use crate::embedded::disk::watched::{Touch, WatchedDisk};
use crate::embedded::tests::conformance::SMALL;
use crate::embedded::{EmbeddedShard, ShardOptions};
use crate::shard::{
    Cursor, ExportedRow, MigrationId, MigrationToken, RowVersion, VoteShard, VoterName,
};
use crate::testing::{SeedEntropy, SteppedClock};

/// A shard that owns the slice with two polls, and a counter of created
/// checkpoints and runs.
async fn shard(checkpoint_bytes: u64) -> (EmbeddedShard, Arc<AtomicU32>) {
    let made = Arc::new(AtomicU32::new(0));
    let count = made.clone();
    let touch = move |touch, name: &str| {
        let is_compaction = name.starts_with("checkpoint") || name.starts_with("rows");
        if touch == Touch::Create && is_compaction {
            count.fetch_add(1, Ordering::AcqRel);
        }
    };
    let disk = Arc::new(WatchedDisk(SimulatedDisk::new(1), Arc::new(touch)));
    let options = ShardOptions {
        log: SMALL,
        checkpoint_bytes,
        feed_bytes: 0,
        ..ShardOptions::default()
    };
    let clock = Arc::new(SteppedClock::new(START_MS));
    let entropy = Arc::new(SeedEntropy(7.into()));
    let shard = EmbeddedShard::open("shard-1", disk, options, clock, entropy).unwrap();
    make_owner(&shard, &[changeable(1), poll(2)]).await;
    (shard, made)
}

/// Casts a vote that makes this revision.
async fn vote(shard: &EmbeddedShard, name: &str, item: u16, revision: u32) {
    let vote = ballot(&changeable(1), name, item, revision.into());
    let answer = shard.cast(&at_epoch(1), &[vote]).await.unwrap();
    assert_eq!(answer, [counted(revision)]);
}

/// The rows at the time of the request: who chose what, each voter once.
async fn export(shard: &EmbeddedShard, bytes: usize) -> BTreeMap<String, (Vec<u16>, u32)> {
    let mut rows = BTreeMap::new();
    let mut cursor = Cursor::Start;
    while !matches!(cursor, Cursor::Changes { .. }) {
        let page = shard.export(&slice(), &cursor, bytes).await.unwrap();
        for change in page.changes {
            if let ExportedRow::Voter(row) = change
                && let VoterName::Named(name) = row.voter
            {
                let of_voter = (row.items, row.version.revision);
                let known = rows.insert(name.as_str().to_owned(), of_voter);
                assert_eq!(known, None, "{name:?} twice");
            }
        }
        cursor = page.next;
    }
    rows
}

#[tokio::test]
async fn exports_make_no_checkpoints_and_lack_nothing() {
    let (shard, made) = shard(1 << 30).await;
    let mut expected = BTreeMap::new();
    for n in 0..10 {
        let name = format!("early {n}");
        vote(&shard, &name, 0, 1).await;
        expected.insert(name, (vec![0], 1));
    }
    shard.checkpoint().await.unwrap();
    let before = made.load(Ordering::Acquire);
    for n in 0..10 {
        // A new voter, and one who changes their vote.
        let (new, early) = (format!("late {n}"), format!("early {n}"));
        vote(&shard, &new, 1, 1).await;
        vote(&shard, &early, 2, 2).await;
        expected.insert(new, (vec![1], 1));
        expected.insert(early, (vec![2], 2));
        for bytes in [1, 1_000, 1 << 20] {
            assert_eq!(export(&shard, bytes).await, expected);
        }
    }
    assert_eq!(made.load(Ordering::Acquire), before);
}

/// The tail may have forty thousand rows: an export reads it once, not once per
/// page.
#[tokio::test]
async fn the_pages_of_an_export_share_what_was_read_of_the_log() {
    let opened = Arc::new(AtomicU32::new(0));
    let count = opened.clone();
    let touch = move |touch, name: &str| {
        if touch == Touch::Open && name.starts_with("log") {
            count.fetch_add(1, Ordering::AcqRel);
        }
    };
    let disk = WatchedDisk(SimulatedDisk::new(1), Arc::new(touch));
    let clock = Arc::new(SteppedClock::new(START_MS));
    let entropy = Arc::new(SeedEntropy(7.into()));
    let options = ShardOptions::default();
    let shard = EmbeddedShard::open("shard-1", Arc::new(disk), options, clock, entropy).unwrap();
    make_owner(&shard, &[changeable(1), poll(2)]).await;
    for n in 0..20 {
        vote(&shard, &format!("voter {n}"), 0, 1).await;
    }
    let before = opened.load(Ordering::Acquire);
    assert_eq!(export(&shard, 1).await.len(), 20);
    assert_eq!(opened.load(Ordering::Acquire), before + 1);
    // Another export, and one after the slice's polls have changed.
    vote(&shard, "late", 0, 1).await;
    assert_eq!(export(&shard, 1).await.len(), 21);
    shard.create_poll(&at_epoch(1), poll(3)).await.unwrap();
    assert_eq!(export(&shard, 1).await.len(), 21);
    assert_eq!(opened.load(Ordering::Acquire), before + 3);
}

#[tokio::test]
async fn an_export_is_whole_though_checkpoints_are_made_meanwhile() {
    let (shard, _) = shard(1 << 30).await;
    for n in 0..10 {
        vote(&shard, &format!("voter {n}"), 0, 1).await;
    }
    let mut names = Vec::new();
    let mut cursor = Cursor::Start;
    for round in 0.. {
        let page = shard.export(&slice(), &cursor, 1).await.unwrap();
        names.extend(page.changes.iter().filter_map(|change| match change {
            ExportedRow::Voter(row) => Some(row.voter.clone()),
            ExportedRow::Poll(_) => None,
        }));
        cursor = page.next;
        if matches!(cursor, Cursor::Changes { .. }) {
            break;
        }
        // Two checkpoints: the log is removed up to the first.
        for checkpoint in 0..2 {
            vote(&shard, &format!("late {round} {checkpoint}"), 1, 1).await;
            shard.checkpoint().await.unwrap();
        }
    }
    let all = (0..10).map(|n| format!("voter {n}"));
    let missing: Vec<_> = all
        .filter(|name| {
            let is =
                |known: &VoterName| matches!(known, VoterName::Named(id) if id.as_str() == name);
            names.iter().filter(|known| is(known)).count() != 1
        })
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[tokio::test]
async fn exports_at_once_share_a_checkpoint_and_the_next_needs_none() {
    // An export reads at most 1 KiB of the log.
    let (shard, made) = shard(16 << 10).await;
    for n in 0..50 {
        vote(&shard, &format!("voter {n}"), 0, 1).await;
    }
    let before = made.load(Ordering::Acquire);
    let shard = Arc::new(shard);
    let mut exports = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let shard = shard.clone();
        exports.spawn(async move { export(&shard, 1 << 20).await });
    }
    for rows in exports.join_all().await {
        assert_eq!(rows.len(), 50);
    }
    // A run and a checkpoint.
    assert_eq!(made.load(Ordering::Acquire), before + 2);
    vote(&shard, "late", 0, 1).await;
    assert_eq!(export(&shard, 1 << 20).await.len(), 51);
    assert_eq!(made.load(Ordering::Acquire), before + 2);
}

/// All rows of the slice.
async fn everything(shard: &EmbeddedShard) -> Vec<ExportedRow> {
    let (mut all, mut cursor) = (Vec::new(), Cursor::Start);
    loop {
        let page = shard.export(&slice(), &cursor, 1 << 20).await.unwrap();
        all.extend(page.changes);
        if page.caught_up {
            return all;
        }
        cursor = page.next;
    }
}

/// The way back of a migration: the copy that stayed gets everything again,
/// also the rows of closed polls, which are evicted from memory.
#[tokio::test]
async fn rows_of_closed_polls_that_come_back_count_once() {
    let (shard, _) = shard(1 << 30).await;
    for n in 0..5 {
        vote(&shard, &format!("voter {n}"), 0, 1).await;
    }
    let id = changeable(1).poll_id;
    shard.close_poll(&at_epoch(1), id).await.unwrap();
    shard.checkpoint().await.unwrap();
    assert_eq!(shard.usage().await.voters_in_memory, 0);
    let token = |name: &str, token| MigrationToken {
        migration_id: MigrationId(name.to_owned()),
        token,
    };
    let (away, back) = (token("away", 1), token("back", 2));
    shard.seal(&at_epoch(2), &away).await.unwrap();
    let changes = everything(&shard).await;
    let digests = shard.digests(&slice()).await.unwrap();
    let tally = shard.tally(&slice(), id).await.unwrap().counts;
    shard.retire(&at_epoch(2), &away).await.unwrap();
    let key = shard.slice_key(&slice()).await.unwrap();
    shard
        .prepare(&at_epoch(3), &back, key, HashRange::WHOLE)
        .await
        .unwrap();
    for _ in 0..2 {
        shard.import(&slice(), &back, &changes).await.unwrap();
        assert_eq!(shard.digests(&slice()).await.unwrap(), digests);
        assert_eq!(shard.tally(&slice(), id).await.unwrap().counts, tally);
        assert_eq!(shard.scrub(&slice()).await.unwrap(), digests);
    }
}

/// Rows that stream back to the retired side: a poll that was closed elsewhere,
/// and a later row of it, with a checkpoint in between.
#[tokio::test]
async fn rows_that_stream_back_after_closing_are_counted() {
    let (shard, _) = shard(1 << 30).await;
    vote(&shard, "early", 0, 1).await;
    let token = MigrationToken {
        migration_id: MigrationId("away".to_owned()),
        token: 1,
    };
    shard.seal(&at_epoch(2), &token).await.unwrap();
    let changes = everything(&shard).await;
    shard.retire(&at_epoch(2), &token).await.unwrap();
    let version = RowVersion {
        epoch: Epoch(2),
        revision: 1,
    };
    let mut streamed_back = Vec::new();
    for change in changes {
        match change {
            ExportedRow::Poll(mut row) if row.poll.poll_id == changeable(1).poll_id => {
                row.version = version;
                row.poll.closed_at = Some(Timestamp::from_unix_ms(START_MS));
                streamed_back.push(ExportedRow::Poll(row));
            }
            ExportedRow::Voter(mut row) => {
                row.voter = VoterName::Named(VoterId::new("late").unwrap());
                row.version = version;
                streamed_back.push(ExportedRow::Voter(row));
            }
            ExportedRow::Poll(_) => {}
        }
    }
    for change in streamed_back {
        shard.import(&slice(), &token, &[change]).await.unwrap();
        shard.checkpoint().await.unwrap();
    }
    let tally = shard.tally(&slice(), changeable(1).poll_id).await.unwrap();
    assert_eq!((tally.voters, tally.counts[0]), (2, 2));
    assert_eq!(
        shard.scrub(&slice()).await.unwrap(),
        shard.digests(&slice()).await.unwrap()
    );
}

/// A poll may be created between reading the slice's list and reading the log:
/// its rows must neither come without it nor be skipped.
#[tokio::test]
async fn a_poll_that_is_made_meanwhile_comes_before_its_rows() {
    let (shard, _) = shard(1 << 20).await;
    let store = shard.shared.store();
    let until = store.log.durable();
    let subject = shard.read(|core| core.subject(&slice())).await.unwrap();
    let late = poll(77);
    shard.create_poll(&at_epoch(1), late.clone()).await.unwrap();
    let cast = [ballot(&late, "somebody", 0, 1)];
    shard.cast(&at_epoch(1), &cast).await.unwrap();
    let page =
        crate::embedded::export::changes_page(&subject, &store, until, until, usize::MAX).unwrap();
    let next = Cursor::Changes { position: until };
    assert_eq!((page.changes.len(), &page.next), (0, &next));
    assert!(page.caught_up);
    let page = shard.export(&slice(), &next, usize::MAX).await.unwrap();
    let is_its_poll = |change: &ExportedRow| matches!(change, ExportedRow::Poll(row) if row.poll.poll_id == late.poll_id);
    assert!(page.changes.first().is_some_and(is_its_poll), "{page:?}");
    assert!(
        page.changes
            .iter()
            .any(|change| matches!(change, ExportedRow::Voter(_)))
    );
}
