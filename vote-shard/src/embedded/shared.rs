//! What the threads of a shard share with those who ask it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use ballast_domain::{Clock, Timestamp};
use tokio::sync::Notify;

use super::checkpoint::Captured;
use super::core::{Capture, Core, Group};
use super::keeping::Keeping;
use super::manners::Manners;
use super::published::Published;
use super::record::PollNo;
use super::runs::{Run, RunSet};
use super::store::Store;
use crate::shard::{Stalls, Tally};

/// How often expired polls are looked for.
const TICK: Duration = Duration::from_millis(500);
/// Polls closed in one group.
const CLOSED_AT_ONCE: usize = 1_000;
/// What is told of a shard whose memory cannot be trusted.
const SPOILED: &str = "a panic left the shard's memory half changed; it is rebuilt from disk";

/// What the committer does next.
pub(super) enum Next {
    /// A group is written, and leaves these counts.
    Write(Group, Vec<(PollNo, Tally)>),
    /// Memory is rebuilt, because of this.
    Rebuild(String),
    /// It is time to stop, and nothing is left.
    Stop,
}

/// How far a copy of memory is.
pub(super) enum Capturing {
    /// It is made.
    Done(Captured),
    /// A group must be durable first.
    Waits,
    /// There will be none: the shard is in trouble.
    Trouble,
}

/// What the committer shares with those who ask.
pub(super) struct Shared {
    core: Mutex<Core>,
    /// Told when the open group is no longer empty, and when to stop.
    wake: Condvar,
    /// The same, for whoever writes the log step by step without a thread.
    pub(super) stirred: Notify,
    /// Told when to stop, for whoever waits for nothing else. Not `wake`: of two
    /// who wait there, the wrong one would be woken.
    stopped: Condvar,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) published: Published,
    stopping: AtomicBool,
    /// Told when a group's fate is known.
    settled: Condvar,
    store: RwLock<Arc<Store>>,
    /// Held by whoever makes or removes files other than the log's.
    files: Mutex<()>,
    /// Bytes written to the log since the shard was opened.
    log_bytes: AtomicU64,
    /// So many of them there were when the last checkpoint was made.
    kept_bytes: AtomicU64,
    /// Groups up to this one may be forgotten; 0: nothing to do.
    forget: AtomicU64,
    pub(super) keeping: Keeping,
    pub(super) manners: Manners,
    /// Runs that were replaced: somebody may still be reading them.
    retired: Mutex<Vec<Weak<Run>>>,
    /// How long a group takes to be durable, in microseconds, smoothed; 0 while
    /// there was none.
    commit_micros: AtomicU64,
    /// How long groups waited beyond what is usual, behind others and for the
    /// disk.
    queue_stall_ms: AtomicU64,
    disk_stall_ms: AtomicU64,
}

impl Shared {
    /// Notes how long a group waited to be written, and how long it then took to
    /// be durable.
    pub(super) fn felt(&self, waited_ms: i64, ms: i64) {
        for (sum, ms) in [(&self.queue_stall_ms, waited_ms), (&self.disk_stall_ms, ms)] {
            sum.fetch_add(Stalls::beyond_usual(ms), Ordering::Relaxed);
        }
        let micros = ms.max(0).unsigned_abs().saturating_mul(1_000);
        let before = self.commit_micros.load(Ordering::Relaxed);
        let smoothed = match before {
            0 => micros,
            before => (before * 7 + micros) / 8,
        };
        self.commit_micros.store(smoothed.max(1), Ordering::Relaxed);
    }

    /// How long writes were kept waiting beyond what is usual.
    pub(super) fn stalls(&self) -> Stalls {
        Stalls {
            queue_ms: self.queue_stall_ms.load(Ordering::Relaxed),
            disk_ms: self.disk_stall_ms.load(Ordering::Relaxed),
        }
    }

    /// How long a group takes to be durable these days, in microseconds.
    pub(super) fn commit_micros(&self) -> Option<u64> {
        match self.commit_micros.load(Ordering::Relaxed) {
            0 => None,
            micros => Some(micros),
        }
    }

    pub(super) fn new(
        core: Core,
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        log_bytes: u64,
        manners: Manners,
    ) -> Self {
        let shared = Self {
            core: Mutex::new(core),
            wake: Condvar::new(),
            stopped: Condvar::new(),
            stirred: Notify::new(),
            clock,
            published: Published::new(),
            stopping: false.into(),
            settled: Condvar::new(),
            store: RwLock::new(store),
            files: Mutex::new(()),
            log_bytes: log_bytes.into(),
            kept_bytes: 0.into(),
            forget: 0.into(),
            keeping: Keeping::default(),
            manners,
            retired: Mutex::default(),
            commit_micros: AtomicU64::new(0),
            queue_stall_ms: AtomicU64::new(0),
            disk_stall_ms: AtomicU64::new(0),
        };
        shared.publish_all(&shared.lock());
        shared
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        let core = self.core.lock();
        core.unwrap_or_else(|poisoned| self.spoiled(poisoned.into_inner()))
    }

