//! The embedded engine as a [`VoteShard`].

use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;

use ballast_domain::tenant::SliceId;
use ballast_domain::{Clock, Entropy, PollId};

use super::committer;
use super::core::{Answer, Core};
use super::disk::Disk;
use super::export::{self, SomePolls};
use super::keeper;
use super::log::Log;
use super::manners::Manners;
use super::open::{OpenError, Opened, Opener, Options};
use super::room;
use super::runs::RunError;
use super::shared::Shared;
use super::stepped::{KeepSteps, LogSteps};
use crate::shard::{At, ShardError, ShardResult, SliceKey};

/// Which part of the largest group may wait for the disk before callers have
/// to: what a single call adds must still fit.
const WAITING_SHARE: usize = 4;

/// How much of the log an export reads beside the runs at most, and which part
/// of what the log grows by between checkpoints: exports may make them more
/// frequent, and not by more than this.
const TAIL_BYTES_MAX: u64 = 4 << 20;
const TAIL_SHARE: u64 = 16;

/// A shard in a directory.
pub struct EmbeddedShard {
    pub(super) shared: Arc<Shared>,
    pub(super) entropy: Arc<dyn Entropy>,
    /// Bytes that may wait for the disk.
    waiting_bytes_max: usize,
    /// Bytes of the log that an export may read beside the runs.
    tail_bytes_max: u64,
    threads: Vec<JoinHandle<()>>,
    /// Where files are read.
    reading: Reading,
}

