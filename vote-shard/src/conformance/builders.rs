//! Builders for the cases: slices, polls, ballots, tokens.

use ballast_domain::poll::{
    Ballot, BallotOutcome, BallotRefusal, ItemSpec, Poll, PollOptions, PollSpec, RequestId,
    VoteChoice,
};
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, Timestamp, VoterId};

use super::{START_MS, ShardFixture, SharedShard, start};
use crate::VoteShard;
use crate::shard::{
    FenceError, FencedSlice, MigrationId, MigrationToken, ShardError, ShardResult, SliceStateError,
};

/// How long polls are open.
pub(crate) const HOUR: i64 = 3_600_000;

/// A time in milliseconds after the clock's start.
pub(crate) fn time(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(START_MS + ms)
}

/// The slice of most cases.
pub(crate) fn slice() -> SliceId {
    slice_for("acme")
}

pub(crate) fn slice_for(tenant: &str) -> SliceId {
    SliceId {
        tenant_id: tenant.parse().unwrap(),
        slice: 0,
    }
}

/// That slice at an epoch.
pub(crate) fn at_epoch(epoch: u64) -> FencedSlice {
    fenced_slice("acme", epoch)
}

pub(crate) fn fenced_slice(tenant: &str, epoch: u64) -> FencedSlice {
    FencedSlice {
        slice: slice_for(tenant),
        epoch: Epoch(epoch),
    }
}

pub(crate) fn token(move_id: &str, token: u64) -> MigrationToken {
    MigrationToken {
        migration_id: MigrationId(move_id.to_owned()),
        token,
    }
}

/// A poll of three items, open for an hour.
pub(crate) fn poll(number: u64) -> Poll {
    poll_with(number, PollOptions::default())
}

/// A poll with changeable votes.
pub(crate) fn changeable(number: u64) -> Poll {
    let options = PollOptions {
        vote_changeable: true,
        ..PollOptions::default()
    };
    poll_with(number, options)
}

/// A poll with several choices.
pub(crate) fn choices(number: u64, choices_max: u16, vote_changeable: bool) -> Poll {
    let options = PollOptions {
        choices_max,
        vote_changeable,
        ..PollOptions::default()
    };
    poll_with(number, options)
}

pub(crate) fn poll_with(number: u64, options: PollOptions) -> Poll {
    let items = ["a", "b", "c"].map(|name| ItemSpec {
        item_name: name.to_owned(),
        description: None,
    });
    Poll {
        poll_id: PollId::from_number(number.into()),
        request: RequestId(1_000_000 + number),
        spec: PollSpec {
            title: None,
            items: items.to_vec(),
            opening_time: None,
            expiration_time: time(HOUR),
            expected_voters: None,
            options,
        },
        created_at: time(0),
        closed_at: None,
    }
}

pub(crate) fn voter(name: &str) -> VoterId {
    VoterId::new(name).unwrap()
}

/// A ballot that arrives at the clock's start.
pub(crate) fn ballot(poll: &Poll, name: &str, item: u16, request: u64) -> Ballot {
    Ballot {
        poll: poll.poll_id,
        item: poll.item_id(item),
        voter: voter(name),
        choice: VoteChoice::For,
        request: RequestId(request),
        arrived_at: time(0),
        if_revision: None,
    }
}

/// A ballot that withdraws an item.
pub(crate) fn withdrawal(poll: &Poll, name: &str, item: u16, request: u64) -> Ballot {
    Ballot {
        choice: VoteChoice::Withdraw,
        ..ballot(poll, name, item, request)
    }
}

/// A ballot that requires a revision.
pub(crate) fn demanding(revision: u32, ballot: Ballot) -> Ballot {
    Ballot {
        if_revision: Some(revision),
        ..ballot
    }
}

pub(crate) fn counted(revision: u32) -> BallotOutcome {
    BallotOutcome::Counted { revision }
}

pub(crate) fn already(revision: u32) -> BallotOutcome {
    BallotOutcome::Already { revision }
}

pub(crate) fn refused(refusal: BallotRefusal) -> BallotOutcome {
    BallotOutcome::Refused(refusal)
}

/// Refused because the voter has chosen these items already.
pub(crate) fn refused_as_already_voted(poll: &Poll, items: &[u16]) -> BallotOutcome {
    let items = items.iter().map(|item| poll.item_id(*item)).collect();
    refused(BallotRefusal::AlreadyVoted { items })
}

/// A new shard that owns the slice at the first epoch, with these polls.
pub(crate) async fn owner<F: ShardFixture>(polls: &[Poll]) -> (F, SharedShard) {
    let (fixture, shard) = start::<F>().await;
    make_owner(&*shard, polls).await;
    (fixture, shard)
}

/// Makes a new shard the owner of the slice, with these polls.
pub(crate) async fn make_owner(shard: &dyn VoteShard, polls: &[Poll]) {
    shard.adopt(&at_epoch(1)).await.unwrap();
    for poll in polls {
        shard.create_poll(&at_epoch(1), poll.clone()).await.unwrap();
    }
}

/// Casts one ballot at the first epoch.
pub(crate) async fn cast(shard: &SharedShard, ballot: Ballot) -> BallotOutcome {
    cast_at(shard, 1, ballot).await
}

/// Casts one ballot.
pub(crate) async fn cast_at(shard: &SharedShard, epoch: u64, ballot: Ballot) -> BallotOutcome {
    let mut verdicts = shard.cast(&at_epoch(epoch), &[ballot]).await.unwrap();
    assert_eq!(verdicts.len(), 1);
    verdicts.remove(0)
}

/// The fence's error.
#[track_caller]
pub(crate) fn fenced<T: std::fmt::Debug>(outcome: ShardResult<T>) -> FenceError {
    match outcome {
        Err(ShardError::Fenced(fenced)) => fenced,
        other => panic!("expected a fence error, got {other:?}"),
    }
}

pub(crate) fn moved(epoch: u64) -> FenceError {
    FenceError::NotOwner {
        epoch: Some(Epoch(epoch)),
    }
}

pub(crate) fn behind(epoch: u64) -> FenceError {
    FenceError::Behind {
        epoch: Epoch(epoch),
    }
}

pub(crate) fn sealed(epoch: u64) -> FenceError {
    FenceError::Sealed {
        epoch: Epoch(epoch),
    }
}

/// The slice state error.
#[track_caller]
pub(crate) fn slice_state_error<T: std::fmt::Debug>(outcome: ShardResult<T>) -> SliceStateError {
    match outcome {
        Err(ShardError::SliceState(slice_state_error)) => slice_state_error,
        other => panic!("expected a slice state error, got {other:?}"),
    }
}

/// The poll's refusal.
#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(outcome: ShardResult<T>) -> BallotRefusal {
    match outcome {
        Err(ShardError::Refused(refusal)) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Retries until the shard is available.
pub(crate) async fn retry_until_available<T, A: Future<Output = ShardResult<T>>>(
    mut ask: impl FnMut() -> A,
) -> ShardResult<T> {
    let trying = async {
        loop {
            match ask().await {
                Err(ShardError::Unavailable { .. }) => tokio::task::yield_now().await,
                settled => return settled,
            }
        }
    };
    let most = std::time::Duration::from_secs(60);
    let settled = tokio::time::timeout(most, trying).await;
    settled.expect("the shard should recover")
}
