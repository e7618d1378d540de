//! Executions in one SQLite file: the laptop's, and any single machine's.
//!
//! ```text
//!   append(), create(), post(), … ──► queue ──► writer: drain, decide, write,
//!                                               sync once ──► all answered
//!                                               (one connection, one
//!                                               transaction per group)
//!   get(), list(), history(), …   ──► a pool of read-only connections
//! ```
//! Reads see everything that has been answered: SQLite in WAL mode shows a new
//! reader the last commit. [`group`] decides, purely, what of a group happens;
//! [`view`] reads for it, [`rows`] writes, [`writer`] drives them; [`read`] and
//! [`history`] ask.

mod aside;
mod file_id;
mod group;
mod history;
mod job;
mod read;
mod rows;
#[cfg(test)]
mod tests;
mod view;
mod writer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::SqlSafeStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use tokio::sync::{mpsc, oneshot, watch};

use super::limits::{self, LIST_MAX};
use super::{
    AppendError, Appended, Claim, ClaimError, Claimant, CreateError, Created, Definition, Deployed,
    Found, HistoryPage, HistoryQuery, KeepError, Lease, Mail, Message, New, Post, PostError,
    Posted, Query, Row, Status, Step, Store, StoreError, StoreResult,
};
use aside::Aside;
use file_id::FileId;
use job::{Job, Pending};
use writer::{Order, Writer};

/// Readers at the same time. They mostly wait for the page cache.
const READERS: u32 = 4;
/// The page caches of the writer and of each reader, in SQLite's way of
/// saying KiB.
const WRITER_CACHE: &str = "-32768";
const READER_CACHE: &str = "-4096";
/// How long the log grows before it is written back: 64 MiB of pages. Steps of
/// the same executions touch the same pages again and again.
const LOG_PAGES: &str = "16384";
/// How long a statement waits for a lock that another process holds.
const BUSY_WAIT: Duration = Duration::from_secs(5);
/// How long a question waits for its turn among ten thousands of others.
const TURN_WAIT: Duration = Duration::from_secs(120);

/// The schema, step by step. Not by sqlx's macro: that one compiles SQLite a
/// second time, for the compiler.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let first = include_str!("../../../migrations/sqlite/0001_executions.sql").into_sql_str();
    Migrator::with_migrations(vec![Migration::new(
        1,
        "executions".into(),
        MigrationType::Simple,
        first,
        false,
    )])
});

