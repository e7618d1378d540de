//! Executions in memory: for tests, for trying things out, and to read what a
//! store does without its file. It lives as long as its last clone.

mod kept;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;

use super::limits::{self, LIST_MAX};
use super::rules::{self, Kept};
use super::{
    AppendError, Appended, Claim, ClaimError, Claimant, CreateError, Created, Definition, Deployed,
    Found, HistoryPage, HistoryQuery, KeepError, Lease, Mail, Message, New, Post, PostError,
    Posted, Query, Row, Status, Step, Store, StoreError, StoreResult,
};
use kept::{Execution, Inner};

/// A store in memory. Clones share it.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
    changes: Arc<watch::Sender<u64>>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inner: Arc::default(),
            changes: Arc::new(watch::Sender::new(0)),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change is made whole before anything can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn woken(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn withdraw(&self, name: &str) -> StoreResult<bool> {
        Ok(self.inner().deployed.remove(name).is_some())
    }

    async fn check(&self) -> StoreResult<()> {
        Ok(())
    }

    async fn keep_definition(&self, definition: &Definition) -> Result<(), KeepError> {
        limits::definition(definition)?;
        let mut inner = self.inner();
        let Definition {
            name,
            hash,
            text,
            at_ms,
        } = definition.clone();
        let kept = inner.definitions.entry(hash.clone());
        if *kept.or_insert_with(|| text.clone()) != text {
            return Err(KeepError::Conflict { hash });
        }
        if inner.deployed.get(&name).is_none_or(|now| now.hash != hash) {
            let deployed = Deployed {
                name: name.clone(),
                hash,
                at_ms,
            };
            inner.deployed.insert(name, deployed);
        }
        Ok(())
    }

    async fn definition(&self, hash: &str) -> StoreResult<Option<String>> {
        Ok(self.inner().definitions.get(hash).cloned())
    }

    async fn deployed(&self) -> StoreResult<Vec<Deployed>> {
        Ok(self.inner().deployed.values().cloned().collect())
    }

    async fn create(&self, new: New) -> Result<Created, CreateError> {
        limits::new(&new)?;
        let mut inner = self.inner();
        if let Some(before) = inner.find(&new.id) {
            rules::same(&new, &before.workflow, &before.input)?;
            return Ok(Created::Before(Box::new(before.row())));
        }
        if !inner.definitions.contains_key(&new.definition) {
            let hash = new.definition;
            return Err(CreateError::NoDefinition { hash });
        }
        inner.last_number += 1;
        let (kept, lease) = Kept::new(inner.last_number, &new);
        let (number, id) = (kept.number, new.id.clone());
        inner.executions.insert(number, Execution::new(new, kept));
        inner.numbers.insert(id, number);
        drop(inner);
        if lease.is_none() {
            self.woken();
        }
        Ok(Created::New(lease))
    }

    async fn claim(&self, by: &Claimant, most: usize) -> StoreResult<Vec<Claim>> {
        limits::claimant(by).map_err(|unfit| StoreError::new("claim executions", unfit))?;
        let mut inner = self.inner();
        let due = inner.executions.values().filter_map(|execution| {
            let due = execution.kept.due_at_ms.filter(|due| *due <= by.now_ms);
            due.map(|due| (due, execution.kept.number))
        });
        let mut due: Vec<_> = due.collect();
        due.sort_unstable();
        due.truncate(most.min(LIST_MAX));
        let claims = due.into_iter().filter_map(|(_, number)| {
            let execution = inner.executions.get_mut(&number)?;
            let lease = execution.kept.claim(&execution.id, by).ok()?;
            Some(execution.claimed(lease))
        });
        Ok(claims.collect())
    }

    async fn claim_one(&self, id: &str, by: &Claimant) -> Result<Claim, ClaimError> {
        limits::claimant(by)?;
        let mut inner = self.inner();
        let not_found = || ClaimError::NotFound { id: id.to_owned() };
        let execution = inner.find_mut(id).ok_or_else(not_found)?;
        let lease = execution.kept.claim(id, by)?;
        Ok(execution.claimed(lease))
    }

    async fn take_back(&self, worker: &str, now_ms: i64) -> StoreResult<u64> {
        let mut inner = self.inner();
        let mut count = 0;
        for execution in inner.executions.values_mut() {
            if execution.kept.worker.as_deref() == Some(worker) {
                execution.kept.take_back(now_ms);
                count += 1;
            }
        }
        drop(inner);
        self.woken();
        Ok(count)
    }

    async fn renew(&self, leases: &[Lease], until_ms: i64) -> StoreResult<Vec<Lease>> {
        let mut inner = self.inner();
        let mut renew = |lease: &&Lease| {
            let execution = inner.find_mut(&lease.id);
            execution.is_some_and(|execution| execution.kept.renew(lease.fence, until_ms))
        };
        Ok(leases
            .iter()
            .filter(|lease| renew(lease))
            .cloned()
            .collect())
    }

    async fn append(&self, step: Step) -> Result<Appended, AppendError> {
        limits::step(&step)?;
        let mut inner = self.inner();
        let execution = inner.find_mut(&step.lease.id);
        let execution = execution.ok_or_else(|| rules::fenced(&step.lease))?;
        let appended = execution.kept.step(&step)?;
        let parked = execution.kept.worker.is_none();
        execution.stepped(step);
        drop(inner);
        if parked {
            self.woken();
        }
        Ok(appended)
    }

    async fn post(&self, id: &str, post: Post) -> Result<Posted, PostError> {
        limits::post(&post)?;
        let mut inner = self.inner();
        let not_found = || PostError::NotFound { id: id.to_owned() };
        let execution = inner.find_mut(id).ok_or_else(not_found)?;
        let posted = execution.post(post)?;
        drop(inner);
        self.woken();
        Ok(posted)
    }

    async fn messages(&self, leases: &[Lease]) -> StoreResult<Vec<Mail>> {
        let inner = self.inner();
        let mail = leases.iter().filter_map(|lease| {
            let execution = inner.find(&lease.id)?;
            let held = execution.kept.is_held_by(lease.fence);
            let messages = execution.unread();
            (held && !messages.is_empty()).then(|| Mail {
                lease: lease.clone(),
                messages,
            })
        });
        Ok(mail.collect())
    }

    async fn message(&self, id: &str, key: &str) -> StoreResult<Option<Message>> {
        let inner = self.inner();
        Ok(inner.find(id).and_then(|found| found.message(key)))
    }

    async fn get(&self, id: &str) -> StoreResult<Option<Found>> {
        Ok(self.inner().find(id).map(Execution::found))
    }

    async fn list(&self, query: &Query) -> StoreResult<Vec<Row>> {
        let inner = self.inner();
        let before = query.before.unwrap_or(u64::MAX);
        let rows = inner.executions.range(..before).rev();
        let rows = rows.map(|(_, execution)| execution).filter(|execution| {
            let of_workflow = query.workflow.as_ref();
            of_workflow.is_none_or(|workflow| execution.workflow == *workflow)
                && query
                    .status
                    .is_none_or(|status| execution.kept.status == status)
        });
        let limit = query.limit.min(LIST_MAX);
        Ok(rows.take(limit).map(Execution::row).collect())
    }

    async fn history(&self, id: &str, query: &HistoryQuery) -> StoreResult<Option<HistoryPage>> {
        Ok(self.inner().find(id).map(|found| found.history(query)))
    }

    async fn counts(&self) -> StoreResult<BTreeMap<Status, u64>> {
        let mut counts = BTreeMap::new();
        for execution in self.inner().executions.values() {
            *counts.entry(execution.kept.status).or_default() += 1;
        }
        Ok(counts)
    }

    async fn next_wake(&self) -> StoreResult<Option<i64>> {
        let inner = self.inner();
        let due = inner.executions.values();
        Ok(due.filter_map(|execution| execution.kept.due_at_ms).min())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn forget_ended(&self, before_ms: i64, most: usize) -> StoreResult<u64> {
        Ok(self.inner().forget(before_ms, most))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;

    use super::MemoryStore;
    use crate::store::conformance::{Fixture, Opened};

    struct Memory(MemoryStore);

    #[async_trait]
    impl Fixture for Memory {
        async fn fresh() -> Self {
            Self(MemoryStore::new())
        }

        async fn open(&self) -> Opened {
            Arc::new(self.0.clone())
        }

        async fn close(&self, _store: Opened) {}
    }

    crate::store_suite!(Memory);
}
