//! P15: a digest is the number and the sum of the stored rows, and lanes add up
//! to what the rows say.

use ballast_domain::poll::{Poll, RequestId};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::SliceId;

use super::builders::*;
use super::ledger::Random;
use super::snapshot::{digest, read_all_rows, rows, snapshot};
use super::{ShardFixture, SharedShard, crash, start};
use crate::shard::{Digest, ExportedRow, ShardError, SliceDigest};

const VOTERS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

fn polls() -> [Poll; 3] {
    [changeable(1), choices(2, 2, true), poll(3)]
}

/// Casts many random ballots, some of them invalid.
async fn scramble(shard: &SharedShard, seed: u64) {
    let mut random = Random::new(seed);
    for request in 0..40 {
        let batch: Vec<_> = (0..1 + random.below(6))
            .map(|_| {
                let poll = &polls()[random.below(3)];
                let (name, item) = (VOTERS[random.below(12)], random.below(3) as u16);
                match random.below(4) {
                    0 => withdrawal(poll, name, item, request),
                    _ => ballot(poll, name, item, request),
                }
            })
            .collect();
        shard.cast(&at_epoch(1), &batch).await.unwrap();
    }
}

/// P15: the maintained digest equals the one computed from all rows, before and
/// after a crash.
pub async fn the_digest_is_the_sum_over_the_rows<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&polls()).await;
    scramble(&shard, 1).await;
    shard
        .close_poll(&at_epoch(1), polls()[2].poll_id)
        .await
        .unwrap();
    shard
        .widen_lanes(&at_epoch(1), polls()[0].poll_id, 77)
        .await
        .unwrap();
    let read = read_all_rows(&shard, &slice(), &VOTERS).await;
    for poll in polls() {
        let own = |change: &&ExportedRow| match change {
            ExportedRow::Poll(row) => row.poll.poll_id == poll.poll_id,
            ExportedRow::Voter(row) => row.poll == poll.poll_id,
        };
        let stored = read.iter().filter(own).count() as u64;
        let kept = digest(&shard, &slice(), poll.poll_id).await;
        assert_eq!(kept.rows, stored);
    }
    let before = snapshot(&shard, &slice(), &VOTERS).await;
    let shard = crash(&fixture, shard).await;
    assert_eq!(snapshot(&shard, &slice(), &VOTERS).await, before);
    assert_eq!(read_all_rows(&shard, &slice(), &VOTERS).await, read);
}

/// P15: an item's lanes add up to its count, which is the number of rows that
/// hold it.
pub async fn lanes_add_up_to_what_the_rows_say<F: ShardFixture>() {
    let (fixture, mut shard) = owner::<F>(&polls()).await;
    for round in 0..3 {
        scramble(&shard, round).await;
        if round == 1 {
            for poll in polls() {
                shard
                    .widen_lanes(&at_epoch(1), poll.poll_id, 31)
                    .await
                    .unwrap();
            }
        }
        if round == 2 {
            for poll in polls() {
                shard
                    .narrow_lanes(&at_epoch(1), poll.poll_id, 7)
                    .await
                    .unwrap();
            }
        }
        for poll in polls() {
            let rows = rows(&shard, &slice(), poll.poll_id, &VOTERS).await;
            let of = |item: u16| rows.iter().filter(|row| row.items.contains(&item)).count();
            let counts: Vec<u64> = (0..3).map(|item| of(item) as u64).collect();
            let voting = rows.iter().filter(|row| !row.items.is_empty()).count();
            let tally = shard.tally(&slice(), poll.poll_id).await.unwrap();
            assert_eq!(
                (tally.counts, tally.voters),
                (counts.clone(), voting as u64)
            );
            let lanes = shard.lanes(&slice(), poll.poll_id).await.unwrap();
            let sums: Vec<u64> = lanes.iter().map(|item| item.iter().sum()).collect();
            assert_eq!(sums, counts);
        }
        shard = crash(&fixture, shard).await;
    }
}

