//! P13: slices are split and merged in one step, and nothing else changes: no
//! row, count, remembered request or digest.

use ballast_domain::PollId;
use ballast_domain::poll::{BallotRefusal, Poll};
use ballast_domain::slicing::{ChildSlice, HashRange, equal_cuts};
use ballast_domain::tenant::{Epoch, SliceId};

use super::builders::*;
use super::snapshot::{SliceSnapshot, digest, poll_row, snapshot};
use super::{ShardFixture, SharedShard, crash, start};
use crate::shard::{
    ArchiveFile, Cursor, Digest, ExportedRow, FencedSlice, Holding, RecutSpec, RowVersion,
    SliceKey, SliceStateError,
};

const VOTERS: [&str; 2] = ["ada", "bob"];
const POLLS: std::ops::RangeInclusive<u64> = 1..=8;

fn part(slice: u32) -> SliceId {
    SliceId {
        slice,
        ..super::builders::slice()
    }
}

fn part_at(slice: u32, epoch: u64) -> FencedSlice {
    FencedSlice {
        slice: part(slice),
        epoch: Epoch(epoch),
    }
}

/// Equal parts, numbered from `first` on.
fn parts(first: u32, into: u32) -> Vec<ChildSlice> {
    let cuts = equal_cuts(into);
    let ends = cuts.iter().skip(1).map(|next| next - 1).chain([u64::MAX]);
    let ranges = cuts.iter().zip(ends);
    (first..)
        .zip(ranges)
        .map(|(slice, (from, to))| ChildSlice {
            slice,
            hash_from: *from,
            hash_to: to,
        })
        .collect()
}

fn cut(epoch: u64, parents: &[u32], children: Vec<ChildSlice>) -> RecutSpec {
    RecutSpec {
        tenant_id: slice().tenant_id,
        epoch: Epoch(epoch),
        parents: parents.to_vec(),
        children,
    }
}

/// Slice 0 is split into 1 and 2, at epoch 2.
fn halves() -> RecutSpec {
    cut(2, &[0], parts(1, 2))
}

/// A poll of the first half, and one of the second.
fn poll_of_each_half() -> (Poll, Poll) {
    let halves = parts(1, 2);
    let find = |half: &ChildSlice| {
        let mut polls = POLLS.map(changeable);
        let found = polls.find(|poll| half.range().contains(poll.poll_id));
        found.expect("eight polls are not all in one half")
    };
    (find(&halves[0]), find(&halves[1]))
}

/// A slice of eight polls with votes: one closed, one with more lanes and
/// imported counts.
async fn world<F: ShardFixture>() -> (F, SharedShard) {
    let polls: Vec<Poll> = POLLS.map(changeable).collect();
    let (fixture, shard) = owner::<F>(&polls).await;
    for poll in &polls {
        for (place, name) in VOTERS.iter().enumerate() {
            let first = ballot(poll, name, place as u16, place as u64);
            assert_eq!(cast(&shard, first).await, counted(1));
        }
        let second = ballot(poll, "ada", 2, 50);
        assert_eq!(cast(&shard, second).await, counted(2));
    }
    let (one, two) = poll_of_each_half();
    shard.close_poll(&at_epoch(1), one.poll_id).await.unwrap();
    shard
        .widen_lanes(&at_epoch(1), two.poll_id, 30)
        .await
        .unwrap();
    let sums = ballast_domain::poll::RequestId(9);
    let now = at_epoch(1);
    let carrying = shard.import_counts(&now, two.poll_id, sums, &[5, 0, 1]);
    carrying.await.unwrap();
    (fixture, shard)
}

/// The joint snapshot of several slices.
async fn together(shard: &SharedShard, slices: &[u32]) -> SliceSnapshot {
    let mut all: Option<SliceSnapshot> = None;
    for number in slices {
        let mut one = snapshot(shard, &part(*number), &VOTERS).await;
        one.fence = None;
        for tally in &mut one.tallies {
            tally.slice = part(0);
        }
        let Some(all) = &mut all else {
            all = Some(one);
            continue;
        };
        all.polls.extend(one.polls);
        all.tallies.extend(one.tallies);
        all.lanes.extend(one.lanes);
        all.rows.extend(one.rows);
        all.digests.extend(one.digests);
        all.digest.polls += one.digest.polls;
        all.digest.rows.merge(&one.digest.rows);
    }
    let mut all = all.expect("there is a slice");
    let lanes = all.tallies.iter().map(|tally| tally.poll).zip(all.lanes);
    let mut lanes: Vec<_> = lanes.collect();
    lanes.sort_unstable();
    all.lanes = lanes.into_iter().map(|(_, lanes)| lanes).collect();
    all.polls.sort_by_key(|poll| poll.poll_id);
    all.tallies.sort_by_key(|tally| tally.poll);
    all.rows.sort_by_key(|row| (row.poll, row.requests.len()));
    all.digests.sort_by_key(|(poll, _)| *poll);
    all
}

