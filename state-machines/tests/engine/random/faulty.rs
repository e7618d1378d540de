//! A store that fails by a seeded plan: before a write, or after it so that the
//! reply is lost, and during outages. Otherwise it works as the store in memory.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ballast_state_machines::engine::EngineClock;
use ballast_state_machines::store::limits::POSITION_BYTES_MAX;
use ballast_state_machines::store::{
    AppendError, AppendOutcome, Claimant, ClaimedExecution, CreateError, CreateOutcome, Deployment,
    ExecutionClaimError, ExecutionCreation, ExecutionQuery, ExecutionRecord, ExecutionRow,
    ExecutionStep, ExecutionStore, ExecutionStoreError, ExecutionStoreResult, HistoryPage,
    HistoryQuery, JournalEntry, Lease, MemoryStore, NewMessage, PostError, PostOutcome,
    SaveDefinitionError, StoredDefinition, StoredMessage, StoredStatus, UnreadMessages,
};
use tokio::sync::watch;

use crate::paused::{PausedClock, START_MS};

/// The number of outages, and how long each may last: twice a lease.
const OUTAGES: u64 = 3;
const OUTAGE_MS: i64 = 60_000;

/// The longest total time of outages.
pub(crate) const OUT_MS_MAX: i64 = OUTAGES.cast_signed() * OUTAGE_MS;

/// What happens to a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallOutcome {
    Good,
    Undone,
    Lost,
}

pub(crate) struct FaultyStore {
    inner: MemoryStore,
    clock: Arc<PausedClock>,
    seed: u64,
    calls: AtomicU64,
    faults: AtomicU64,
    /// One in this many calls fails; 0 disables failures and outages.
    one_in: u64,
    /// The store refuses messages of this kind.
    refused: Mutex<Option<&'static str>>,
    /// The store refuses steps with this text in an event.
    rejected_text: Mutex<Option<&'static str>>,
    /// How long a creation takes.
    creation: Duration,
    /// The appended entries in order.
    journals: Mutex<HashMap<String, Vec<JournalEntry>>>,
}

impl FaultyStore {
    /// One call in three to one in twelve fails.
    pub(crate) fn new(seed: u64, clock: Arc<PausedClock>) -> Self {
        Self {
            one_in: 3 + seed % 10,
            ..Self::calm(seed, clock)
        }
    }

    /// Nothing fails except messages that are [refused](Self::refuse).
    pub(crate) fn calm(seed: u64, clock: Arc<PausedClock>) -> Self {
        Self {
            one_in: 0,
            creation: Duration::ZERO,
            refused: Mutex::default(),
            rejected_text: Mutex::default(),
            inner: MemoryStore::new(),
            clock,
            seed,
            calls: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            journals: Mutex::default(),
        }
    }

    /// Nothing fails, and creations take this long.
    pub(crate) fn slow(creation: Duration, clock: Arc<PausedClock>) -> Self {
        Self {
            creation,
            ..Self::calm(1, clock)
        }
    }

    /// Refuses messages whose key starts with this.
    pub(crate) fn refuse(&self, kind: &'static str) {
        *self.refused.lock().unwrap() = Some(kind);
    }

    /// Refuses steps with this text in an event.
    pub(crate) fn reject_steps_with(&self, text: &'static str) {
        *self.rejected_text.lock().unwrap() = Some(text);
    }

    pub(crate) fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// The entries of all executions.
    pub(crate) fn journals(&self) -> HashMap<String, Vec<JournalEntry>> {
        self.journals.lock().unwrap().clone()
    }

    /// The entries of one execution.
    pub(crate) fn journal(&self, id: &str) -> Vec<JournalEntry> {
        self.journals.lock().unwrap()[id].clone()
    }

    /// The store without faults.
    pub(crate) fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    fn drawn(&self, what: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, what).hash(&mut hasher);
        hasher.finish()
    }

    fn call_outcome(&self) -> CallOutcome {
        if self.one_in == 0 {
            return CallOutcome::Good;
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let since = self.clock.now_ms() - START_MS;
        let is_out = (0..OUTAGES).any(|outage| {
            let begins = (self.drawn(("begins", outage)) % 120_000).cast_signed();
            let length = (self.drawn(("lasts", outage)) % OUTAGE_MS.cast_unsigned()).cast_signed();
            (begins..begins + length).contains(&since)
        });
        let drawn = self.drawn(("call", call));
        if !is_out && !drawn.is_multiple_of(self.one_in) {
            return CallOutcome::Good;
        }
        self.faults.fetch_add(1, Ordering::Relaxed);
        match drawn / self.one_in % 2 {
            0 => CallOutcome::Undone,
            _ => CallOutcome::Lost,
        }
    }
}

fn fault() -> ExecutionStoreError {
    ExecutionStoreError::new("do as it was planned", "it was planned to fail")
}

/// A call that writes.
macro_rules! change {
    ($self:ident, $call:expr) => {{
        let call_outcome = $self.call_outcome();
        // Yield, so that other tasks run during the call.
        tokio::task::yield_now().await;
        if call_outcome == CallOutcome::Undone {
            return Err(fault().into());
        }
        let answer = $call;
        if call_outcome == CallOutcome::Lost {
            return Err(fault().into());
        }
        answer
    }};
}

