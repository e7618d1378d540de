//! What may happen to an execution, decided purely. Every store asks here,
//! and then does what was decided.

use super::limits::{ENTRIES_MAX, MESSAGES_WAITING_MAX};
use super::model::{Appended, Claimant, Lease, New, Start, Status, Step, Then};
use super::{AppendError, ClaimError, CreateError, PostError, Unfit};

/// What must be known of an execution to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// Its place among all executions.
    pub(super) number: u64,
    pub(super) status: Status,
    pub(super) next_seq: u64,
    pub(super) next_history_id: u64,
    /// That of the last lease; 0 when there was none.
    pub(super) fence: u64,
    /// Who holds it.
    pub(super) worker: Option<String>,
    /// When it may be claimed: when the lease runs out, or when it is due.
    pub(super) due_at_ms: Option<i64>,
    /// The last message's number, and when it came.
    pub(super) posted: u64,
    pub(super) posted_at_ms: i64,
    /// The last message that was read.
    pub(super) taken: u64,
}

impl Kept {
    /// A new execution, with its lease if it has one.
    pub(super) fn new(number: u64, new: &New) -> (Self, Option<Lease>) {
        let mut kept = Self {
            number,
            status: new.standing.status,
            next_seq: 1 + new.entries.len() as u64,
            next_history_id: 1 + history_of(&new.entries),
            fence: 0,
            worker: None,
            due_at_ms: None,
            posted: 0,
            posted_at_ms: 0,
            taken: 0,
        };
        if !kept.status.is_open() {
            return (kept, None);
        }
        match &new.start {
            Start::Held { worker, until_ms } => {
                let lease = kept.give(&new.id, worker, *until_ms);
                (kept, Some(lease))
            }
            Start::Parked { wake_at_ms } => {
                kept.due_at_ms = *wake_at_ms;
                (kept, None)
            }
        }
    }

    /// How many messages were not read.
    pub(super) fn waiting(&self) -> u64 {
        self.posted - self.taken
    }

    /// Whether a lease with this fence holds.
    pub(super) fn is_held_by(&self, fence: u64) -> bool {
        self.worker.is_some() && self.fence == fence
    }

    /// Takes a step in. Refused, it leaves everything as it was.
    pub(super) fn step(&mut self, step: &Step) -> Result<Appended, AppendError> {
        self.check(step)?;
        self.status = step.standing.status;
        self.next_seq += step.entries.len() as u64;
        self.next_history_id += history_of(&step.entries);
        self.taken = self.taken.max(step.taken);
        if !self.status.is_open() {
            self.worker = None;
            self.due_at_ms = None;
        } else if let Then::Park { wake_at_ms } = step.then {
            self.worker = None;
            self.due_at_ms = wake_at_ms;
            if self.waiting() > 0 {
                self.wake_by(self.posted_at_ms);
            }
        }
        Ok(Appended {
            waiting: self.waiting(),
        })
    }

    fn check(&self, step: &Step) -> Result<(), AppendError> {
        let id = || step.lease.id.clone();
        if !self.is_held_by(step.lease.fence) {
            return Err(fenced(&step.lease));
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
            format!("its history goes on with event {next}, not {given}")
        } else if step.taken > self.posted {
            let (taken, posted) = (step.taken, self.posted);
            format!("it cannot have read message {taken}: there are {posted}")
        } else if self.next_seq - 1 + step.entries.len() as u64 > ENTRIES_MAX {
            format!("its journal is full: {ENTRIES_MAX} entries are kept")
        } else {
            return Ok(());
        };
        Err(Unfit(format!("the execution {}: {problem}", id())).into())
    }

    /// Takes a message in and gives it its number.
    pub(super) fn post(&mut self, id: &str, at_ms: i64) -> Result<u64, PostError> {
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
            self.wake_by(at_ms);
        }
        Ok(self.posted)
    }

    /// Leases it whether it is due or not, unless somebody holds it.
    pub(super) fn claim(&mut self, id: &str, by: &Claimant) -> Result<Lease, ClaimError> {
        if !self.status.is_open() {
            return Err(ClaimError::Ended {
                id: id.to_owned(),
                status: self.status,
            });
        }
        match (&self.worker, self.due_at_ms) {
            (Some(worker), Some(until_ms)) if until_ms > by.now_ms => Err(ClaimError::Held {
                id: id.to_owned(),
                worker: worker.clone(),
                until_ms,
            }),
            _ => Ok(self.give(id, &by.worker, by.until_ms)),
        }
    }

    /// Makes the lease with this fence run out later, if it holds.
    pub(super) fn renew(&mut self, fence: u64, until_ms: i64) -> bool {
        let holds = self.is_held_by(fence);
        if holds {
            self.due_at_ms = Some(until_ms);
        }
        holds
    }

    /// Gives a lease up for a worker that has forgotten it.
    pub(super) fn take_back(&mut self, now_ms: i64) {
        self.worker = None;
        self.due_at_ms = Some(now_ms);
    }

    fn give(&mut self, id: &str, worker: &str, until_ms: i64) -> Lease {
        self.fence += 1;
        self.worker = Some(worker.to_owned());
        self.due_at_ms = Some(until_ms);
        Lease {
            id: id.to_owned(),
            fence: self.fence,
        }
    }

    fn wake_by(&mut self, at_ms: i64) {
        self.due_at_ms = Some(self.due_at_ms.map_or(at_ms, |due| due.min(at_ms)));
    }
}

/// Whether what was created under an id is what is to be created now. The
/// workflow may have been deployed anew since: that is no part of the question.
pub(super) fn same(new: &New, workflow: &str, input: &str) -> Result<(), CreateError> {
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

/// That of an execution which is held by another, by nobody, or is not there.
pub(super) fn fenced(lease: &Lease) -> AppendError {
    AppendError::Fenced {
        id: lease.id.clone(),
        fence: lease.fence,
    }
}

fn history_of(entries: &[super::Entry]) -> u64 {
    entries.iter().map(|entry| entry.history.len() as u64).sum()
}
