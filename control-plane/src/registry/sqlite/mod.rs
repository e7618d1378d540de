//! The registry in one SQLite file: the laptop's, and any single machine's.
//!
//! ```text
//!   commit() ──► queue ──► writer: drain, decide, write, sync once ──► all
//!                          (one connection, one transaction per group)  acks
//!   get(), list(), … ──► a pool of read-only connections
//! ```
//! Reads see every commit that has been acknowledged: SQLite in WAL mode
//! shows a new reader the last commit. [`group`] decides, purely, which of
//! the queued commits happen; [`writer`] does them; [`read`] asks.

mod copy;
mod file_id;
pub(super) mod group;
mod read;
mod rows;
mod writer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use ballast_domain::registry::{
    Commit, CommitError, Event, EventQuery, Kind, Record, RecordKey, RecordQuery, Registry, Reply,
    StoreError, StoreResult,
};
use ballast_domain::{Clock, Timestamp};
use sqlx::SqlSafeStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use tokio::sync::{mpsc, watch};

pub use copy::copy_to;
use file_id::FileId;

use super::WAIT_PATIENCE;

/// Readers at the same time. They mostly wait for the page cache.
const READERS: u32 = 4;
/// The page caches of the writer and of each reader, in SQLite's way of
/// saying KiB. They hold the inner pages of the trees of a million tenants.
const WRITER_CACHE: &str = "-32768";
const READER_CACHE: &str = "-8192";
/// How long the log grows before it is written back: 64 MiB of pages. A group
/// of creates touches thousands of pages, and the next ones touch them again.
const LOG_PAGES: &str = "16384";
/// How long a statement waits for a lock that another process holds.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// The schema, step by step. Not by sqlx's macro: that one compiles SQLite a
/// second time, for the compiler.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let first = include_str!("../../../migrations/sqlite/0001_registry.sql").into_sql_str();
    Migrator::with_migrations(vec![Migration::new(
        1,
        "registry".into(),
        MigrationType::Simple,
        first,
        false,
    )])
});

/// A registry in a SQLite file. Clones share the file and the writer.
#[derive(Clone)]
pub struct SqliteRegistry {
    readers: SqlitePool,
    queue: mpsc::Sender<writer::Job>,
    durable: watch::Receiver<u64>,
    file: FileId,
    failing: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
}

