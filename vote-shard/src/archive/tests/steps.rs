//! Backfill, copy, remove, verify.

use std::sync::Arc;

use ballast_domain::Timestamp;
use ballast_domain::poll::{BallotRefusal, Poll};
use ballast_domain::slicing::{ChildSlice, HashRange};
use ballast_domain::tenant::{Epoch, SliceId};

use super::world::{ArchiveWorld, FaultyStore, closed};
use crate::VoteShard as _;
use crate::archive::{
    Archive, ArchiveCopyError, ArchiveDamage, ArchiveError, ArchiveProgress, ArchiveReader,
    CopyTarget, Unthrottled, backfill, copy_file, copy_if_missing, copy_missing_files,
    judge_archived_ballot, remove_files, remove_unreferenced, verify_files,
};
use crate::conformance::SharedShard;
use crate::conformance::builders::*;
use crate::shard::{Cursor, ExportedRow, FencedSlice, MigrationToken, RecutSpec, VoterRow};

/// Later than any file.
pub(super) fn later() -> Timestamp {
    Timestamp::from_unix_ms(i64::MAX)
}

/// A poll's rows in the shard.
pub(super) async fn stored_rows(
    shard: &SharedShard,
    poll: ballast_domain::PollId,
) -> Vec<VoterRow> {
    let (mut rows, mut cursor) = (Vec::new(), Cursor::Start);
    while !matches!(cursor, Cursor::Changes { .. }) {
        let page = shard.export(&slice(), &cursor, 10_000).await.unwrap();
        rows.extend(page.changes.into_iter().filter_map(|change| match change {
            ExportedRow::Voter(row) if row.poll == poll => Some(row),
            _ => None,
        }));
        cursor = page.next;
    }
    rows
}

/// A poll's rows in its file.
pub(super) async fn archived_rows(
    shard: &SharedShard,
    archive: &Archive,
    poll: ballast_domain::PollId,
) -> Vec<VoterRow> {
    let file = shard.archive(&slice(), poll).await.unwrap().unwrap();
    let key = shard.slice_key(&slice()).await.unwrap();
    let reader = ArchiveReader::open(archive, &file, poll).await.unwrap();
    let (mut rows, mut after) = (Vec::new(), None);
    while let Some((last, more)) = reader.rows_after(after, &key).await.unwrap() {
        rows.extend(more);
        after = Some(last);
    }
    rows
}

/// The destination of the slice's files.
pub(super) fn incoming<'a>(
    shard: &'a SharedShard,
    archive: &'a Archive,
    slice: &'a SliceId,
    token: &'a MigrationToken,
) -> CopyTarget<'a> {
    CopyTarget {
        shard: &**shard,
        archive,
        slice,
        token,
    }
}

async fn damages(shard: &SharedShard, archive: &Archive) -> Vec<ArchiveDamage> {
    let found = verify_files(&**shard, archive, &slice(), &mut Unthrottled).await;
    found.unwrap()
}

#[tokio::test]
async fn closed_polls_are_archived_with_all_their_rows() {
    let mut world = ArchiveWorld::voted(1_200).await;
    let shard = world.shard();
    let mut before = Vec::new();
    for poll in closed() {
        let tally = shard.tally(&slice(), poll).await.unwrap();
        before.push((poll, stored_rows(&shard, poll).await, tally));
    }
    let store = Arc::new(FaultyStore::default());
    let archive = store.archive();
    let report = backfill(&*shard, &archive, &at_epoch(1), 1, &mut Unthrottled).await;
    let report = report.unwrap();
    assert_eq!((report.polls, report.rows), (2, 2_400));
    assert!(report.bytes > 0);
    // A second backfill has nothing to do.
    let again = backfill(&*shard, &archive, &at_epoch(1), 1, &mut Unthrottled).await;
    assert_eq!(again.unwrap(), ArchiveProgress::default());
    assert_eq!(store.names().await.len(), 2);
    drop(shard);
    world.crash();
    let shard = world.shard();
    for (poll, rows, tally) in before {
        assert_eq!(rows.len(), 1_200);
        assert_eq!(stored_rows(&shard, poll).await, []);
        assert_eq!(archived_rows(&shard, &archive, poll).await, rows);
        let now = shard.tally(&slice(), poll).await.unwrap();
        assert_eq!((now.counts, now.voters), (tally.counts, tally.voters));
    }
    assert!(damages(&shard, &archive).await.is_empty());
    // The open poll is unchanged.
    assert_eq!(stored_rows(&shard, poll(4).poll_id).await.len(), 1_200);
}

