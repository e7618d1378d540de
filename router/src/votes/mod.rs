//! Votes: cast one, withdraw one, look one up, or send a stream of them.
//!
//! ```text
//!   one.rs     one vote per request
//!   voter.rs   what a voter has chosen
//!   stream.rs  many votes per request: reading, casting and answering overlap
//!   lines.rs   parses a stream's bytes into lines and lines into ballots
//! ```

mod lines;
mod one;
mod stream;
mod voter;

use std::sync::Arc;

use ballast_domain::poll::{Ballot, BallotOutcome};
use ballast_domain::tenant::{Slice, find_slice};
use ballast_domain::{Error, ErrorCode, PollId, Result};
use futures::future::join_all;

pub(crate) use one::{
    __path_vote, __path_vote_by_post, __path_withdraw, handle_vote, vote, vote_by_post, withdraw,
};
pub(crate) use stream::{__path_votes, votes};
pub(crate) use voter::{__path_voter, voter};

use crate::RouterState;
use crate::admit::Access;
use crate::deliver::{CallCost, DeliveryError, RouteKey};
use crate::load::VoteBatch;

const NO_OUTCOME: &str = "the shard returned no outcome for the vote";

/// The outcome of one ballot of a batch.
type CastResult = Result<BallotOutcome, Arc<Error>>;

/// Ballots of a batch that go to the same slice, with their positions in the
/// batch.
struct SliceGroup {
    slice: Option<u32>,
    polls: Vec<PollId>,
    ballots: Arc<Vec<Ballot>>,
    positions: Vec<usize>,
}

/// Casts ballots of one tenant, each at its slice, in order. Returns an outcome
/// or an error for each: an unavailable slice fails only its own ballots. When a
/// slice is split in the meantime, only its ballots are grouped and sent again.
async fn cast_ballots(
    state: &RouterState,
    access: &Access,
    ballots: Vec<Ballot>,
) -> Vec<CastResult> {
    let mut all: Vec<Option<CastResult>> = Vec::new();
    all.resize_with(ballots.len(), || None);
    let mut remaining: Vec<(usize, Ballot)> = ballots.into_iter().enumerate().collect();
    let mut route = access.tenant.clone();
    while !remaining.is_empty() {
        let groups = group_by_slice(&route.slices, std::mem::take(&mut remaining));
        let casting = groups.iter().map(|group| cast_group(state, access, group));
        for (group, cast) in groups.iter().zip(join_all(casting).await) {
            let positions = group.positions.iter();
            match cast {
                Ok(outcomes) => {
                    for (index, outcome) in positions.zip(outcomes) {
                        all[*index] = Some(Ok(outcome));
                    }
                }
                Err(DeliveryError::Failed(error)) => {
                    let error = Arc::new(error);
                    for index in positions {
                        all[*index] = Some(Err(error.clone()));
                    }
                }
                Err(DeliveryError::SpansSlices) => {
                    let ballots = group.ballots.iter().cloned();
                    remaining.extend(positions.copied().zip(ballots));
                }
            }
        }
        if !remaining.is_empty() {
            match state.route(&access.tenant.tenant_id).await {
                Ok(newer) => route = newer,
                Err(error) => {
                    let error = Arc::new(error);
                    for (index, _) in remaining.drain(..) {
                        all[index] = Some(Err(error.clone()));
                    }
                }
            }
        }
    }
    let missing = || Arc::new(Error::new(ErrorCode::Internal, NO_OUTCOME));
    all.into_iter()
        .map(|outcome| outcome.unwrap_or_else(|| Err(missing())))
        .collect()
}

/// Groups ballots by the slice of their poll. Nearly every tenant has one slice,
/// and most batches are about one poll, so the last poll's group is remembered.
fn group_by_slice(slices: &[Slice], ballots: Vec<(usize, Ballot)>) -> Vec<SliceGroup> {
    let mut groups: Vec<(SliceGroup, Vec<Ballot>)> = Vec::new();
    let mut last: Option<(PollId, usize)> = None;
    for (position, ballot) in ballots {
        let index = match last {
            Some((poll, index)) if poll == ballot.poll => index,
            _ => {
                let slice = find_slice(slices, ballot.poll).map(|slice| slice.slice);
                let same = groups.iter().position(|(group, _)| group.slice == slice);
                let index = same.unwrap_or(groups.len());
                if same.is_none() {
                    groups.push((SliceGroup::new(slice), Vec::new()));
                }
                groups[index].0.polls.push(ballot.poll);
                index
            }
        };
        last = Some((ballot.poll, index));
        let (group, ballots) = &mut groups[index];
        group.positions.push(position);
        ballots.push(ballot);
    }
    let finish = |(mut group, ballots): (SliceGroup, Vec<Ballot>)| {
        group.polls.sort_unstable();
        group.polls.dedup();
        group.ballots = Arc::new(ballots);
        group
    };
    groups.into_iter().map(finish).collect()
}

impl SliceGroup {
    fn new(slice: Option<u32>) -> Self {
        Self {
            slice,
            polls: Vec::new(),
            ballots: Arc::default(),
            positions: Vec::new(),
        }
    }
}

/// Casts the ballots of one group. Groups run concurrently, so each uses its own
/// copy of the access; the response of the stream has already begun, so the
/// summary of the copy is not needed.
async fn cast_group(
    state: &RouterState,
    access: &Access,
    group: &SliceGroup,
) -> Result<Vec<BallotOutcome>, DeliveryError> {
    let route_key = RouteKey::Polls(group.polls.clone());
    let weight = ballots_bytes(&group.ballots);
    let began = state.parts.clock.micros();
    let (shard, slice, outcomes) = state
        .deliver_with_cost(
            &mut access.clone(),
            &route_key,
            CallCost::write(weight),
            |target| {
                let ballots = group.ballots.clone();
                async move {
                    let outcomes = target.shard.cast(&target.fenced, &ballots).await?;
                    let outcomes = state.judge_archived(&target, &ballots, outcomes).await?;
                    Ok((target.shard_id, target.fenced.slice, outcomes))
                }
            },
        )
        .await?;
    let mut outcomes_left = outcomes.iter();
    let mut votes = group
        .ballots
        .iter()
        .map(|ballot| (ballot.poll, ballot.item, outcomes_left.next()));
    let batch = VoteBatch {
        votes: &mut votes,
        bytes: weight as u64,
        micros: state.parts.clock.micros().saturating_sub(began),
    };
    state.record_votes(access, (&shard, &slice), batch);
    Ok(outcomes)
}

/// How many bytes ballots keep in memory.
fn ballots_bytes(ballots: &[Ballot]) -> usize {
    let names = ballots.iter().map(|ballot| ballot.voter.as_str().len());
    names.sum::<usize>() + size_of_val(ballots)
}

/// Casts a single ballot.
async fn cast_one(
    state: &RouterState,
    access: &mut Access,
    ballot: Ballot,
) -> Result<BallotOutcome> {
    let route_key = RouteKey::Poll(ballot.poll);
    let ballots = Arc::new(vec![ballot]);
    let outcomes = state
        .deliver_write(access, &route_key, |target| {
            let ballots = ballots.clone();
            async move {
                let outcomes = target.shard.cast(&target.fenced, &ballots).await?;
                state.judge_archived(&target, &ballots, outcomes).await
            }
        })
        .await?;
    let missing = || Error::new(ErrorCode::Internal, NO_OUTCOME);
    outcomes.into_iter().next().ok_or_else(missing)
}
