//! Stores of executions: durable journals, leases, messages, wake times. A store
//! does not interpret states or JSON: events, histories and snapshots are text to
//! it, and its callers pass the time.
//!
//! ```text
//!   model         the types: step, lease, message, …
//!   query         what callers read: rows, records, histories
//!   limits        size limits
//!   rules         what may happen to an execution; pure
//!   paging        which events a page of a history has; pure
//!   memory        a store in memory: for tests
//!   sqlite        a store in one SQLite file (feature `sqlite`)
//!   conformance   the test suite that every store passes; other crates get it with
//!                 the feature `conformance`
//! ```
//!
//! An execution is open until a step ends it. While it is open, either one worker
//! holds it or it is parked:
//!
//! ```text
//!             create                  claim, claim_one
//!   (absent) ────────▶ held by a worker ◀──────────── parked, due at its wake
//!                        │  ▲   │   │                 time or with a message
//!              append ───┘  │   │   └──── append ───▶
//!              that keeps   │   │         that parks
//!              the lease ───┘   └ append that ends ──▶ ended ── forget_ended ──▶ (absent)
//! ```
//!
//! Each lease of an execution has a fence, a number that grows with every lease.
//! An append names its fence, and the store refuses all but the latest one. So a
//! worker that lost its lease without noticing can do no harm.
//!
//! ```
//! use ballast_state_machines::store::{
//!     Claimant, CreateOutcome, ExecutionCreation, ExecutionState, ExecutionStep, ExecutionStore,
//!     InitialLease, JournalEntry, LeaseAction, MemoryStore, StoredDefinition, StoredStatus,
//! };
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let store = MemoryStore::new();
//! store.save_definition(&StoredDefinition {
//!     name: "copying".to_owned(),
//!     hash: "5f2b".to_owned(),
//!     text: r#"{"StartAt": "Copy", …}"#.to_owned(),
//!     at_ms: 0,
//! }).await?;
//!
//! let entry = |event: &str, history: &str| JournalEntry {
//!     at_ms: 0,
//!     event: event.to_owned(),
//!     history: vec![history.to_owned()],
//! };
//! let CreateOutcome::Created(Some(lease)) = store.create(ExecutionCreation {
//!     id: "run-1".to_owned(),
//!     workflow: "copying".to_owned(),
//!     definition: "5f2b".to_owned(),
//!     input: "{}".to_owned(),
//!     at_ms: 0,
//!     entries: vec![entry(r#""begun""#, r#"{"id": 1, "type": "ExecutionStarted"}"#)],
//!     state: ExecutionState::running(r#"["Copy"]"#),
//!     snapshot: None,
//!     start: InitialLease::Held { worker: "a".to_owned(), until_ms: 30_000 },
//! }).await? else { panic!("the execution existed before") };
//!
//! store.append(ExecutionStep {
//!     lease,
//!     seq: 2,
//!     first_history_id: 2,
//!     entries: vec![entry(r#""copied""#, r#"{"id": 2, "type": "ExecutionSucceeded"}"#)],
//!     state: ExecutionState::ended(StoredStatus::Succeeded, "[]", "{}", 10),
//!     messages_read: 0,
//!     snapshot: None,
//!     lease_action: LeaseAction::Park { wake_at_ms: None },
//! }).await?;
//! let found = store.get("run-1").await?.expect("it exists");
//! assert_eq!(found.row.status, StoredStatus::Succeeded);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
pub mod limits;
mod memory;
mod model;
mod paging;
mod query;
mod rules;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use std::collections::BTreeMap;

use async_trait::async_trait;
use tokio::sync::watch;

pub use error::{
    AppendError, CreateError, ExecutionClaimError, ExecutionStoreError, ExecutionStoreResult,
    InvalidRecord, PostError, SaveDefinitionError,
};
pub use memory::MemoryStore;
pub use model::{
    AppendOutcome, Claimant, ClaimedExecution, CreateOutcome, Deployment, ExecutionCreation,
    ExecutionSnapshot, ExecutionState, ExecutionStep, InitialLease, JournalEntry, Lease,
    LeaseAction, NewMessage, PostOutcome, StoredDefinition, StoredEntry, StoredMessage,
    StoredStatus, UnreadMessages,
};
pub use query::{ExecutionQuery, ExecutionRecord, ExecutionRow, HistoryPage, HistoryQuery};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;