#[tokio::test]
async fn the_rows_leave_the_disk_when_runs_are_merged() {
    let world = ArchiveWorld::voted(2_000).await;
    let shard = world.shard.clone().unwrap();
    shard.checkpoint().await.unwrap();
    let before = shard.usage().await;
    let store = Arc::new(FaultyStore::default());
    let archive = store.archive();
    backfill(&*shard, &archive, &at_epoch(1), 1, &mut Unthrottled)
        .await
        .unwrap();
    // Votes arrive, and the compactor works as usual.
    for round in 0..4 {
        let batch: Vec<_> = (0..2_000)
            .map(|n| ballot(&poll(4), &format!("late-{round}-{n}"), 0, 1))
            .collect();
        for batch in batch.chunks(500) {
            shard.cast(&at_epoch(1), batch).await.unwrap();
        }
        shard.checkpoint().await.unwrap();
    }
    let disk: Arc<dyn crate::embedded::disk::Disk> = Arc::new(world.disk.clone());
    let seen = crate::embedded::inspect::inspect(&disk, true).unwrap();
    assert_eq!(seen.problems, Vec::<String>::new());
    let newest = &seen.checkpoints[0].runs;
    let named = seen.runs.iter().filter(|run| newest.contains(&run.name));
    let rows: u64 = named.map(|run| run.rows).sum();
    assert_eq!(rows, 2_000 + 8_000, "those of the open poll");
    assert_eq!(before.polls_archived, 0);
    let after = shard.usage().await;
    assert_eq!(after.polls_archived, 2);
}

#[tokio::test]
async fn a_late_ballot_is_judged_by_the_file_as_it_was_by_the_shard() {
    let world = ArchiveWorld::voted(30).await;
    let shard = world.shard();
    let polls: [Poll; 2] = [changeable(1), choices(2, 3, true)];
    let mut ballots = Vec::new();
    for poll in &polls {
        for n in [0, 1, 2, 29, 500] {
            let name = format!("voter-{n}");
            for item in 0..3 {
                ballots.push(ballot(poll, &name, item, n));
                ballots.push(ballot(poll, &name, item, 77));
                ballots.push(withdrawal(poll, &name, item, 78));
                ballots.push(demanding(1, ballot(poll, &name, item, 79)));
            }
        }
    }
    let before = shard.cast(&at_epoch(1), &ballots).await.unwrap();
    let store = Arc::new(FaultyStore::default());
    let archive = store.archive();
    backfill(&*shard, &archive, &at_epoch(1), 1, &mut Unthrottled)
        .await
        .unwrap();
    let key = shard.slice_key(&slice()).await.unwrap();
    let verdicts = shard.cast(&at_epoch(1), &ballots).await.unwrap();
    for ((ballot, before), verdict) in ballots.iter().zip(before).zip(verdicts) {
        assert_eq!(verdict, refused(BallotRefusal::Archived));
        let file = shard.archive(&slice(), ballot.poll).await.unwrap().unwrap();
        let poll = shard.poll(&slice(), ballot.poll).await.unwrap();
        let reader = ArchiveReader::open(&archive, &file, ballot.poll)
            .await
            .unwrap();
        let print = key.voter_print(ballot.voter.as_str());
        let row = reader.find(print, &key).await.unwrap();
        assert_eq!(
            judge_archived_ballot(&poll, row.as_ref(), ballot),
            before,
            "{ballot:?}"
        );
    }
}

/// Prepares the import.
async fn prepared(source: &SharedShard, target: &SharedShard) {
    let key = source.slice_key(&slice()).await.unwrap();
    let m = token("m", 1);
    target
        .prepare(&at_epoch(2), &m, key, HashRange::WHOLE)
        .await
        .unwrap();
}

/// Copies the slice's rows without files.
async fn copied(source: &SharedShard, target: &SharedShard) {
    let mut cursor = Cursor::Start;
    while !matches!(cursor, Cursor::Changes { .. }) {
        let page = source.export(&slice(), &cursor, 10_000).await.unwrap();
        let m = token("m", 1);
        target.import(&slice(), &m, &page.changes).await.unwrap();
        cursor = page.next;
    }
}

