//! Decides: turns a request into records of the open group, or into a refusal.
//!
//! ```text
//!   request ──► fence ──► rules ──► record ──► open group (bytes)
//!                                      └─────► state, exactly as on replay
//!   answer ── held back until the group it depends on is durable
//! ```
//! All of this is synchronous and under one lock, so the fence, the rules and
//! the write are one atomic step. Memory runs ahead of the disk by at most two
//! groups: the one that syncs and the open one. An answer leaves only when the
//! group that it depends on is on disk ([`PendingAnswer::after`]). When a group
//! fails, or a panic leaves memory inconsistent, memory is discarded and
//! rebuilt from the log.

#[cfg(any(test, feature = "testing"))]
mod corrupt;
mod polls;
mod recut;
mod slices;
mod votes;

use std::sync::Arc;

pub(super) use self::votes::{CastResult, ColdBallot, VoterLookup};
use ballast_domain::Timestamp;
use tokio::sync::SetOnce;

use super::record::{self, PollNo, Record};
use super::state::EngineState;
use crate::embedded::compaction::checkpoint::MemorySnapshot;
use crate::shard::{ShardError, ShardResult};

/// Set when a group is durable or has failed.
pub(super) type CommitSignal = Arc<SetOnce<Result<(), String>>>;

/// An answer, and the group that must be durable before it leaves.
#[derive(Debug)]
pub(super) struct PendingAnswer<T> {
    pub(super) value: T,
    pub(super) after: Option<CommitSignal>,
}

impl<T> PendingAnswer<T> {
    /// Returns the answer once it is durable.
    pub(super) async fn durable(self) -> ShardResult<T> {
        if let Some(done) = self.after {
            done.wait().await.clone().map_err(ShardError::unavailable)?;
        }
        Ok(self.value)
    }
}

/// Records that are written to the log together.
#[derive(Debug, Default)]
pub(super) struct RecordGroup {
    /// Its sequence number in the log.
    pub(super) sequence: u64,
    pub(super) payload: Vec<u8>,
    /// Polls whose counts it changes.
    pub(super) changed_polls: Vec<PollNo>,
    pub(super) done: CommitSignal,
    /// Time of its first record, by the shard's clock.
    pub(super) began: Option<Timestamp>,
}

impl RecordGroup {
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

/// Limits of a shard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Capacity for voters of open polls in memory.
    pub(super) voters_max: u64,
    /// Maximum number of polls per slice.
    pub(super) polls_max: usize,
    /// Maximum age of a ballot, see [`ballast_domain::poll::judge::arrival`].
    pub(super) allowance_ms: i64,
}

/// Memory, and the open group.
pub(super) struct Core {
    pub(super) state: EngineState,
    pub(super) open: RecordGroup,
    /// The group that is syncing.
    pub(super) syncing: Option<(u64, CommitSignal)>,
    pub(super) limits: Limits,
    /// Why the shard refuses everything; `None` when it works.
    pub(super) trouble: Option<String>,
    /// Whether a panic may have left memory or the open group inconsistent:
    /// neither is used until memory has been rebuilt.
    pub(super) poisoned: bool,
    /// Whether memory is to be copied at the end of the open group, and the
    /// copy.
    pub(super) snapshot_request: SnapshotRequest,
    /// The base of the open group's relative times.
    began: Timestamp,
}

/// A request to copy memory for a checkpoint.
#[derive(Default)]
pub(super) enum SnapshotRequest {
    #[default]
    Idle,
    Wanted,
    Done(MemorySnapshot),
}

impl Core {
    /// A core with the state of the log's groups up to `durable`.
    pub(super) fn new(state: EngineState, durable: u64, limits: Limits) -> Self {
        Self {
            state,
            open: RecordGroup::new(durable + 1),
            syncing: None,
            limits,
            trouble: None,
            poisoned: false,
            snapshot_request: SnapshotRequest::Idle,
            began: Timestamp::from_unix_ms(0),
        }
    }

    /// Fails while the shard is in trouble.
    pub(super) fn check(&self) -> ShardResult<()> {
        match &self.trouble {
            Some(why) => Err(ShardError::unavailable(why.clone())),
            None => Ok(()),
        }
    }

    /// The current time, which never runs backwards, also across restarts.
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

    /// Records that the open group changes a poll's counts.
    fn mark_counts_changed(&mut self, poll: PollNo) {
        let sequence = self.open.sequence;
        if let Some(known) = self.state.polls.get_mut(&poll)
            && known.counted_in != sequence
        {
            known.counted_in = sequence;
            self.open.changed_polls.push(poll);
        }
    }

    /// An answer that depends on the groups up to `sequence`.
    fn answer_after<T>(&self, sequence: u64, value: T) -> PendingAnswer<T> {
        let after = if sequence >= self.open.sequence && !self.open.is_empty() {
            Some(self.open.done.clone())
        } else {
            let syncing = self.syncing.as_ref();
            syncing
                .filter(|(syncing, _)| sequence >= *syncing)
                .map(|(_, done)| done.clone())
        };
        PendingAnswer { value, after }
    }

    /// An answer that depends on everything so far.
    pub(super) fn answer_after_all<T>(&self, value: T) -> PendingAnswer<T> {
        self.answer_after(self.open.sequence, value)
    }

    /// Whether memory is nearly full and a checkpoint would free some of it.
    pub(super) fn is_memory_nearly_full(&self) -> bool {
        let nearly = self.limits.voters_max - self.limits.voters_max / 10;
        self.state.voters >= nearly && self.state.has_evictable()
    }

    /// Takes the open group for syncing.
    pub(super) fn take_group(&mut self) -> RecordGroup {
        let next = RecordGroup::new(self.open.sequence + 1);
        let group = std::mem::replace(&mut self.open, next);
        self.syncing = Some((group.sequence, group.done.clone()));
        if matches!(self.snapshot_request, SnapshotRequest::Wanted) {
            self.snapshot_request = SnapshotRequest::Done(MemorySnapshot::new(self));
        }
        group
    }
}
