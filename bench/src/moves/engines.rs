//! Two shards in this process, and a slice that is on one of them.

use std::path::Path;
use std::sync::Arc;

use ballast_domain::poll::{Ballot, Choice, ItemSpec, Poll, PollOptions, PollSpec, RequestId};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, ShardId, VoterId};
use ballast_migration_engine::copy::{Ahead, Copied};
use ballast_migration_engine::worker::Sides;
use ballast_vote_shard::embedded::EmbeddedShard;
use ballast_vote_shard::shard::{MoveId, Order};
use ballast_vote_shard::{At, ShardError, ShardResult, Shards, VoteShard};

use crate::sample::AT;
use crate::votes;

/// Votes in one call, and calls at once.
const BATCH: u64 = 1_024;
const CALLS: usize = 16;
/// Polls that are created at once.
const POLLS_AT_ONCE: u64 = 512;

/// A slice that moves.
pub(super) struct Moving {
    pub(super) sides: Sides,
    source: Arc<EmbeddedShard>,
    pub(super) order: Order,
    pub(super) epoch: Epoch,
    polls: Vec<Poll>,
    /// Who voted.
    pub(super) voters: u64,
}

/// Both shards.
struct Two([(ShardId, Arc<EmbeddedShard>); 2]);

impl Shards for Two {
    fn shard(&self, id: &ShardId) -> ShardResult<Arc<dyn VoteShard>> {
        let found = self.0.iter().find(|(own, _)| own == id);
        let found = found.ok_or_else(|| ShardError::unavailable("there is no such shard"))?;
        Ok(found.1.clone())
    }
}

pub(super) fn slice() -> anyhow::Result<SliceId> {
    Ok(SliceId {
        tenant_id: "acme".parse()?,
        slice: 0,
    })
}

impl Moving {
    /// A slice with so many polls and votes on one shard, and another shard
    /// that is prepared for it.
    pub(super) async fn new(directory: &Path, polls: u64, votes: u64) -> anyhow::Result<Self> {
        let source = Arc::new(votes::shard(&directory.join("source"))?);
        let target = Arc::new(votes::shard(&directory.join("target"))?);
        let two = Two([
            ("source".parse()?, source.clone()),
            ("target".parse()?, target),
        ]);
        let [(from, _), (to, _)] = &two.0;
        let mut moving = Self {
            sides: Sides::find(&two, None, from, to)?,
            source,
            order: Order {
                move_id: MoveId("m".to_owned()),
                token: 1,
            },
            epoch: Epoch::FIRST,
            polls: Vec::new(),
            voters: 0,
        };
        moving.source.found(&moving.at()?).await?;
        moving.create(polls).await?;
        moving.vote(votes).await?;
        moving.source.checkpoint().await?;
        moving.prepare(&*moving.sides.to.1).await?;
        Ok(moving)
    }

    fn at(&self) -> anyhow::Result<At> {
        Ok(At {
            slice: slice()?,
            epoch: self.epoch,
        })
    }

    /// Has a shard make room for the slice.
    pub(super) async fn prepare(&self, target: &dyn VoteShard) -> anyhow::Result<()> {
        let key = self.source.slice_key(&slice()?).await?;
        let at = At {
            slice: slice()?,
            epoch: Epoch(2),
        };
        let whole = HashRange::WHOLE;
        Ok(target.prepare(&at, &self.order, key, whole).await?)
    }

    async fn create(&mut self, polls: u64) -> anyhow::Result<()> {
        let mut first = 0;
        while first < polls {
            let some = POLLS_AT_ONCE.min(polls - first);
            let mut tasks = Vec::new();
            for n in first..first + some {
                let (source, at) = (self.source.clone(), self.at()?);
                tasks.push(tokio::spawn(async move {
                    source.create_poll(&at, poll(n)).await
                }));
            }
            for task in tasks {
                self.polls.push(task.await??);
            }
            first += some;
        }
        Ok(())
    }

    /// Has so many more vote, spread over the polls.
    pub(super) async fn vote(&mut self, votes: u64) -> anyhow::Result<()> {
        let end = self.voters + votes;
        while self.voters < end {
            let mut tasks = Vec::new();
            for _ in 0..CALLS {
                let some = BATCH.min(end - self.voters);
                let ballots = self.ballots(some)?;
                self.voters += some;
                let (source, at) = (self.source.clone(), self.at()?);
                tasks.push(tokio::spawn(
                    async move { source.cast(&at, &ballots).await },
                ));
            }
            for task in tasks {
                task.await??;
            }
        }
        Ok(())
    }

    fn ballots(&self, some: u64) -> anyhow::Result<Vec<Ballot>> {
        let one = |n: u64| {
            let poll = &self.polls[n as usize % self.polls.len()];
            Ok(Ballot {
                poll: poll.poll_id,
                item: poll.item_id((n % 2) as u16),
                voter: VoterId::new(&format!("voter-{n:08}"))?,
                choice: Choice::For,
                request: RequestId(n),
                arrived_at: AT,
                if_revision: None,
            })
        };
        (self.voters..self.voters + some).map(one).collect()
    }

    /// Copies until nothing is left; how many pages that took.
    pub(super) async fn copy(&self, copied: &mut Copied) -> anyhow::Result<u64> {
        let (slice, mut ahead, mut pages) = (slice()?, Ahead::default(), 0);
        loop {
            pages += 1;
            let sides = &self.sides;
            let carried = sides.carry_ahead(&slice, &self.order, copied, &mut ahead);
            let carried = carried.await?;
            if carried.caught_up {
                return Ok(pages);
            }
        }
    }

    /// Takes no more votes.
    pub(super) async fn seal(&mut self) -> anyhow::Result<()> {
        self.epoch = Epoch(self.epoch.0 + 1);
        Ok(self.source.seal(&self.at()?, &self.order).await?)
    }

    /// Takes votes again.
    pub(super) async fn unseal(&mut self) -> anyhow::Result<()> {
        self.epoch = Epoch(self.epoch.0 + 1);
        Ok(self.source.unseal(&self.at()?, &self.order).await?)
    }
}

fn poll(n: u64) -> Poll {
    let items = ["one", "two"].map(|name| ItemSpec {
        item_name: name.to_owned(),
        description: None,
    });
    Poll {
        poll_id: PollId::from_number(u128::from(n) + 1),
        request: RequestId(u64::MAX - n),
        spec: PollSpec {
            title: None,
            items: items.to_vec(),
            opening_time: None,
            expiration_time: AT.plus_seconds(86_400),
            expected_voters: None,
            options: PollOptions::default(),
        },
        created_at: AT,
        closed_at: None,
    }
}