/// P15: every change moves the digest, and nothing else does.
pub async fn every_change_moves_the_digest<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[changeable(1)]).await;
    let poll = changeable(1);
    let mut seen: Vec<Digest> = vec![digest(&shard, &slice(), poll.poll_id).await];
    assert_eq!(seen[0].rows, 1);
    let mut moved = |now: Digest, what: &str| {
        assert!(!seen.contains(&now), "{what}");
        seen.push(now);
    };
    for (what, asked) in [
        ("a vote", ballot(&poll, "v", 0, 1)),
        ("another voter's", ballot(&poll, "w", 0, 1)),
        ("a change", ballot(&poll, "v", 1, 2)),
        ("a withdrawal", withdrawal(&poll, "v", 1, 3)),
        ("the first choice again", ballot(&poll, "v", 0, 4)),
    ] {
        cast(&shard, asked).await;
        moved(digest(&shard, &slice(), poll.poll_id).await, what);
    }
    shard
        .widen_lanes(&at_epoch(1), poll.poll_id, 20)
        .await
        .unwrap();
    moved(digest(&shard, &slice(), poll.poll_id).await, "more lanes");
    shard
        .narrow_lanes(&at_epoch(1), poll.poll_id, 5)
        .await
        .unwrap();
    moved(digest(&shard, &slice(), poll.poll_id).await, "fewer lanes");
    shard.close_poll(&at_epoch(1), poll.poll_id).await.unwrap();
    let last = digest(&shard, &slice(), poll.poll_id).await;
    moved(last, "closing");
    assert_eq!(last.rows, 3);
    for asked in [
        ballot(&poll, "v", 0, 4),
        ballot(&poll, "v", 0, 9),
        ballot(&poll, "x", 0, 9),
    ] {
        cast(&shard, asked).await;
    }
    shard.close_poll(&at_epoch(1), poll.poll_id).await.unwrap();
    shard
        .widen_lanes(&at_epoch(1), poll.poll_id, 5)
        .await
        .unwrap();
    shard
        .narrow_lanes(&at_epoch(1), poll.poll_id, 2)
        .await
        .unwrap();
    shard.create_poll(&at_epoch(1), poll.clone()).await.unwrap();
    assert_eq!(digest(&shard, &slice(), poll.poll_id).await, last);
}

/// P15: two shards with the same rows have the same digests, whatever the order
/// of the rows, and different ones if a row differs.
pub async fn the_order_of_rows_does_not_matter<F: ShardFixture>() {
    let (_one, source) = owner::<F>(&polls()).await;
    scramble(&source, 7).await;
    let digests = source.digests(&slice()).await.unwrap();
    let key = source.slice_key(&slice()).await.unwrap();
    let mut changes = read_all_rows(&source, &slice(), &VOTERS).await;
    let m = token("m", 1);
    for missing in [0, 1] {
        let (_two, target) = start::<F>().await;
        target
            .prepare(&at_epoch(2), &m, key, HashRange::WHOLE)
            .await
            .unwrap();
        // Polls first, then all rows backwards.
        changes.sort_by_key(|change| match change {
            ExportedRow::Poll(_) => 0,
            ExportedRow::Voter(_) => 1,
        });
        changes[3..].reverse();
        let sent = &changes[..changes.len() - missing];
        target.import(&slice(), &m, sent).await.unwrap();
        let equal = target.digests(&slice()).await.unwrap() == digests;
        assert_eq!(equal, missing == 0);
    }
}

/// The digest of a slice, which must equal the sum over its polls.
async fn sum(shard: &SharedShard, slice: &SliceId) -> SliceDigest {
    let sum = shard.digest(slice).await.unwrap();
    let digests = shard.digests(slice).await.unwrap();
    let polls = digests.iter().map(|(_, digest)| digest);
    assert_eq!(sum, SliceDigest::from_polls(polls));
    assert_eq!(shard.digest(slice).await.unwrap(), sum, "asked again");
    sum
}

/// P15: a slice's digest is the sum over its polls, whatever happens to them,
/// however often it is requested, and after a crash.
pub async fn a_slice_s_digest_is_the_sum_over_its_polls<F: ShardFixture>() {
    let (fixture, mut shard) = owner::<F>(&polls()).await;
    for round in 0..3 {
        scramble(&shard, round).await;
        let before = sum(&shard, &slice()).await;
        assert_eq!(before.polls, 3);
        shard = crash(&fixture, shard).await;
        assert_eq!(sum(&shard, &slice()).await, before);
    }
    let mut seen = vec![sum(&shard, &slice()).await];
    let mut moved = |now: SliceDigest, what: &str| {
        assert!(!seen.contains(&now), "{what}");
        seen.push(now);
    };
    cast(&shard, ballot(&polls()[2], "new", 0, 99)).await;
    moved(sum(&shard, &slice()).await, "a vote");
    let [one, two, three] = polls().map(|poll| poll.poll_id);
    shard.widen_lanes(&at_epoch(1), two, 77).await.unwrap();
    moved(sum(&shard, &slice()).await, "more lanes");
    shard.close_poll(&at_epoch(1), three).await.unwrap();
    moved(sum(&shard, &slice()).await, "closing");
    let sums = shard
        .import_counts(&at_epoch(1), one, RequestId(7), &[1, 2, 3])
        .await;
    sums.unwrap();
    moved(sum(&shard, &slice()).await, "carried votes");
    shard.create_poll(&at_epoch(1), poll(4)).await.unwrap();
    moved(sum(&shard, &slice()).await, "a poll");
}