async fn holding(shard: &SharedShard, slice: u32) -> Option<(Holding, u64)> {
    let fence = shard.fence(&part(slice)).await.unwrap();
    fence.map(|fence| (fence.holding, fence.epoch.0))
}

/// P13: every poll is in the child that its hash selects, unchanged.
pub async fn a_split_changes_nothing_but_the_slice<F: ShardFixture>() {
    let (fixture, shard) = world::<F>().await;
    let before = together(&shard, &[0]).await;
    let c = token("c", 2);
    shard.seal(&at_epoch(2), &c).await.unwrap();
    shard.recut(&c, &halves()).await.unwrap();
    let (one, two) = poll_of_each_half();
    let mut shard = shard;
    for _ in 0..2 {
        assert_eq!(together(&shard, &[1, 2]).await, before);
        for (number, own) in [(1, &one), (2, &two)] {
            assert_eq!(holding(&shard, number).await, Some((Holding::Owner, 2)));
            let polls = shard.polls(&part(number), None, 100).await.unwrap();
            assert!(polls.iter().any(|poll| poll.poll_id == own.poll_id));
            assert!(polls.len() < before.polls.len());
        }
        assert_eq!(holding(&shard, 0).await, Some((Holding::Gone, 2)));
        assert_eq!(shard.polls(&part(0), None, 100).await.unwrap(), []);
        shard = crash(&fixture, shard).await;
    }
    // Remembered requests still work: a repetition, a change, a poll that the
    // same request created.
    let at = part_at(2, 2);
    let repeated = [ballot(&two, "ada", 2, 50), ballot(&two, "ada", 1, 51)];
    let verdicts = shard.cast(&at, &repeated).await.unwrap();
    assert_eq!(verdicts, [counted(2), counted(3)]);
    let again = Poll {
        poll_id: two.poll_id,
        ..two.clone()
    };
    let made = shard.create_poll(&at, again).await.unwrap();
    assert_eq!(made.poll_id, two.poll_id);
    let closed = [ballot(&one, "cyd", 0, 1)];
    let verdicts = shard.cast(&part_at(1, 2), &closed).await.unwrap();
    assert_eq!(verdicts, [refused(BallotRefusal::Closed)]);
}

/// P13: split slices are merged again, at an epoch above both.
pub async fn a_merge_joins_what_was_split<F: ShardFixture>() {
    let (fixture, shard) = world::<F>().await;
    let before = together(&shard, &[0]).await;
    let (c, d) = (token("c", 2), token("d", 3));
    shard.seal(&at_epoch(2), &c).await.unwrap();
    shard.recut(&c, &cut(2, &[0], parts(1, 4))).await.unwrap();
    for slice in 1..=4 {
        shard.seal(&part_at(slice, 3), &d).await.unwrap();
    }
    let joined = cut(3, &[4, 2, 1, 3], parts(5, 1));
    shard.recut(&d, &joined).await.unwrap();
    let shard = crash(&fixture, shard).await;
    assert_eq!(together(&shard, &[5]).await, before);
    assert_eq!(holding(&shard, 5).await, Some((Holding::Owner, 3)));
    let range = shard.slice_range(&part(5)).await.unwrap();
    assert_eq!(range, HashRange::WHOLE);
    for slice in 0..=4 {
        let (held, _) = holding(&shard, slice).await.unwrap();
        assert_eq!(held, Holding::Gone);
    }
}

