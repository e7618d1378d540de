//! Decides what a group of jobs does. Pure.
//!
//! The writer reads what the jobs refer to into a [`GroupView`]. Each job is decided
//! against the view in turn. An accepted job updates the view for the jobs after it and
//! adds its rows to [`GroupWrites`], which the writer then writes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::job::WriteJob;
use crate::store::rules::{self, ExecutionHead};
use crate::store::{
    AppendError, Claimant, CreateError, ExecutionClaimError, ExecutionCreation, ExecutionState,
    ExecutionStep, JournalEntry, Lease, NewMessage, PostError, PostOutcome, StoredStatus,
};

/// What the store has of everything that a group refers to.
#[derive(Debug, Default)]
pub(super) struct GroupView {
    /// Executions by id.
    pub(super) executions: HashMap<String, ExecutionHead>,
    /// Workflow and input of existing executions that are to be created again.
    pub(super) before: HashMap<String, (String, String)>,
    /// The hashes of existing definitions.
    pub(super) definitions: HashSet<String>,
    /// Messages by execution and key: number and body.
    pub(super) messages: HashMap<(String, String), (u64, String)>,
    /// Executions that may be due, oldest first.
    pub(super) due: Vec<String>,
    /// The number of the newest execution.
    pub(super) last_number: u64,
}

/// The rows that a group writes.
#[derive(Debug, Default)]
pub(super) struct GroupWrites<'a> {
    pub(super) created: Vec<(&'a ExecutionCreation, ExecutionHead)>,
    pub(super) entries: Vec<NewEntryRow<'a>>,
    pub(super) messages: Vec<(u64, u64, &'a NewMessage)>,
    /// Executions whose journal grew, and their new state.
    pub(super) stepped: BTreeMap<&'a str, &'a ExecutionState>,
    /// Executions whose lease, due time or messages changed.
    pub(super) lease_changes: BTreeSet<String>,
    /// Executions that ended.
    pub(super) ended: BTreeMap<u64, &'a ExecutionState>,
    /// Snapshots by execution: the last included seq, and the text.
    pub(super) snapshots: BTreeMap<u64, (u64, &'a str)>,
    /// Changes of the number of executions by status.
    pub(super) tallies: BTreeMap<StoredStatus, i64>,
    /// Whether something may be due earlier than before.
    pub(super) makes_due: bool,
}

#[derive(Debug)]
pub(super) struct NewEntryRow<'a> {
    pub(super) execution: u64,
    pub(super) seq: u64,
    pub(super) first_history_id: u64,
    pub(super) entry: &'a JournalEntry,
}

/// A group that is being decided.
#[derive(Debug)]
pub(super) struct JobGroup<'a> {
    pub(super) view: GroupView,
    pub(super) batch: GroupWrites<'a>,
}

impl<'a> JobGroup<'a> {
    /// Decides a job. The outcome waits in the job until the transaction is
    /// durable.
    pub(super) fn decide(&mut self, job: &'a mut WriteJob) {
        match job {
            WriteJob::Create(new, pending) => pending.set_outcome(self.create(new)),
            WriteJob::Append(step, pending) => pending.set_outcome(self.append(step)),
            WriteJob::Post(id, post, pending) => pending.set_outcome(self.post(id, post)),
            WriteJob::ClaimOne(id, by, pending) => pending.set_outcome(self.claim_one(id, by)),
            WriteJob::Claim(by, most, pending) => pending.set_outcome(Ok(self.claim(by, *most))),
            WriteJob::Renew(leases, until_ms, pending) => {
                pending.set_outcome(Ok(self.renew(leases, *until_ms)));
            }
            WriteJob::ReleaseWorker(worker, now_ms, pending) => {
                pending.set_outcome(Ok(self.release_worker_leases(worker, *now_ms)));
            }
        }
    }

    fn create(&mut self, new: &'a ExecutionCreation) -> Result<Option<Option<Lease>>, CreateError> {
        if let Some((workflow, input)) = self.view.before.get(&new.id) {
            rules::check_same_execution(new, workflow, input)?;
            return Ok(None);
        }
        if !self.view.definitions.contains(&new.definition) {
            return Err(CreateError::NoDefinition {
                hash: new.definition.clone(),
            });
        }
        self.view.last_number += 1;
        let (head, lease) = ExecutionHead::new(self.view.last_number, new);
        self.append_entries(head.number, 1, 1, &new.entries);
        if head.status.is_open() {
            self.snapshot(&head, new.snapshot.as_deref());
        }
        *self.batch.tallies.entry(head.status).or_default() += 1;
        self.batch.makes_due |= head.worker.is_none() && head.due_at_ms.is_some();
        self.batch.created.push((new, head.clone()));
        let given = (new.workflow.clone(), new.input.clone());
        self.view.before.insert(new.id.clone(), given);
        self.view.executions.insert(new.id.clone(), head);
        Ok(Some(lease))
    }

    fn append(
        &mut self,
        step: &'a ExecutionStep,
    ) -> Result<crate::store::AppendOutcome, AppendError> {
        let fenced = || rules::fenced_error(&step.lease);
        let head = self.view.executions.get_mut(&step.lease.id);
        let head = head.ok_or_else(fenced)?;
        let appended = head.apply_step(step)?;
        let head = head.clone();
        let id = step.lease.id.as_str();
        self.append_entries(head.number, step.seq, step.first_history_id, &step.entries);
        self.batch.stepped.insert(id, &step.state);
        if head.worker.is_none() {
            self.batch.lease_changes.insert(id.to_owned());
            self.batch.makes_due |= head.due_at_ms.is_some();
        }
        if head.status.is_open() {
            self.snapshot(&head, step.snapshot.as_deref());
        } else {
            self.batch.snapshots.remove(&head.number);
            self.batch.ended.insert(head.number, &step.state);
            *self.batch.tallies.entry(StoredStatus::Running).or_default() -= 1;
            *self.batch.tallies.entry(head.status).or_default() += 1;
        }
        Ok(appended)
    }

