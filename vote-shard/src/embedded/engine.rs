//! The embedded engine as a [`VoteShard`].

use std::sync::Arc;
use std::thread::JoinHandle;

use async_trait::async_trait;
use ballast_domain::poll::{Ballot, Poll, Verdict};
use ballast_domain::tenant::SliceId;
use ballast_domain::{Clock, Entropy, PollId, VoterId};

use super::committer::{self, Shared};
use super::core::{Answer, Core};
use super::disk::Disk;
use super::open::{OpenError, Opener, Options};
use crate::shard::{
    At, Change, Cursor, Digest, Fence, Order, Page, ShardResult, SliceKey, Tally, Usage, VoteShard,
    VoterRow,
};

/// Bytes that may wait for the disk before callers have to.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// A shard in a directory.
pub struct EmbeddedShard {
    shared: Arc<Shared>,
    entropy: Arc<dyn Entropy>,
    committer: Option<JoinHandle<()>>,
}

impl EmbeddedShard {
    /// Opens the shard `name` in its directory. Returns when everything that
    /// was acknowledged is in memory and on disk.
    pub fn open(
        name: &str,
        disk: Arc<dyn Disk>,
        options: Options,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, OpenError> {
        let name = name.to_owned();
        let opener = Opener {
            disk,
            options,
            name,
        };
        let opened = opener.open()?;
        let shared = Arc::new(Shared::new(opened.core, clock));
        let log = opened.log;
        let committer = {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(format!("log {}", opener.name()))
                .spawn(move || committer::run(&shared, log, &opener))
        };
        let committer = committer.map_err(OpenError::Thread)?;
        Ok(Self {
            shared,
            entropy,
            committer: Some(committer),
        })
    }

    /// Decides something that may write.
    async fn decide<T>(
        &self,
        decide: impl FnOnce(&mut Core) -> ShardResult<Answer<T>>,
    ) -> ShardResult<T> {
        self.wait_for_room().await;
        let answer = {
            let mut core = self.shared.lock();
            let was_empty = core.open.is_empty();
            let answer = decide(&mut core);
            if was_empty && !core.open.is_empty() {
                self.shared.wake();
            }
            whole(&core, answer)
        };
        answer.durable().await?
    }

    /// Waits while too much waits for the disk.
    async fn wait_for_room(&self) {
        loop {
            let ahead = {
                let core = self.shared.lock();
                match &core.syncing {
                    Some((_, done)) if core.open.payload.len() > WAITING_BYTES_MAX => done.clone(),
                    _ => return,
                }
            };
            ahead.wait().await;
        }
    }

    /// Answers from memory.
    async fn read<T>(&self, read: impl FnOnce(&Core) -> ShardResult<Answer<T>>) -> ShardResult<T> {
        let answer = {
            let core = self.shared.lock();
            whole(&core, read(&core))
        };
        answer.durable().await?
    }

    fn now(&self) -> ballast_domain::Timestamp {
        self.shared.clock.now()
    }
}

/// A refusal, too, may rest on something that is not durable yet.
fn whole<T>(core: &Core, answer: ShardResult<Answer<T>>) -> Answer<ShardResult<T>> {
    match answer {
        Ok(Answer { value, after }) => Answer {
            value: Ok(value),
            after,
        },
        Err(refused) => core.after_all(Err(refused)),
    }
}

impl Drop for EmbeddedShard {
    /// What was gathered is still written.
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(committer) = self.committer.take() {
            let _ = committer.join();
        }
    }
}

#[async_trait]
impl VoteShard for EmbeddedShard {
    async fn create_poll(&self, at: &At, poll: Poll) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.create_poll(at, poll, now)).await
    }

    async fn poll(&self, slice: &SliceId, poll: PollId) -> ShardResult<Poll> {
        self.read(|core| core.poll(slice, poll)).await
    }

    async fn polls(
        &self,
        slice: &SliceId,
        after: Option<PollId>,
        most: usize,
    ) -> ShardResult<Vec<Poll>> {
        self.read(|core| core.polls(slice, after, most)).await
    }

    async fn close_poll(&self, at: &At, poll: PollId) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.close_poll(at, poll, now)).await
    }

    async fn widen_lanes(&self, at: &At, poll: PollId, lanes: u16) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.widen_lanes(at, poll, lanes, now))
            .await
    }

    async fn cast(&self, at: &At, ballots: &[Ballot]) -> ShardResult<Vec<Verdict>> {
        let now = self.now();
        self.decide(|core| core.cast(at, ballots, now)).await
    }

    async fn tally(&self, slice: &SliceId, poll: PollId) -> ShardResult<Tally> {
        self.read(|core| core.tally(slice, poll)).await
    }

    async fn lanes(&self, slice: &SliceId, poll: PollId) -> ShardResult<Vec<Vec<u64>>> {
        self.read(|core| core.lanes(slice, poll)).await
    }

    async fn voter(
        &self,
        slice: &SliceId,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<Option<VoterRow>> {
        self.read(|core| core.voter(slice, poll, voter)).await
    }

    async fn tallies_since(&self, seen: u64) -> ShardResult<(u64, Vec<Tally>)> {
        self.shared.lock().check()?;
        Ok(self.shared.published.since(seen).await)
    }

    async fn usage(&self) -> Usage {
        let core = self.shared.lock();
        Usage {
            trouble: core.trouble.clone(),
            slices: core.state.slices.len() as u64,
            polls: core.state.polls.len() as u64,
            voters_in_memory: core.state.voters,
            voters_in_memory_max: core.limits.voters_max,
            disk_bytes: 0,
        }
    }

    async fn found(&self, at: &At) -> ShardResult<()> {
        let (now, key) = (self.now(), SliceKey::random(&*self.entropy));
        self.decide(|core| core.found(at, key, now)).await
    }

    async fn fence(&self, slice: &SliceId) -> ShardResult<Option<Fence>> {
        self.read(|core| core.fence(slice)).await
    }

    async fn prepare(&self, at: &At, order: &Order, key: SliceKey) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.prepare(at, order, key, now)).await
    }

    async fn seal(&self, at: &At, order: &Order) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.step(Fence::seal, at, order, now))
            .await
    }

    async fn unseal(&self, at: &At, order: &Order) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.step(Fence::unseal, at, order, now))
            .await
    }

    async fn activate(&self, at: &At, order: &Order) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.step(Fence::activate, at, order, now))
            .await
    }

    async fn retire(&self, at: &At, order: &Order) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.step(Fence::retire, at, order, now))
            .await
    }

    async fn purge(&self, slice: &SliceId, order: &Order, most: usize) -> ShardResult<usize> {
        let now = self.now();
        self.decide(|core| core.purge(slice, order, most, now))
            .await
    }

    async fn slice_key(&self, slice: &SliceId) -> ShardResult<SliceKey> {
        self.read(|core| core.slice_key(slice)).await
    }

    async fn export(&self, slice: &SliceId, cursor: &Cursor, bytes: usize) -> ShardResult<Page> {
        let _ = (slice, cursor, bytes);
        Err(crate::shard::ShardError::unavailable("not yet"))
    }

    async fn import(&self, slice: &SliceId, order: &Order, changes: &[Change]) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.import(slice, order, changes, now))
            .await
    }

    async fn digests(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>> {
        self.read(|core| core.digests(slice)).await
    }

    async fn scrub(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>> {
        let _ = slice;
        Err(crate::shard::ShardError::unavailable("not yet"))
    }
}