/// P15: a slice's digest excludes what it has lost, and a copy has its source's
/// digest.
pub async fn a_slice_s_digest_follows_copies_and_removals<F: ShardFixture>() {
    let (_one, source) = owner::<F>(&polls()).await;
    scramble(&source, 3).await;
    let key = source.slice_key(&slice()).await.unwrap();
    let (_two, target) = start::<F>().await;
    let m = token("m", 1);
    let whole = HashRange::WHOLE;
    target.prepare(&at_epoch(2), &m, key, whole).await.unwrap();
    assert_eq!(sum(&target, &slice()).await, SliceDigest::default());
    let changes = read_all_rows(&source, &slice(), &VOTERS).await;
    target.import(&slice(), &m, &changes).await.unwrap();
    let whole = sum(&source, &slice()).await;
    assert_eq!(sum(&target, &slice()).await, whole);
    // One that is counted, and one that is on its way.
    let first = polls()[0].poll_id;
    target.discard_poll(&at_epoch(2), &m, first).await.unwrap();
    let without = sum(&target, &slice()).await;
    assert_eq!(without.polls, 2);
    target.import(&slice(), &m, &changes).await.unwrap();
    target.discard_poll(&at_epoch(2), &m, first).await.unwrap();
    assert_eq!(sum(&target, &slice()).await, without);
    target.import(&slice(), &m, &changes).await.unwrap();
    assert_eq!(sum(&target, &slice()).await, whole);
    while target.purge(&at_epoch(2), &m, 1).await.unwrap() > 0 {
        sum(&target, &slice()).await;
    }
    assert_eq!(sum(&target, &slice()).await, SliceDigest::default());
}

/// P6: what is compared under a seal will be owned: a caller that decided
/// before the copy was marked ready cannot remove anything.
pub async fn a_ready_slice_only_gains_rows<F: ShardFixture>() {
    let (_one, source) = owner::<F>(&polls()).await;
    scramble(&source, 5).await;
    let key = source.slice_key(&slice()).await.unwrap();
    let (_two, target) = start::<F>().await;
    let m = token("m", 1);
    let whole = HashRange::WHOLE;
    target.prepare(&at_epoch(2), &m, key, whole).await.unwrap();
    let changes = read_all_rows(&source, &slice(), &VOTERS).await;
    target.import(&slice(), &m, &changes).await.unwrap();
    target.mark_ready(&at_epoch(3), &m).await.unwrap();
    target.mark_ready(&at_epoch(3), &m).await.unwrap();
    let sealed = sum(&target, &slice()).await;
    let first = polls()[0].poll_id;
    for late in [at_epoch(2), at_epoch(1)] {
        let refused = target.discard_poll(&late, &m, first).await;
        assert!(
            matches!(refused, Err(ShardError::SliceState(_))),
            "{refused:?}"
        );
    }
    assert!(target.mark_ready(&at_epoch(2), &m).await.is_err());
    target.import(&slice(), &m, &changes).await.unwrap();
    assert_eq!(sum(&target, &slice()).await, sealed);
    // The seal was postponed, and the caller has read the fence since.
    target.discard_poll(&at_epoch(4), &m, first).await.unwrap();
    assert_ne!(sum(&target, &slice()).await, sealed);
    target.import(&slice(), &m, &changes).await.unwrap();
    target.mark_ready(&at_epoch(5), &m).await.unwrap();
    target.activate(&at_epoch(5), &m).await.unwrap();
    assert_eq!(sum(&target, &slice()).await, sealed);
    assert!(target.discard_poll(&at_epoch(9), &m, first).await.is_err());
}

/// P15: digests come in the order of the polls' ids, one per poll.
pub async fn every_poll_has_a_digest<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(7), poll(2), poll(5)]).await;
    let digests = shard.digests(&slice()).await.unwrap();
    let ids: Vec<u128> = digests.iter().map(|(id, _)| id.number()).collect();
    assert_eq!(ids, [2, 5, 7]);
    assert!(digests.iter().all(|(_, digest)| digest.rows == 1));
}
