//! P11: polls are created once, closed for good, and listed in order.

use ballast_domain::PollId;
use ballast_domain::poll::{BallotRefusal, Poll, RequestId};
use ballast_domain::tenant::SliceId;

use super::builders::*;
use super::snapshot::snapshot;
use super::{ShardFixture, crash, reopen};

/// P11: a repeated request finds its poll, even with another id.
pub async fn a_request_creates_one_poll<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[]).await;
    let made = shard.create_poll(&at_epoch(1), poll(1)).await.unwrap();
    assert_eq!(made, poll(1));
    let again = Poll {
        poll_id: PollId::from_number(2),
        ..changeable(1)
    };
    assert_eq!(
        shard
            .create_poll(&at_epoch(1), again.clone())
            .await
            .unwrap(),
        made
    );
    let shard = crash(&fixture, shard).await;
    assert_eq!(shard.create_poll(&at_epoch(1), again).await.unwrap(), made);
    assert_eq!(shard.polls(&slice(), None, 9).await.unwrap(), [made]);
}

/// P11: an id identifies one poll, whatever the request.
pub async fn an_id_names_one_poll<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(1)]).await;
    cast(&shard, ballot(&poll(1), "v", 0, 1)).await;
    let before = snapshot(&shard, &slice(), &["v"]).await;
    let again = Poll {
        request: RequestId(5),
        ..changeable(1)
    };
    assert_eq!(
        shard.create_poll(&at_epoch(1), again).await.unwrap(),
        poll(1)
    );
    assert_eq!(snapshot(&shard, &slice(), &["v"]).await, before);
}

/// P11: many concurrent attempts create one poll.
pub async fn many_attempts_at_once_make_one_poll<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[]).await;
    let mut attempts = tokio::task::JoinSet::new();
    for number in 1..=16 {
        let shard = shard.clone();
        attempts.spawn(async move {
            let attempt = Poll {
                request: RequestId(5),
                ..poll(number)
            };
            shard.create_poll(&at_epoch(1), attempt).await.unwrap()
        });
    }
    let made = attempts.join_all().await;
    assert!(made.iter().all(|poll| *poll == made[0]));
    assert_eq!(shard.polls(&slice(), None, 99).await.unwrap(), made[..1]);
}

/// P11: the shard's clock sets the creation time.
pub async fn the_shard_says_when_a_poll_was_created<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[]).await;
    fixture.clock().advance(5_000);
    let made = shard.create_poll(&at_epoch(1), poll(1)).await.unwrap();
    assert_eq!(made.created_at, time(5_000));
    fixture.clock().advance(5_000);
    let again = shard.create_poll(&at_epoch(1), poll(1)).await.unwrap();
    assert_eq!(again, made);
}

/// P11: a poll is closed once, and accepts no votes afterwards; counted votes
/// are still reported.
pub async fn a_poll_is_closed_for_good<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[changeable(1)]).await;
    let poll = changeable(1);
    cast(&shard, ballot(&poll, "v", 0, 1)).await;
    fixture.clock().advance(1_000);
    let closed = shard.close_poll(&at_epoch(1), poll.poll_id).await.unwrap();
    assert_eq!(closed.closed_at, Some(time(1_000)));
    fixture.clock().advance(1_000);
    let before = snapshot(&shard, &slice(), &["v"]).await;
    assert_eq!(before.tallies[0].closed_at, Some(time(1_000)));
    let again = shard.close_poll(&at_epoch(1), poll.poll_id).await.unwrap();
    assert_eq!(again, closed);
    let shard = reopen(&fixture, shard).await;
    for (asked, expected) in [
        (ballot(&poll, "w", 0, 2), refused(BallotRefusal::Closed)),
        (ballot(&poll, "v", 1, 3), refused(BallotRefusal::Closed)),
        (withdrawal(&poll, "v", 0, 4), refused(BallotRefusal::Closed)),
        (ballot(&poll, "v", 0, 1), counted(1)),
        (ballot(&poll, "v", 0, 5), already(1)),
    ] {
        assert_eq!(cast(&shard, asked).await, expected);
    }
    assert_eq!(snapshot(&shard, &slice(), &["v"]).await, before);
}

