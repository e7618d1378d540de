//! What a group of jobs does, decided purely.
//!
//! The writer reads what the group mentions into a [`View`]. Each job is judged
//! against it in turn and, if it happens, changes the view for those after it
//! and adds its rows to the [`Batch`] that is then written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::job::Job;
use crate::store::rules::{self, Kept};
use crate::store::{
    AppendError, ClaimError, Claimant, CreateError, Entry, Lease, New, Post, PostError, Posted,
    Standing, Status, Step,
};

/// What the store holds of all that a group mentions.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Executions by id.
    pub(super) executions: HashMap<String, Kept>,
    /// Workflow, definition and input of those that are to be created again.
    pub(super) before: HashMap<String, (String, String)>,
    /// The definitions that are there.
    pub(super) definitions: HashSet<String>,
    /// Messages by execution and key: number and body.
    pub(super) messages: HashMap<(String, String), (u64, String)>,
    /// Who may be due, oldest first.
    pub(super) due: Vec<String>,
    /// The last number given to an execution.
    pub(super) last_number: u64,
}

/// The rows a group writes.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    pub(super) created: Vec<(&'a New, Kept)>,
    pub(super) entries: Vec<EntryRow<'a>>,
    pub(super) messages: Vec<(u64, u64, &'a Post)>,
    /// Executions whose journal grew, and how they stand.
    pub(super) stepped: BTreeMap<&'a str, &'a Standing>,
    /// Executions whose lease, due time or messages changed.
    pub(super) leased: BTreeSet<String>,
    /// Executions that ended.
    pub(super) ended: BTreeMap<u64, &'a Standing>,
    /// Snapshots by execution: the last seq in it, and its text.
    pub(super) snapshots: BTreeMap<u64, (u64, &'a str)>,
    /// How many more executions there are of a status.
    pub(super) tallies: BTreeMap<Status, i64>,
    /// Whether something may be due earlier than before.
    pub(super) wakes: bool,
}

#[derive(Debug)]
pub(super) struct EntryRow<'a> {
    pub(super) execution: u64,
    pub(super) seq: u64,
    pub(super) first_history_id: u64,
    pub(super) entry: &'a Entry,
}

/// A group under way.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) view: View,
    pub(super) batch: Batch<'a>,
}

impl<'a> Group<'a> {
    /// Decides a job; what comes of it waits with it until it is durable.
    pub(super) fn take(&mut self, job: &'a mut Job) {
        match job {
            Job::Create(new, pending) => pending.decided(self.create(new)),
            Job::Append(step, pending) => pending.decided(self.append(step)),
            Job::Post(id, post, pending) => pending.decided(self.post(id, post)),
            Job::ClaimOne(id, by, pending) => pending.decided(self.claim_one(id, by)),
            Job::Claim(by, most, pending) => pending.decided(Ok(self.claim(by, *most))),
            Job::Renew(leases, until_ms, pending) => {
                pending.decided(Ok(self.renew(leases, *until_ms)));
            }
            Job::TakeBack(worker, now_ms, pending) => {
                pending.decided(Ok(self.take_back(worker, *now_ms)));
            }
        }
    }

    fn create(&mut self, new: &'a New) -> Result<Option<Option<Lease>>, CreateError> {
        if let Some((workflow, input)) = self.view.before.get(&new.id) {
            rules::same(new, workflow, input)?;
            return Ok(None);
        }
        if !self.view.definitions.contains(&new.definition) {
            return Err(CreateError::NoDefinition {
                hash: new.definition.clone(),
            });
        }
        self.view.last_number += 1;
        let (kept, lease) = Kept::new(self.view.last_number, new);
        self.append_entries(kept.number, 1, 1, &new.entries);
        if kept.status.is_open() {
            self.snapshot(&kept, new.snapshot.as_deref());
        }
        *self.batch.tallies.entry(kept.status).or_default() += 1;
        self.batch.wakes |= kept.worker.is_none() && kept.due_at_ms.is_some();
        self.batch.created.push((new, kept.clone()));
        let given = (new.workflow.clone(), new.input.clone());
        self.view.before.insert(new.id.clone(), given);
        self.view.executions.insert(new.id.clone(), kept);
        Ok(Some(lease))
    }

    fn append(&mut self, step: &'a Step) -> Result<crate::store::Appended, AppendError> {
        let fenced = || rules::fenced(&step.lease);
        let kept = self.view.executions.get_mut(&step.lease.id);
        let kept = kept.ok_or_else(fenced)?;
        let appended = kept.step(step)?;
        let kept = kept.clone();
        let id = step.lease.id.as_str();
        self.append_entries(kept.number, step.seq, step.first_history_id, &step.entries);
        self.batch.stepped.insert(id, &step.standing);
        if kept.worker.is_none() {
            self.batch.leased.insert(id.to_owned());
            self.batch.wakes |= kept.due_at_ms.is_some();
        }
        if kept.status.is_open() {
            self.snapshot(&kept, step.snapshot.as_deref());
        } else {
            self.batch.snapshots.remove(&kept.number);
            self.batch.ended.insert(kept.number, &step.standing);
            *self.batch.tallies.entry(Status::Running).or_default() -= 1;
            *self.batch.tallies.entry(kept.status).or_default() += 1;
        }
        Ok(appended)
    }