/// P4: a repeated recut changes nothing, even if the children have moved since.
pub async fn a_recut_can_be_repeated<F: ShardFixture>() {
    let (_fixture, shard) = world::<F>().await;
    let (c, m) = (token("c", 2), token("m", 9));
    shard.seal(&at_epoch(2), &c).await.unwrap();
    for _ in 0..3 {
        shard.recut(&c, &halves()).await.unwrap();
    }
    let (_, two) = poll_of_each_half();
    let vote = [ballot(&two, "eve", 0, 1)];
    let verdicts = shard.cast(&part_at(2, 2), &vote).await.unwrap();
    assert_eq!(verdicts, [counted(1)]);
    shard.seal(&part_at(2, 7), &m).await.unwrap();
    shard.retire(&part_at(2, 7), &m).await.unwrap();
    let before = together(&shard, &[1, 2]).await;
    shard.recut(&c, &halves()).await.unwrap();
    assert_eq!(together(&shard, &[1, 2]).await, before);
    assert_eq!(holding(&shard, 2).await, Some((Holding::Retired, 7)));
    shard.purge(&part_at(2, 7), &m, 99).await.unwrap();
    shard.recut(&c, &halves()).await.unwrap();
    assert_eq!(holding(&shard, 2).await, Some((Holding::Gone, 7)));
}

/// P4: a recut that is late, or for which nothing was sealed, changes nothing.
pub async fn a_late_recut_is_refused<F: ShardFixture>() {
    let (_fixture, shard) = world::<F>().await;
    let before = together(&shard, &[0]).await;
    let c = token("c", 5);
    let not_sealed = shard.recut(&c, &halves()).await;
    assert_eq!(
        slice_state_error(not_sealed),
        SliceStateError::OtherMigration
    );
    shard.seal(&at_epoch(2), &c).await.unwrap();
    let late = shard.recut(&token("c", 4), &halves()).await;
    assert_eq!(
        slice_state_error(late),
        SliceStateError::StaleToken { highest: 5 }
    );
    let other = shard.recut(&token("d", 6), &halves()).await;
    assert_eq!(slice_state_error(other), SliceStateError::OtherMigration);
    let elsewhen = shard.recut(&c, &cut(3, &[0], parts(1, 2))).await;
    assert!(matches!(
        slice_state_error(elsewhen),
        SliceStateError::WrongHolding { .. }
    ));
    // It was cancelled.
    shard.unseal(&at_epoch(3), &c).await.unwrap();
    let late = shard.recut(&c, &halves()).await;
    assert!(matches!(
        slice_state_error(late),
        SliceStateError::WrongHolding { .. }
    ));
    assert_eq!(together(&shard, &[0]).await, before);
    for child in [1, 2] {
        assert_eq!(holding(&shard, child).await, None);
    }
    let (one, _) = poll_of_each_half();
    let vote = ballot(&one, "ada", 0, 50);
    assert_eq!(cast_at(&shard, 3, vote).await, counted(2), "a repetition");
}

/// P13: only adjacent slices with one origin are merged, and no number is used
/// twice.
pub async fn a_recut_with_mismatched_ranges_is_refused<F: ShardFixture>() {
    let (_fixture, shard) = start::<F>().await;
    let (m, c) = (token("m", 1), token("c", 2));
    let key = |byte| SliceKey::from_bytes([byte; 32]);
    for (piece, key) in parts(1, 4).iter().zip([1, 1, 2, 1].map(key)) {
        let at = part_at(piece.slice, 5);
        shard.prepare(&at, &m, key, piece.range()).await.unwrap();
        shard.activate(&at, &m).await.unwrap();
        let sealing = part_at(piece.slice, 6);
        shard.seal(&sealing, &c).await.unwrap();
    }
    let half = |slice| {
        vec![ChildSlice {
            slice,
            ..parts(1, 2)[0]
        }]
    };
    let ranges = |children| SliceStateError::InvalidRecut(children);
    for (parents, children, why) in [
        (vec![2, 3], half(9), "the parents have different keys"),
        (
            vec![1, 2],
            parts(9, 1),
            "the children do not cover the parents' ranges",
        ),
        (
            vec![1, 4],
            half(9),
            "the children do not cover the parents' ranges",
        ),
        (
            vec![1],
            half(9),
            "the children do not cover the parents' ranges",
        ),
        (vec![1, 2], half(4), "a child's number is already in use"),
        (vec![], half(9), "there are no parents"),
    ] {
        let refused = shard.recut(&c, &cut(6, &parents, children)).await;
        assert_eq!(slice_state_error(refused), ranges(why), "{parents:?}");
    }
    let unknown = shard.recut(&c, &cut(6, &[1, 7], half(9))).await;
    assert_eq!(slice_state_error(unknown), SliceStateError::UnknownSlice);
    shard.recut(&c, &cut(6, &[1, 2], half(9))).await.unwrap();
}

