//! A store in one SQLite file, for single machines.
//!
//! ```text
//!   append(), create(), post(), … ──► queue ──► writer: decide and write a group,
//!                                               sync once ──► answer all
//!                                               (one connection, one
//!                                               transaction per group)
//!   get(), list(), history(), …   ──► a pool of read-only connections
//! ```
//! Reads see every answered write: in WAL mode a new read transaction sees the last
//! commit. [`group`] decides what happens, purely; [`group_view`] reads for it, [`rows`]
//! writes, [`writer`] drives them. [`separate_write`] has the writes outside of groups;
//! [`read`] and [`history`] serve reads.

mod group;
mod group_view;
mod history;
mod job;
mod read;
mod rows;
mod separate_write;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use ballast_sqlite_store::{SqliteFile, SqliteFileOptions, SqliteOpenError, WriteQueue};
use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::SqlitePool;
use tokio::sync::{oneshot, watch};

use super::limits::{self, LIST_MAX};
use super::{
    AppendError, AppendOutcome, Claimant, ClaimedExecution, CreateError, CreateOutcome, Deployment,
    ExecutionClaimError, ExecutionCreation, ExecutionQuery, ExecutionRecord, ExecutionRow,
    ExecutionStep, ExecutionStore, ExecutionStoreError, ExecutionStoreResult, HistoryPage,
    HistoryQuery, Lease, NewMessage, PostError, PostOutcome, SaveDefinitionError, StoredDefinition,
    StoredMessage, StoredStatus, UnreadMessages,
};
use job::{PendingReply, WriteJob};
use separate_write::SeparateWrite;
use writer::{JobHandler, WriteRequest};

/// The page cache of each reader.
const READER_CACHE_KIB: u32 = 4_096;
/// How long a read waits for a free connection, among ten thousand others.
const READER_WAIT: Duration = Duration::from_secs(120);

/// The schema's migrations. sqlx's macro would compile SQLite a second time, for
/// the compiler.
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
    queue: WriteQueue<WriteRequest>,
    changes: watch::Receiver<u64>,
    failing: Arc<AtomicBool>,
}

impl SqliteStore {
    /// Opens the file, creating it and migrating its schema.
    pub async fn open(path: &Path) -> Result<Self, SqliteOpenError> {
        let options = SqliteFileOptions {
            contents: "the executions",
            migrations: &MIGRATIONS,
            reader_cache_kib: READER_CACHE_KIB,
            reader_wait: READER_WAIT,
        };
        let SqliteFile { readers, writer } = SqliteFile::open(path, options).await?;
        let (announce, changes) = watch::channel(0);
        let failing = writer.failing();
        Ok(Self {
            readers,
            queue: WriteQueue::start(writer, JobHandler::new(announce)),
            changes,
            failing,
        })
    }

    /// Waits for queued writes and closes the file, with its write-ahead log
    /// moved into it.
    pub async fn close(&self) {
        // The writer goes last: the last connection to close moves the log into
        // the file, and a reader may not.
        self.readers.close().await;
        self.queue.close().await;
    }