    fn post(&mut self, id: &'a str, post: &'a Post) -> Result<Posted, PostError> {
        let not_found = || PostError::NotFound { id: id.to_owned() };
        let kept = self.view.executions.get_mut(id).ok_or_else(not_found)?;
        let name = (id.to_owned(), post.key.clone());
        if let Some((number, body)) = self.view.messages.get(&name) {
            if *body != post.body {
                let (id, key) = name;
                return Err(PostError::Conflict { id, key });
            }
            return Ok(Posted::Before(*number));
        }
        let number = kept.post(id, post.at_ms)?;
        self.batch.messages.push((kept.number, number, post));
        self.batch.leased.insert(id.to_owned());
        self.batch.wakes = true;
        let known = (number, post.body.clone());
        self.view.messages.insert(name, known);
        Ok(Posted::New(number))
    }

    fn claim_one(&mut self, id: &str, by: &Claimant) -> Result<Lease, ClaimError> {
        let not_found = || ClaimError::NotFound { id: id.to_owned() };
        let kept = self.view.executions.get_mut(id).ok_or_else(not_found)?;
        let lease = kept.claim(id, by)?;
        self.batch.leased.insert(id.to_owned());
        Ok(lease)
    }

    /// What was due when the group began, and was not changed by those before
    /// in the group so that it no longer is.
    fn claim(&mut self, by: &Claimant, most: usize) -> Vec<Lease> {
        let mut leases = Vec::new();
        for id in &self.view.due {
            if leases.len() >= most {
                break;
            }
            let Some(kept) = self.view.executions.get_mut(id) else {
                continue;
            };
            if kept.due_at_ms.is_some_and(|due| due <= by.now_ms)
                && let Ok(lease) = kept.claim(id, by)
            {
                self.batch.leased.insert(id.clone());
                leases.push(lease);
            }
        }
        leases
    }

    fn renew(&mut self, leases: &[Lease], until_ms: i64) -> Vec<Lease> {
        let mut held = Vec::with_capacity(leases.len());
        for lease in leases {
            if let Some(kept) = self.view.executions.get_mut(&lease.id)
                && kept.renew(lease.fence, until_ms)
            {
                self.batch.leased.insert(lease.id.clone());
                held.push(lease.clone());
            }
        }
        held
    }

    fn take_back(&mut self, worker: &str, now_ms: i64) -> u64 {
        let mut count = 0;
        for (id, kept) in &mut self.view.executions {
            if kept.worker.as_deref() == Some(worker) {
                kept.take_back(now_ms);
                self.batch.leased.insert(id.clone());
                self.batch.wakes = true;
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
        entries: &'a [Entry],
    ) {
        for (seq, entry) in (first_seq..).zip(entries) {
            self.batch.entries.push(EntryRow {
                execution,
                seq,
                first_history_id,
                entry,
            });
            first_history_id += entry.history.len() as u64;
        }
    }

    fn snapshot(&mut self, kept: &Kept, text: Option<&'a str>) {
        if let Some(text) = text {
            let row = (kept.next_seq - 1, text);
            self.batch.snapshots.insert(kept.number, row);
        }
    }
}

/// What a group must read before it can decide.
#[derive(Debug, Default)]
pub(super) struct Mentioned<'a> {
    pub(super) ids: BTreeSet<&'a str>,
    pub(super) created: BTreeSet<&'a str>,
    pub(super) definitions: BTreeSet<&'a str>,
    pub(super) messages: BTreeSet<(&'a str, &'a str)>,
    /// Until when, and how many, of the executions that are due.
    pub(super) due: Option<(i64, usize)>,
    pub(super) workers: BTreeSet<&'a str>,
}

impl<'a> Mentioned<'a> {
    /// What these jobs mention.
    pub(super) fn by(jobs: &'a [Job]) -> Self {
        let mut all = Self::default();
        for job in jobs {
            match job {
                Job::Create(new, _) => {
                    all.ids.insert(&new.id);
                    all.created.insert(&new.id);
                    all.definitions.insert(&new.definition);
                }
                Job::Append(step, _) => {
                    all.ids.insert(&step.lease.id);
                }
                Job::Post(id, post, _) => {
                    all.ids.insert(id);
                    all.messages.insert((id, &post.key));
                }
                Job::ClaimOne(id, ..) => {
                    all.ids.insert(id);
                }
                Job::Claim(by, most, _) => {
                    let (until, count) = all.due.unwrap_or((by.now_ms, 0));
                    all.due = Some((until.max(by.now_ms), count + most));
                }
                Job::Renew(leases, ..) => {
                    all.ids.extend(leases.iter().map(|lease| lease.id.as_str()));
                }
                Job::TakeBack(worker, ..) => {
                    all.workers.insert(worker);
                }
            }
        }
        all
    }
}