/// P13: a slice accepts only polls in its range.
pub async fn a_poll_must_belong_to_its_slice<F: ShardFixture>() {
    let (fixture, shard) = world::<F>().await;
    let c = token("c", 2);
    shard.seal(&at_epoch(2), &c).await.unwrap();
    shard.recut(&c, &halves()).await.unwrap();
    let shard = crash(&fixture, shard).await;
    let (one, two) = poll_of_each_half();
    let fresh = (100..).map(changeable);
    let first = parts(1, 2)[0].range();
    let mut fresh = fresh.filter(|poll| first.contains(poll.poll_id));
    let fresh = fresh.next().expect("there are many polls");
    let (low, high) = (part_at(1, 2), part_at(2, 2));
    let misplaced = shard.create_poll(&high, fresh.clone()).await;
    assert_eq!(fenced(misplaced), moved(2));
    let both = [ballot(&two, "eve", 0, 1), ballot(&one, "eve", 0, 1)];
    assert_eq!(fenced(shard.cast(&high, &both).await), moved(2));
    let tally = shard.tally(&part(2), two.poll_id).await.unwrap();
    assert_eq!(tally.voters, 2, "nothing of the batch was counted");
    for misplaced in [
        shard.close_poll(&low, two.poll_id).await,
        shard.widen_lanes(&low, two.poll_id, 40).await,
    ] {
        assert_eq!(fenced(misplaced), moved(2));
    }
    shard.create_poll(&low, fresh.clone()).await.unwrap();
    // Imports too.
    let m = token("m", 3);
    let (_second, target) = start::<F>().await;
    let key = shard.slice_key(&part(2)).await.unwrap();
    let range = shard.slice_range(&part(2)).await.unwrap();
    target
        .prepare(&part_at(2, 3), &m, key, range)
        .await
        .unwrap();
    let version = RowVersion {
        epoch: Epoch(2),
        revision: 1,
    };
    let row = ExportedRow::Poll(poll_row(fresh, version));
    let misplaced = target.import(&part(2), &m, &[row]).await;
    assert_eq!(
        slice_state_error(misplaced),
        SliceStateError::PollOutOfRange
    );
}

/// P3: a parent accepts nothing any more, and commands for it are harmless.
pub async fn a_parent_is_gone_for_good<F: ShardFixture>() {
    let (_fixture, shard) = world::<F>().await;
    let c = token("c", 2);
    shard.seal(&at_epoch(2), &c).await.unwrap();
    shard.recut(&c, &halves()).await.unwrap();
    let before = together(&shard, &[1, 2]).await;
    let (_, two) = poll_of_each_half();
    for epoch in [1, 2] {
        let stale = [ballot(&two, "eve", 0, 1)];
        let stale = shard.cast(&at_epoch(epoch), &stale).await;
        assert_eq!(fenced(stale), moved(2));
        let stale = shard.create_poll(&at_epoch(epoch), poll(77)).await;
        assert_eq!(fenced(stale), moved(2));
    }
    for (place, late) in [
        shard.seal(&at_epoch(3), &c).await,
        shard.unseal(&at_epoch(3), &c).await,
        shard.activate(&at_epoch(3), &c).await,
        shard.retire(&at_epoch(2), &c).await,
    ]
    .into_iter()
    .enumerate()
    {
        assert!(
            matches!(
                slice_state_error(late),
                SliceStateError::WrongHolding { .. }
            ),
            "{place}"
        );
    }
    shard.adopt(&at_epoch(1)).await.unwrap();
    for number in [2, 9] {
        let purged = shard.purge(&at_epoch(2), &token("c", number), 99).await;
        assert_eq!(purged.unwrap(), 0);
    }
    assert_eq!(holding(&shard, 0).await, Some((Holding::Gone, 2)));
    assert_eq!(together(&shard, &[1, 2]).await, before);
}

async fn copied(
    from: &SharedShard,
    to: &SharedShard,
    slice: &SliceId,
    token: &crate::shard::MigrationToken,
) {
    let mut cursor = Cursor::Start;
    loop {
        let page = from.export(slice, &cursor, 1_000).await.unwrap();
        to.import(slice, token, &page.changes).await.unwrap();
        cursor = page.next;
        if page.caught_up {
            return;
        }
    }
}