/// A call that reads.
macro_rules! ask {
    ($self:ident, $call:expr) => {{
        tokio::task::yield_now().await;
        match $self.call_outcome() {
            CallOutcome::Good => $call,
            CallOutcome::Undone | CallOutcome::Lost => Err(fault()),
        }
    }};
}

#[async_trait]
impl ExecutionStore for FaultyStore {
    async fn save_definition(
        &self,
        definition: &StoredDefinition,
    ) -> Result<(), SaveDefinitionError> {
        change!(self, self.inner.save_definition(definition).await)
    }

    async fn withdraw(&self, name: &str) -> ExecutionStoreResult<bool> {
        change!(self, self.inner.withdraw(name).await)
    }

    async fn check(&self) -> ExecutionStoreResult<()> {
        ask!(self, self.inner.check().await)
    }

    async fn definition(&self, hash: &str) -> ExecutionStoreResult<Option<String>> {
        ask!(self, self.inner.definition(hash).await)
    }

    async fn deployed(&self) -> ExecutionStoreResult<Vec<Deployment>> {
        ask!(self, self.inner.deployed().await)
    }

    async fn create(&self, new: ExecutionCreation) -> Result<CreateOutcome, CreateError> {
        tokio::time::sleep(self.creation).await;
        change!(self, {
            let (id, entries) = (new.id.clone(), new.entries.clone());
            let created = self.inner.create(new).await;
            if let Ok(CreateOutcome::Created(_)) = &created {
                let before = self.journals.lock().unwrap().insert(id, entries);
                assert_eq!(before, None);
            }
            created
        })
    }

    async fn claim(
        &self,
        by: &Claimant,
        most: usize,
    ) -> ExecutionStoreResult<Vec<ClaimedExecution>> {
        change!(self, self.inner.claim(by, most).await)
    }

    async fn claim_one(
        &self,
        id: &str,
        by: &Claimant,
    ) -> Result<ClaimedExecution, ExecutionClaimError> {
        change!(self, self.inner.claim_one(id, by).await)
    }

    async fn release_worker_leases(&self, worker: &str, now_ms: i64) -> ExecutionStoreResult<u64> {
        change!(self, self.inner.release_worker_leases(worker, now_ms).await)
    }

    async fn renew_leases(
        &self,
        leases: &[Lease],
        until_ms: i64,
    ) -> ExecutionStoreResult<Vec<Lease>> {
        change!(self, self.inner.renew_leases(leases, until_ms).await)
    }

    async fn append(&self, mut step: ExecutionStep) -> Result<AppendOutcome, AppendError> {
        if let Some(text) = *self.rejected_text.lock().unwrap()
            && step.entries.iter().any(|entry| entry.event.contains(text))
        {
            // Larger than the store's limit.
            step.state.position = "x".repeat(POSITION_BYTES_MAX + 1);
        }
        change!(self, {
            let (id, entries) = (step.lease.id.clone(), step.entries.clone());
            let appended = self.inner.append(step).await;
            if appended.is_ok() {
                let mut journals = self.journals.lock().unwrap();
                journals.get_mut(&id).unwrap().extend(entries);
            }
            appended
        })
    }

    async fn post(&self, id: &str, post: NewMessage) -> Result<PostOutcome, PostError> {
        let refused = *self.refused.lock().unwrap();
        if refused.is_some_and(|kind| post.key.starts_with(kind)) {
            return Err(fault().into());
        }
        change!(self, self.inner.post(id, post).await)
    }

    async fn unread_messages(&self, leases: &[Lease]) -> ExecutionStoreResult<Vec<UnreadMessages>> {
        ask!(self, self.inner.unread_messages(leases).await)
    }

    async fn find_message(
        &self,
        id: &str,
        key: &str,
    ) -> ExecutionStoreResult<Option<StoredMessage>> {
        ask!(self, self.inner.find_message(id, key).await)
    }

    async fn get(&self, id: &str) -> ExecutionStoreResult<Option<ExecutionRecord>> {
        ask!(self, self.inner.get(id).await)
    }

    async fn list(&self, query: &ExecutionQuery) -> ExecutionStoreResult<Vec<ExecutionRow>> {
        ask!(self, self.inner.list(query).await)
    }

    async fn history(
        &self,
        id: &str,
        query: &HistoryQuery,
    ) -> ExecutionStoreResult<Option<HistoryPage>> {
        ask!(self, self.inner.history(id, query).await)
    }

    async fn counts(&self) -> ExecutionStoreResult<BTreeMap<StoredStatus, u64>> {
        ask!(self, self.inner.counts().await)
    }

    async fn next_due(&self) -> ExecutionStoreResult<Option<i64>> {
        ask!(self, self.inner.next_due().await)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes()
    }

    async fn forget_ended(&self, before_ms: i64, most: usize) -> ExecutionStoreResult<u64> {
        change!(self, self.inner.forget_ended(before_ms, most).await)
    }
}