#[tokio::test]
async fn files_are_copied_before_the_rows_and_removed_after_the_slice() {
    let (one, two) = (ArchiveWorld::voted(300).await, ArchiveWorld::new());
    let (source, target) = (one.shard(), two.shard());
    let (here, there) = (
        Arc::new(FaultyStore::default()),
        Arc::new(FaultyStore::default()),
    );
    let (from, archive) = (here.archive(), there.archive());
    backfill(&*source, &from, &at_epoch(1), 1, &mut Unthrottled)
        .await
        .unwrap();
    prepared(&source, &target).await;
    let (m, slice) = (token("m", 1), slice());
    let to = incoming(&target, &archive, &slice, &m);
    let report = copy_missing_files(&*source, &from, &to, &mut Unthrottled).await;
    assert_eq!(report.unwrap().polls, 2);
    assert_eq!(here.names().await, there.names().await);
    copied(&source, &target).await;
    assert!(damages(&target, &archive).await.is_empty());
    // Existing files are not copied again; damaged ones only on request.
    let names = there.names().await;
    there.corrupt(&names[0], 40).await;
    let report = copy_missing_files(&*source, &from, &to, &mut Unthrottled).await;
    assert_eq!(report.unwrap(), ArchiveProgress::default());
    let damaged = damages(&target, &archive).await;
    assert_eq!(damaged.len(), 1);
    let poll = damaged[0].poll;
    let file = source.archive(&slice, poll).await.unwrap().unwrap();
    assert!(
        !copy_if_missing(&from, &to, &file, poll, &mut Unthrottled)
            .await
            .unwrap()
    );
    copy_file(&from, &to, &file, poll, &mut Unthrottled)
        .await
        .unwrap();
    assert!(damages(&target, &archive).await.is_empty());
    // Nothing is removed while the slice is present or arriving.
    for shard in [&source, &target] {
        let early = remove_files(&**shard, &archive, &slice, HashRange::WHOLE).await;
        assert!(matches!(early, Err(ArchiveError::Shard(_))), "{early:?}");
    }
    assert_eq!(there.names().await, names);
    assert_eq!(target.purge(&at_epoch(2), &m, 9).await.unwrap(), 0);
    assert_eq!(
        remove_files(&*target, &archive, &slice, HashRange::WHOLE)
            .await
            .unwrap(),
        2,
        "it has left"
    );
    // A late worker cannot copy files after the slice is gone.
    let late = copy_if_missing(&from, &to, &file, poll, &mut Unthrottled).await;
    assert!(matches!(late, Err(ArchiveCopyError::Target(_))), "{late:?}");
    assert_eq!(there.names().await, [""; 0]);
}

#[tokio::test]
async fn a_damaged_file_is_reported_and_not_copied() {
    let (world, other) = (ArchiveWorld::voted(300).await, ArchiveWorld::new());
    let (shard, target) = (world.shard(), other.shard());
    let store = Arc::new(FaultyStore::default());
    let archive = store.archive();
    backfill(&*shard, &archive, &at_epoch(1), 1, &mut Unthrottled)
        .await
        .unwrap();
    let names = store.names().await;
    store.corrupt(&names[1], 1_000).await;
    let found = damages(&shard, &archive).await;
    assert_eq!(found.len(), 1);
    assert!(found[0].error.to_string().contains(&names[1]), "{found:?}");
    let there = Arc::new(FaultyStore::default());
    prepared(&shard, &target).await;
    let (m, slice, there_archive) = (token("m", 1), slice(), there.archive());
    let to = incoming(&target, &there_archive, &slice, &m);
    let copied = copy_missing_files(&*shard, &archive, &to, &mut Unthrottled).await;
    let error = copied.unwrap_err();
    assert!(matches!(error, ArchiveCopyError::Source(_)), "{error:?}");
    let error = error.to_string();
    assert!(error.contains(&names[1]), "{error}");
    assert!(!there.names().await.contains(&names[1]));
}

/// A disk that writes wrong bytes is detected before the rows are dropped.
#[tokio::test]
async fn rows_are_replaced_only_by_verified_files() {
    let world = ArchiveWorld::voted(300).await;
    let shard = world.shard();
    let store = Arc::new(FaultyStore::default());
    let archive = store.archive();
    store.set_lying(true);
    let outcome = backfill(&*shard, &archive, &at_epoch(1), 1, &mut Unthrottled).await;
    assert!(
        matches!(outcome, Err(ArchiveError::Damaged { .. })),
        "{outcome:?}"
    );
    assert_eq!(shard.archives(&slice()).await.unwrap(), []);
    assert_eq!(stored_rows(&shard, poll(1).poll_id).await.len(), 300);
    // Nor is the file copied.
    store.set_lying(false);
    backfill(&*shard, &archive, &at_epoch(1), 1, &mut Unthrottled)
        .await
        .unwrap();
    let (there, other) = (Arc::new(FaultyStore::default()), ArchiveWorld::new());
    there.set_lying(true);
    let (target, to) = (other.shard(), there.archive());
    prepared(&shard, &target).await;
    let (m, slice) = (token("m", 1), slice());
    let to = incoming(&target, &to, &slice, &m);
    let copied = copy_missing_files(&*shard, &archive, &to, &mut Unthrottled).await;
    let wrong = matches!(
        copied,
        Err(ArchiveCopyError::Target(ArchiveError::Damaged { .. }))
    );
    assert!(wrong, "{copied:?}");
    let named = |name: &String| !name.ends_with(".new");
    assert!(!there.names().await.iter().any(named));
}

