//! A store in memory, for tests and experiments. Its contents last as long as its
//! last clone.

mod contents;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;

use super::limits::{self, LIST_MAX};
use super::rules::{self, ExecutionHead};
use super::{
    AppendError, AppendOutcome, Claimant, ClaimedExecution, CreateError, CreateOutcome, Deployment,
    ExecutionClaimError, ExecutionCreation, ExecutionQuery, ExecutionRecord, ExecutionRow,
    ExecutionStep, ExecutionStore, ExecutionStoreError, ExecutionStoreResult, HistoryPage,
    HistoryQuery, Lease, NewMessage, PostError, PostOutcome, SaveDefinitionError, StoredDefinition,
    StoredMessage, StoredStatus, UnreadMessages,
};
use contents::{MemoryContents, MemoryExecution};

/// A store in memory. Clones share it.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    inner: Arc<Mutex<MemoryContents>>,
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

    fn lock_contents(&self) -> MutexGuard<'_, MemoryContents> {
        // No change panics half way, so poisoned contents are still consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl ExecutionStore for MemoryStore {
    async fn withdraw(&self, name: &str) -> ExecutionStoreResult<bool> {
        Ok(self.lock_contents().deployed.remove(name).is_some())
    }

    async fn check(&self) -> ExecutionStoreResult<()> {
        Ok(())
    }

    async fn save_definition(
        &self,
        definition: &StoredDefinition,
    ) -> Result<(), SaveDefinitionError> {
        limits::check_definition(definition)?;
        let mut inner = self.lock_contents();
        let StoredDefinition {
            name,
            hash,
            text,
            at_ms,
        } = definition.clone();
        let head = inner.definitions.entry(hash.clone());
        if *head.or_insert_with(|| text.clone()) != text {
            return Err(SaveDefinitionError::Conflict { hash });
        }
        if inner.deployed.get(&name).is_none_or(|now| now.hash != hash) {
            let deployed = Deployment {
                name: name.clone(),
                hash,
                at_ms,
            };
            inner.deployed.insert(name, deployed);
        }
        Ok(())
    }

    async fn definition(&self, hash: &str) -> ExecutionStoreResult<Option<String>> {
        Ok(self.lock_contents().definitions.get(hash).cloned())
    }

    async fn deployed(&self) -> ExecutionStoreResult<Vec<Deployment>> {
        Ok(self.lock_contents().deployed.values().cloned().collect())
    }

    async fn create(&self, new: ExecutionCreation) -> Result<CreateOutcome, CreateError> {
        limits::check_creation(&new)?;
        let mut inner = self.lock_contents();
        if let Some(before) = inner.find(&new.id) {
            rules::check_same_execution(&new, &before.workflow, &before.input)?;
            return Ok(CreateOutcome::Existing(Box::new(before.to_row())));
        }
        if !inner.definitions.contains_key(&new.definition) {
            let hash = new.definition;
            return Err(CreateError::NoDefinition { hash });
        }
        inner.last_number += 1;
        let (head, lease) = ExecutionHead::new(inner.last_number, &new);
        let (number, id) = (head.number, new.id.clone());
        inner
            .executions
            .insert(number, MemoryExecution::new(new, head));
        inner.numbers.insert(id, number);
        drop(inner);
        if lease.is_none() {
            self.notify_change();
        }
        Ok(CreateOutcome::Created(lease))
    }

    async fn claim(
        &self,
        by: &Claimant,
        most: usize,
    ) -> ExecutionStoreResult<Vec<ClaimedExecution>> {
        limits::check_claimant(by)
            .map_err(|invalid| ExecutionStoreError::new("claim executions", invalid))?;
        let mut inner = self.lock_contents();
        let due = inner.executions.values().filter_map(|execution| {
            let due = execution.head.due_at_ms.filter(|due| *due <= by.now_ms);
            due.map(|due| (due, execution.head.number))
        });
        let mut due: Vec<_> = due.collect();
        due.sort_unstable();
        due.truncate(most.min(LIST_MAX));
        let claims = due.into_iter().filter_map(|(_, number)| {
            let execution = inner.executions.get_mut(&number)?;
            let lease = execution.head.grant_claim(&execution.id, by).ok()?;
            Some(execution.to_claimed(lease))
        });
        Ok(claims.collect())
    }

    async fn claim_one(
        &self,
        id: &str,
        by: &Claimant,
    ) -> Result<ClaimedExecution, ExecutionClaimError> {
        limits::check_claimant(by)?;
        let mut inner = self.lock_contents();
        let not_found = || ExecutionClaimError::NotFound { id: id.to_owned() };
        let execution = inner.find_mut(id).ok_or_else(not_found)?;
        let lease = execution.head.grant_claim(id, by)?;
        Ok(execution.to_claimed(lease))
    }

    async fn release_worker_leases(&self, worker: &str, now_ms: i64) -> ExecutionStoreResult<u64> {
        let mut inner = self.lock_contents();
        let mut count = 0;
        for execution in inner.executions.values_mut() {
            if execution.head.worker.as_deref() == Some(worker) {
                execution.head.release_lease(now_ms);
                count += 1;
            }
        }
        drop(inner);
        self.notify_change();
        Ok(count)
    }

    async fn renew_leases(
        &self,
        leases: &[Lease],
        until_ms: i64,
    ) -> ExecutionStoreResult<Vec<Lease>> {
        let mut inner = self.lock_contents();
        let mut renew = |lease: &&Lease| {
            let execution = inner.find_mut(&lease.id);
            execution.is_some_and(|execution| execution.head.renew(lease.fence, until_ms))
        };
        Ok(leases
            .iter()
            .filter(|lease| renew(lease))
            .cloned()
            .collect())
    }

    async fn append(&self, step: ExecutionStep) -> Result<AppendOutcome, AppendError> {
        limits::check_step(&step)?;
        let mut inner = self.lock_contents();
        let execution = inner.find_mut(&step.lease.id);
        let execution = execution.ok_or_else(|| rules::fenced_error(&step.lease))?;
        let appended = execution.head.apply_step(&step)?;
        let parked = execution.head.worker.is_none();
        execution.record_step(step);
        drop(inner);
        if parked {
            self.notify_change();
        }
        Ok(appended)
    }

    async fn post(&self, id: &str, post: NewMessage) -> Result<PostOutcome, PostError> {
        limits::check_message(&post)?;
        let mut inner = self.lock_contents();
        let not_found = || PostError::NotFound { id: id.to_owned() };
        let execution = inner.find_mut(id).ok_or_else(not_found)?;
        let posted = execution.add_message(post)?;
        drop(inner);
        self.notify_change();
        Ok(posted)
    }

    async fn unread_messages(&self, leases: &[Lease]) -> ExecutionStoreResult<Vec<UnreadMessages>> {
        let inner = self.lock_contents();
        let mail = leases.iter().filter_map(|lease| {
            let execution = inner.find(&lease.id)?;
            let held = execution.head.is_held_by(lease.fence);
            let messages = execution.unread_messages();
            (held && !messages.is_empty()).then(|| UnreadMessages {
                lease: lease.clone(),
                messages,
            })
        });
        Ok(mail.collect())
    }

    async fn find_message(
        &self,
        id: &str,
        key: &str,
    ) -> ExecutionStoreResult<Option<StoredMessage>> {
        let inner = self.lock_contents();
        Ok(inner.find(id).and_then(|found| found.find_message(key)))
    }

    async fn get(&self, id: &str) -> ExecutionStoreResult<Option<ExecutionRecord>> {
        Ok(self
            .lock_contents()
            .find(id)
            .map(MemoryExecution::to_record))
    }

    async fn list(&self, query: &ExecutionQuery) -> ExecutionStoreResult<Vec<ExecutionRow>> {
        let inner = self.lock_contents();
        let before = query.before.unwrap_or(u64::MAX);
        let rows = inner.executions.range(..before).rev();
        let rows = rows.map(|(_, execution)| execution).filter(|execution| {
            let of_workflow = query.workflow.as_ref();
            of_workflow.is_none_or(|workflow| execution.workflow == *workflow)
                && query
                    .status
                    .is_none_or(|status| execution.head.status == status)
        });
        let limit = query.limit.min(LIST_MAX);
        Ok(rows.take(limit).map(MemoryExecution::to_row).collect())
    }

    async fn history(
        &self,
        id: &str,
        query: &HistoryQuery,
    ) -> ExecutionStoreResult<Option<HistoryPage>> {
        Ok(self
            .lock_contents()
            .find(id)
            .map(|found| found.history_page(query)))
    }

    async fn counts(&self) -> ExecutionStoreResult<BTreeMap<StoredStatus, u64>> {
        let mut counts = BTreeMap::new();
        for execution in self.lock_contents().executions.values() {
            *counts.entry(execution.head.status).or_default() += 1;
        }
        Ok(counts)
    }

    async fn next_due(&self) -> ExecutionStoreResult<Option<i64>> {
        let inner = self.lock_contents();
        let due = inner.executions.values();
        Ok(due.filter_map(|execution| execution.head.due_at_ms).min())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn forget_ended(&self, before_ms: i64, most: usize) -> ExecutionStoreResult<u64> {
        Ok(self.lock_contents().forget_ended(before_ms, most))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;

    use super::MemoryStore;
    use crate::store::conformance::{OpenStore, StoreFixture};

    struct MemoryFixture(MemoryStore);

    #[async_trait]
    impl StoreFixture for MemoryFixture {
        async fn fresh() -> Self {
            Self(MemoryStore::new())
        }

        async fn open(&self) -> OpenStore {
            Arc::new(self.0.clone())
        }

        async fn close(&self, _store: OpenStore) {}
    }

    crate::store_suite!(MemoryFixture);
}