/// A store of executions. Writes are durable when they return, and all later reads see
/// them. The steps of one execution are atomic and totally ordered.
///
/// An error of kind `Store` does not say whether the write happened: a worker that gets
/// one gives the execution up and claims it again. All other errors mean that nothing
/// changed.
#[async_trait]
pub trait ExecutionStore: Send + Sync {
    /// Saves a definition under its hash and deploys it under its name. Saving it
    /// again changes nothing.
    async fn save_definition(
        &self,
        definition: &StoredDefinition,
    ) -> Result<(), SaveDefinitionError>;

    /// Removes a deployment; returns whether it existed. Running executions keep
    /// their definition.
    async fn withdraw(&self, name: &str) -> ExecutionStoreResult<bool>;

    /// Whether the store accepts writes, as far as it knows.
    async fn check(&self) -> ExecutionStoreResult<()>;

    /// The text of a definition.
    async fn definition(&self, hash: &str) -> ExecutionStoreResult<Option<String>>;

    /// All deployments, ordered by name.
    async fn deployed(&self) -> ExecutionStoreResult<Vec<Deployment>>;

    /// Creates an execution with its first entries and its lease, in one step. For
    /// an existing id it returns the existing execution if workflow and input are
    /// the same, whatever the definition, and otherwise refuses.
    async fn create(&self, new: ExecutionCreation) -> Result<CreateOutcome, CreateError>;

    /// Leases due executions: open, and either parked with a passed wake time or a
    /// message, or held by an expired lease. At most `most`, the longest due first.
    async fn claim(
        &self,
        by: &Claimant,
        most: usize,
    ) -> ExecutionStoreResult<Vec<ClaimedExecution>>;

    /// Leases one execution, due or not, unless another worker holds it. For
    /// callers that need an answer now.
    async fn claim_one(
        &self,
        id: &str,
        by: &Claimant,
    ) -> Result<ClaimedExecution, ExecutionClaimError>;

    /// Releases all leases of this worker and makes its executions due; returns how
    /// many. For a worker that restarts under its old name.
    async fn release_worker_leases(&self, worker: &str, now_ms: i64) -> ExecutionStoreResult<u64>;

    /// Renews leases. Returns those that were still valid; the others are lost.
    async fn renew_leases(
        &self,
        leases: &[Lease],
        until_ms: i64,
    ) -> ExecutionStoreResult<Vec<Lease>>;

    /// Appends one step: adds entries, updates the state, marks messages as read,
    /// replaces the snapshot, keeps or releases the lease. Concurrent steps of many
    /// executions share one sync.
    async fn append(&self, step: ExecutionStep) -> Result<AppendOutcome, AppendError>;

    /// Adds a message to an execution's inbox, which makes the execution due. For a
    /// known key it returns the first outcome, even if the execution has ended
    /// since.
    async fn post(&self, id: &str, post: NewMessage) -> Result<PostOutcome, PostError>;

    /// The unread messages of the executions held by these leases. Executions
    /// without any are left out.
    async fn unread_messages(&self, leases: &[Lease]) -> ExecutionStoreResult<Vec<UnreadMessages>>;

    /// The message with this key in an execution's inbox, read or not.
    async fn find_message(
        &self,
        id: &str,
        key: &str,
    ) -> ExecutionStoreResult<Option<StoredMessage>>;

    /// An execution by its id.
    async fn get(&self, id: &str) -> ExecutionStoreResult<Option<ExecutionRecord>>;

    /// Lists executions, newest first.
    async fn list(&self, query: &ExecutionQuery) -> ExecutionStoreResult<Vec<ExecutionRow>>;

    /// A page of an execution's history; `None` if the execution does not exist.
    async fn history(
        &self,
        id: &str,
        query: &HistoryQuery,
    ) -> ExecutionStoreResult<Option<HistoryPage>>;

    /// The number of executions by status, without statuses that have none.
    async fn counts(&self) -> ExecutionStoreResult<BTreeMap<StoredStatus, u64>>;

    /// When the next execution becomes due: by its wake time or by the end of its
    /// lease. This may be in the past.
    async fn next_due(&self) -> ExecutionStoreResult<Option<i64>>;

    /// A value that changes whenever this process may have made an execution due,
    /// or due earlier, or has added a message. It changes before that call returns.
    /// The first change may predate the subscription. Changes by other processes
    /// are not announced.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Deletes executions that ended before a time: at most `most`, and fewer if
    /// they are long. Returns how many; 0 when none are left.
    async fn forget_ended(&self, before_ms: i64, most: usize) -> ExecutionStoreResult<u64>;
}
