//! P9, P15: an exported and imported slice equals its source, however the
//! export was interrupted, and the stored rows match the maintained digests.

use ballast_domain::poll::Poll;
use ballast_domain::slicing::HashRange;

use super::builders::*;
use super::snapshot::{SliceSnapshot, snapshot};
use super::{ShardFixture, SharedShard, crash, reopen, start};
use crate::shard::{Cursor, ExportPage, ExportedRow, ShardError};

fn names(count: u64) -> Vec<String> {
    (0..count).map(|n| format!("v{n}")).collect()
}

/// Casts votes of these voters in every poll, some changed.
async fn vote(shard: &SharedShard, polls: &[Poll], voters: std::ops::Range<u64>) {
    for poll in polls {
        let ballots: Vec<_> = voters
            .clone()
            .flat_map(|n| {
                let name = format!("v{n}");
                let first = ballot(poll, &name, (n % 3) as u16, n);
                let second = ballot(poll, &name, (n % 2) as u16, 1_000 + n);
                [first, second]
            })
            .collect();
        shard.cast(&at_epoch(1), &ballots).await.unwrap();
    }
}

/// Everything except the fence and the distribution over lanes.
async fn contents(shard: &SharedShard, voters: u64) -> SliceSnapshot {
    let names = names(voters);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut seen = snapshot(shard, &slice(), &names).await;
    seen.fence = None;
    seen.lanes.clear();
    seen
}

/// A shard that is prepared to import the slice of `source`.
async fn target<F: ShardFixture>(source: &SharedShard) -> (F, SharedShard) {
    let (fixture, shard) = start::<F>().await;
    let key = source.slice_key(&slice()).await.unwrap();
    shard
        .prepare(&at_epoch(2), &token("m", 1), key, HashRange::WHOLE)
        .await
        .unwrap();
    (fixture, shard)
}

async fn import(target: &SharedShard, changes: &[ExportedRow]) {
    let imported = target.import(&slice(), &token("m", 1), changes).await;
    imported.unwrap();
}

/// Copies page by page until nothing is left; returns the cursor.
async fn copy(
    source: &SharedShard,
    target: &SharedShard,
    mut cursor: Cursor,
    bytes: usize,
) -> Cursor {
    loop {
        let ExportPage {
            changes,
            next,
            caught_up,
        } = source.export(&slice(), &cursor, bytes).await.unwrap();
        import(target, &changes).await;
        cursor = next;
        if caught_up {
            return cursor;
        }
    }
}

/// P9, P15: a sealed slice is exported completely, in pages of any size: rows,
/// counts, digests and remembered requests equal the source's.
pub async fn an_export_is_the_same_slice_elsewhere<F: ShardFixture>() {
    let polls = [changeable(1), choices(2, 2, false), poll(3)];
    let (_one, source) = owner::<F>(&polls).await;
    vote(&source, &polls, 0..30).await;
    cast(&source, withdrawal(&polls[0], "v3", 1, 5_000)).await;
    source
        .close_poll(&at_epoch(1), polls[2].poll_id)
        .await
        .unwrap();
    source
        .widen_lanes(&at_epoch(1), polls[1].poll_id, 40)
        .await
        .unwrap();
    source.seal(&at_epoch(2), &token("m", 1)).await.unwrap();
    let expected = contents(&source, 30).await;
    for bytes in [1, 500, 1 << 20] {
        let (_two, target) = target::<F>(&source).await;
        copy(&source, &target, Cursor::Start, bytes).await;
        assert_eq!(contents(&target, 30).await, expected, "pages of {bytes}");
        target.activate(&at_epoch(2), &token("m", 1)).await.unwrap();
        let again = ballot(&polls[2], "v7", 1, 7);
        assert_eq!(cast_at(&target, 2, again).await, counted(1));
    }
}

