//! Counts, marks for followers, and usage.

use std::collections::BTreeMap;

use ballast_domain::PollId;
use ballast_domain::slicing::HashRange;

use super::builders::*;
use super::{ShardFixture, SharedShard, crash, reopen, start};
use crate::shard::{SliceKey, Tally};

async fn since(shard: &SharedShard, seen: u64) -> (u64, Vec<Tally>) {
    let most = std::time::Duration::from_secs(60);
    let waited = tokio::time::timeout(most, shard.tallies_since(seen)).await;
    waited.expect("there should be a change").unwrap()
}

/// The latest total per poll.
fn totals(tallies: &[Tally]) -> BTreeMap<PollId, u64> {
    let totals = tallies.iter().map(|tally| (tally.poll, tally.total()));
    totals.collect()
}

fn id(number: u64) -> PollId {
    poll(number).poll_id
}

/// A tally has every item's votes and the voters, and a mark that grows.
pub async fn a_tally_counts_votes_and_voters<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[choices(1, 2, false)]).await;
    let poll = choices(1, 2, false);
    let mut marks = vec![shard.tally(&slice(), poll.poll_id).await.unwrap().mark];
    for (name, item) in [("v", 0), ("w", 0), ("v", 2)] {
        cast(&shard, ballot(&poll, name, item, item.into())).await;
        marks.push(shard.tally(&slice(), poll.poll_id).await.unwrap().mark);
    }
    assert!(marks.is_sorted_by(|one, two| one < two), "{marks:?}");
    let tally = shard.tally(&slice(), poll.poll_id).await.unwrap();
    assert_eq!((tally.slice.clone(), tally.poll), (slice(), poll.poll_id));
    assert_eq!((tally.counts.clone(), tally.voters), (vec![2, 0, 1], 2));
    assert_eq!((tally.total(), tally.closed_at), (3, None));
}

/// Mark 0 returns all open polls, also those without votes.
pub async fn mark_zero_gives_all_open_polls<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(1), poll(2), poll(3)]).await;
    cast(&shard, ballot(&poll(2), "v", 0, 1)).await;
    let (mark, tallies) = since(&shard, 0).await;
    assert!(mark > 0);
    let expected = BTreeMap::from([(id(1), 0), (id(2), 1), (id(3), 0)]);
    assert_eq!(totals(&tallies), expected);
}

/// A mark returns what changed after it and nothing else, with the latest
/// counts only.
pub async fn a_mark_gives_what_changed_after_it<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(1), poll(2), poll(3)]).await;
    let (mark, _) = since(&shard, 0).await;
    for n in 0..5 {
        cast(&shard, ballot(&poll(2), &format!("v{n}"), 0, 1)).await;
    }
    let (next, tallies) = since(&shard, mark).await;
    assert!(next > mark);
    assert_eq!(totals(&tallies), BTreeMap::from([(id(2), 5)]));
    assert_eq!(tallies.len(), 1, "each poll is reported once");
    shard.close_poll(&at_epoch(1), id(3)).await.unwrap();
    let (_, tallies) = since(&shard, next).await;
    assert_eq!(totals(&tallies), BTreeMap::from([(id(3), 0)]));
    assert_eq!(tallies[0].closed_at, Some(time(0)));
}

/// Waiting ends with a change, and a follower of marks misses nothing.
pub async fn a_follower_of_marks_sees_every_total<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(1), poll(2)]).await;
    let follower = {
        let shard = shard.clone();
        tokio::spawn(async move {
            let (mut seen, mut known) = (0, BTreeMap::new());
            while known.values().sum::<u64>() < 200 {
                let (mark, tallies) = since(&shard, seen).await;
                assert!(mark > seen);
                for (poll, total) in totals(&tallies) {
                    let before = known.insert(poll, total).unwrap_or(0);
                    assert!(before <= total, "counts only grow here");
                }
                seen = mark;
            }
            known
        })
    };
    for n in 0..100 {
        let both = [1, 2].map(|number| ballot(&poll(number), &format!("v{n}"), 0, 1));
        shard.cast(&at_epoch(1), &both).await.unwrap();
    }
    let known = follower.await.unwrap();
    assert_eq!(known, BTreeMap::from([(id(1), 100), (id(2), 100)]));
}

