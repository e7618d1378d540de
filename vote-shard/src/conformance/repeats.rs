//! P10: a request gets one answer, whatever happens in between; a voter is one
//! register.

use std::sync::{Arc, Mutex};

use ballast_domain::bounds::REQUESTS_REMEMBERED;
use ballast_domain::poll::{Ballot, BallotRefusal, Poll};
use ballast_domain::slicing::HashRange;

use super::builders::*;
use super::ledger::{BallotLedger, Random};
use super::snapshot::{read_all_rows, snapshot};
use super::{ShardFixture, SharedShard, crash, reopen, start};

/// P10: the same vote again is `already`, another one is refused with the
/// chosen items, and neither changes anything.
pub async fn a_vote_counts_once<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(1)]).await;
    assert_eq!(cast(&shard, ballot(&poll(1), "v", 1, 1)).await, counted(1));
    let before = snapshot(&shard, &slice(), &["v"]).await;
    for request in 2..5 {
        let again = cast(&shard, ballot(&poll(1), "v", 1, request)).await;
        assert_eq!(again, already(1));
        let other = cast(&shard, ballot(&poll(1), "v", 0, 10 + request)).await;
        assert_eq!(other, refused_as_already_voted(&poll(1), &[1]));
    }
    assert_eq!(snapshot(&shard, &slice(), &["v"]).await, before);
}

/// P10: a repeated request gets its first answer and changes nothing, also if
/// the row has changed since, whatever the repetition contains.
pub async fn a_repeated_request_gets_its_first_answer<F: ShardFixture>() {
    let poll = changeable(1);
    let (_fixture, shard) = owner::<F>(std::slice::from_ref(&poll)).await;
    let first = ballot(&poll, "v", 0, 1);
    assert_eq!(cast(&shard, first.clone()).await, counted(1));
    assert_eq!(cast(&shard, first.clone()).await, counted(1));
    assert_eq!(cast(&shard, ballot(&poll, "v", 1, 2)).await, counted(2));
    assert_eq!(cast(&shard, withdrawal(&poll, "v", 1, 3)).await, counted(3));
    let before = snapshot(&shard, &slice(), &["v"]).await;
    for (request, item) in [(1, 0), (2, 1), (3, 1), (1, 2), (3, 0)] {
        let again = cast(&shard, ballot(&poll, "v", item, request)).await;
        assert_eq!(again, counted(request as u32));
    }
    let stale = demanding(7, first);
    assert_eq!(cast(&shard, stale).await, counted(1));
    assert_eq!(snapshot(&shard, &slice(), &["v"]).await, before);
    // Another voter's request with the same id is a different request.
    assert_eq!(cast(&shard, ballot(&poll, "w", 0, 1)).await, counted(1));
}

/// P10: within one batch, too.
pub async fn a_request_repeated_within_a_batch_is_answered_once<F: ShardFixture>() {
    let poll = changeable(1);
    let (_fixture, shard) = owner::<F>(std::slice::from_ref(&poll)).await;
    let batch = [
        ballot(&poll, "v", 0, 1),
        ballot(&poll, "v", 0, 1),
        ballot(&poll, "v", 1, 2),
        ballot(&poll, "v", 0, 1),
        ballot(&poll, "v", 1, 3),
    ];
    let verdicts = shard.cast(&at_epoch(1), &batch).await.unwrap();
    let expected = [counted(1), counted(1), counted(2), counted(1), already(2)];
    assert_eq!(verdicts, expected);
    let tally = shard.tally(&slice(), poll.poll_id).await.unwrap();
    assert_eq!(tally.counts, [0, 1, 0]);
}

/// Changes a vote six times, by the requests 1 to 6.
async fn six_changes(shard: &SharedShard, poll: &Poll) {
    for request in 1..=6 {
        let change = ballot(poll, "v", request as u16 % 3, request);
        assert_eq!(cast(shard, change).await, counted(request as u32));
    }
}

/// The last four requests are remembered, an older one is judged again.
async fn assert_four_are_remembered(shard: &SharedShard, epoch: u64, poll: &Poll) {
    for request in 3..=6 {
        let again = cast_at(shard, epoch, ballot(poll, "v", 2, request)).await;
        assert_eq!(again, counted(request as u32), "request {request}");
    }
    let row = shard.voter(&slice(), poll.poll_id, &voter("v")).await;
    let row = row.unwrap().unwrap();
    let known: Vec<_> = row
        .requests
        .iter()
        .map(|(id, made)| (id.0, *made))
        .collect();
    assert_eq!(known, [(3, 3), (4, 4), (5, 5), (6, 6)]);
    assert_eq!(known.len(), REQUESTS_REMEMBERED);
    let forgotten = cast_at(shard, epoch, ballot(poll, "v", 2, 1)).await;
    assert_eq!(forgotten, counted(7));
}