/// Where files are read.
#[derive(Clone, Copy)]
enum Reading {
    /// On threads where that holds nobody up.
    Aside,
    /// On the thread of whoever asks.
    Here,
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
        let (mut shard, log, opener) =
            Self::opened(name, disk, options, clock, entropy, Reading::Aside)?;
        let name = opener.name().to_owned();
        let committer = {
            let shared = shard.shared.clone();
            thread(format!("log {name}"), move || {
                committer::run(&shared, log, &opener);
            })?
        };
        // Dropped before it is returned, the shard waits for what it has.
        shard.threads.push(committer);
        let keeper = {
            let (shared, name) = (shard.shared.clone(), name.clone());
            thread(format!("keep {name}"), move || {
                keeper::run(&shared, &options, &name);
            })?
        };
        shard.threads.insert(0, keeper);
        let room = {
            let shared = shard.shared.clone();
            thread(format!("room {name}"), move || {
                room::run(&shared, &options, &name);
            })?
        };
        shard.threads.insert(0, room);
        Ok(shard)
    }

    /// Opens the shard without any threads: nothing is written and nothing is
    /// kept but by these steps, and files are read by whoever asks. For
    /// simulations, in which one seed decides what happens when.
    pub fn open_stepped(
        name: &str,
        disk: Arc<dyn Disk>,
        options: Options,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<(Self, LogSteps, KeepSteps), OpenError> {
        let (shard, log, opener) =
            Self::opened(name, disk, options, clock, entropy, Reading::Here)?;
        let keeping = KeepSteps::new(shard.shared.clone(), options, name);
        let writing = LogSteps::new(shard.shared.clone(), log, opener);
        Ok((shard, writing, keeping))
    }

    fn opened(
        name: &str,
        disk: Arc<dyn Disk>,
        options: Options,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        reading: Reading,
    ) -> Result<(Self, Log, Opener), OpenError> {
        let name = name.to_owned();
        let opener = Opener {
            disk,
            options,
            name,
        };
        let Opened {
            log,
            core,
            store,
            log_bytes,
        } = opener.open()?;
        let manners = Manners::new(matches!(reading, Reading::Aside));
        let shard = Self {
            shared: Arc::new(Shared::new(core, store, clock, log_bytes, manners)),
            entropy,
            waiting_bytes_max: options.log.group_bytes_max as usize / WAITING_SHARE,
            tail_bytes_max: TAIL_BYTES_MAX.min(options.checkpoint_bytes / TAIL_SHARE),
            threads: Vec::new(),
            reading,
        };
        Ok((shard, log, opener))
    }

    /// Decides something that may write.
    pub(super) async fn decide<T>(
        &self,
        decide: impl FnOnce(&mut Core) -> ShardResult<Answer<T>>,
    ) -> ShardResult<T> {
        self.decided(decide).await.durable().await?
    }

    /// The same, without waiting until it is durable.
    pub(super) async fn decided<T>(
        &self,
        decide: impl FnOnce(&mut Core) -> ShardResult<Answer<T>>,
    ) -> Answer<ShardResult<T>> {
        let mut core = self.lock_when_there_is_room().await;
        let was_empty = core.open.is_empty();
        let answer = decide(&mut core);
        if was_empty && !core.open.is_empty() {
            self.shared.wake();
        }
        whole(&core, answer)
    }

    /// Polls of a slice, from one on.
    pub(super) async fn polls_from(
        &self,
        slice: &SliceId,
        first: PollId,
        most: usize,
    ) -> ShardResult<SomePolls> {
        let read = self.read(|core| core.polls_from(slice, first, most)).await;
        let (polls, are_all) = read?;
        // Copied only now, when nobody waits for the lock.
        let polls = polls.into_iter();
        Ok(SomePolls {
            polls: polls.map(|poll| (poll.number, poll.into())).collect(),
            are_all,
        })
    }

    /// The core, once not too much waits for the disk or it takes nothing
    /// anyway. Looking and writing are under one lock: however many callers
    /// wait, one at a time adds to a group.
    async fn lock_when_there_is_room(&self) -> MutexGuard<'_, Core> {
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

    /// Answers from memory.
    pub(super) async fn read<T>(
        &self,
        read: impl FnOnce(&Core) -> ShardResult<Answer<T>>,
    ) -> ShardResult<T> {
        let answer = {
            let core = self.shared.lock();
            whole(&core, read(&core))
        };
        answer.durable().await?
    }

    /// Makes a checkpoint now: everything acknowledged so far is in sorted
    /// files when it returns.
    pub async fn checkpoint(&self) -> ShardResult<()> {
        let made = self.shared.keeping.ask().await;
        made.map_err(ShardError::from)
    }

    /// Where an export begins: with everything that was acknowledged so far.
    /// Each page reads what is in no run yet, so that must not be much. If it
    /// is, a checkpoint comes first, one for all who wait; the log must grow
    /// before the next, however often exports begin.
    pub(super) async fn export_position(&self) -> ShardResult<u64> {
        let durable = self.shared.store().log.durable();
        if self.shared.log_bytes_unkept() > self.tail_bytes_max {
            self.checkpoint().await?;
        }
        Ok(durable)
    }

    /// Takes over a slice at a higher epoch, as after a restore.
    pub async fn adopt(&self, at: &At) -> ShardResult<()> {
        let (now, key) = (self.now(), SliceKey::random(&*self.entropy));
        self.decide(|core| core.adopt(at, key, now)).await
    }

    /// Reads from disk where that holds nobody up.
    pub(super) async fn stored<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, RunError> + Send + 'static,
    ) -> ShardResult<T> {
        self.page(|| read().map_err(export::unreadable)).await
    }

    pub(super) async fn page<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> ShardResult<T> + Send + 'static,
    ) -> ShardResult<T> {
        match self.reading {
            Reading::Here => read(),
            Reading::Aside => {
                let read = tokio::task::spawn_blocking(read).await;
                read.unwrap_or_else(|error| Err(ShardError::unavailable(error.to_string())))
            }
        }
    }

    /// Has a voter's row rot behind the shard's back: a fault that tests plant.
    #[cfg(any(test, feature = "faults"))]
    pub async fn rot(
        &self,
        slice: &SliceId,
        poll: PollId,
        voter: &ballast_domain::VoterId,
    ) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.rot(slice, poll, voter, now)).await
    }

    /// Whether a poll's rows are in a file by now: then it means nothing that
    /// one was not found here.
    pub(super) async fn is_archived(&self, slice: &SliceId, poll: PollId) -> ShardResult<bool> {
        let file = self.read(|core| core.archive(slice, poll)).await?;
        Ok(file.is_some())
    }

    pub(super) fn now(&self) -> ballast_domain::Timestamp {
        self.shared.clock.now()
    }
}

/// A refusal, too, may rest on something that is not durable yet; that a shard
/// does not work rests on nothing.
pub(super) fn whole<T>(core: &Core, answer: ShardResult<Answer<T>>) -> Answer<ShardResult<T>> {
    match answer {
        Ok(Answer { value, after }) => Answer {
            value: Ok(value),
            after,
        },
        Err(away @ ShardError::Unavailable { .. }) => Answer {
            value: Err(away),
            after: None,
        },
        Err(refused) => core.after_all(Err(refused)),
    }
}

impl Drop for EmbeddedShard {
    /// What was gathered is still written.
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn thread(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    let thread = std::thread::Builder::new().name(name).spawn(run);
    thread.map_err(OpenError::Thread)
}
