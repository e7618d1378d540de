//! Where executions are kept: durable journals, leases, messages, wake times.
//! The store knows nothing of states or of JSON: events, histories and
//! snapshots are text to it, and time is what its callers say it is.
//!
//! ```text
//!   model         the words: a step, a lease, a message, …
//!   shown         rows, histories, and how they are asked for
//!   limits        how large texts may be
//!   rules         what may happen to an execution, decided purely
//!   memory        a store in memory: for tests, and to read
//!   sqlite        a store in one SQLite file (feature `sqlite`)
//!   conformance   the one suite that every store passes; for the tests of
//!                 other crates behind the feature `conformance`
//! ```
//!
//! An execution is open until a step ends it. While it is open it is either
//! held by one worker or parked:
//!
//! ```text
//!             create                  claim, claim_one
//!   (absent) ────────▶ held by a worker ◀──────────── parked, due when its
//!                        │  ▲   │   │                 wake time or a message
//!              append ───┘  │   │   └──── append ───▶ comes
//!              that keeps   │   │         that parks
//!              the lease ───┘   └ append that ends ──▶ ended ── forget_ended ──▶ (absent)
//! ```
//!
//! A lease has a fence: a number that grows with every lease of an execution.
//! Who appends names its fence, and is refused once another has been given
//! out. So a worker that was taken for dead can do no harm.
//!
//! ```
//! use ballast_state_machines::store::{
//!     Claimant, Created, Definition, Entry, MemoryStore, New, Standing, Start, Status, Step, Store, Then,
//! };
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let store = MemoryStore::new();
//! store.keep_definition(&Definition {
//!     name: "copying".to_owned(),
//!     hash: "5f2b".to_owned(),
//!     text: r#"{"StartAt": "Copy", …}"#.to_owned(),
//!     at_ms: 0,
//! }).await?;
//!
//! let entry = |event: &str, history: &str| Entry {
//!     at_ms: 0,
//!     event: event.to_owned(),
//!     history: vec![history.to_owned()],
//! };
//! let Created::New(Some(lease)) = store.create(New {
//!     id: "run-1".to_owned(),
//!     workflow: "copying".to_owned(),
//!     definition: "5f2b".to_owned(),
//!     input: "{}".to_owned(),
//!     at_ms: 0,
//!     entries: vec![entry(r#""begun""#, r#"{"id": 1, "type": "ExecutionStarted"}"#)],
//!     standing: Standing::running(r#"["Copy"]"#),
//!     snapshot: None,
//!     start: Start::Held { worker: "a".to_owned(), until_ms: 30_000 },
//! }).await? else { panic!("nobody was there before") };
//!
//! store.append(Step {
//!     lease,
//!     seq: 2,
//!     first_history_id: 2,
//!     entries: vec![entry(r#""copied""#, r#"{"id": 2, "type": "ExecutionSucceeded"}"#)],
//!     standing: Standing::ended(Status::Succeeded, "[]", "{}", 10),
//!     taken: 0,
//!     snapshot: None,
//!     then: Then::Park { wake_at_ms: None },
//! }).await?;
//! let found = store.get("run-1").await?.expect("it is kept");
//! assert_eq!(found.row.status, Status::Succeeded);
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
mod rules;
mod shown;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use std::collections::BTreeMap;

use async_trait::async_trait;
use tokio::sync::watch;

pub use error::{
    AppendError, ClaimError, CreateError, KeepError, PostError, StoreError, StoreResult, Unfit,
};
pub use memory::MemoryStore;
pub use model::{
    Appended, Claim, Claimant, Created, Definition, Deployed, Entry, Lease, Mail, Message, New,
    Post, Posted, Recorded, Snapshot, Standing, Start, Status, Step, Then,
};
pub use shown::{Found, HistoryPage, HistoryQuery, Query, Row};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;