/// P10: a row remembers its last four requests.
pub async fn the_last_four_requests_are_remembered<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[changeable(1)]).await;
    six_changes(&shard, &changeable(1)).await;
    assert_four_are_remembered(&shard, 1, &changeable(1)).await;
}

/// P10: also after a restart and a crash.
pub async fn requests_are_remembered_across_reopening<F: ShardFixture>() {
    let polls = [changeable(1), poll(2)];
    let (fixture, mut shard) = owner::<F>(&polls).await;
    six_changes(&shard, &polls[0]).await;
    cast(&shard, ballot(&polls[1], "v", 1, 1)).await;
    let before = snapshot(&shard, &slice(), &["v"]).await;
    for badly in [false, true] {
        shard = match badly {
            false => reopen(&fixture, shard).await,
            true => crash(&fixture, shard).await,
        };
        assert_eq!(snapshot(&shard, &slice(), &["v"]).await, before);
        assert_eq!(cast(&shard, ballot(&polls[1], "v", 1, 1)).await, counted(1));
        assert_eq!(cast(&shard, ballot(&polls[1], "v", 1, 2)).await, already(1));
        assert_eq!(
            cast(&shard, ballot(&polls[1], "v", 0, 3)).await,
            refused_as_already_voted(&polls[1], &[1])
        );
    }
    assert_four_are_remembered(&shard, 1, &polls[0]).await;
}

/// P10: also on the shard that the slice has moved to.
pub async fn requests_are_remembered_across_a_migration<F: ShardFixture>() {
    let polls = [changeable(1), poll(2)];
    let (_one, source) = owner::<F>(&polls).await;
    six_changes(&source, &polls[0]).await;
    cast(&source, ballot(&polls[1], "v", 1, 1)).await;
    let m = token("m", 1);
    source.seal(&at_epoch(2), &m).await.unwrap();
    let (two, target) = start::<F>().await;
    let key = source.slice_key(&slice()).await.unwrap();
    target
        .prepare(&at_epoch(2), &m, key, HashRange::WHOLE)
        .await
        .unwrap();
    let rows = read_all_rows(&source, &slice(), &["v"]).await;
    target.import(&slice(), &m, &rows).await.unwrap();
    target.activate(&at_epoch(2), &m).await.unwrap();
    let target = reopen(&two, target).await;
    let repeated = cast_at(&target, 2, ballot(&polls[1], "v", 1, 1)).await;
    assert_eq!(repeated, counted(1));
    let twice = cast_at(&target, 2, ballot(&polls[1], "v", 1, 2)).await;
    assert_eq!(twice, already(1));
    assert_four_are_remembered(&target, 2, &polls[0]).await;
}

/// P10: a ballot that requires a revision counts only at that one; 0 means that
/// there is no row.
pub async fn a_demanded_revision_must_be_the_row_s<F: ShardFixture>() {
    let poll = changeable(1);
    let (_fixture, shard) = owner::<F>(std::slice::from_ref(&poll)).await;
    let changed = |revision| refused(BallotRefusal::Changed { revision });
    let asks = [
        (1, 0, changed(0)),
        (0, 0, counted(1)),
        (0, 1, changed(1)),
        (2, 1, changed(1)),
        (1, 1, counted(2)),
        (1, 1, changed(2)),
        (2, 1, already(2)),
    ];
    for (place, (revision, item, expected)) in asks.into_iter().enumerate() {
        let asked = ballot(&poll, "v", item, 50 + place as u64);
        let verdict = cast(&shard, demanding(revision, asked)).await;
        assert_eq!(verdict, expected, "{place}");
    }
    let withdrawn = demanding(2, withdrawal(&poll, "v", 1, 90));
    assert_eq!(cast(&shard, withdrawn).await, counted(3));
    // An empty row is still a row.
    let first = demanding(0, ballot(&poll, "v", 1, 91));
    assert_eq!(cast(&shard, first).await, changed(3));
}

