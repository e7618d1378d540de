//! Decides what may happen to an execution. Pure: every store asks here first, and
//! then writes the decision.

use super::limits::{ENTRIES_MAX, MESSAGES_WAITING_MAX};
use super::model::{
    AppendOutcome, Claimant, ExecutionCreation, ExecutionStep, InitialLease, Lease, LeaseAction,
    StoredStatus,
};
use super::{AppendError, CreateError, ExecutionClaimError, InvalidRecord, PostError};

/// The part of an execution that decisions depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExecutionHead {
    /// Its number, in order of creation.
    pub(super) number: u64,
    pub(super) status: StoredStatus,
    pub(super) next_seq: u64,
    pub(super) next_history_id: u64,
    /// The fence of the last lease; 0 before the first.
    pub(super) fence: u64,
    /// The worker that holds it.
    pub(super) worker: Option<String>,
    /// When it may be claimed: its wake time, or the end of its lease.
    pub(super) due_at_ms: Option<i64>,
    /// The number of the last message, and when it was posted.
    pub(super) posted: u64,
    pub(super) posted_at_ms: i64,
    /// The number of the last read message.
    pub(super) messages_read: u64,
}

impl ExecutionHead {
    /// The head of a new execution, and its lease if it has one.
    pub(super) fn new(number: u64, new: &ExecutionCreation) -> (Self, Option<Lease>) {
        let mut head = Self {
            number,
            status: new.state.status,
            next_seq: 1 + new.entries.len() as u64,
            next_history_id: 1 + count_history_events(&new.entries),
            fence: 0,
            worker: None,
            due_at_ms: None,
            posted: 0,
            posted_at_ms: 0,
            messages_read: 0,
        };
        if !head.status.is_open() {
            return (head, None);
        }
        match &new.start {
            InitialLease::Held { worker, until_ms } => {
                let lease = head.grant_lease(&new.id, worker, *until_ms);
                (head, Some(lease))
            }
            InitialLease::Parked { wake_at_ms } => {
                head.due_at_ms = *wake_at_ms;
                (head, None)
            }
        }
    }

    /// The number of unread messages.
    pub(super) fn waiting(&self) -> u64 {
        self.posted - self.messages_read
    }

    /// Whether the lease with this fence is valid.
    pub(super) fn is_held_by(&self, fence: u64) -> bool {
        self.worker.is_some() && self.fence == fence
    }

    /// Applies a step. A refused step changes nothing.
    pub(super) fn apply_step(
        &mut self,
        step: &ExecutionStep,
    ) -> Result<AppendOutcome, AppendError> {
        self.check(step)?;
        self.status = step.state.status;
        self.next_seq += step.entries.len() as u64;
        self.next_history_id += count_history_events(&step.entries);
        self.messages_read = self.messages_read.max(step.messages_read);
        if !self.status.is_open() {
            self.worker = None;
            self.due_at_ms = None;
        } else if let LeaseAction::Park { wake_at_ms } = step.lease_action {
            self.worker = None;
            self.due_at_ms = wake_at_ms;
            if self.waiting() > 0 {
                self.advance_due(self.posted_at_ms);
            }
        }
        Ok(AppendOutcome {
            waiting: self.waiting(),
        })
    }

    fn check(&self, step: &ExecutionStep) -> Result<(), AppendError> {
        let id = || step.lease.id.clone();
        if !self.is_held_by(step.lease.fence) {
            return Err(fenced_error(&step.lease));
        }
        if step.seq != self.next_seq {
            return Err(AppendError::Stale {
                id: id(),
                expected: step.seq,
                found: self.next_seq,
            });
        }
        let problem = if step.first_history_id != self.next_history_id {
            let (given, next) = (step.first_history_id, self.next_history_id);
            format!("its next history event is {next}, not {given}")
        } else if step.messages_read > self.posted {
            let (messages_read, posted) = (step.messages_read, self.posted);
            format!("it cannot have read message {messages_read}: it has {posted} messages")
        } else if self.next_seq - 1 + step.entries.len() as u64 > ENTRIES_MAX {
            format!("its journal is full: it has {ENTRIES_MAX} entries")
        } else {
            return Ok(());
        };
        Err(InvalidRecord(format!("the execution {}: {problem}", id())).into())
    }

    /// Accepts a message and returns its number.
    pub(super) fn accept_message(&mut self, id: &str, at_ms: i64) -> Result<u64, PostError> {
        if !self.status.is_open() {
            return Err(PostError::Ended {
                id: id.to_owned(),
                status: self.status,
            });
        }
        if self.waiting() >= MESSAGES_WAITING_MAX {
            return Err(PostError::Full {
                id: id.to_owned(),
                waiting: self.waiting(),
            });
        }
        self.posted += 1;
        self.posted_at_ms = at_ms;
        if self.worker.is_none() {
            self.advance_due(at_ms);
        }
        Ok(self.posted)
    }

    /// Leases the execution, due or not, unless another lease is valid.
    pub(super) fn grant_claim(
        &mut self,
        id: &str,
        by: &Claimant,
    ) -> Result<Lease, ExecutionClaimError> {
        if !self.status.is_open() {
            return Err(ExecutionClaimError::Ended {
                id: id.to_owned(),
                status: self.status,
            });
        }
        match (&self.worker, self.due_at_ms) {
            (Some(worker), Some(until_ms)) if until_ms > by.now_ms => {
                Err(ExecutionClaimError::Held {
                    id: id.to_owned(),
                    worker: worker.clone(),
                    until_ms,
                })
            }
            _ => Ok(self.grant_lease(id, &by.worker, by.until_ms)),
        }
    }

    /// Renews the lease with this fence; returns whether it was valid.
    pub(super) fn renew(&mut self, fence: u64, until_ms: i64) -> bool {
        let holds = self.is_held_by(fence);
        if holds {
            self.due_at_ms = Some(until_ms);
        }
        holds
    }

    /// Releases a lease for a worker that restarted.
    pub(super) fn release_lease(&mut self, now_ms: i64) {
        self.worker = None;
        self.due_at_ms = Some(now_ms);
    }

    fn grant_lease(&mut self, id: &str, worker: &str, until_ms: i64) -> Lease {
        self.fence += 1;
        self.worker = Some(worker.to_owned());
        self.due_at_ms = Some(until_ms);
        Lease {
            id: id.to_owned(),
            fence: self.fence,
        }
    }

    fn advance_due(&mut self, at_ms: i64) {
        self.due_at_ms = Some(self.due_at_ms.map_or(at_ms, |due| due.min(at_ms)));
    }
}

/// Checks that an existing execution has the same workflow and input as a creation.
/// The definition may differ: the workflow may have been deployed again.
pub(super) fn check_same_execution(
    new: &ExecutionCreation,
    workflow: &str,
    input: &str,
) -> Result<(), CreateError> {
    let differs = if new.workflow != workflow {
        "workflow"
    } else if new.input != input {
        "input"
    } else {
        return Ok(());
    };
    Err(CreateError::Conflict {
        id: new.id.clone(),
        differs,
    })
}

/// The error for a lease that is lost, or whose execution does not exist.
pub(super) fn fenced_error(lease: &Lease) -> AppendError {
    AppendError::Fenced {
        id: lease.id.clone(),
        fence: lease.fence,
    }
}

fn count_history_events(entries: &[super::JournalEntry]) -> u64 {
    entries.iter().map(|entry| entry.history.len() as u64).sum()
}
