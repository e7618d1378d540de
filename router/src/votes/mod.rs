//! Votes: cast one, withdraw one, look one up, or send a stream of them.
//!
//! ```text
//!   one.rs     a vote in a request of its own
//!   voter.rs   what a voter has chosen
//!   stream.rs  many votes in one request: read, cast and answer at once
//!   lines.rs   a stream's bytes become lines, and lines become ballots
//! ```

mod lines;
mod one;
mod stream;
mod voter;

use std::sync::Arc;

use ballast_domain::poll::{Ballot, Verdict};
use ballast_domain::tenant::{Slice, slice_of};
use ballast_domain::{Error, ErrorCode, PollId, Result};
use futures::future::join_all;

pub(crate) use one::{
    __path_vote, __path_vote_by_post, __path_withdraw, one, vote, vote_by_post, withdraw,
};
pub(crate) use stream::{__path_votes, votes};
pub(crate) use voter::{__path_voter, voter};

use crate::State;
use crate::admit::Access;
use crate::deliver::{Load, Target, Undelivered};
use crate::load::Batch;

/// What became of a ballot.
type Cast = Result<Verdict, Arc<Error>>;

/// Ballots that go to one slice, and where in their batch they were.
struct Group {
    slice: Option<u32>,
    polls: Vec<PollId>,
    ballots: Arc<Vec<Ballot>>,
    places: Vec<usize>,
}

/// Casts ballots of one tenant, each at its slice, in their order. A verdict
/// or an error for each of them: one slice being away is not the others'
/// trouble. When a slice is split meanwhile, those of its ballots that have no
/// verdict yet are divided anew, and no others are sent again.
async fn cast(state: &State, access: &Access, ballots: Vec<Ballot>) -> Vec<Cast> {
    let mut all: Vec<Option<Cast>> = Vec::new();
    all.resize_with(ballots.len(), || None);
    let mut left: Vec<(usize, Ballot)> = ballots.into_iter().enumerate().collect();
    let mut slices = access.tenant.clone();
    while !left.is_empty() {
        let groups = by_slice(&slices.slices, std::mem::take(&mut left));
        let casting = groups.iter().map(|group| cast_group(state, access, group));
        for (group, outcome) in groups.iter().zip(join_all(casting).await) {
            let places = group.places.iter();
            match outcome {
                Ok(verdicts) => {
                    for (place, verdict) in places.zip(verdicts) {
                        all[*place] = Some(Ok(verdict));
                    }
                }
                Err(Undelivered::Failed(error)) => {
                    let error = Arc::new(error);
                    for place in places {
                        all[*place] = Some(Err(error.clone()));
                    }
                }
                Err(Undelivered::Apart) => {
                    let ballots = group.ballots.iter().cloned();
                    left.extend(places.copied().zip(ballots));
                }
            }
        }
        if !left.is_empty() {
            match state.route(access).await {
                Ok(route) => slices = route,
                Err(error) => {
                    let error = Arc::new(error);
                    for (place, _) in left.drain(..) {
                        all[place] = Some(Err(error.clone()));
                    }
                }
            }
        }
    }
    let lost = || Arc::new(Error::new(ErrorCode::Internal, "the shard gave no verdict"));
    all.into_iter()
        .map(|verdict| verdict.unwrap_or_else(|| Err(lost())))
        .collect()
}

/// Nearly every tenant has one slice, and most batches are about one poll.
fn by_slice(slices: &[Slice], ballots: Vec<(usize, Ballot)>) -> Vec<Group> {
    let mut groups: Vec<(Group, Vec<Ballot>)> = Vec::new();
    let mut last: Option<(PollId, usize)> = None;
    for (place, ballot) in ballots {
        let index = match last {
            Some((poll, index)) if poll == ballot.poll => index,
            _ => {
                let slice = slice_of(slices, ballot.poll).map(|slice| slice.slice);
                let same = groups.iter().position(|(group, _)| group.slice == slice);
                let index = same.unwrap_or(groups.len());
                if same.is_none() {
                    groups.push((Group::new(slice), Vec::new()));
                }
                groups[index].0.polls.push(ballot.poll);
                index
            }
        };
        last = Some((ballot.poll, index));
        let (group, ballots) = &mut groups[index];
        group.places.push(place);
        ballots.push(ballot);
    }
    let finish = |(mut group, ballots): (Group, Vec<Ballot>)| {
        group.polls.sort_unstable();
        group.polls.dedup();
        group.ballots = Arc::new(ballots);
        group
    };
    groups.into_iter().map(finish).collect()
}

impl Group {
    fn new(slice: Option<u32>) -> Self {
        Self {
            slice,
            polls: Vec::new(),
            ballots: Arc::default(),
            places: Vec::new(),
        }
    }
}

async fn cast_group(
    state: &State,
    access: &Access,
    group: &Group,
) -> Result<Vec<Verdict>, Undelivered> {
    let target = Target::Polls(group.polls.clone());
    let weight = bytes(&group.ballots);
    let began = state.parts.clock.micros();
    let (shard, slice, verdicts) = state
        .deliver_heavy(access, &target, Load::write(weight), |place| {
            let ballots = group.ballots.clone();
            async move {
                let verdicts = place.shard.cast(&place.at, &ballots).await?;
                let verdicts = state.settle(&place, &ballots, verdicts).await?;
                Ok((place.shard_id, place.at.slice, verdicts))
            }
        })
        .await?;
    let mut verdicts_left = verdicts.iter();
    let mut votes = group
        .ballots
        .iter()
        .map(|ballot| (ballot.poll, ballot.item, verdicts_left.next()));
    let batch = Batch {
        votes: &mut votes,
        bytes: weight as u64,
        micros: state.parts.clock.micros().saturating_sub(began),
    };
    state.note_batch(access, (&shard, &slice), batch);
    Ok(verdicts)
}

/// What ballots keep in memory.
fn bytes(ballots: &[Ballot]) -> usize {
    let names = ballots.iter().map(|ballot| ballot.voter.as_str().len());
    names.sum::<usize>() + size_of_val(ballots)
}

/// Casts a single ballot.
async fn cast_one(state: &State, access: &Access, ballot: Ballot) -> Result<Verdict> {
    let target = Target::Poll(ballot.poll);
    let ballots = Arc::new(vec![ballot]);
    let verdicts = state
        .deliver_write(access, &target, |place| {
            let ballots = ballots.clone();
            async move {
                let verdicts = place.shard.cast(&place.at, &ballots).await?;
                state.settle(&place, &ballots, verdicts).await
            }
        })
        .await?;
    let lost = || Error::new(ErrorCode::Internal, "the shard gave no verdict");
    verdicts.into_iter().next().ok_or_else(lost)
}
