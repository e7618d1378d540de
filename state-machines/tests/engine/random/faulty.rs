//! A store that fails by a seeded plan: before it has done what was asked, or
//! after, so that the answer is lost; now and then for a stretch of time. What
//! it has done it does as the store in memory.

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

use crate::paused::{Paused, START_MS};

/// Outages of a store, and how long each of them may last: twice a lease.
const OUTAGES: u64 = 3;
const OUTAGE_MS: i64 = 60_000;

/// How long it is away altogether, at most.
pub(crate) const OUT_MS_MAX: i64 = OUTAGES.cast_signed() * OUTAGE_MS;

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Good,
    Undone,
    Lost,
}

pub(crate) struct Faulty {
    inner: MemoryStore,
    clock: Arc<Paused>,
    seed: u64,
    calls: AtomicU64,
    faults: AtomicU64,
    /// Of so many calls one fails; 0 is none, and no outages either.
    rarely: u64,
    /// Whether messages of this kind are refused.
    refused: Mutex<Option<&'static str>>,
    /// Whether steps with this text in an event cannot be kept.
    unfit: Mutex<Option<&'static str>>,
    /// How long a creation takes.
    creation: Duration,
    /// What was kept, in its order.
    journals: Mutex<HashMap<String, Vec<JournalEntry>>>,
}

impl Faulty {
    /// One call in three fails, to one in twelve.
    pub(crate) fn new(seed: u64, clock: Arc<Paused>) -> Self {
        Self {
            rarely: 3 + seed % 10,
            ..Self::calm(seed, clock)
        }
    }

    /// Nothing fails but what is [refused](Self::refuse).
    pub(crate) fn calm(seed: u64, clock: Arc<Paused>) -> Self {
        Self {
            rarely: 0,
            creation: Duration::ZERO,
            refused: Mutex::default(),
            unfit: Mutex::default(),
            inner: MemoryStore::new(),
            clock,
            seed,
            calls: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            journals: Mutex::default(),
        }
    }

    /// Nothing fails, and creations take this long.
    pub(crate) fn slow(creation: Duration, clock: Arc<Paused>) -> Self {
        Self {
            creation,
            ..Self::calm(1, clock)
        }
    }

    /// Refuses messages whose key begins so.
    pub(crate) fn refuse(&self, kind: &'static str) {
        *self.refused.lock().unwrap() = Some(kind);
    }

    /// Cannot keep events with this text.
    pub(crate) fn cannot_keep(&self, text: &'static str) {
        *self.unfit.lock().unwrap() = Some(text);
    }

    pub(crate) fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// The entries of every execution.
    pub(crate) fn journals(&self) -> HashMap<String, Vec<JournalEntry>> {
        self.journals.lock().unwrap().clone()
    }

    /// The entries of one execution.
    pub(crate) fn journal(&self, id: &str) -> Vec<JournalEntry> {
        self.journals.lock().unwrap()[id].clone()
    }

    /// It without its faults.
    pub(crate) fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    fn drawn(&self, what: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, what).hash(&mut hasher);
        hasher.finish()
    }

    fn fate(&self) -> Fate {
        if self.rarely == 0 {
            return Fate::Good;
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let since = self.clock.now_ms() - START_MS;
        let is_out = (0..OUTAGES).any(|outage| {
            let begins = (self.drawn(("begins", outage)) % 120_000).cast_signed();
            let length = (self.drawn(("lasts", outage)) % OUTAGE_MS.cast_unsigned()).cast_signed();
            (begins..begins + length).contains(&since)
        });
        let drawn = self.drawn(("call", call));
        if !is_out && !drawn.is_multiple_of(self.rarely) {
            return Fate::Good;
        }
        self.faults.fetch_add(1, Ordering::Relaxed);
        match drawn / self.rarely % 2 {
            0 => Fate::Undone,
            _ => Fate::Lost,
        }
    }
}

fn fault() -> ExecutionStoreError {
    ExecutionStoreError::new("do as it was planned", "it was planned to fail")
}

/// A call that changes something.
macro_rules! change {
    ($self:ident, $call:expr) => {{
        let fate = $self.fate();
        // Whoever asks waits, and others go on meanwhile.
        tokio::task::yield_now().await;
        if fate == Fate::Undone {
            return Err(fault().into());
        }
        let answer = $call;
        if fate == Fate::Lost {
            return Err(fault().into());
        }
        answer
    }};
}

/// A question: it makes no difference when it fails.
macro_rules! ask {
    ($self:ident, $call:expr) => {{
        tokio::task::yield_now().await;
        match $self.fate() {
            Fate::Good => $call,
            Fate::Undone | Fate::Lost => Err(fault()),
        }
    }};
}

#[async_trait]
impl ExecutionStore for Faulty {
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
        if let Some(text) = *self.unfit.lock().unwrap()
            && step.entries.iter().any(|entry| entry.event.contains(text))
        {
            // As large as no step may be.
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
