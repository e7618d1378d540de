//! P16: when votes are accepted, and that time never runs backwards.

use ballast_domain::bounds::ARRIVAL_ALLOWANCE_MS;
use ballast_domain::poll::{Ballot, BallotRefusal, Poll};
use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, Timestamp};

use super::builders::*;
use super::snapshot::snapshot;
use super::{ShardFixture, SharedShard, reopen};

fn arriving(at: i64, ballot: Ballot) -> Ballot {
    Ballot {
        arrived_at: time(at),
        ..ballot
    }
}

/// Waits until the shard has closed a poll by itself; returns when it closed.
async fn closed_by_itself(shard: &SharedShard, slice: &SliceId, poll: PollId) -> Timestamp {
    let waiting = async {
        let mut seen = 0;
        loop {
            let (mark, tallies) = shard.tallies_since(seen).await.unwrap();
            let mut own = tallies
                .iter()
                .filter(|tally| tally.slice == *slice && tally.poll == poll);
            if let Some(closed_at) = own.find_map(|tally| tally.closed_at) {
                return closed_at;
            }
            seen = mark;
        }
    };
    let most = std::time::Duration::from_secs(60);
    let waited = tokio::time::timeout(most, waiting).await;
    waited.expect("the poll should close by itself")
}

/// P16: a poll accepts votes from its opening time on.
pub async fn a_scheduled_poll_opens_in_time<F: ShardFixture>() {
    let mut scheduled = poll(1);
    scheduled.spec.opening_time = Some(time(60_000));
    let (fixture, shard) = owner::<F>(&[scheduled]).await;
    let opens = time(60_000);
    let refused_now = refused(BallotRefusal::NotOpen { opens });
    assert_eq!(cast(&shard, ballot(&poll(1), "v", 0, 1)).await, refused_now);
    fixture.clock().advance(60_000);
    let early = arriving(59_999, ballot(&poll(1), "v", 0, 2));
    assert_eq!(cast(&shard, early).await, refused_now);
    let in_time = arriving(60_000, ballot(&poll(1), "v", 0, 3));
    assert_eq!(cast(&shard, in_time).await, counted(1));
}

/// P16: a vote is judged by its arrival time, within the allowance, and never
/// by a future time.
pub async fn a_vote_is_judged_by_its_arrival_within_the_allowance<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    let vote = |name: &str| ballot(&poll(1), name, 0, 1);
    fixture.clock().advance(HOUR - 1);
    let future = arriving(HOUR + 5_000, vote("future"));
    assert_eq!(cast(&shard, future).await, counted(1));
    let row = shard
        .voter(&slice(), poll(1).poll_id, &voter("future"))
        .await;
    assert_eq!(row.unwrap().unwrap().voted_at, time(HOUR - 1));
    fixture.clock().advance(1);
    let late = arriving(HOUR, vote("late"));
    assert_eq!(
        cast(&shard, late.clone()).await,
        refused(BallotRefusal::Closed)
    );
    let in_time = arriving(HOUR - 1, vote("in time"));
    assert_eq!(cast(&shard, in_time).await, counted(1));
    fixture.clock().advance(ARRIVAL_ALLOWANCE_MS - 1);
    let just = arriving(HOUR - 1, vote("just"));
    assert_eq!(cast(&shard, just).await, counted(1));
    let row = shard.voter(&slice(), poll(1).poll_id, &voter("just")).await;
    assert_eq!(row.unwrap().unwrap().voted_at, time(HOUR - 1));
    // The allowance has passed, whatever the arrival time.
    fixture.clock().advance(1);
    for arrived in [0, HOUR - 1] {
        let over = arriving(arrived, vote("over"));
        assert_eq!(cast(&shard, over).await, refused(BallotRefusal::Closed));
    }
    let tally = shard.tally(&slice(), poll(1).poll_id).await.unwrap();
    assert_eq!(tally.counts, [3, 0, 0]);
}

/// P16: the duplicate check comes before the clock: a counted voter gets that
/// answer, however late.
pub async fn a_repetition_is_answered_however_late<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    let first = ballot(&poll(1), "v", 0, 1);
    assert_eq!(cast(&shard, first.clone()).await, counted(1));
    for later in [HOUR + ARRIVAL_ALLOWANCE_MS, 10 * HOUR] {
        fixture.clock().advance(later);
        assert_eq!(cast(&shard, first.clone()).await, counted(1));
        assert_eq!(cast(&shard, ballot(&poll(1), "v", 0, 2)).await, already(1));
        let other = cast(&shard, ballot(&poll(1), "v", 1, 3)).await;
        assert_eq!(other, refused(BallotRefusal::Closed));
    }
    closed_by_itself(&shard, &slice(), poll(1).poll_id).await;
    assert_eq!(cast(&shard, first).await, counted(1));
    assert_eq!(cast(&shard, ballot(&poll(1), "v", 0, 2)).await, already(1));
}

