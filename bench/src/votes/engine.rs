//! The embedded engine, called like the router calls it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use ballast_domain::poll::{Ballot, ItemSpec, Poll, PollOptions, PollSpec, RequestId, VoteChoice};
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{Clock, Entropy, PollId, Timestamp, VoterId};
use ballast_vote_shard::embedded::disk::RealDisk;
use ballast_vote_shard::embedded::{EmbeddedShard, ShardOptions};
use ballast_vote_shard::{FencedSlice, VoteShard};

use super::rounds::Contender;
use super::work::{Took, Work, voter};
use crate::sample::AT;
use crate::stopwatch::{Stopwatch, cpu_time};

/// The size of such a vote in the log.
pub(super) const VOTE_BYTES: usize = 32;

struct Still;
impl Clock for Still {
    fn now(&self) -> Timestamp {
        AT
    }
}

struct Fixed;
impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

pub(super) struct Engine {
    shard: Arc<EmbeddedShard>,
    poll: Poll,
}

fn fenced_slice() -> anyhow::Result<FencedSlice> {
    Ok(FencedSlice {
        slice: SliceId {
            tenant_id: "acme".parse()?,
            slice: 0,
        },
        epoch: Epoch::FIRST,
    })
}

impl Engine {
    pub(super) async fn open(directory: &Path) -> anyhow::Result<Self> {
        let shard = shard(directory)?;
        shard.adopt(&fenced_slice()?).await?;
        let items = (0..1_000).map(|n| ItemSpec {
            item_name: format!("item {n}"),
            description: None,
        });
        let poll = Poll {
            poll_id: PollId::from_number(5),
            request: RequestId(1),
            spec: PollSpec {
                title: None,
                items: items.collect(),
                opening_time: None,
                expiration_time: AT.plus_seconds(86_400),
                expected_voters: None,
                options: PollOptions::default(),
            },
            created_at: AT,
            closed_at: None,
        };
        let poll = shard.create_poll(&fenced_slice()?, poll).await?;
        Ok(Self {
            shard: Arc::new(shard),
            poll,
        })
    }

    /// Ballots, call by call.
    fn ballots(&self, work: &Work) -> anyhow::Result<Vec<Vec<Ballot>>> {
        let one = |n: u64| {
            Ok(Ballot {
                poll: self.poll.poll_id,
                item: self.poll.item_id(work.item(n)),
                voter: VoterId::new(&voter(n))?,
                choice: VoteChoice::For,
                request: RequestId(n),
                arrived_at: AT,
                if_revision: None,
            })
        };
        work.batches()
            .map(|voters| voters.map(one).collect())
            .collect()
    }

    /// Waits until everything is in sorted files and the compactor is idle.
    pub(super) async fn settle(&self) -> anyhow::Result<()> {
        Ok(self.shard.checkpoint().await?)
    }
}

/// Opens an existing shard, like a restart. Returns the number of voters in memory.
pub(super) async fn reopen(directory: &Path) -> anyhow::Result<(EmbeddedShard, u64)> {
    let shard = shard(directory)?;
    let voters = shard.usage().await.voters_in_memory;
    Ok((shard, voters))
}

/// A shard in a directory.
pub(crate) fn shard(directory: &Path) -> anyhow::Result<EmbeddedShard> {
    let disk = Arc::new(RealDisk::open(directory)?);
    Ok(EmbeddedShard::open(
        "bench",
        disk,
        ShardOptions::default(),
        Arc::new(Still),
        Arc::new(Fixed),
    )?)
}

#[async_trait]
impl Contender for Engine {
    async fn cast(&mut self, work: &Work) -> anyhow::Result<Took> {
        let batches = Arc::new(self.ballots(work)?);
        let next = Arc::new(AtomicUsize::new(0));
        let (watch, before) = (Stopwatch::start(), cpu_time());
        let mut tasks = Vec::new();
        for _ in 0..work.shape.calls {
            let (shard, batches, next) = (self.shard.clone(), batches.clone(), next.clone());
            tasks.push(tokio::spawn(async move {
                let at = fenced_slice()?;
                while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    shard.cast(&at, batch).await?;
                }
                anyhow::Ok(())
            }));
        }
        for task in tasks {
            task.await??;
        }
        Ok(Took {
            wall: watch.elapsed(),
            cpu: cpu_time().saturating_sub(before),
        })
    }

    async fn counted(&mut self) -> anyhow::Result<Option<u64>> {
        let tally = self
            .shard
            .tally(&fenced_slice()?.slice, self.poll.poll_id)
            .await?;
        Ok(Some(tally.counts.iter().sum()))
    }
}
