//! Two shards in this process, and a slice that is on one of them.

use std::path::Path;
use std::sync::Arc;

use ballast_domain::poll::{Ballot, ItemSpec, Poll, PollOptions, PollSpec, RequestId, VoteChoice};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{PollId, ShardId, VoterId};
use ballast_migration_engine::copy::{CopyProgress, PrefetchedPage};
use ballast_migration_engine::worker::MigrationSides;
use ballast_vote_shard::embedded::EmbeddedShard;
use ballast_vote_shard::shard::{MigrationId, MigrationToken};
use ballast_vote_shard::{FencedSlice, ShardDirectory, ShardError, ShardResult, VoteShard};

use crate::sample::AT;
use crate::votes;

/// Votes per call, and concurrent calls.
const BATCH: u64 = 1_024;
const CALLS: usize = 16;
/// Polls created concurrently.
const POLLS_AT_ONCE: u64 = 512;

/// A slice that is moved.
pub(super) struct Moving {
    pub(super) sides: MigrationSides,
    source: Arc<EmbeddedShard>,
    pub(super) order: MigrationToken,
    pub(super) epoch: Epoch,
    polls: Vec<Poll>,
    /// The voters.
    pub(super) voters: u64,
}

/// Both shards.
struct Two([(ShardId, Arc<EmbeddedShard>); 2]);

impl ShardDirectory for Two {
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
    /// Creates a slice with this many polls and votes on one shard, and another shard
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
            sides: MigrationSides::resolve(&two, None, from, to)?,
            source,
            order: MigrationToken {
                migration_id: MigrationId("m".to_owned()),
                token: 1,
            },
            epoch: Epoch::FIRST,
            polls: Vec::new(),
            voters: 0,
        };
        moving.source.adopt(&moving.fenced_slice()?).await?;
        moving.create(polls).await?;
        moving.vote(votes).await?;
        moving.source.checkpoint().await?;
        moving.prepare(&*moving.sides.to.1).await?;
        Ok(moving)
    }

    fn fenced_slice(&self) -> anyhow::Result<FencedSlice> {
        Ok(FencedSlice {
            slice: slice()?,
            epoch: self.epoch,
        })
    }

    /// Prepares a shard for the slice.
    pub(super) async fn prepare(&self, target: &dyn VoteShard) -> anyhow::Result<()> {
        let key = self.source.slice_key(&slice()?).await?;
        let at = FencedSlice {
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
                let (source, at) = (self.source.clone(), self.fenced_slice()?);
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

    /// Casts this many more votes, spread over the polls.
    pub(super) async fn vote(&mut self, votes: u64) -> anyhow::Result<()> {
        let end = self.voters + votes;
        while self.voters < end {
            let mut tasks = Vec::new();
            for _ in 0..CALLS {
                let some = BATCH.min(end - self.voters);
                let ballots = self.ballots(some)?;
                self.voters += some;
                let (source, at) = (self.source.clone(), self.fenced_slice()?);
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
                choice: VoteChoice::For,
                request: RequestId(n),
                arrived_at: AT,
                if_revision: None,
            })
        };
        (self.voters..self.voters + some).map(one).collect()
    }

    /// Copies until nothing is left, and returns the number of pages.
    pub(super) async fn copy(&self, copied: &mut CopyProgress) -> anyhow::Result<u64> {
        let (slice, mut ahead, mut pages) = (slice()?, PrefetchedPage::default(), 0);
        loop {
            pages += 1;
            let sides = &self.sides;
            let carried = sides.copy_page_with_prefetch(&slice, &self.order, copied, &mut ahead);
            let carried = carried.await?;
            if carried.caught_up {
                return Ok(pages);
            }
        }
    }

    /// Seals the source.
    pub(super) async fn seal(&mut self) -> anyhow::Result<()> {
        self.epoch = Epoch(self.epoch.0 + 1);
        Ok(self.source.seal(&self.fenced_slice()?, &self.order).await?)
    }

    /// Unseals the source.
    pub(super) async fn unseal(&mut self) -> anyhow::Result<()> {
        self.epoch = Epoch(self.epoch.0 + 1);
        Ok(self
            .source
            .unseal(&self.fenced_slice()?, &self.order)
            .await?)
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
