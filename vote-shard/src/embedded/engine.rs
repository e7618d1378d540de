//! The embedded engine as a [`VoteShard`].

use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;

use async_trait::async_trait;
use ballast_domain::poll::{Ballot, Poll, Refusal, RequestId, Verdict};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::SliceId;
use ballast_domain::{Clock, Entropy, PollId, TenantId, VoterId};

use super::committer;
use super::core::{Answer, Core, Found, Stored};
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
use crate::shard::{
    ArchiveFile, At, Change, Cursor, Cut, Digest, Fence, Order, Page, PollRow, ShardError,
    ShardResult, SliceDigest, SliceKey, Tally, Usage, VoteShard, VoterRow,
};

/// Which part of the largest group may wait for the disk before callers have
/// to: what a single call adds must still fit.
const WAITING_SHARE: usize = 4;

/// How much of the log an export reads beside the runs at most, and which part
/// of what the log grows by between checkpoints: exports may make them more
/// frequent, and not by more than this.
const TAIL_BYTES_MAX: u64 = 4 << 20;
const TAIL_SHARE: u64 = 16;

/// Before all polls.
const FIRST: PollId = PollId::from_number(0);

/// Rows that are imported under one lock.
const IMPORTED_AT_ONCE: usize = 1_024;

/// Polls that are brought into a slice's digest under one lock: after a start
/// there may be very many, and votes wait for the lock.
const SUMMED_AT_ONCE: usize = 512;

/// A shard in a directory.
pub struct EmbeddedShard {
    shared: Arc<Shared>,
    entropy: Arc<dyn Entropy>,
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
    async fn decide<T>(
        &self,
        decide: impl FnOnce(&mut Core) -> ShardResult<Answer<T>>,
    ) -> ShardResult<T> {
        self.decided(decide).await.durable().await?
    }