/// P9: a child moves like any slice, with everything written before and after
/// the recut.
pub async fn a_child_moves_like_any_slice<F: ShardFixture>() {
    let (_one, shard) = world::<F>().await;
    let c = token("c", 2);
    shard.seal(&at_epoch(2), &c).await.unwrap();
    shard.recut(&c, &halves()).await.unwrap();
    let (_, two) = poll_of_each_half();
    let vote = [ballot(&two, "eve", 0, 1)];
    shard.cast(&part_at(2, 2), &vote).await.unwrap();
    let (_two, target) = start::<F>().await;
    let m = token("m", 3);
    let key = shard.slice_key(&part(2)).await.unwrap();
    let range = shard.slice_range(&part(2)).await.unwrap();
    assert_eq!(range, parts(1, 2)[1].range());
    target
        .prepare(&part_at(2, 3), &m, key, range)
        .await
        .unwrap();
    shard.seal(&part_at(2, 4), &m).await.unwrap();
    copied(&shard, &target, &part(2), &m).await;
    target.activate(&part_at(2, 4), &m).await.unwrap();
    let (mut here, mut there) = (
        shard.digests(&part(2)).await.unwrap(),
        target.digests(&part(2)).await.unwrap(),
    );
    here.sort_by_key(|(poll, _)| *poll);
    there.sort_by_key(|(poll, _)| *poll);
    assert_eq!(here, there);
    assert_eq!(target.scrub(&part(2)).await.unwrap(), there);
    assert_eq!(target.slice_range(&part(2)).await.unwrap(), range);
    let repeated = target.cast(&part_at(2, 4), &vote).await.unwrap();
    assert_eq!(repeated, [counted(1)]);
    // A follower of the parent gets nothing, and nothing wrong.
    let page = shard.export(&part(0), &Cursor::Start, 1_000).await.unwrap();
    assert_eq!(page.changes, []);
}

/// A follower of the shard's counts learns which slice they belong to now.
pub async fn a_recut_publishes_the_counts_again<F: ShardFixture>() {
    let (_fixture, shard) = world::<F>().await;
    let (seen, _) = shard.tallies_since(0).await.unwrap();
    let c = token("c", 2);
    shard.seal(&at_epoch(2), &c).await.unwrap();
    shard.recut(&c, &halves()).await.unwrap();
    let (mark, mut answer) = shard.tallies_since(seen).await.unwrap();
    assert!(mark > seen);
    answer.sort_by_key(|tally| tally.poll);
    let polls: Vec<PollId> = answer.iter().map(|tally| tally.poll).collect();
    let all: Vec<PollId> = POLLS.map(|number| poll(number).poll_id).collect();
    assert_eq!(polls, all);
    for tally in answer {
        let own = parts(1, 2).into_iter();
        let mut own = own.filter(|child| child.range().contains(tally.poll));
        assert_eq!(tally.slice, part(own.next().unwrap().slice));
    }
}

/// P12: an archived poll keeps its file.
pub async fn an_archived_poll_keeps_its_file<F: ShardFixture>() {
    let (fixture, shard) = world::<F>().await;
    let (one, _) = poll_of_each_half();
    let whole = digest(&shard, &slice(), one.poll_id).await;
    let rows = rows_digest(&shard, &one, whole).await;
    let file = ArchiveFile {
        path: format!("acme/0/202611/{}-1.parquet", one.poll_id),
        generation: 1,
        digest: rows,
        bytes: 1_000,
        tail_bytes: 100,
        checksum: "00".repeat(32),
    };
    let now = at_epoch(1);
    let archiving = shard.archive_poll(&now, one.poll_id, file.clone());
    archiving.await.unwrap();
    let before = shard.tally(&slice(), one.poll_id).await.unwrap();
    let c = token("c", 2);
    shard.seal(&at_epoch(2), &c).await.unwrap();
    shard.recut(&c, &halves()).await.unwrap();
    let shard = crash(&fixture, shard).await;
    let found = shard.archive(&part(1), one.poll_id).await.unwrap();
    assert_eq!(found, Some(file));
    assert_eq!(shard.archives(&part(1)).await.unwrap().len(), 1);
    let after = shard.tally(&part(1), one.poll_id).await.unwrap();
    assert_eq!((after.counts, after.voters), (before.counts, before.voters));
}

/// The digest of a poll's rows alone.
async fn rows_digest(shard: &SharedShard, poll: &Poll, whole: Digest) -> Digest {
    let key = shard.slice_key(&slice()).await.unwrap();
    let mut rows = Digest::default();
    for row in super::snapshot::rows(shard, &slice(), poll.poll_id, &VOTERS).await {
        let print = key.voter_print(match &row.voter {
            crate::shard::VoterName::Named(name) => name.as_str(),
            crate::shard::VoterName::Erased(_) => panic!("no voter was erased"),
        });
        rows.add(key.hash_row(row.poll, print, &row.items, row.version));
    }
    assert_ne!(rows, whole);
    rows
}
