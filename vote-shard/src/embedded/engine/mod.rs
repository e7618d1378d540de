//! [`EmbeddedShard`]: opening and closing a shard, and its threads.
//!
//! ```text
//!   vote_shard  the `VoteShard` trait        cold_votes  votes in evicted polls
//!   open        reads a directory            store       its files while it is open
//!   shared      state shared with threads    published   durable counts
//!   stepped     the threads' work step by step, for simulations
//! ```

mod cold_votes;
pub(in crate::embedded) mod open;
mod published;
pub(in crate::embedded) mod shared;
pub(in crate::embedded) mod stepped;
pub(in crate::embedded) mod store;
mod vote_shard;

use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;

use ballast_domain::tenant::SliceId;
use ballast_domain::{Clock, Entropy, PollId};

use crate::embedded::background::committer;
use crate::embedded::background::spare_segments;
use crate::embedded::background::throttle::BackgroundThrottle;
use crate::embedded::compaction::compactor;
use crate::embedded::core::{Core, PendingAnswer};
use crate::embedded::disk::Disk;
use crate::embedded::engine::open::{OpenedShard, ShardOpenError, ShardOpener, ShardOptions};
use crate::embedded::engine::shared::EngineShared;
use crate::embedded::engine::stepped::{CompactorSteps, LogSteps};
use crate::embedded::export::{self, PollBatch};
use crate::embedded::log::Log;
use crate::embedded::runs::RunError;
use crate::shard::{FencedSlice, ShardError, ShardResult, SliceKey};

/// Fraction of the largest group that may wait for the disk before callers have
/// to wait: a single call must still fit into the group.
const WAITING_SHARE: usize = 4;

/// Bytes of the log that an export may read in addition to the runs.
const TAIL_BYTES_MAX: u64 = 4 << 20;
const TAIL_SHARE: u64 = 16;

/// A shard in a directory.
pub struct EmbeddedShard {
    pub(in crate::embedded) shared: Arc<EngineShared>,
    pub(in crate::embedded) entropy: Arc<dyn Entropy>,
    /// Bytes that may wait for the disk.
    waiting_bytes_max: usize,
    /// Bytes of the log that an export may read in addition to the runs.
    tail_bytes_max: u64,
    threads: Vec<JoinHandle<()>>,
    /// Where files are read.
    file_access: FileAccess,
}

/// Where files are read.
#[derive(Clone, Copy)]
enum FileAccess {
    /// On Tokio's blocking threads.
    ThreadPool,
    /// On the caller's thread.
    Inline,
}