/// P11: widening only adds lanes, and the counts stay.
pub async fn widening_only_adds_lanes<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[changeable(1)]).await;
    let poll = changeable(1);
    for n in 0..30 {
        cast(&shard, ballot(&poll, &format!("v{n}"), n % 3, 1)).await;
    }
    for (asked, lanes) in [(5, 10), (10, 10), (64, 64), (20, 64)] {
        let widened = shard
            .widen_lanes(&at_epoch(1), poll.poll_id, asked)
            .await
            .unwrap();
        assert_eq!(widened.spec.options.lanes, lanes);
        let kept = shard.lanes(&slice(), poll.poll_id).await.unwrap();
        assert!(kept.iter().all(|item| item.len() == usize::from(lanes)));
        let tally = shard.tally(&slice(), poll.poll_id).await.unwrap();
        assert_eq!(tally.counts, [10, 10, 10]);
    }
    for n in 0..30 {
        cast(&shard, withdrawal(&poll, &format!("v{n}"), n % 3, 2)).await;
    }
    let before = shard.lanes(&slice(), poll.poll_id).await.unwrap();
    assert_eq!(before, vec![vec![0; 64]; 3]);
    let shard = crash(&fixture, shard).await;
    let after = shard.lanes(&slice(), poll.poll_id).await.unwrap();
    assert_eq!(after, before);
}

/// P11: narrowing only removes lanes, in one step: with votes, changes and
/// withdrawals before and after it, none is lost or counted twice. A closed
/// poll keeps its lanes.
pub async fn narrowing_loses_no_vote<F: ShardFixture>() {
    let mut poll = changeable(1);
    poll.spec.options.lanes = 64;
    let (fixture, mut shard) = owner::<F>(&[poll.clone()]).await;
    for n in 0..30 {
        cast(&shard, ballot(&poll, &format!("v{n}"), n % 3, 1)).await;
    }
    for (asked, lanes) in [(100, 64), (64, 64), (7, 7), (20, 7), (0, 1)] {
        let narrowed = shard
            .narrow_lanes(&at_epoch(1), poll.poll_id, asked)
            .await
            .unwrap();
        assert_eq!(narrowed.spec.options.lanes, lanes);
        let before = snapshot(&shard, &slice(), &["v1", "v2"]).await;
        assert_eq!(before.tallies[0].counts, [10, 10, 10]);
        let width = |item: &Vec<u64>| item.len() == usize::from(lanes);
        assert!(before.lanes[0].iter().all(width), "{before:?}");
        shard = crash(&fixture, shard).await;
        assert_eq!(snapshot(&shard, &slice(), &["v1", "v2"]).await, before);
    }
    shard
        .widen_lanes(&at_epoch(1), poll.poll_id, 9)
        .await
        .unwrap();
    for n in 0..30 {
        cast(&shard, withdrawal(&poll, &format!("v{n}"), n % 3, 2)).await;
    }
    let none = shard.lanes(&slice(), poll.poll_id).await.unwrap();
    assert_eq!(none, vec![vec![0; 9]; 3]);
    shard.close_poll(&at_epoch(1), poll.poll_id).await.unwrap();
    let closed = shard
        .narrow_lanes(&at_epoch(1), poll.poll_id, 2)
        .await
        .unwrap();
    assert_eq!(closed.spec.options.lanes, 9);
}