/// A store in a SQLite file. Clones share the file and the writer.
#[derive(Clone)]
pub struct SqliteStore {
    readers: SqlitePool,
    queue: mpsc::Sender<Order>,
    changes: watch::Receiver<u64>,
    failing: Arc<AtomicBool>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A newer program wrote the file.
    #[error("{} was written by a newer version (its schema is at step {found}, this program knows {known}); use that version or a newer one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's schema step.
        found: i64,
        /// The last step this program knows.
        known: i64,
    },
    /// It cannot be opened or brought up to date.
    #[error("open the executions {}", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl SqliteStore {
    /// Opens the file, creating it and bringing its schema up to date.
    pub async fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| OpenError::Store {
            path: path.to_owned(),
            source,
        };
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // Durable when answered: the log is synced at every commit.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_WAIT)
            .optimize_on_close(true, Some(400));
        let to_write = options
            .clone()
            .pragma("cache_size", WRITER_CACHE)
            .pragma("wal_autocheckpoint", LOG_PAGES);
        let writing = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(to_write.clone())
            .await
            .map_err(|source| failed(source.into()))?;
        migrate(&writing, path).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(TURN_WAIT)
            .connect_with(options.read_only(true).pragma("cache_size", READER_CACHE))
            .await
            .map_err(|source| failed(source.into()))?;
        let connection = writing
            .acquire()
            .await
            .map_err(|source| failed(source.into()))?;
        let file = FileId::of(path).map_err(|source| failed(source.into()))?;
        let (announce, changes) = watch::channel(0);
        let failing = Arc::new(AtomicBool::new(false));
        let connection = connection.detach();
        let queue = Writer::start(connection, to_write, file, announce, failing.clone());
        Ok(Self {
            readers,
            queue,
            changes,
            failing,
        })
    }

    /// Waits for what is queued and closes the file, which then is all there
    /// is: the last to leave writes the log back, and only a writer can.
    pub async fn close(&self) {
        // The writer goes last: the last connection to close moves what is in
        // the log into the file, and a reader may not.
        self.readers.close().await;
        let (done, closed) = oneshot::channel();
        if self.queue.send(Order::Close(done)).await.is_ok() {
            let _ = closed.await;
        }
    }

    /// Queues an order and waits for its answer.
    async fn ask<T, E: From<StoreError>>(
        &self,
        order: impl FnOnce(Pending<T, E>) -> Order,
    ) -> Result<T, E> {
        let gone = || StoreError::new("write to the store", "it is closed");
        let (answer, answered) = oneshot::channel();
        let order = order(Pending::new(answer));
        self.queue.send(order).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

async fn migrate(pool: &SqlitePool, path: &Path) -> Result<(), OpenError> {
    MIGRATIONS.run(pool).await.map_err(|error| match error {
        MigrateError::VersionMissing(found) => OpenError::Newer {
            path: path.to_owned(),
            found,
            known: MIGRATIONS
                .iter()
                .map(|step| step.version)
                .max()
                .unwrap_or(0),
        },
        other => OpenError::Store {
            path: path.to_owned(),
            source: other.into(),
        },
    })
}

#[async_trait]
impl Store for SqliteStore {
    async fn keep_definition(&self, definition: &Definition) -> Result<(), KeepError> {
        limits::definition(definition)?;
        let definition = Box::new(definition.clone());
        self.ask(|pending| Order::Aside(Aside::Keep(definition, pending)))
            .await
    }

    async fn withdraw(&self, name: &str) -> StoreResult<bool> {
        let name = name.to_owned();
        self.ask(|pending| Order::Aside(Aside::Withdraw(name, pending)))
            .await
    }

    async fn check(&self) -> StoreResult<()> {
        match self.failing.load(Ordering::Relaxed) {
            false => Ok(()),
            // Only a write can tell whether it would work now.
            true => {
                self.ask(|pending| Order::Aside(Aside::Probe(pending)))
                    .await
            }
        }
    }

    async fn definition(&self, hash: &str) -> StoreResult<Option<String>> {
        let found = read::definition(&self.readers, hash).await;
        found.map_err(failed("read a definition"))
    }

    async fn deployed(&self) -> StoreResult<Vec<Deployed>> {
        let found = read::deployed(&self.readers).await;
        found.map_err(failed("list definitions"))
    }

    async fn create(&self, new: New) -> Result<Created, CreateError> {
        limits::new(&new)?;
        let id = new.id.clone();
        let made: Result<_, CreateError> = self
            .ask(|pending| Order::Job(Job::Create(Box::new(new), pending)))
            .await;
        if let Some(lease) = made? {
            return Ok(Created::New(lease));
        }
        let found = self.get(&id).await?;
        let found = found
            .ok_or_else(|| StoreError::new("create an execution", "it was forgotten meanwhile"))?;
        Ok(Created::Before(Box::new(found.row)))
    }

    async fn claim(&self, by: &Claimant, most: usize) -> StoreResult<Vec<Claim>> {
        limits::claimant(by).map_err(|unfit| StoreError::new("claim executions", unfit))?;
        let (by, most) = (by.clone(), most.min(LIST_MAX));
        let leases: StoreResult<_> = self
            .ask(|pending| Order::Job(Job::Claim(by, most, pending)))
            .await;
        let claims = read::claims(&self.readers, &leases?).await;
        claims.map_err(failed("read what was claimed"))
    }

    async fn claim_one(&self, id: &str, by: &Claimant) -> Result<Claim, ClaimError> {
        limits::claimant(by)?;
        let (one, by) = (id.to_owned(), by.clone());
        let lease: Result<_, ClaimError> = self
            .ask(|pending| Order::Job(Job::ClaimOne(one, by, pending)))
            .await;
        let claims = read::claims(&self.readers, &[lease?]).await;
        let claims = claims.map_err(failed("read what was claimed"))?;
        // Only a lease that ran out at once can be gone already.
        let claim = claims.into_iter().next();
        Ok(claim.ok_or_else(|| {
            StoreError::new("read what was claimed", "another has claimed it since")
        })?)
    }

    async fn take_back(&self, worker: &str, now_ms: i64) -> StoreResult<u64> {
        let worker = worker.to_owned();
        self.ask(|pending| Order::Job(Job::TakeBack(worker, now_ms, pending)))
            .await
    }

    async fn renew(&self, leases: &[Lease], until_ms: i64) -> StoreResult<Vec<Lease>> {
        let leases = leases.to_vec();
        self.ask(|pending| Order::Job(Job::Renew(leases, until_ms, pending)))
            .await
    }

    async fn append(&self, step: Step) -> Result<Appended, AppendError> {
        limits::step(&step)?;
        self.ask(|pending| Order::Job(Job::Append(Box::new(step), pending)))
            .await
    }

    async fn post(&self, id: &str, post: Post) -> Result<Posted, PostError> {
        limits::post(&post)?;
        let id = id.to_owned();
        self.ask(|pending| Order::Job(Job::Post(id, post, pending)))
            .await
    }

    async fn messages(&self, leases: &[Lease]) -> StoreResult<Vec<Mail>> {
        let found = read::messages(&self.readers, leases).await;
        found.map_err(failed("read messages"))
    }

    async fn message(&self, id: &str, key: &str) -> StoreResult<Option<Message>> {
        let found = read::message(&self.readers, id, key).await;
        found.map_err(failed("read a message"))
    }

    async fn get(&self, id: &str) -> StoreResult<Option<Found>> {
        let found = read::get(&self.readers, id).await;
        found.map_err(failed("read an execution"))
    }

    async fn list(&self, query: &Query) -> StoreResult<Vec<Row>> {
        let found = read::list(&self.readers, query).await;
        found.map_err(failed("list executions"))
    }

    async fn history(&self, id: &str, query: &HistoryQuery) -> StoreResult<Option<HistoryPage>> {
        let found = history::page(&self.readers, id, query).await;
        found.map_err(failed("read a history"))
    }

    async fn counts(&self) -> StoreResult<BTreeMap<Status, u64>> {
        let found = read::counts(&self.readers).await;
        found.map_err(failed("count executions"))
    }

    async fn next_wake(&self) -> StoreResult<Option<i64>> {
        let found = read::next_wake(&self.readers).await;
        found.map_err(failed("find the next wake time"))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    async fn forget_ended(&self, before_ms: i64, most: usize) -> StoreResult<u64> {
        self.ask(|pending| Order::Aside(Aside::Forget(before_ms, most, pending)))
            .await
    }
}

fn failed(doing: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |source| StoreError::new(doing, source)
}
