//! Decides: what is asked becomes records of the open group, or a refusal.
//!
//! ```text
//!   asked ──► fence ──► rules ──► record ──► open group (bytes)
//!                                    └─────► state, as when it is read back
//!   answer ── held back until the group it depends on is durable
//! ```
//! All of it is synchronous and under one lock, so the fence, the rules and
//! the write are one atomic step. Memory runs ahead of the disk by at most two
//! groups: the one being synced and the open one. No answer leaves before the
//! group that it depends on is on disk ([`Answer::after`]); when a group
//! fails, or a panic leaves memory half changed, it is thrown away and rebuilt
//! from the log.

mod polls;
mod recut;
#[cfg(any(test, feature = "faults"))]
mod rot;
mod slices;
mod votes;

use std::sync::Arc;

pub(super) use self::votes::{Cast, Found, Stored};
use ballast_domain::Timestamp;
use tokio::sync::SetOnce;

use super::checkpoint::Captured;
use super::record::{self, PollNo, Record};
use super::state::State;
use crate::shard::{ShardError, ShardResult};

/// Set when a group's fate is known.
pub(super) type Done = Arc<SetOnce<Result<(), String>>>;

/// An answer, and what must be durable before it is given.
#[derive(Debug)]
pub(super) struct Answer<T> {
    pub(super) value: T,
    pub(super) after: Option<Done>,
}

impl<T> Answer<T> {
    /// Gives the answer when it may be given.
    pub(super) async fn durable(self) -> ShardResult<T> {
        if let Some(done) = self.after {
            done.wait().await.clone().map_err(ShardError::unavailable)?;
        }
        Ok(self.value)
    }
}

/// Records that go to the log together.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Its place in the log.
    pub(super) sequence: u64,
    pub(super) payload: Vec<u8>,
    /// Polls whose counts it changes.
    pub(super) counted: Vec<PollNo>,
    pub(super) done: Done,
    /// When its first record came, by the shard's time.
    pub(super) began: Option<Timestamp>,
}

impl Group {
    pub(super) fn new(sequence: u64) -> Self {
        Self {
            sequence,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }
}

/// What may be set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Voters of open polls that memory may hold.
    pub(super) voters_max: u64,
    /// Polls that a slice may have.
    pub(super) polls_max: usize,
    /// How long a ballot may be on its way, see
    /// [`ballast_domain::poll::judge::arrival`].
    pub(super) allowance_ms: i64,
}

/// Memory, and the group that is being gathered.
pub(super) struct Core {
    pub(super) state: State,
    pub(super) open: Group,
    /// The group that is being synced.
    pub(super) syncing: Option<(u64, Done)>,
    pub(super) limits: Limits,
    /// Why nothing can be asked right now.
    pub(super) trouble: Option<String>,
    /// Whether a panic may have left memory or the open group half changed:
    /// neither is used before memory was rebuilt.
    pub(super) spoiled: bool,
    /// Whether memory is to be copied at the end of the open group, and the
    /// copy.
    pub(super) capture: Capture,
    /// What the open group's times are relative to.
    began: Timestamp,
}

/// Copying memory for a checkpoint.
#[derive(Default)]
pub(super) enum Capture {
    #[default]
    Idle,
    Wanted,
    Done(Captured),
}

impl Core {
    /// A core whose state is what the log's groups up to `durable` say.
    pub(super) fn new(state: State, durable: u64, limits: Limits) -> Self {
        Self {
            state,
            open: Group::new(durable + 1),
            syncing: None,
            limits,
            trouble: None,
            spoiled: false,
            capture: Capture::Idle,
            began: Timestamp::from_unix_ms(0),
        }
    }

    /// Refuses everything while something is wrong.
    pub(super) fn check(&self) -> ShardResult<()> {
        match &self.trouble {
            Some(why) => Err(ShardError::unavailable(why.clone())),
            None => Ok(()),
        }
    }

    /// Time that never runs backwards, also across restarts.
    fn now(&self, clock: Timestamp) -> Timestamp {
        Timestamp::from_unix_ms(clock.unix_ms().max(self.state.time))
    }

    /// Adds a record to the open group and applies it.
    fn write(&mut self, now: Timestamp, record: &Record<'_>) {
        self.write_bytes(now, record);
        self.state.apply(self.open.sequence, record);
    }

    fn write_bytes(&mut self, now: Timestamp, record: &Record<'_>) {
        if self.open.payload.is_empty() {
            record::begin(&mut self.open.payload, now);
            self.began = now;
            self.open.began = Some(now);
        }
        self.state.time = self.state.time.max(now.unix_ms());
        record::write(&mut self.open.payload, self.began, record);
    }

    /// Notes that the open group changes a poll's counts.
    fn counted(&mut self, poll: PollNo) {
        let sequence = self.open.sequence;
        if let Some(known) = self.state.polls.get_mut(&poll)
            && known.counted_in != sequence
        {
            known.counted_in = sequence;
            self.open.counted.push(poll);
        }
    }

    /// An answer that depends on the group `sequence` and those before it.
    fn after<T>(&self, sequence: u64, value: T) -> Answer<T> {
        let after = if sequence >= self.open.sequence && !self.open.is_empty() {
            Some(self.open.done.clone())
        } else {
            let syncing = self.syncing.as_ref();
            syncing
                .filter(|(syncing, _)| sequence >= *syncing)
                .map(|(_, done)| done.clone())
        };
        Answer { value, after }
    }

    /// An answer that depends on everything so far.
    pub(super) fn after_all<T>(&self, value: T) -> Answer<T> {
        self.after(self.open.sequence, value)
    }

    /// Whether memory is nearly full and a checkpoint would make room in it.
    pub(super) fn needs_room(&self) -> bool {
        let nearly = self.limits.voters_max - self.limits.voters_max / 10;
        self.state.voters >= nearly && self.state.has_evictable()
    }

    /// Takes the open group to be synced.
    pub(super) fn take(&mut self) -> Group {
        let next = Group::new(self.open.sequence + 1);
        let group = std::mem::replace(&mut self.open, next);
        self.syncing = Some((group.sequence, group.done.clone()));
        if matches!(self.capture, Capture::Wanted) {
            self.capture = Capture::Done(Captured::new(self));
        }
        group
    }
}