/// P10: all choices of a voter are one row with one revision.
pub async fn several_choices_share_one_row<F: ShardFixture>() {
    let (fixed, free) = (choices(1, 2, false), choices(2, 2, true));
    let (fixture, shard) = owner::<F>(&[fixed.clone(), free.clone()]).await;
    for (item, expected) in [
        (2, counted(1)),
        (0, counted(2)),
        (2, already(2)),
        (1, refused_as_already_voted(&fixed, &[0, 2])),
    ] {
        let request = 10 + u64::from(item) + u64::from(expected == already(2)) * 10;
        assert_eq!(
            cast(&shard, ballot(&fixed, "v", item, request)).await,
            expected
        );
    }
    let fixed_stays = cast(&shard, withdrawal(&fixed, "v", 2, 40)).await;
    assert_eq!(fixed_stays, refused(BallotRefusal::NotChangeable));
    for (item, request) in [(2, 1), (0, 2)] {
        cast(&shard, ballot(&free, "v", item, request)).await;
    }
    assert_eq!(
        cast(&shard, ballot(&free, "v", 1, 3)).await,
        refused_as_already_voted(&free, &[0, 2])
    );
    assert_eq!(
        cast(&shard, withdrawal(&free, "v", 1, 4)).await,
        refused(BallotRefusal::NotChosen)
    );
    assert_eq!(cast(&shard, withdrawal(&free, "v", 2, 5)).await, counted(3));
    assert_eq!(cast(&shard, ballot(&free, "v", 1, 6)).await, counted(4));
    let shard = reopen(&fixture, shard).await;
    for (poll, items, counts) in [(fixed, [0, 2], [1, 0, 1]), (free, [0, 1], [1, 1, 0])] {
        let row = shard.voter(&slice(), poll.poll_id, &voter("v")).await;
        assert_eq!(row.unwrap().unwrap().items, items);
        let tally = shard.tally(&slice(), poll.poll_id).await.unwrap();
        assert_eq!((tally.counts, tally.voters), (counts.to_vec(), 1));
    }
}

/// P10: a vote is changed and withdrawn where that is allowed, and the counts
/// follow.
pub async fn a_vote_is_changed_and_withdrawn<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[changeable(1), poll(2)]).await;
    let counts = |shard: SharedShard| async move {
        let tally = shard.tally(&slice(), poll(1).poll_id).await.unwrap();
        (tally.counts, tally.voters)
    };
    let poll = changeable(1);
    cast(&shard, ballot(&poll, "v", 0, 1)).await;
    cast(&shard, ballot(&poll, "w", 0, 1)).await;
    assert_eq!(counts(shard.clone()).await, (vec![2, 0, 0], 2));
    assert_eq!(cast(&shard, ballot(&poll, "v", 2, 2)).await, counted(2));
    assert_eq!(counts(shard.clone()).await, (vec![1, 0, 1], 2));
    assert_eq!(cast(&shard, withdrawal(&poll, "v", 2, 3)).await, counted(3));
    assert_eq!(counts(shard.clone()).await, (vec![1, 0, 0], 1));
    let nothing = cast(&shard, withdrawal(&poll, "v", 2, 4)).await;
    assert_eq!(nothing, refused(BallotRefusal::NotChosen));
    let nobody = cast(&shard, withdrawal(&poll, "x", 0, 5)).await;
    assert_eq!(nobody, refused(BallotRefusal::NotChosen));
    let row = shard.voter(&slice(), poll.poll_id, &voter("x")).await;
    assert_eq!(row.unwrap(), None);
    assert_eq!(cast(&shard, ballot(&poll, "v", 1, 6)).await, counted(4));
    assert_eq!(counts(shard.clone()).await, (vec![1, 1, 0], 2));
}

/// P10: with many concurrent clients each voter is one register: the answers
/// fit one order of changes per voter, in which no answer is older than one
/// given before its request.
pub async fn each_voter_is_a_linearizable_register<F: ShardFixture>() {
    let polls = [changeable(1), poll(2), choices(3, 2, false)];
    let (fixture, shard) = owner::<F>(&polls).await;
    let ledger = Arc::new(Mutex::new(BallotLedger::new(&polls)));
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..8 {
        let (shard, ledger, polls) = (shard.clone(), ledger.clone(), polls.clone());
        clients.spawn(async move {
            let mut random = Random::new(client);
            let mut last: Option<Ballot> = None;
            for n in 0..40 {
                let poll = &polls[random.below(3)];
                let name = ["v", "w", "x"][random.below(3)];
                let fresh = ballot(poll, name, random.below(3) as u16, client * 1_000 + n);
                let asked = match (random.below(5), last.take()) {
                    (0, Some(again)) => again,
                    (1, _) => withdrawal(poll, name, random.below(3) as u16, client * 1_000 + n),
                    _ => fresh,
                };
                let asked = match random.below(6) {
                    0 => demanding(random.below(12) as u32, asked),
                    _ => asked,
                };
                let started = ledger.lock().unwrap().start(&asked);
                let outcome = shard.cast(&at_epoch(1), std::slice::from_ref(&asked)).await;
                let verdict = outcome.unwrap().remove(0);
                ledger.lock().unwrap().finish(started, Some(&verdict));
                let started = ledger
                    .lock()
                    .unwrap()
                    .start_reading(asked.poll, &asked.voter);
                let row = shard
                    .voter(&slice(), asked.poll, &asked.voter)
                    .await
                    .unwrap();
                ledger.lock().unwrap().read(started, row.as_ref());
                last = Some(asked);
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let shard = crash(&fixture, shard).await;
    let mut ledger = Arc::try_unwrap(ledger).ok().unwrap().into_inner().unwrap();
    super::ledger::audit(&mut ledger, &shard, &at_epoch(1)).await;
}