    /// Waits until something is told, for so long at most.
    fn wait<'a>(
        &self,
        told: &Condvar,
        core: MutexGuard<'a, Core>,
        patience: Duration,
    ) -> MutexGuard<'a, Core> {
        match told.wait_timeout(core, patience) {
            Ok((core, _)) => core,
            Err(poisoned) => self.spoiled(poisoned.into_inner().0),
        }
    }

    /// Someone panicked under the lock, so memory and the open group may be
    /// half changed: nothing is answered from the one and nothing is written
    /// of the other. The log is still the truth, and the committer rebuilds
    /// memory from it.
    fn spoiled<'a>(&self, mut core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        core.spoiled = true;
        core.trouble = Some(SPOILED.to_owned());
        self.core.clear_poison();
        self.wake.notify_all();
        self.settled.notify_all();
        core
    }

    /// Says that the open group may have something in it.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
        self.stirred.notify_one();
    }

    pub(super) fn stop(&self) {
        let _core = self.lock();
        self.stopping.store(true, Ordering::Release);
        self.wake.notify_all();
        self.settled.notify_all();
        self.stopped.notify_all();
        self.keeping.wake();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Bytes written to the log since the shard was opened.
    pub(super) fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Acquire)
    }

    /// Bytes of the log that are in no checkpoint.
    pub(super) fn log_bytes_unkept(&self) -> u64 {
        let kept = self.kept_bytes.load(Ordering::Acquire);
        self.log_bytes().saturating_sub(kept)
    }

    /// A checkpoint was made when the log had so many bytes.
    pub(super) fn kept(&self, log_bytes: u64) {
        self.kept_bytes.store(log_bytes, Ordering::Release);
    }

    /// The files as they are now.
    pub(super) fn store(&self) -> Arc<Store> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        store.clone()
    }

    /// These runs are about to be replaced.
    pub(super) fn retired(&self, runs: &RunSet) {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.retain(|run| run.strong_count() > 0);
        retired.extend(runs.0.iter().map(Arc::downgrade));
    }

    /// Whether somebody reads a run that was replaced.
    pub(super) fn is_being_read(&self, id: u64) -> bool {
        let retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let mut read = retired.iter().filter_map(Weak::upgrade);
        read.any(|run| run.id() == id)
    }

    /// Keeps others from making or removing files.
    pub(super) fn hold_files(&self) -> MutexGuard<'_, ()> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the log be forgotten up to a group.
    pub(super) fn forget_up_to(&self, sequence: u64) {
        self.forget.store(sequence, Ordering::Release);
    }

    /// What may be forgotten and was not yet; 0 for nothing.
    pub(super) fn take_forgettable(&self) -> u64 {
        self.forget.swap(0, Ordering::AcqRel)
    }

    /// Copies memory as of the end of a durable group, waiting for it; `None`
    /// when the shard is in trouble.
    pub(super) fn capture(&self) -> Option<(Captured, Arc<Store>)> {
        let mut core = self.lock();
        let store = self.store();
        let mut capturing = begin_capture(&mut core);
        loop {
            match capturing {
                Capturing::Done(captured) => return Some((captured, store)),
                Capturing::Trouble => return None,
                Capturing::Waits => core = self.wait(&self.settled, core, TICK),
            }
            capturing = self.go_on_capturing(&mut core, &store);
        }
    }

    /// Begins such a copy, without waiting.
    pub(super) fn begin_capture(&self) -> (Capturing, Arc<Store>) {
        let mut core = self.lock();
        let store = self.store();
        (begin_capture(&mut core), store)
    }

    /// Goes on with a copy that was begun when these were the files.
    pub(super) fn captured(&self, store: &Arc<Store>) -> Capturing {
        self.go_on_capturing(&mut self.lock(), store)
    }

    fn go_on_capturing(&self, core: &mut Core, store: &Arc<Store>) -> Capturing {
        if core.trouble.is_some() || !Arc::ptr_eq(store, &self.store()) {
            core.capture = Capture::Idle;
            return Capturing::Trouble;
        }
        match std::mem::take(&mut core.capture) {
            Capture::Done(captured) if captured.position <= store.log.durable() => {
                Capturing::Done(captured)
            }
            // The last group was taken before it was wanted.
            Capture::Wanted if core.open.is_empty() && core.syncing.is_none() => {
                Capturing::Done(Captured::new(core))
            }
            waiting => {
                core.capture = waiting;
                Capturing::Waits
            }
        }
    }

    /// Waits for so long, or until it is time to stop; says whether it is. For
    /// threads beside the committer.
    pub(super) fn linger(&self, patience: Duration) -> bool {
        let core = self.lock();
        if !self.is_stopping() {
            drop(self.wait(&self.stopped, core, patience));
        }
        self.is_stopping()
    }

    /// The same, for the committer.
    pub(super) fn pause(&self, patience: Duration) -> bool {
        let core = self.lock();
        if !self.is_stopping() {
            drop(self.wait(&self.wake, core, patience));
        }
        self.is_stopping()
    }

    /// Waits for something to do.
    pub(super) fn next(&self, ticked: &mut Option<Timestamp>) -> Next {
        let mut core = self.lock();
        loop {
            if let Some(next) = self.due(&mut core, ticked) {
                return next;
            }
            core = self.wait(&self.wake, core, TICK);
        }
    }

    /// What there is to do now, without waiting.
    pub(super) fn next_now(&self, ticked: &mut Option<Timestamp>) -> Option<Next> {
        self.due(&mut self.lock(), ticked)
    }

    fn due(&self, core: &mut Core, ticked: &mut Option<Timestamp>) -> Option<Next> {
        if core.spoiled {
            return Some(Next::Rebuild(SPOILED.to_owned()));
        }
        let now = self.clock.now();
        // However far the clock was set, in either direction.
        let since = ticked.map(|ticked| now.unix_ms().abs_diff(ticked.unix_ms()));
        if since.is_none_or(|since| u128::from(since) >= TICK.as_millis()) {
            *ticked = Some(now);
            core.close_expired(now, CLOSED_AT_ONCE);
        }
        if !core.open.is_empty() {
            let (group, tallies) = take(core);
            return Some(Next::Write(group, tallies));
        }
        self.is_stopping().then_some(Next::Stop)
    }

    fn publish_all(&self, core: &Core) {
        let mark = core.open.sequence - 1;
        let polls = core.state.polls.values();
        let tallies = polls.map(|poll| (poll.number, poll.tally(mark)));
        self.published.restart(mark, tallies);
    }

    /// A group is durable: those who wait for it are told.
    pub(super) fn committed(&self, group: &Group, tallies: Vec<(PollNo, Tally)>) {
        let bytes = group.payload.len() as u64;
        self.log_bytes.fetch_add(bytes, Ordering::AcqRel);
        // First the counts: once nothing is being synced, a reader waits for
        // nothing and must find them.
        self.published.put(group.sequence, tallies);
        {
            let mut core = self.lock();
            for number in &group.counted {
                if !core.state.polls.contains_key(number) {
                    self.published.remove(*number);
                }
            }
            core.syncing = None;
            self.settled.notify_all();
        }
        let _ = group.done.set(Ok(()));
    }

    /// Nothing that was gathered is known to be on disk: all of it fails, and
    /// so does everything that is asked, until memory was rebuilt.
    pub(super) fn failed(&self, why: &str) {
        let (syncing, open) = {
            let mut core = self.lock();
            core.trouble = Some(why.to_owned());
            self.settled.notify_all();
            let fresh = Group::new(core.open.sequence);
            let open = std::mem::replace(&mut core.open, fresh);
            (core.syncing.take().map(|(_, done)| done), open.done)
        };
        for done in syncing.into_iter().chain([open]) {
            let _ = done.set(Err(why.to_owned()));
        }
    }

    /// Memory was rebuilt.
    pub(super) fn restart(&self, core: Core, store: Arc<Store>) {
        self.retired(&self.store().runs());
        let mut own = self.lock();
        *own = core;
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = store;
        self.publish_all(&own);
    }
}

/// Copies memory if all of it is durable, or lets it be copied when it will be.
fn begin_capture(core: &mut Core) -> Capturing {
    if core.trouble.is_some() {
        return Capturing::Trouble;
    }
    if core.open.is_empty() && core.syncing.is_none() {
        return Capturing::Done(Captured::new(core));
    }
    core.capture = Capture::Wanted;
    Capturing::Waits
}

/// Takes the open group, with the counts it leaves.
fn take(core: &mut Core) -> (Group, Vec<(PollNo, Tally)>) {
    let group = core.take();
    let polls = group.counted.iter();
    let tallies = polls
        .filter_map(|number| core.state.polls.get(number))
        .map(|poll| (poll.number, poll.tally(group.sequence)))
        .collect();
    (group, tallies)
}