#[tokio::test]
async fn only_unreferenced_files_are_removed_and_only_by_the_owner() {
    use object_store::ObjectStoreExt as _;
    let world = ArchiveWorld::voted(10).await;
    let shard = world.shard();
    let directory = tempfile::tempdir().unwrap();
    let archive = Archive::local(directory.path()).unwrap();
    backfill(&*shard, &archive, &at_epoch(1), 1, &mut Unthrottled)
        .await
        .unwrap();
    let folder = "acme/0/202611";
    let litter = [
        format!("{folder}/{}-9.parquet", poll(1).poll_id),
        format!("{folder}/{}-2.parquet.new", poll(1).poll_id),
    ];
    for path in &litter {
        let path = object_store::path::Path::from(path.as_str());
        archive.store().put(&path, "x".into()).await.unwrap();
    }
    let half = directory.path().join(folder).join("half.parquet.new#1");
    std::fs::write(&half, "x").unwrap();
    let early =
        remove_unreferenced(&*shard, &archive, &at_epoch(1), Timestamp::from_unix_ms(1)).await;
    assert_eq!(early.unwrap(), 0, "they may be about to be named");
    assert!(
        remove_unreferenced(&*shard, &archive, &at_epoch(2), later())
            .await
            .is_err()
    );
    assert_eq!(
        remove_unreferenced(&*shard, &archive, &at_epoch(1), later())
            .await
            .unwrap(),
        3
    );
    assert!(!half.exists());
    assert!(damages(&shard, &archive).await.is_empty());
    let m = token("m", 1);
    shard.seal(&at_epoch(2), &m).await.unwrap();
    shard.retire(&at_epoch(2), &m).await.unwrap();
    assert_eq!(shard.purge(&at_epoch(2), &m, 9).await.unwrap(), 0);
    let removed = remove_files(&*shard, &archive, &slice(), HashRange::WHOLE).await;
    assert_eq!(removed.unwrap(), 2);
    assert!(!directory.path().join("acme").exists());
}

/// The folders name the slice that wrote a file, which may not be the poll's
/// current slice: files stay with their polls.
#[tokio::test]
async fn the_files_of_a_recut_slice_stay_with_their_polls() {
    let world = ArchiveWorld::voted(20).await;
    let shard = world.shard();
    let store = Arc::new(FaultyStore::default());
    let archive = store.archive();
    backfill(&*shard, &archive, &at_epoch(1), 1, &mut Unthrottled)
        .await
        .unwrap();
    let names = store.names().await;
    let hashes = shard.archives(&slice()).await.unwrap();
    let hashes = hashes.iter().map(|row| row.poll.poll_id.hash());
    let middle = hashes.max().unwrap();
    let piece = |slice, hash_from, hash_to| ChildSlice {
        slice,
        hash_from,
        hash_to,
    };
    let children = vec![piece(1, 0, middle - 1), piece(2, middle, u64::MAX)];
    let cut = RecutSpec {
        tenant_id: slice().tenant_id,
        epoch: Epoch(2),
        parents: vec![0],
        children: children.clone(),
    };
    let c = token("c", 1);
    shard.seal(&at_epoch(2), &c).await.unwrap();
    shard.recut(&c, &cut).await.unwrap();
    // Removing the files of the parent leaves them alone.
    let late = remove_files(&*shard, &archive, &slice(), HashRange::WHOLE).await;
    assert_eq!(late.unwrap(), 0);
    assert_eq!(store.names().await, names);
    for child in &children {
        let at_epoch = |epoch| FencedSlice {
            slice: cut.slice(child.slice),
            epoch: Epoch(epoch),
        };
        remove_unreferenced(&*shard, &archive, &at_epoch(2), later())
            .await
            .unwrap();
        let m = token("m", 2);
        shard.seal(&at_epoch(3), &m).await.unwrap();
        shard.retire(&at_epoch(3), &m).await.unwrap();
        assert_eq!(shard.purge(&at_epoch(3), &m, 9).await.unwrap(), 0);
        let left = remove_files(&*shard, &archive, &at_epoch(3).slice, child.range()).await;
        assert_eq!(left.unwrap(), 1, "its own, and no other");
    }
    assert_eq!(store.names().await, [""; 0]);
}