/// P11: lists the polls that expect many voters, while they are open and owned
/// here.
pub async fn awaited_polls_are_listed<F: ShardFixture>() {
    let awaited = |number, voters, closes| {
        let mut poll = poll(number);
        poll.spec.expected_voters = Some(voters);
        poll.spec.expiration_time = time(closes);
        poll
    };
    let (one, two, few) = (
        awaited(1, 5_000, 900_000),
        awaited(2, 1_000, 800_000),
        awaited(3, 999, 700_000),
    );
    let (fixture, shard) = owner::<F>(&[one.clone(), two.clone(), few, poll(4)]).await;
    let other = fenced_slice("other", 1);
    shard.adopt(&other).await.unwrap();
    let elsewhere = shard.create_poll(&other, awaited(5, 2_000, 850_000)).await;
    let answer = |polls: Vec<(SliceId, Poll)>| -> Vec<_> {
        let answer = polls.into_iter();
        answer.map(|(slice, poll)| (slice, poll.poll_id)).collect()
    };
    let third = (slice_for("other"), elsewhere.unwrap().poll_id);
    let all = [
        (slice(), two.poll_id),
        third.clone(),
        (slice(), one.poll_id),
    ];
    let shard = crash(&fixture, shard).await;
    assert_eq!(answer(shard.awaited_polls(1_000, 9).await.unwrap()), all);
    assert_eq!(
        answer(shard.awaited_polls(1_000, 1).await.unwrap()),
        all[..1]
    );
    assert_eq!(answer(shard.awaited_polls(5_001, 9).await.unwrap()), []);
    shard.close_poll(&at_epoch(1), two.poll_id).await.unwrap();
    assert_eq!(
        answer(shard.awaited_polls(1_000, 9).await.unwrap()),
        all[1..]
    );
    shard.seal(&at_epoch(2), &token("m", 1)).await.unwrap();
    shard.retire(&at_epoch(2), &token("m", 1)).await.unwrap();
    assert_eq!(
        answer(shard.awaited_polls(1_000, 9).await.unwrap()),
        [third]
    );
}

/// P11: a slice's polls come in the order of their ids, page by page.
pub async fn polls_come_in_the_order_of_their_ids<F: ShardFixture>() {
    let numbers = [7, 3, 9, 1, 5];
    let polls: Vec<_> = numbers.into_iter().map(poll).collect();
    let (fixture, shard) = owner::<F>(&polls).await;
    let shard = reopen(&fixture, shard).await;
    let mut pages = Vec::new();
    let mut after = None;
    loop {
        let page = shard.polls(&slice(), after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.poll_id);
        pages.push(
            page.iter()
                .map(|poll| poll.poll_id.number())
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(pages, [vec![1, 3], vec![5, 7], vec![9]]);
    let between = Some(PollId::from_number(4));
    let rest = shard.polls(&slice(), between, 1).await.unwrap();
    assert_eq!(rest, [poll(5)]);
    assert_eq!(shard.polls(&slice_for("other"), None, 9).await.unwrap(), []);
}

/// P11: no operation finds an unknown poll.
pub async fn an_unknown_poll_is_not_found<F: ShardFixture>() {
    let (_fixture, shard) = owner::<F>(&[poll(1)]).await;
    let (id, one) = (poll(2).poll_id, at_epoch(1));
    let outcomes = [
        shard.poll(&slice(), id).await.map(drop),
        shard.tally(&slice(), id).await.map(drop),
        shard.lanes(&slice(), id).await.map(drop),
        shard.voter(&slice(), id, &voter("v")).await.map(drop),
        shard.close_poll(&one, id).await.map(drop),
        shard.widen_lanes(&one, id, 20).await.map(drop),
        shard.narrow_lanes(&one, id, 2).await.map(drop),
    ];
    for (place, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(refusal(outcome), BallotRefusal::PollNotFound, "{place}");
    }
}

/// P11: polls survive a restart and a crash.
pub async fn polls_survive_reopening<F: ShardFixture>() {
    let mut scheduled = choices(2, 3, true);
    scheduled.spec.title = Some("Später \"oder\" nie\n".to_owned());
    scheduled.spec.opening_time = Some(time(60_000));
    let (fixture, shard) = owner::<F>(&[poll(1), scheduled, poll(3)]).await;
    shard
        .close_poll(&at_epoch(1), poll(3).poll_id)
        .await
        .unwrap();
    cast(&shard, ballot(&poll(1), "v", 2, 1)).await;
    let before = snapshot(&shard, &slice(), &["v"]).await;
    let shard = reopen(&fixture, shard).await;
    assert_eq!(snapshot(&shard, &slice(), &["v"]).await, before);
    let shard = crash(&fixture, shard).await;
    assert_eq!(snapshot(&shard, &slice(), &["v"]).await, before);
}