    /// The same, without waiting until it is durable.
    async fn decided<T>(
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
    async fn polls_from(
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
    async fn read<T>(&self, read: impl FnOnce(&Core) -> ShardResult<Answer<T>>) -> ShardResult<T> {
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
        made.map_err(ShardError::unavailable)
    }

    /// Where an export begins: with everything that was acknowledged so far.
    /// Each page reads what is in no run yet, so that must not be much. If it
    /// is, a checkpoint comes first, one for all who wait; the log must grow
    /// before the next, however often exports begin.
    async fn export_position(&self) -> ShardResult<u64> {
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
    async fn stored<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, RunError> + Send + 'static,
    ) -> ShardResult<T> {
        self.page(|| read().map_err(|error| ShardError::unavailable(error.to_string())))
            .await
    }

    async fn page<T: Send + 'static>(
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
    async fn is_archived(&self, slice: &SliceId, poll: PollId) -> ShardResult<bool> {
        let file = self.read(|core| core.archive(slice, poll)).await?;
        Ok(file.is_some())
    }

    fn now(&self) -> ballast_domain::Timestamp {
        self.shared.clock.now()
    }
}

/// A refusal, too, may rest on something that is not durable yet; that a shard
/// does not work rests on nothing.
fn whole<T>(core: &Core, answer: ShardResult<Answer<T>>) -> Answer<ShardResult<T>> {
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

    async fn awaited(&self, least: u64, most: usize) -> ShardResult<Vec<(SliceId, Poll)>> {
        self.read(|core| core.awaited(least, most)).await
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

    async fn narrow_lanes(&self, at: &At, poll: PollId, lanes: u16) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.narrow_lanes(at, poll, lanes, now))
            .await
    }

    async fn carry(
        &self,
        at: &At,
        poll: PollId,
        request: RequestId,
        votes: &[u64],
    ) -> ShardResult<Tally> {
        let now = self.now();
        self.decide(|core| core.carry(at, poll, request, votes, now))
            .await
    }

    async fn archive_poll(&self, at: &At, poll: PollId, file: ArchiveFile) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.archive_poll(at, poll, file, now))
            .await
    }

    async fn archive(&self, slice: &SliceId, poll: PollId) -> ShardResult<Option<ArchiveFile>> {
        self.read(|core| core.archive(slice, poll)).await
    }

    async fn archive_of(
        &self,
        tenant: &TenantId,
        poll: PollId,
    ) -> ShardResult<Option<ArchiveFile>> {
        self.read(|core| core.archive_of(tenant, poll)).await
    }

    async fn archives(&self, slice: &SliceId) -> ShardResult<Vec<PollRow>> {
        self.read(|core| core.archives(slice)).await
    }

    async fn cast(&self, at: &At, ballots: &[Ballot]) -> ShardResult<Vec<Verdict>> {
        let now = self.now();
        self.shared.manners.voted();
        let mut cast = self.decide(|core| core.cast(at, ballots, now)).await?;
        if !cast.stored.is_empty() {
            let store = self.shared.store();
            let judged = self.stored(move || {
                let runs = store.runs();
                let judge = |(place, stored): (usize, Stored)| {
                    let row = runs.get(stored.key)?;
                    let verdict = stored.judge(row.as_ref().map(|stored| &stored.row));
                    Ok((place, row.is_some(), verdict))
                };
                cast.stored
                    .into_iter()
                    .map(judge)
                    .collect::<Result<Vec<_>, RunError>>()
            });
            for (place, has_row, verdict) in judged.await? {
                let poll = ballots[place].poll;
                cast.verdicts[place] = match has_row || !self.is_archived(&at.slice, poll).await? {
                    true => verdict,
                    false => Verdict::Refused(Refusal::Archived),
                };
            }
        }
        Ok(cast.verdicts)
    }

    async fn tally(&self, slice: &SliceId, poll: PollId) -> ShardResult<Tally> {
        let (number, tally) = self.read(|core| core.numbered_tally(slice, poll)).await?;
        // What was read may be half of a group that is gathered; what is
        // published is whole groups, and as new by now.
        Ok(self.shared.published.get(number).unwrap_or(tally))
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
        match self.read(|core| core.voter(slice, poll, voter)).await? {
            Found::Here(row) => Ok(row),
            Found::Stored(key) => {
                let store = self.shared.store();
                let row = self.stored(move || store.runs().get(key)).await?;
                if row.is_none() && self.is_archived(slice, poll).await? {
                    return Err(Refusal::Archived.into());
                }
                Ok(row.map(|row| export::of_stored(poll, row)))
            }
        }
    }

    async fn tallies_since(&self, seen: u64) -> ShardResult<(u64, Vec<Tally>)> {
        self.shared.lock().check()?;
        Ok(self.shared.published.since(seen).await)
    }

    fn commit_micros(&self) -> Option<u64> {
        self.shared.commit_micros()
    }

    async fn usage(&self) -> Usage {
        let store = self.shared.store();
        let disk_bytes = self.page(move || Ok(store.disk_bytes())).await;
        let core = self.shared.lock();
        let files = core.state.polls.values();
        let files = files.filter_map(|poll| poll.archive.as_deref());
        let (polls_archived, archive_bytes) = files.fold((0, 0), |(files, bytes), file| {
            (files + 1, bytes + file.bytes)
        });
        Usage {
            trouble: core.trouble.clone(),
            slices: core.state.owned(),
            polls: core.state.polls.len() as u64,
            polls_archived,
            archive_bytes,
            voters_in_memory: core.state.voters,
            voters_in_memory_max: core.limits.voters_max,
            disk_bytes: disk_bytes.unwrap_or(0),
            commit_micros: self.shared.commit_micros(),
            stalls: self.shared.stalls(),
        }
    }

    async fn serves(&self, at: &At) -> ShardResult<()> {
        self.read(|core| core.serves(at)).await
    }

    async fn found(&self, at: &At) -> ShardResult<()> {
        let (now, key) = (self.now(), SliceKey::random(&*self.entropy));
        self.decide(|core| core.found(at, key, now)).await
    }

    async fn fence(&self, slice: &SliceId) -> ShardResult<Option<Fence>> {
        self.read(|core| core.fence(slice)).await
    }

    async fn prepare(
        &self,
        at: &At,
        order: &Order,
        key: SliceKey,
        range: HashRange,
    ) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.prepare(at, order, (key, range), now))
            .await
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

    async fn purge(&self, at: &At, order: &Order, most: usize) -> ShardResult<usize> {
        let (now, key) = (self.now(), SliceKey::random(&*self.entropy));
        self.decide(|core| core.purge(at, order, most, key, now))
            .await
    }

    async fn recut(&self, order: &Order, cut: &Cut) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.recut(order, cut, now)).await
    }

    async fn slice_key(&self, slice: &SliceId) -> ShardResult<SliceKey> {
        self.read(|core| core.slice_key(slice)).await
    }

    async fn slice_range(&self, slice: &SliceId) -> ShardResult<HashRange> {
        self.read(|core| core.slice_range(slice)).await
    }

    async fn export(&self, slice: &SliceId, cursor: &Cursor, bytes: usize) -> ShardResult<Page> {
        let position = match cursor {
            Cursor::Start => self.export_position().await?,
            Cursor::Snapshot { position, .. } | Cursor::Changes { position } => *position,
        };
        let store = self.shared.store();
        let subject = self.read(|core| core.subject(slice)).await?;
        match cursor.clone() {
            Cursor::Start => {
                let polls = self.polls_from(slice, FIRST, usize::MAX).await?.polls;
                let polls = polls.into_iter().map(|(_, row)| Change::Poll(row));
                Ok(Page {
                    changes: polls.collect(),
                    next: Cursor::Snapshot {
                        position,
                        after: None,
                    },
                    caught_up: false,
                })
            }
            Cursor::Snapshot { after, .. } => {
                let first = after.map_or(FIRST, |(poll, _)| poll);
                let polls = self.polls_from(slice, first, export::POLLS_MAX).await?;
                let shared = self.shared.clone();
                let page = move || {
                    let polite = shared.manners.polite();
                    export::rows(&subject, &polls, &store, position, after, bytes, polite)
                };
                self.page(page).await
            }
            Cursor::Changes { .. } => {
                let page = move || export::changes(&subject, &store, position, bytes);
                self.page(page).await
            }
        }
    }

    async fn import(&self, slice: &SliceId, order: &Order, changes: &[Change]) -> ShardResult<()> {
        // In portions: votes of others wait for the lock, and for the disk.
        let mut polite = self.shared.manners.polite();
        let mut portions = changes.chunks(IMPORTED_AT_ONCE);
        let mut answers = Vec::new();
        let mut portion = portions.next().unwrap_or_default();
        loop {
            let now = self.now();
            let import = |core: &mut Core| core.import(slice, order, portion, now);
            answers.push(self.decided(import).await);
            match portions.next() {
                Some(next) => portion = next,
                None => break,
            }
            polite.rest_aside().await;
        }
        for answer in answers {
            answer.durable().await??;
        }
        Ok(())
    }

    async fn discard(&self, slice: &SliceId, order: &Order, poll: PollId) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.discard(slice, order, poll, now))
            .await
    }

    async fn digests(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>> {
        self.read(|core| core.digests(slice)).await
    }

    async fn digest(&self, slice: &SliceId) -> ShardResult<SliceDigest> {
        loop {
            let answer = {
                let mut core = self.shared.lock();
                let answer = core.digest(slice, SUMMED_AT_ONCE);
                whole(&core, answer)
            };
            match answer.durable().await?? {
                Some(digest) => return Ok(digest),
                None => tokio::task::yield_now().await,
            }
        }
    }

    async fn scrub(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>> {
        self.checkpoint().await?;
        let store = self.shared.store();
        let subject = self.read(|core| core.subject(slice)).await?;
        let polls = self.polls_from(slice, FIRST, usize::MAX).await?.polls;
        let polls: Vec<PollRow> = polls.into_iter().map(|(_, row)| row).collect();
        let shared = self.shared.clone();
        let scrub = move || export::scrub(&subject, &store.runs(), &polls, shared.manners.polite());
        self.page(scrub).await
    }
}