/// Keeps executions. What was answered is durable and seen by every later
/// question; steps of one execution happen in an order that all see, and each
/// happens whole or not at all.
///
/// An error of kind `Store` says that the store failed, not whether the thing
/// happened: a worker that gets one lets go of the execution and claims it
/// again. All other errors say that nothing changed.
#[async_trait]
pub trait Store: Send + Sync {
    /// Keeps a definition under its hash and makes it the one that its name
    /// stands for. Doing it again changes nothing.
    async fn keep_definition(&self, definition: &Definition) -> Result<(), KeepError>;

    /// Has a name stand for nothing any more; whether it stood for something.
    /// Executions that are on their way keep their definition.
    async fn withdraw(&self, name: &str) -> StoreResult<bool>;

    /// Whether the store would take a write, as far as it knows.
    async fn check(&self) -> StoreResult<()>;

    /// The text of a definition.
    async fn definition(&self, hash: &str) -> StoreResult<Option<String>>;

    /// What each name stands for now, in the order of the names.
    async fn deployed(&self) -> StoreResult<Vec<Deployed>>;

    /// Creates an execution with its first entries and its lease, in one step.
    /// An id that is there already is answered with what is there if workflow
    /// and input are the same, whatever the definition, and refused if they
    /// are not.
    async fn create(&self, new: New) -> Result<Created, CreateError>;

    /// Leases executions that are due: open, and either parked with a wake
    /// time or a message that has come, or held by a lease that has run out.
    /// At most `most`, those that are due for longest first.
    async fn claim(&self, by: &Claimant, most: usize) -> StoreResult<Vec<Claim>>;

    /// Leases this execution, due or not, unless somebody holds it: for a
    /// caller that wants an answer now.
    async fn claim_one(&self, id: &str, by: &Claimant) -> Result<Claim, ClaimError>;

    /// Gives up all leases that this worker has, and makes the executions due:
    /// for a worker that starts, and whose name held leases in an earlier
    /// life. How many there were.
    async fn take_back(&self, worker: &str, now_ms: i64) -> StoreResult<u64>;

    /// Makes leases run out later. Those that still hold are returned; the
    /// others belong to somebody else by now, or to nobody.
    async fn renew(&self, leases: &[Lease], until_ms: i64) -> StoreResult<Vec<Lease>>;

    /// One step: entries appended, standing changed, messages taken, snapshot
    /// replaced, lease kept or given up. Steps of many executions that come at
    /// the same time are made durable together.
    async fn append(&self, step: Step) -> Result<Appended, AppendError>;

    /// Puts a message into the inbox of an execution, which is due from then
    /// on. A key that was there before is answered as it was the first time,
    /// also when the execution has ended since.
    async fn post(&self, id: &str, post: Post) -> Result<Posted, PostError>;

    /// The messages that wait for executions which are held by these leases.
    /// Executions without any are left out.
    async fn messages(&self, leases: &[Lease]) -> StoreResult<Vec<Mail>>;

    /// The message that was sent to an execution under this key, read or not.
    async fn message(&self, id: &str, key: &str) -> StoreResult<Option<Message>>;

    /// An execution.
    async fn get(&self, id: &str) -> StoreResult<Option<Found>>;

    /// Executions, the newest first.
    async fn list(&self, query: &Query) -> StoreResult<Vec<Row>>;

    /// A page of an execution's history; `None` if there is no such execution.
    async fn history(&self, id: &str, query: &HistoryQuery) -> StoreResult<Option<HistoryPage>>;

    /// How many executions there are of each status; those of which there are
    /// none are left out.
    async fn counts(&self) -> StoreResult<BTreeMap<Status, u64>>;

    /// When the next execution will be due, be it that its wake time comes or
    /// that its lease runs out. It may be past.
    async fn next_wake(&self) -> StoreResult<Option<i64>>;

    /// Changes whenever something in this process may have made an execution
    /// due, or due earlier, or has brought a message: before whoever did it is
    /// answered. The first change may be from before this call. What other
    /// processes do is found by asking.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Forgets executions that ended before a time: `most` at most, and fewer
    /// when they are long. How many it were; 0 when there are none left.
    async fn forget_ended(&self, before_ms: i64, most: usize) -> StoreResult<u64>;
}
