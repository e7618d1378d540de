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
use crate::deliver::Target;

/// What became of ballots that were sent together.
type Verdicts = Result<Vec<Verdict>, Arc<Error>>;

/// Ballots that go to one slice, and where in their batch they were.
struct Group {
    slice: Option<u32>,
    polls: Vec<PollId>,
    ballots: Arc<Vec<Ballot>>,
    places: Vec<usize>,
}

/// Casts ballots of one tenant, each at its slice, in their order. A verdict
/// or an error for each of them: one slice being away is not the others'
/// trouble.
async fn cast(
    state: &State,
    access: &Access,
    ballots: Vec<Ballot>,
) -> Vec<Result<Verdict, Arc<Error>>> {
    let count = ballots.len();
    let groups = by_slice(&access.tenant.slices, ballots);
    let casting = groups.iter().map(|group| cast_group(state, access, group));
    let verdicts = join_all(casting).await;
    let mut all: Vec<Option<Result<Verdict, Arc<Error>>>> = Vec::new();
    all.resize_with(count, || None);
    for (group, verdicts) in groups.iter().zip(verdicts) {
        match verdicts {
            Ok(verdicts) => {
                for (place, verdict) in group.places.iter().zip(verdicts) {
                    all[*place] = Some(Ok(verdict));
                }
            }
            Err(error) => {
                for place in &group.places {
                    all[*place] = Some(Err(error.clone()));
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
fn by_slice(slices: &[Slice], ballots: Vec<Ballot>) -> Vec<Group> {
    let mut groups: Vec<(Group, Vec<Ballot>)> = Vec::new();
    let mut last: Option<(PollId, usize)> = None;
    for (place, ballot) in ballots.into_iter().enumerate() {
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

async fn cast_group(state: &State, access: &Access, group: &Group) -> Verdicts {
    let target = Target::Polls(group.polls.clone());
    state
        .deliver(access, &target, |place| {
            let ballots = group.ballots.clone();
            async move {
                let verdicts = place.shard.cast(&place.at, &ballots).await?;
                state.settle(&place, &ballots, verdicts).await
            }
        })
        .await
        .map_err(Arc::new)
}

/// Casts a single ballot.
async fn cast_one(state: &State, access: &Access, ballot: Ballot) -> Result<Verdict> {
    let target = Target::Poll(ballot.poll);
    let ballots = Arc::new(vec![ballot]);
    let verdicts = state
        .deliver(access, &target, |place| {
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