/// P9: an export eventually includes changes that happen during it.
pub async fn an_export_follows_the_changes<F: ShardFixture>() {
    let mut polls = vec![changeable(1), poll(2)];
    let (_one, source) = owner::<F>(&polls).await;
    vote(&source, &polls, 0..20).await;
    let (_two, target) = target::<F>(&source).await;
    let mut cursor = Cursor::Start;
    for round in 0..10 {
        let page = source.export(&slice(), &cursor, 400).await.unwrap();
        import(&target, &page.changes).await;
        cursor = page.next;
        vote(&source, &polls, round * 5..round * 5 + 8).await;
        if round == 3 {
            let late = poll(3);
            source
                .create_poll(&at_epoch(1), late.clone())
                .await
                .unwrap();
            polls.push(late);
            source
                .close_poll(&at_epoch(1), poll(2).poll_id)
                .await
                .unwrap();
        }
        if round == 5 {
            let id = polls[0].poll_id;
            source.widen_lanes(&at_epoch(1), id, 50).await.unwrap();
        }
        if round == 7 {
            let id = polls[0].poll_id;
            source.narrow_lanes(&at_epoch(1), id, 4).await.unwrap();
        }
    }
    source.seal(&at_epoch(2), &token("m", 1)).await.unwrap();
    let last = copy(&source, &target, cursor, 400).await;
    assert_eq!(contents(&target, 60).await, contents(&source, 60).await);
    let lanes = target.lanes(&slice(), polls[0].poll_id).await.unwrap();
    assert!(lanes.iter().all(|item| item.len() == 4), "{lanes:?}");
    let page = source.export(&slice(), &last, 400).await.unwrap();
    assert!(page.caught_up && page.changes.is_empty(), "{page:?}");
}

/// P9: a poll that is created during the export comes before its rows, whatever
/// the source does with them meanwhile.
pub async fn a_new_poll_comes_before_its_rows<F: ShardFixture>() {
    let (_one, source) = owner::<F>(&[poll(1)]).await;
    vote(&source, &[poll(1)], 0..10).await;
    let (_two, target) = target::<F>(&source).await;
    let page = source.export(&slice(), &Cursor::Start, 400).await.unwrap();
    import(&target, &page.changes).await;
    source.create_poll(&at_epoch(1), poll(2)).await.unwrap();
    vote(&source, &[poll(1), poll(2)], 0..20).await;
    // Another export starts, and a scrub runs.
    source.export(&slice(), &Cursor::Start, 400).await.unwrap();
    source.scrub(&slice()).await.unwrap();
    source.seal(&at_epoch(2), &token("m", 1)).await.unwrap();
    copy(&source, &target, page.next, 400).await;
    assert_eq!(contents(&target, 20).await, contents(&source, 20).await);
}

/// P9: an export continues from its cursor after the source was closed or
/// crashed, and the import after the target was. At worst it has to start over.
pub async fn an_export_is_resumed_after_reopening<F: ShardFixture>() {
    let polls = [changeable(1), poll(2)];
    let (one, mut source) = owner::<F>(&polls).await;
    vote(&source, &polls, 0..20).await;
    let (two, mut target) = target::<F>(&source).await;
    let mut cursor = Cursor::Start;
    let mut voters = 20;
    for round in 0.. {
        let page = match source.export(&slice(), &cursor, 700).await {
            Err(ShardError::CursorTooOld) => {
                cursor = Cursor::Start;
                continue;
            }
            page => page.unwrap(),
        };
        import(&target, &page.changes).await;
        if page.caught_up {
            break;
        }
        cursor = page.next;
        match round % 4 {
            0 => source = crash(&one, source).await,
            1 => target = crash(&two, target).await,
            2 => source = reopen(&one, source).await,
            _ => target = reopen(&two, target).await,
        }
        if voters < 40 {
            vote(&source, &polls, voters..voters + 4).await;
            voters += 4;
        }
    }
    source.seal(&at_epoch(2), &token("m", 1)).await.unwrap();
    copy(&source, &target, cursor, 700).await;
    assert_eq!(contents(&target, 40).await, contents(&source, 40).await);
}

/// P9: a restarted export, and pages that arrive twice, change nothing.
pub async fn an_export_may_begin_again<F: ShardFixture>() {
    let polls = [changeable(1), poll(2)];
    let (_one, source) = owner::<F>(&polls).await;
    vote(&source, &polls, 0..20).await;
    let (_two, target) = target::<F>(&source).await;
    let page = source.export(&slice(), &Cursor::Start, 700).await.unwrap();
    import(&target, &page.changes).await;
    let rows = source.export(&slice(), &page.next, 700).await.unwrap();
    import(&target, &rows.changes).await;
    vote(&source, &polls, 10..30).await;
    source
        .close_poll(&at_epoch(1), polls[1].poll_id)
        .await
        .unwrap();
    source.seal(&at_epoch(2), &token("m", 1)).await.unwrap();
    copy(&source, &target, Cursor::Start, 700).await;
    // Late pages of the first attempt.
    import(&target, &page.changes).await;
    import(&target, &rows.changes).await;
    let expected = contents(&source, 30).await;
    assert_eq!(contents(&target, 30).await, expected);
    target.scrub(&slice()).await.unwrap();
    copy(&source, &target, Cursor::Start, 1 << 20).await;
    assert_eq!(contents(&target, 30).await, expected);
}