/// A refused or repeated vote publishes nothing.
pub async fn nothing_is_published_when_nothing_changed<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(1), poll(2)]).await;
    cast(&shard, ballot(&poll(1), "v", 0, 1)).await;
    let (mark, _) = since(&shard, 0).await;
    for (item, request) in [(0, 1), (0, 2), (1, 3)] {
        cast(&shard, ballot(&poll(1), "v", item, request)).await;
    }
    cast(&shard, ballot(&poll(2), "v", 0, 1)).await;
    let (_, tallies) = since(&shard, mark).await;
    assert_eq!(totals(&tallies), BTreeMap::from([(id(2), 1)]));
}

/// After a restart, mark 0 returns exact totals, and followers with older or
/// newer marks get later changes.
pub async fn totals_are_exact_after_reopening<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[poll(1), poll(2)]).await;
    for n in 0..7 {
        cast(&shard, ballot(&poll(1), &format!("v{n}"), 0, 1)).await;
    }
    let (before, _) = since(&shard, 0).await;
    let shard = crash(&fixture, shard).await;
    let (mark, tallies) = since(&shard, 0).await;
    assert!(mark >= before);
    assert_eq!(totals(&tallies), BTreeMap::from([(id(1), 7), (id(2), 0)]));
    cast(&shard, ballot(&poll(2), "w", 0, 1)).await;
    for seen in [before, mark] {
        let (next, tallies) = since(&shard, seen).await;
        assert!(next > mark);
        assert_eq!(totals(&tallies).get(&id(2)), Some(&1));
    }
    let shard = reopen(&fixture, shard).await;
    let tally = shard.tally(&slice(), id(1)).await.unwrap();
    assert_eq!((tally.counts, tally.voters), (vec![7, 0, 0], 7));
}

/// A purged poll is not published.
pub async fn a_purged_poll_has_no_tally<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(1)]).await;
    shard.adopt(&fenced_slice("other", 1)).await.unwrap();
    shard
        .create_poll(&fenced_slice("other", 1), poll(2))
        .await
        .unwrap();
    let m = token("m", 1);
    shard.seal(&at_epoch(2), &m).await.unwrap();
    shard.retire(&at_epoch(2), &m).await.unwrap();
    shard.purge(&at_epoch(2), &m, 9).await.unwrap();
    shard
        .cast(&fenced_slice("other", 1), &[ballot(&poll(2), "v", 0, 1)])
        .await
        .unwrap();
    let (_, tallies) = since(&shard, 0).await;
    assert_eq!(totals(&tallies), BTreeMap::from([(id(2), 1)]));
}

/// Usage counts owned slices, stored polls, and voters of open polls.
pub async fn usage_counts_what_is_there<F: ShardFixture>() {
    let (fixture, shard) = start::<F>().await;
    let usage = shard.usage().await;
    assert_eq!((usage.trouble, usage.slices, usage.polls), (None, 0, 0));
    shard.adopt(&at_epoch(1)).await.unwrap();
    shard.adopt(&fenced_slice("other", 1)).await.unwrap();
    shard.create_poll(&at_epoch(1), poll(1)).await.unwrap();
    shard.create_poll(&at_epoch(1), poll(2)).await.unwrap();
    for name in ["v", "w"] {
        cast(&shard, ballot(&poll(1), name, 0, 1)).await;
        cast(&shard, ballot(&poll(1), name, 0, 2)).await;
    }
    let key = SliceKey::from_bytes([9; 32]);
    let m = token("m", 1);
    shard
        .prepare(&fenced_slice("coming", 2), &m, key, HashRange::WHOLE)
        .await
        .unwrap();
    for reopened in [false, true] {
        let usage = shard.usage().await;
        let counts = (usage.slices, usage.polls, usage.voters_in_memory);
        assert_eq!(counts, (2, 2, 2), "{reopened}");
        assert!(usage.voters_in_memory <= usage.voters_in_memory_max);
    }
    shard.seal(&fenced_slice("other", 2), &m).await.unwrap();
    shard.retire(&fenced_slice("other", 2), &m).await.unwrap();
    assert_eq!(shard.usage().await.slices, 1, "one is retired");
    shard.purge(&fenced_slice("other", 2), &m, 9).await.unwrap();
    let shard = reopen(&fixture, shard).await;
    let usage = shard.usage().await;
    assert_eq!((usage.slices, usage.polls), (1, 2), "and gone");
}