    fn post(&mut self, id: &'a str, post: &'a NewMessage) -> Result<PostOutcome, PostError> {
        let not_found = || PostError::NotFound { id: id.to_owned() };
        let head = self.view.executions.get_mut(id).ok_or_else(not_found)?;
        let name = (id.to_owned(), post.key.clone());
        if let Some((number, body)) = self.view.messages.get(&name) {
            if *body != post.body {
                let (id, key) = name;
                return Err(PostError::Conflict { id, key });
            }
            return Ok(PostOutcome::Duplicate(*number));
        }
        let number = head.accept_message(id, post.at_ms)?;
        self.batch.messages.push((head.number, number, post));
        self.batch.lease_changes.insert(id.to_owned());
        self.batch.makes_due = true;
        let known = (number, post.body.clone());
        self.view.messages.insert(name, known);
        Ok(PostOutcome::Queued(number))
    }

    fn claim_one(&mut self, id: &str, by: &Claimant) -> Result<Lease, ExecutionClaimError> {
        let not_found = || ExecutionClaimError::NotFound { id: id.to_owned() };
        let head = self.view.executions.get_mut(id).ok_or_else(not_found)?;
        let lease = head.grant_claim(id, by)?;
        self.batch.lease_changes.insert(id.to_owned());
        Ok(lease)
    }

    /// Leases what was due when the group began, unless an earlier job of the group
    /// changed that.
    fn claim(&mut self, by: &Claimant, most: usize) -> Vec<Lease> {
        let mut leases = Vec::new();
        for id in &self.view.due {
            if leases.len() >= most {
                break;
            }
            let Some(head) = self.view.executions.get_mut(id) else {
                continue;
            };
            if head.due_at_ms.is_some_and(|due| due <= by.now_ms)
                && let Ok(lease) = head.grant_claim(id, by)
            {
                self.batch.lease_changes.insert(id.clone());
                leases.push(lease);
            }
        }
        leases
    }

    fn renew(&mut self, leases: &[Lease], until_ms: i64) -> Vec<Lease> {
        let mut held = Vec::with_capacity(leases.len());
        for lease in leases {
            if let Some(head) = self.view.executions.get_mut(&lease.id)
                && head.renew(lease.fence, until_ms)
            {
                self.batch.lease_changes.insert(lease.id.clone());
                held.push(lease.clone());
            }
        }
        held
    }

    fn release_worker_leases(&mut self, worker: &str, now_ms: i64) -> u64 {
        let mut count = 0;
        for (id, head) in &mut self.view.executions {
            if head.worker.as_deref() == Some(worker) {
                head.release_lease(now_ms);
                self.batch.lease_changes.insert(id.clone());
                self.batch.makes_due = true;
                count += 1;
            }
        }
        count
    }

    fn append_entries(
        &mut self,
        execution: u64,
        first_seq: u64,
        mut first_history_id: u64,
        entries: &'a [JournalEntry],
    ) {
        for (seq, entry) in (first_seq..).zip(entries) {
            self.batch.entries.push(NewEntryRow {
                execution,
                seq,
                first_history_id,
                entry,
            });
            first_history_id += entry.history.len() as u64;
        }
    }

    fn snapshot(&mut self, head: &ExecutionHead, text: Option<&'a str>) {
        if let Some(text) = text {
            let row = (head.next_seq - 1, text);
            self.batch.snapshots.insert(head.number, row);
        }
    }
}

/// What a group's jobs refer to, which must be read before deciding.
#[derive(Debug, Default)]
pub(super) struct GroupKeys<'a> {
    pub(super) ids: BTreeSet<&'a str>,
    pub(super) created: BTreeSet<&'a str>,
    pub(super) definitions: BTreeSet<&'a str>,
    pub(super) messages: BTreeSet<(&'a str, &'a str)>,
    /// For claims: until which time, and how many.
    pub(super) due: Option<(i64, usize)>,
    pub(super) workers: BTreeSet<&'a str>,
}

impl<'a> GroupKeys<'a> {
    /// Collects what these jobs refer to.
    pub(super) fn from_jobs(jobs: &'a [WriteJob]) -> Self {
        let mut all = Self::default();
        for job in jobs {
            match job {
                WriteJob::Create(new, _) => {
                    all.ids.insert(&new.id);
                    all.created.insert(&new.id);
                    all.definitions.insert(&new.definition);
                }
                WriteJob::Append(step, _) => {
                    all.ids.insert(&step.lease.id);
                }
                WriteJob::Post(id, post, _) => {
                    all.ids.insert(id);
                    all.messages.insert((id, &post.key));
                }
                WriteJob::ClaimOne(id, ..) => {
                    all.ids.insert(id);
                }
                WriteJob::Claim(by, most, _) => {
                    let (until, count) = all.due.unwrap_or((by.now_ms, 0));
                    all.due = Some((until.max(by.now_ms), count + most));
                }
                WriteJob::Renew(leases, ..) => {
                    all.ids.extend(leases.iter().map(|lease| lease.id.as_str()));
                }
                WriteJob::ReleaseWorker(worker, ..) => {
                    all.workers.insert(worker);
                }
            }
        }
        all
    }
}