/// P9: an export contains no other slice, and there is none of an unknown
/// slice.
pub async fn an_export_is_of_one_slice<F: ShardFixture>() {
    let (_one, source) = owner::<F>(&[poll(1)]).await;
    let other = fenced_slice("other", 1);
    source.adopt(&other).await.unwrap();
    source.create_poll(&other, poll(2)).await.unwrap();
    let other_vote = [ballot(&poll(2), "w", 0, 1)];
    source.cast(&other, &other_vote).await.unwrap();
    vote(&source, &[poll(1)], 0..5).await;
    let mut cursor = Cursor::Start;
    loop {
        let page = source.export(&slice(), &cursor, 300).await.unwrap();
        for change in &page.changes {
            let of = match change {
                ExportedRow::Poll(row) => row.poll.poll_id,
                ExportedRow::Voter(row) => row.poll,
            };
            assert_eq!(of, poll(1).poll_id);
        }
        cursor = page.next;
        if page.caught_up {
            break;
        }
    }
    let unknown = source.export(&slice_for("nobody"), &Cursor::Start, 9).await;
    let unknown = slice_state_error(unknown);
    assert_eq!(unknown, crate::shard::SliceStateError::UnknownSlice);
}

/// P9: a cursor is refused as too old, or all changes after it are available.
pub async fn a_cursor_goes_on_or_is_too_old<F: ShardFixture>() {
    let (_one, source) = owner::<F>(&[poll(1)]).await;
    vote(&source, &[poll(1)], 0..20).await;
    let begin = Cursor::Changes { position: 0 };
    match source.export(&slice(), &begin, 1 << 20).await {
        Err(ShardError::CursorTooOld) => {}
        Ok(page) => {
            assert!(page.caught_up);
            let (_two, target) = target::<F>(&source).await;
            import(&target, &page.changes).await;
            assert_eq!(contents(&target, 20).await, contents(&source, 20).await);
        }
        Err(other) => panic!("{other}"),
    }
}

/// P15: the digests of the stored rows always equal the maintained ones.
pub async fn scrubbing_finds_the_digests_that_were_kept<F: ShardFixture>() {
    let polls = [changeable(1), choices(2, 2, true), poll(3)];
    let (fixture, mut shard) = owner::<F>(&polls).await;
    for round in 0..6 {
        vote(&shard, &polls, round * 10..round * 10 + 15).await;
        cast(&shard, withdrawal(&polls[0], "v1", 0, 9_000 + round)).await;
        if round == 3 {
            shard
                .close_poll(&at_epoch(1), polls[2].poll_id)
                .await
                .unwrap();
        }
        if round == 4 {
            shard
                .widen_lanes(&at_epoch(1), polls[1].poll_id, 64)
                .await
                .unwrap();
        }
        if round == 5 {
            shard
                .narrow_lanes(&at_epoch(1), polls[1].poll_id, 5)
                .await
                .unwrap();
        }
        let kept = shard.digests(&slice()).await.unwrap();
        assert_eq!(shard.scrub(&slice()).await.unwrap(), kept, "{round}");
        assert_eq!(shard.digests(&slice()).await.unwrap(), kept, "{round}");
        if round % 2 == 1 {
            shard = crash(&fixture, shard).await;
            assert_eq!(shard.digests(&slice()).await.unwrap(), kept, "{round}");
            assert_eq!(shard.scrub(&slice()).await.unwrap(), kept, "{round}");
        }
    }
    let m = token("m", 1);
    shard.seal(&at_epoch(2), &m).await.unwrap();
    shard.retire(&at_epoch(2), &m).await.unwrap();
    assert_eq!(shard.purge(&at_epoch(2), &m, 2).await.unwrap(), 1);
    let kept = shard.digests(&slice()).await.unwrap();
    assert_eq!(shard.scrub(&slice()).await.unwrap(), kept);
    assert_eq!(kept.len(), 1);
}