/// Why a registry file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A newer Ballast wrote the file.
    #[error("{} was written by a newer Ballast (its schema is at step {found}, this program knows {known}); use that version or a newer one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's schema step.
        found: i64,
        /// The last step this program knows.
        known: i64,
    },
    /// It cannot be opened or brought up to date.
    #[error("open the registry {}", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl SqliteRegistry {
    /// Opens the file, creating it and bringing its schema up to date.
    pub async fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| OpenError::Store {
            path: path.to_owned(),
            source,
        };
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // Durable when acknowledged: the log is synced at every commit.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_WAIT);
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
            .connect_with(options.read_only(true).pragma("cache_size", READER_CACHE))
            .await
            .map_err(|source| failed(source.into()))?;
        let connection = writing
            .acquire()
            .await
            .map_err(|source| failed(source.into()))?;
        let file = FileId::of(path).map_err(|source| failed(source.into()))?;
        let failing = Arc::new(AtomicBool::new(false));
        let (taken, told) = (file.clone(), failing.clone());
        let writer =
            writer::Writer::start(connection.detach(), to_write, clock.clone(), taken, told)
                .await
                .map_err(|source| failed(source.into()))?;
        Ok(Self {
            readers,
            queue: writer.queue,
            durable: writer.durable,
            file,
            failing,
            clock,
        })
    }

    /// Waits for queued commits and closes the file, which then is all there
    /// is: the last to leave writes the log back, and only a writer can.
    pub async fn close(&self) {
        // The writer goes last: the last connection to close moves what is in
        // the log into the file, and a reader may not.
        self.readers.close().await;
        let (done, closed) = tokio::sync::oneshot::channel();
        if self.queue.send(writer::Job::Close(done)).await.is_ok() {
            let _ = closed.await;
        }
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
impl Registry for SqliteRegistry {
    async fn commit(&self, commit: Commit) -> Result<u64, CommitError> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let gone = || StoreError::new("commit to the registry", "the registry is closed");
        self.queue
            .send(writer::Job::Commit(Box::new(commit), answer))
            .await
            .map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    async fn check(&self) -> StoreResult<()> {
        let doing = "find the registry file";
        self.file
            .check()
            .map_err(|source| StoreError::new(doing, source))?;
        if self.failing.load(Ordering::Relaxed) {
            // The last write failed: only a write can tell whether it would now.
            let probe = [("check".to_owned(), self.clock.now())];
            self.mark_used(Kind::Fleet, &probe).await?;
        }
        Ok(())
    }

    async fn get(&self, key: &RecordKey) -> StoreResult<Option<Record>> {
        read::get(&self.readers, key)
            .await
            .map_err(failed("read a record"))
    }

    async fn list(&self, query: &RecordQuery) -> StoreResult<Vec<Record>> {
        read::list(&self.readers, query)
            .await
            .map_err(failed("list records"))
    }

    async fn tallies(&self, kind: Kind, prefix: &str) -> StoreResult<BTreeMap<String, u64>> {
        read::tallies(&self.readers, kind, prefix)
            .await
            .map_err(failed("read tallies"))
    }

    async fn revision(&self) -> StoreResult<u64> {
        Ok(*self.durable.borrow())
    }

    async fn wait_past(&self, revision: u64) -> StoreResult<()> {
        let mut durable = self.durable.clone();
        match tokio::time::timeout(WAIT_PATIENCE, durable.wait_for(|now| *now > revision)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(StoreError::new(
                "wait for a change",
                "the registry is closed",
            )),
            // Nothing happened for a while: the caller asks again.
            Err(_) => Ok(()),
        }
    }

    async fn changes(&self, revision: u64, limit: u32) -> StoreResult<Vec<Event>> {
        read::changes(&self.readers, revision, limit)
            .await
            .map_err(failed("read the change feed"))
    }

    async fn events(&self, query: &EventQuery) -> StoreResult<Vec<Event>> {
        read::events(&self.readers, query)
            .await
            .map_err(failed("read events"))
    }

    async fn revision_at(&self, moment: Timestamp) -> StoreResult<u64> {
        read::revision_at(&self.readers, moment)
            .await
            .map_err(failed("find a revision"))
    }

    async fn get_at(&self, key: &RecordKey, revision: u64) -> StoreResult<Option<Record>> {
        read::get_at(&self.readers, key, revision)
            .await
            .map_err(failed("read a past record"))
    }

    async fn list_at(&self, kind: Kind, revision: u64) -> StoreResult<Vec<Record>> {
        read::list_at(&self.readers, kind, revision)
            .await
            .map_err(failed("list past records"))
    }

    async fn tallies_at(
        &self,
        kind: Kind,
        prefix: &str,
        revision: u64,
    ) -> StoreResult<BTreeMap<String, u64>> {
        read::tallies_at(&self.readers, kind, prefix, revision)
            .await
            .map_err(failed("read past tallies"))
    }

    async fn reply(&self, id: &str, now: Timestamp) -> StoreResult<Option<Reply>> {
        read::reply(&self.readers, id, now)
            .await
            .map_err(failed("read a remembered reply"))
    }

    async fn forget_replies(&self, now: Timestamp) -> StoreResult<()> {
        self.aside(writer::Aside::ForgetReplies(now)).await
    }

    async fn mark_used(&self, kind: Kind, uses: &[(String, Timestamp)]) -> StoreResult<()> {
        self.aside(writer::Aside::MarkUsed(kind, uses.to_vec()))
            .await
    }

    async fn last_used(
        &self,
        kind: Kind,
        ids: &[String],
    ) -> StoreResult<BTreeMap<String, Timestamp>> {
        read::last_used(&self.readers, kind, ids)
            .await
            .map_err(failed("read last uses"))
    }
}

impl SqliteRegistry {
    async fn aside(&self, aside: writer::Aside) -> StoreResult<()> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let gone = || StoreError::new("write to the registry", "the registry is closed");
        self.queue
            .send(writer::Job::Aside(aside, answer))
            .await
            .map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

fn failed(doing: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |source| StoreError::new(doing, source)
}

#[cfg(test)]
mod tests {
    use sqlx::Row;

    use super::*;
    use crate::registry::conformance::{Fixture, suite};
    use crate::testing::ManualClock;

    struct SqliteFixture {
        clock: Arc<ManualClock>,
        directory: tempfile::TempDir,
    }

    #[async_trait]
    impl Fixture for SqliteFixture {
        type Store = SqliteRegistry;

        async fn fresh() -> Self {
            Self {
                clock: Arc::new(ManualClock::new()),
                directory: tempfile::tempdir().unwrap(),
            }
        }

        async fn open(&self) -> SqliteRegistry {
            let path = self.directory.path().join("registry.db");
            SqliteRegistry::open(&path, self.clock.clone())
                .await
                .unwrap()
        }

        async fn close(&self, store: SqliteRegistry) {
            store.close().await;
        }

        fn clock(&self) -> &ManualClock {
            &self.clock
        }
    }

    suite!(SqliteFixture);

    #[tokio::test]
    async fn a_file_of_a_newer_version_is_refused() {
        let fixture = SqliteFixture::fresh().await;
        let store = fixture.open().await;
        store.close().await;
        let path = fixture.directory.path().join("registry.db");
        let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&path))
            .await
            .unwrap();
        sqlx::query(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (99, 'from the future', 1, x'00', 0)",
        )
        .execute(&pool)
        .await
        .unwrap();
        pool.close().await;
        let Err(error) = SqliteRegistry::open(&path, fixture.clock.clone()).await else {
            panic!("an older program opened a newer file");
        };
        assert!(error.to_string().contains("newer Ballast"), "{error}");
    }

    #[tokio::test]
    async fn a_closed_registry_is_one_file() {
        let fixture = SqliteFixture::fresh().await;
        let store = fixture.open().await;
        crate::registry::conformance::seed_fleet(&store).await;
        store.tallies(Kind::Tenant, "").await.unwrap();
        store.close().await;
        let files = std::fs::read_dir(fixture.directory.path()).unwrap();
        let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names, ["registry.db"]);
    }

    #[tokio::test]
    async fn a_failed_transaction_does_not_stop_the_next() {
        let fixture = SqliteFixture::fresh().await;
        let store = fixture.open().await;
        let path = fixture.directory.path().join("registry.db");
        let options = SqliteConnectOptions::new().filename(&path);
        let outside = SqlitePool::connect_with(options).await.unwrap();
        // What SQLite does by itself when the disk is full: the statement fails
        // and the whole transaction is gone.
        let full = "CREATE TRIGGER full BEFORE INSERT ON commits
                    BEGIN SELECT RAISE(ROLLBACK, 'the disk is full'); END";
        sqlx::query(full).execute(&outside).await.unwrap();
        let commit = || {
            let intent = crate::intent::Intent::ballast("test", "a reason");
            let write = ballast_domain::registry::Write {
                key: RecordKey::new(Kind::Fleet, "x"),
                expected: 0,
                body: Some("{}".to_owned()),
                terms: Some(Vec::new()),
                tallies: Vec::new(),
            };
            intent.commit("test", vec![write], vec![])
        };
        for _ in 0..3 {
            assert!(store.commit(commit()).await.is_err());
        }
        sqlx::query("DROP TRIGGER full")
            .execute(&outside)
            .await
            .unwrap();
        outside.close().await;
        assert_eq!(store.commit(commit()).await.unwrap(), 1);
        store.check().await.unwrap();
    }

    #[tokio::test]
    async fn a_removed_file_takes_no_commit_and_says_so() {
        let fixture = SqliteFixture::fresh().await;
        let store = fixture.open().await;
        crate::registry::conformance::seed_fleet(&store).await;
        store.check().await.unwrap();
        std::fs::remove_file(fixture.directory.path().join("registry.db")).unwrap();
        assert!(store.check().await.is_err());
        let intent = crate::intent::Intent::ballast("test", "too late");
        let commit = intent.commit("test", vec![], vec![]);
        assert!(store.commit(commit).await.is_err());
    }

    #[tokio::test]
    async fn the_views_read_like_tables() {
        let fixture = SqliteFixture::fresh().await;
        let store = fixture.open().await;
        crate::registry::conformance::seed_fleet(&store).await;
        for (sql, expected) in [
            ("SELECT tenant_id, * FROM view_tenants", "acme"),
            ("SELECT tenant_id, * FROM view_routes", "acme"),
            ("SELECT shard_id, * FROM view_shards", "shard-1"),
        ] {
            let row = sqlx::query(sql).fetch_one(&store.readers).await.unwrap();
            assert_eq!(row.get::<String, _>(0), expected);
        }
        let (actor,): (String,) = sqlx::query_as("SELECT actor FROM view_events WHERE id = 'acme'")
            .fetch_one(&store.readers)
            .await
            .unwrap();
        assert_eq!(actor, "ballast/test");
        // Nothing to show, but it can be asked.
        let keys = sqlx::query("SELECT * FROM view_keys");
        keys.fetch_all(&store.readers).await.unwrap();
    }
}