    /// Queues a write and waits for its answer.
    async fn enqueue<T, E: From<ExecutionStoreError>>(
        &self,
        order: impl FnOnce(PendingReply<T, E>) -> WriteRequest,
    ) -> Result<T, E> {
        let gone = || ExecutionStoreError::new("write to the store", "the store is closed");
        let (answer, answered) = oneshot::channel();
        let order = order(PendingReply::new(answer));
        self.queue.send(order).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

#[async_trait]
impl ExecutionStore for SqliteStore {
    async fn save_definition(
        &self,
        definition: &StoredDefinition,
    ) -> Result<(), SaveDefinitionError> {
        limits::check_definition(definition)?;
        let definition = Box::new(definition.clone());
        self.enqueue(|pending| {
            WriteRequest::Separate(SeparateWrite::SaveDefinition(definition, pending))
        })
        .await
    }

    async fn withdraw(&self, name: &str) -> ExecutionStoreResult<bool> {
        let name = name.to_owned();
        self.enqueue(|pending| WriteRequest::Separate(SeparateWrite::Withdraw(name, pending)))
            .await
    }

    async fn check(&self) -> ExecutionStoreResult<()> {
        match self.failing.load(Ordering::Relaxed) {
            false => Ok(()),
            // Only a write can tell whether writes work again.
            true => {
                self.enqueue(|pending| WriteRequest::Separate(SeparateWrite::Probe(pending)))
                    .await
            }
        }
    }

    async fn definition(&self, hash: &str) -> ExecutionStoreResult<Option<String>> {
        let found = read::definition(&self.readers, hash).await;
        found.map_err(to_store_error("read a definition"))
    }

    async fn deployed(&self) -> ExecutionStoreResult<Vec<Deployment>> {
        let found = read::deployed(&self.readers).await;
        found.map_err(to_store_error("list definitions"))
    }

    async fn create(&self, new: ExecutionCreation) -> Result<CreateOutcome, CreateError> {
        limits::check_creation(&new)?;
        let id = new.id.clone();
        let made: Result<_, CreateError> = self
            .enqueue(|pending| WriteRequest::Job(WriteJob::Create(Box::new(new), pending)))
            .await;
        if let Some(lease) = made? {
            return Ok(CreateOutcome::Created(lease));
        }
        let found = self.get(&id).await?;
        let found = found.ok_or_else(|| {
            ExecutionStoreError::new("create an execution", "it was deleted meanwhile")
        })?;
        Ok(CreateOutcome::Existing(Box::new(found.row)))
    }

    async fn claim(
        &self,
        by: &Claimant,
        most: usize,
    ) -> ExecutionStoreResult<Vec<ClaimedExecution>> {
        limits::check_claimant(by)
            .map_err(|invalid| ExecutionStoreError::new("claim executions", invalid))?;
        let (by, most) = (by.clone(), most.min(LIST_MAX));
        let leases: ExecutionStoreResult<_> = self
            .enqueue(|pending| WriteRequest::Job(WriteJob::Claim(by, most, pending)))
            .await;
        let claims = read::claims(&self.readers, &leases?).await;
        claims.map_err(to_store_error("read claimed executions"))
    }

    async fn claim_one(
        &self,
        id: &str,
        by: &Claimant,
    ) -> Result<ClaimedExecution, ExecutionClaimError> {
        limits::check_claimant(by)?;
        let (one, by) = (id.to_owned(), by.clone());
        let lease: Result<_, ExecutionClaimError> = self
            .enqueue(|pending| WriteRequest::Job(WriteJob::ClaimOne(one, by, pending)))
            .await;
        let claims = read::claims(&self.readers, &[lease?]).await;
        let claims = claims.map_err(to_store_error("read claimed executions"))?;
        // Missing only if the lease expired at once.
        let claim = claims.into_iter().next();
        Ok(claim.ok_or_else(|| {
            ExecutionStoreError::new(
                "read claimed executions",
                "another worker has claimed it since",
            )
        })?)
    }

    async fn release_worker_leases(&self, worker: &str, now_ms: i64) -> ExecutionStoreResult<u64> {
        let worker = worker.to_owned();
        self.enqueue(|pending| WriteRequest::Job(WriteJob::ReleaseWorker(worker, now_ms, pending)))
            .await
    }

    async fn renew_leases(
        &self,
        leases: &[Lease],
        until_ms: i64,
    ) -> ExecutionStoreResult<Vec<Lease>> {
        let leases = leases.to_vec();
        self.enqueue(|pending| WriteRequest::Job(WriteJob::Renew(leases, until_ms, pending)))
            .await
    }

    async fn append(&self, step: ExecutionStep) -> Result<AppendOutcome, AppendError> {
        limits::check_step(&step)?;
        self.enqueue(|pending| WriteRequest::Job(WriteJob::Append(Box::new(step), pending)))
            .await
    }

    async fn post(&self, id: &str, post: NewMessage) -> Result<PostOutcome, PostError> {
        limits::check_message(&post)?;
        let id = id.to_owned();
        self.enqueue(|pending| WriteRequest::Job(WriteJob::Post(id, post, pending)))
            .await
    }

    async fn unread_messages(&self, leases: &[Lease]) -> ExecutionStoreResult<Vec<UnreadMessages>> {
        let found = read::unread_messages(&self.readers, leases).await;
        found.map_err(to_store_error("read messages"))
    }

    async fn find_message(
        &self,
        id: &str,
        key: &str,
    ) -> ExecutionStoreResult<Option<StoredMessage>> {
        let found = read::find_message(&self.readers, id, key).await;
        found.map_err(to_store_error("read a message"))
    }

    async fn get(&self, id: &str) -> ExecutionStoreResult<Option<ExecutionRecord>> {
        let found = read::get(&self.readers, id).await;
        found.map_err(to_store_error("read an execution"))
    }

    async fn list(&self, query: &ExecutionQuery) -> ExecutionStoreResult<Vec<ExecutionRow>> {
        let found = read::list(&self.readers, query).await;
        found.map_err(to_store_error("list executions"))
    }

    async fn history(
        &self,
        id: &str,
        query: &HistoryQuery,
    ) -> ExecutionStoreResult<Option<HistoryPage>> {
        let found = history::page(&self.readers, id, query).await;
        found.map_err(to_store_error("read a history"))
    }

    async fn counts(&self) -> ExecutionStoreResult<BTreeMap<StoredStatus, u64>> {
        let found = read::counts(&self.readers).await;
        found.map_err(to_store_error("count executions"))
    }

    async fn next_due(&self) -> ExecutionStoreResult<Option<i64>> {
        let found = read::next_due(&self.readers).await;
        found.map_err(to_store_error("find the next wake time"))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    async fn forget_ended(&self, before_ms: i64, most: usize) -> ExecutionStoreResult<u64> {
        self.enqueue(|pending| {
            WriteRequest::Separate(SeparateWrite::Forget(before_ms, most, pending))
        })
        .await
    }
}

fn to_store_error(doing: &'static str) -> impl FnOnce(sqlx::Error) -> ExecutionStoreError {
    move |source| ExecutionStoreError::new(doing, source)
}