impl EmbeddedShard {
    /// Opens the shard `name` in its directory. Returns when all acknowledged
    /// data is in memory and on disk.
    pub fn open(
        name: &str,
        disk: Arc<dyn Disk>,
        options: ShardOptions,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, ShardOpenError> {
        let (mut shard, log, opener) =
            Self::build(name, disk, options, clock, entropy, FileAccess::ThreadPool)?;
        let name = opener.name().to_owned();
        let committer = {
            let shared = shard.shared.clone();
            spawn_thread(format!("log {name}"), move || {
                committer::run(&shared, log, &opener);
            })?
        };
        // From here on, dropping the shard waits for its threads.
        shard.threads.push(committer);
        let compactor = {
            let (shared, name) = (shard.shared.clone(), name.clone());
            spawn_thread(format!("compact {name}"), move || {
                compactor::run(&shared, &options, &name);
            })?
        };
        shard.threads.insert(0, compactor);
        let spare_segments = {
            let shared = shard.shared.clone();
            spawn_thread(format!("spare {name}"), move || {
                spare_segments::run(&shared, &options, &name);
            })?
        };
        shard.threads.insert(0, spare_segments);
        Ok(shard)
    }

    /// Opens the shard without threads: the returned steps write the log and
    /// make checkpoints, and callers read files themselves. For simulations, in
    /// which one seed decides the order of events.
    pub fn open_stepped(
        name: &str,
        disk: Arc<dyn Disk>,
        options: ShardOptions,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<(Self, LogSteps, CompactorSteps), ShardOpenError> {
        let (shard, log, opener) =
            Self::build(name, disk, options, clock, entropy, FileAccess::Inline)?;
        let keeping = CompactorSteps::new(shard.shared.clone(), options, name);
        let writing = LogSteps::new(shard.shared.clone(), log, opener);
        Ok((shard, writing, keeping))
    }

    fn build(
        name: &str,
        disk: Arc<dyn Disk>,
        options: ShardOptions,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        file_access: FileAccess,
    ) -> Result<(Self, Log, ShardOpener), ShardOpenError> {
        let name = name.to_owned();
        let opener = ShardOpener {
            disk,
            options,
            name,
        };
        let OpenedShard {
            log,
            core,
            store,
            log_bytes,
        } = opener.open()?;
        let throttle = BackgroundThrottle::new(matches!(file_access, FileAccess::ThreadPool));
        let shard = Self {
            shared: Arc::new(EngineShared::new(core, store, clock, log_bytes, throttle)),
            entropy,
            waiting_bytes_max: options.log.group_bytes_max as usize / WAITING_SHARE,
            tail_bytes_max: TAIL_BYTES_MAX.min(options.checkpoint_bytes / TAIL_SHARE),
            threads: Vec::new(),
            file_access,
        };
        Ok((shard, log, opener))
    }

    /// Makes a decision that may write, and waits until it is durable.
    pub(in crate::embedded) async fn decide<T>(
        &self,
        decide: impl FnOnce(&mut Core) -> ShardResult<PendingAnswer<T>>,
    ) -> ShardResult<T> {
        self.decide_without_waiting(decide).await.durable().await?
    }

    /// Makes a decision that may write, without waiting until it is durable.
    pub(in crate::embedded) async fn decide_without_waiting<T>(
        &self,
        decide: impl FnOnce(&mut Core) -> ShardResult<PendingAnswer<T>>,
    ) -> PendingAnswer<ShardResult<T>> {
        let mut core = self.lock_with_capacity().await;
        let was_empty = core.open.is_empty();
        let answer = decide(&mut core);
        if was_empty && !core.open.is_empty() {
            self.shared.wake();
        }
        wrap_refusal(&core, answer)
    }

    /// Reads polls of a slice, from an id on.
    pub(in crate::embedded) async fn polls_from(
        &self,
        slice: &SliceId,
        first: PollId,
        most: usize,
    ) -> ShardResult<PollBatch> {
        let read = self.read(|core| core.polls_from(slice, first, most)).await;
        let (polls, are_all) = read?;
        // Copied after the lock is released.
        let polls = polls.into_iter();
        Ok(PollBatch {
            polls: polls.map(|poll| (poll.number, poll.into())).collect(),
            are_all,
        })
    }

    /// Locks the core once the bytes that wait for the disk are below the
    /// limit, or the shard refuses everything anyway. The check and the write
    /// happen under one lock, so one caller at a time adds to a group.
    async fn lock_with_capacity(&self) -> MutexGuard<'_, Core> {
        loop {
            let ahead = {
                let core = self.shared.lock();
                let has_room = core.open.payload.len() <= self.waiting_bytes_max;
                if has_room || core.trouble.is_some() {
                    return core;
                }
                let syncing = core.syncing.as_ref();
                syncing.map_or_else(|| core.open.done.clone(), |(_, done)| done.clone())
            };
            ahead.wait().await;
        }
    }

    /// Reads from memory.
    pub(in crate::embedded) async fn read<T>(
        &self,
        read: impl FnOnce(&Core) -> ShardResult<PendingAnswer<T>>,
    ) -> ShardResult<T> {
        let answer = {
            let core = self.shared.lock();
            wrap_refusal(&core, read(&core))
        };
        answer.durable().await?
    }

    /// Makes a checkpoint. When it returns, everything acknowledged so far is
    /// in runs.
    pub async fn checkpoint(&self) -> ShardResult<()> {
        let made = self.shared.checkpoint_requests.request().await;
        made.map_err(ShardError::from)
    }

    /// Returns the position at which an export starts: everything acknowledged
    /// so far. Each page reads the rows that are in no run yet, so these must
    /// be few. Otherwise a checkpoint comes first, shared by all callers that
    /// wait. The log must grow before the next one, however often exports
    /// start.
    pub(in crate::embedded) async fn export_position(&self) -> ShardResult<u64> {
        let durable = self.shared.store().log.durable();
        if self.shared.log_bytes_since_checkpoint() > self.tail_bytes_max {
            self.checkpoint().await?;
        }
        Ok(durable)
    }

    /// Takes over a slice at a higher epoch, after a restore.
    pub async fn restore_slice(&self, fenced: &FencedSlice) -> ShardResult<()> {
        let (now, key) = (self.now(), SliceKey::random(&*self.entropy));
        self.decide(|core| core.restore_slice(fenced, key, now))
            .await
    }

    /// Reads stored rows without blocking a worker thread.
    pub(in crate::embedded) async fn read_stored<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, RunError> + Send + 'static,
    ) -> ShardResult<T> {
        self.run_blocking(|| read().map_err(export::from_run_error))
            .await
    }

    pub(in crate::embedded) async fn run_blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> ShardResult<T> + Send + 'static,
    ) -> ShardResult<T> {
        match self.file_access {
            FileAccess::Inline => read(),
            FileAccess::ThreadPool => {
                let read = tokio::task::spawn_blocking(read).await;
                read.unwrap_or_else(|error| Err(ShardError::unavailable(error.to_string())))
            }
        }
    }

    /// Corrupts a stored voter's row without updating its digest: a fault for
    /// tests.
    #[cfg(any(test, feature = "testing"))]
    pub async fn corrupt_row(
        &self,
        slice: &SliceId,
        poll: PollId,
        voter: &ballast_domain::VoterId,
    ) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.corrupt_row(slice, poll, voter, now))
            .await
    }

    /// Whether the poll has been archived: then a missing row in the shard
    /// means nothing.
    pub(in crate::embedded) async fn is_archived(
        &self,
        slice: &SliceId,
        poll: PollId,
    ) -> ShardResult<bool> {
        let file = self.read(|core| core.archive(slice, poll)).await?;
        Ok(file.is_some())
    }

    pub(in crate::embedded) fn now(&self) -> ballast_domain::Timestamp {
        self.shared.clock.now()
    }
}

/// Makes an error wait for durability too: a refusal may depend on data that is
/// not durable yet. [`ShardError::Unavailable`] depends on nothing.
pub(in crate::embedded) fn wrap_refusal<T>(
    core: &Core,
    answer: ShardResult<PendingAnswer<T>>,
) -> PendingAnswer<ShardResult<T>> {
    match answer {
        Ok(PendingAnswer { value, after }) => PendingAnswer {
            value: Ok(value),
            after,
        },
        Err(away @ ShardError::Unavailable { .. }) => PendingAnswer {
            value: Err(away),
            after: None,
        },
        Err(refused) => core.answer_after_all(Err(refused)),
    }
}

impl Drop for EmbeddedShard {
    /// Writes the open group, then joins the threads.
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn spawn_thread(
    name: String,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ShardOpenError> {
    let thread = std::thread::Builder::new().name(name).spawn(run);
    thread.map_err(ShardOpenError::Thread)
}