/// P16: after the expiry and the allowance the owner closes the poll, as of its
/// expiration time, for good.
pub async fn an_expired_poll_is_closed_by_its_owner<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[poll(1), poll(2)]).await;
    let mut longer = poll(3);
    longer.spec.expiration_time = time(2 * HOUR);
    shard.create_poll(&at_epoch(1), longer).await.unwrap();
    let before = shard.digests(&slice()).await.unwrap();
    fixture.clock().advance(HOUR + ARRIVAL_ALLOWANCE_MS + 1_000);
    for number in [1, 2] {
        let id = poll(number).poll_id;
        assert_eq!(closed_by_itself(&shard, &slice(), id).await, time(HOUR));
        let closed = shard.poll(&slice(), id).await.unwrap();
        assert_eq!(closed.closed_at, Some(time(HOUR)));
    }
    let after = shard.digests(&slice()).await.unwrap();
    assert_ne!(after[..2], before[..2]);
    assert_eq!(after[2..], before[2..]);
    let seen = snapshot(&shard, &slice(), &[]).await;
    let shard = reopen(&fixture, shard).await;
    assert_eq!(snapshot(&shard, &slice(), &[]).await, seen);
}

/// P16: a poll that expired while the shard was down is closed after a restart.
pub async fn a_poll_that_expired_meanwhile_is_closed_after_reopening<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    fixture.close(shard).await;
    fixture.clock().advance(2 * HOUR);
    let shard = fixture.open().await;
    let closed_at = closed_by_itself(&shard, &slice(), poll(1).poll_id).await;
    assert_eq!(closed_at, time(HOUR));
}

/// P16: a poll that is closed manually after its expiry closed at its
/// expiration time.
pub async fn a_poll_does_not_close_after_its_expiration<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    fixture.clock().advance(HOUR + 1);
    let closed = shard
        .close_poll(&at_epoch(1), poll(1).poll_id)
        .await
        .unwrap();
    assert_eq!(closed.closed_at, Some(time(HOUR)));
}

/// P16: nothing is accepted after the closing, even if it arrived before.
pub async fn nothing_is_accepted_after_the_closing<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    fixture.clock().advance(5_000);
    shard
        .close_poll(&at_epoch(1), poll(1).poll_id)
        .await
        .unwrap();
    let before = shard.digests(&slice()).await.unwrap();
    for arrived in [0, 4_999, 5_000, 6_000] {
        let late = arriving(arrived, ballot(&poll(1), "v", 0, 1));
        assert_eq!(cast(&shard, late).await, refused(BallotRefusal::Closed));
    }
    let shard = reopen(&fixture, shard).await;
    let late = arriving(0, ballot(&poll(1), "v", 0, 1));
    assert_eq!(cast(&shard, late).await, refused(BallotRefusal::Closed));
    assert_eq!(shard.digests(&slice()).await.unwrap(), before);
}

/// P16: time never runs backwards although the clock does, also across a
/// restart.
pub async fn time_never_runs_backwards<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[changeable(1)]).await;
    let poll = changeable(1);
    fixture.clock().advance(30 * 60_000);
    let late = |request| arriving(HOUR, ballot(&poll, "v", request as u16 % 3, request));
    cast(&shard, late(1)).await;
    let voted_at = |shard: SharedShard| async move {
        let row = shard
            .voter(&slice(), changeable(1).poll_id, &voter("v"))
            .await;
        row.unwrap().unwrap().voted_at
    };
    let noon = time(30 * 60_000);
    assert_eq!(voted_at(shard.clone()).await, noon);
    fixture.clock().advance(-20 * 60_000);
    assert_eq!(cast(&shard, late(2)).await, counted(2));
    assert_eq!(voted_at(shard.clone()).await, noon);
    let shard = reopen(&fixture, shard).await;
    assert_eq!(cast(&shard, late(3)).await, counted(3));
    assert_eq!(voted_at(shard.clone()).await, noon);
    let made = shard
        .create_poll(&at_epoch(1), super::builders::poll(2))
        .await
        .unwrap();
    assert_eq!(made.created_at, noon);
    let closed = shard.close_poll(&at_epoch(1), poll.poll_id).await.unwrap();
    assert_eq!(closed.closed_at, Some(noon));
}

/// P16, P6: a sealed slice is final: its polls do not close by themselves,
/// while those of other slices do. The new owner closes them.
pub async fn a_sealed_slice_is_not_closed_by_time<F: ShardFixture>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    shard.adopt(&fenced_slice("other", 1)).await.unwrap();
    shard
        .create_poll(&fenced_slice("other", 1), poll(2))
        .await
        .unwrap();
    let m = token("m", 1);
    shard.seal(&at_epoch(2), &m).await.unwrap();
    let before = snapshot(&shard, &slice(), &[]).await;
    fixture.clock().advance(HOUR + ARRIVAL_ALLOWANCE_MS + 1_000);
    closed_by_itself(&shard, &slice_for("other"), poll(2).poll_id).await;
    assert_eq!(snapshot(&shard, &slice(), &[]).await, before);
    shard.unseal(&at_epoch(3), &m).await.unwrap();
    fixture.clock().advance(1_000);
    let closed_at = closed_by_itself(&shard, &slice(), poll(1).poll_id).await;
    assert_eq!(closed_at, time(HOUR));
}

/// P16: an expired poll is closed for everybody.
pub async fn an_expired_poll_takes_no_first_votes<F: ShardFixture>() {
    let short = Poll {
        spec: ballast_domain::poll::PollSpec {
            expiration_time: time(10),
            ..poll(1).spec
        },
        ..poll(1)
    };
    let (fixture, shard) = owner::<F>(&[short]).await;
    fixture.clock().advance(10);
    let late = arriving(10, ballot(&poll(1), "v", 0, 1));
    assert_eq!(cast(&shard, late).await, refused(BallotRefusal::Closed));
}
