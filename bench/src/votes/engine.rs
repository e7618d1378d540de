//! The embedded engine, asked as the router asks it.

use std::path::Path;
use std::sync::Arc;

use ballast_domain::poll::{Ballot, Choice, ItemSpec, Poll, PollOptions, PollSpec, RequestId};
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_domain::{Clock, Entropy, PollId, Timestamp, VoterId};
use ballast_vote_shard::embedded::disk::RealDisk;
use ballast_vote_shard::embedded::{EmbeddedShard, Options};
use ballast_vote_shard::{At, VoteShard};

use crate::sample::AT;

/// What a vote of these takes in the log.
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

pub(super) struct Contender {
    shard: Arc<EmbeddedShard>,
    poll: Poll,
}

fn at() -> anyhow::Result<At> {
    Ok(At {
        slice: SliceId {
            tenant_id: "acme".parse()?,
            slice: 0,
        },
        epoch: Epoch::FIRST,
    })
}

impl Contender {
    pub(super) async fn open(directory: &Path) -> anyhow::Result<Self> {
        let disk = Arc::new(RealDisk::open(directory)?);
        let shard = EmbeddedShard::open(
            "bench",
            disk,
            Options::default(),
            Arc::new(Still),
            Arc::new(Fixed),
        )?;
        shard.found(&at()?).await?;
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
                options: PollOptions::default(),
            },
            created_at: AT,
            closed_at: None,
        };
        let poll = shard.create_poll(&at()?, poll).await?;
        Ok(Self {
            shard: Arc::new(shard),
            poll,
        })
    }

    /// Votes of voters that have not voted, in batches, spread over items.
    pub(super) fn ballots(
        &self,
        round: usize,
        votes: usize,
        batch: usize,
        items: u64,
    ) -> Vec<Vec<Ballot>> {
        let first = (round * votes) as u64;
        let one = |n: u64| Ballot {
            poll: self.poll.poll_id,
            item: self
                .poll
                .item_id((n.wrapping_mul(0x9e37_79b9) % items) as u16),
            voter: voter(n),
            choice: Choice::For,
            request: RequestId(n),
            arrived_at: AT,
            if_revision: None,
        };
        let all: Vec<u64> = (first..first + votes as u64).collect();
        all.chunks(batch)
            .map(|numbers| numbers.iter().copied().map(one).collect())
            .collect()
    }

    /// Casts the batches, so many at the same time.
    pub(super) async fn cast(&self, batches: Vec<Vec<Ballot>>, calls: usize) -> anyhow::Result<()> {
        let batches = Arc::new(batches);
        let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let mut tasks = Vec::new();
        for _ in 0..calls {
            let (shard, batches, next) = (self.shard.clone(), batches.clone(), next.clone());
            tasks.push(tokio::spawn(async move {
                let at = at()?;
                loop {
                    let place = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(batch) = batches.get(place) else {
                        return anyhow::Ok(());
                    };
                    shard.cast(&at, batch).await?;
                }
            }));
        }
        for task in tasks {
            task.await??;
        }
        Ok(())
    }
}

#[allow(clippy::unwrap_used, reason = "digits are a name")]
fn voter(n: u64) -> VoterId {
    VoterId::new(&format!("voter-{n:08}")).unwrap()
}
