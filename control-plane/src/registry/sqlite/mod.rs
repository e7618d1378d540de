//! The registry in one SQLite file, for a single machine.
//!
//! ```text
//!   commit() ──► queue ──► writer: drain, decide, write, sync once ──► all
//!                          (one connection, one transaction per group)  acks
//!   get(), list(), … ──► a pool of read-only connections
//! ```
//! Reads see every acknowledged commit: in WAL mode, a new SQLite reader sees the last
//! commit. [`group`] decides, purely, which queued commits succeed; [`writer`] executes
//! them; [`read`] contains the queries.

mod copy;
pub(super) mod group;
mod read;
mod rows;
mod summary;
mod writer;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use ballast_domain::registry::{
    CommitError, EventQuery, Record, RecordKey, RecordKind, RecordQuery, Registry, RegistryCommit,
    RegistryError, RegistryEvent, RegistryResult, RememberedReply,
};
use ballast_domain::{Clock, Timestamp};
use ballast_sqlite_store::{
    FileIdentity, SqliteFile, SqliteFileOptions, SqliteOpenError, WriteQueue,
};
use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::SqlitePool;
use tokio::sync::watch;

pub use copy::copy_to;
pub use summary::{RegistrySummary, summarize};
use writer::{CommitHandler, Maintenance, WriteRequest};

use super::{RegistryId, WAIT_PATIENCE};

/// The page cache of each reader: the inner pages of the trees of a million
/// tenants.
const READER_CACHE_KIB: u32 = 8_192;
/// How long a read waits for a free connection.
const READER_WAIT: Duration = Duration::from_secs(30);

/// The schema's migrations. Not built with sqlx's macro, which would compile SQLite a
/// second time, for the host.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let steps = [
        (
            "registry",
            include_str!("../../../migrations/sqlite/0001_registry.sql"),
        ),
        (
            "identity",
            include_str!("../../../migrations/sqlite/0002_identity.sql"),
        ),
    ];
    let migrations = (1..).zip(steps).map(|(version, (name, sql))| {
        let (kind, sql) = (MigrationType::Simple, sql.into_sql_str());
        Migration::new(version, name.into(), kind, sql, false)
    });
    Migrator::with_migrations(migrations.collect())
});

/// A registry in a SQLite file. Clones share the file and the writer.
#[derive(Clone)]
pub struct SqliteRegistry {
    id: RegistryId,
    readers: SqlitePool,
    queue: WriteQueue<WriteRequest>,
    durable: watch::Receiver<u64>,
    file: FileIdentity,
    failing: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
}

impl SqliteRegistry {
    /// Opens the file, creating it or migrating its schema if necessary.
    pub async fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, SqliteOpenError> {
        let options = SqliteFileOptions {
            contents: "the registry",
            migrations: &MIGRATIONS,
            reader_cache_kib: READER_CACHE_KIB,
            reader_wait: READER_WAIT,
        };
        let SqliteFile {
            readers,
            mut writer,
        } = SqliteFile::open(path, options).await?;
        let file = writer.identity().clone();
        let failing = writer.failing();
        let unusable = |source: sqlx::Error| SqliteOpenError::Unusable {
            contents: "the registry",
            path: path.to_owned(),
            source: source.into(),
        };
        let id = read::registry_id(&readers).await.map_err(unusable)?;
        let handler = CommitHandler::new(&mut writer, clock.clone()).await;
        let (handler, durable) = handler.map_err(unusable)?;
        Ok(Self {
            id,
            readers,
            queue: WriteQueue::start(writer, handler),
            durable,
            file,
            failing,
            clock,
        })
    }

    /// Its identity, which its copies share.
    pub fn id(&self) -> &RegistryId {
        &self.id
    }

    /// Waits for queued commits and closes the file. Afterwards all data is in that one
    /// file.
    pub async fn close(&self) {
        // Close the writer last: the last connection to close checkpoints the log, and a
        // reader cannot.
        self.readers.close().await;
        self.queue.close().await;
    }
}

#[async_trait]
impl Registry for SqliteRegistry {
    async fn commit(&self, commit: RegistryCommit) -> Result<u64, CommitError> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let gone = || RegistryError::new("commit to the registry", "the registry is closed");
        let request = WriteRequest::Commit(Box::new(commit), answer);
        self.queue.send(request).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    async fn check(&self) -> RegistryResult<()> {
        let doing = "find the registry file";
        self.file
            .check()
            .map_err(|source| RegistryError::new(doing, source))?;
        if self.failing.load(Ordering::Relaxed) {
            // The last write failed: only another write shows whether it works again.
            let probe = [("check".to_owned(), self.clock.now())];
            self.mark_used(RecordKind::Fleet, &probe).await?;
        }
        Ok(())
    }

    async fn get(&self, key: &RecordKey) -> RegistryResult<Option<Record>> {
        read::get(&self.readers, key)
            .await
            .map_err(failed("read a record"))
    }

    async fn list(&self, query: &RecordQuery) -> RegistryResult<Vec<Record>> {
        read::list(&self.readers, query)
            .await
            .map_err(failed("list records"))
    }

    async fn tallies(
        &self,
        kind: RecordKind,
        prefix: &str,
    ) -> RegistryResult<BTreeMap<String, u64>> {
        read::tallies(&self.readers, kind, prefix)
            .await
            .map_err(failed("read tallies"))
    }

    async fn revision(&self) -> RegistryResult<u64> {
        Ok(*self.durable.borrow())
    }

    async fn wait_past(&self, revision: u64) -> RegistryResult<()> {
        let mut durable = self.durable.clone();
        match tokio::time::timeout(WAIT_PATIENCE, durable.wait_for(|now| *now > revision)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(RegistryError::new(
                "wait for a change",
                "the registry is closed",
            )),
            // Nothing changed for a while: the caller asks again.
            Err(_) => Ok(()),
        }
    }

    async fn changes(&self, revision: u64, limit: u32) -> RegistryResult<Vec<RegistryEvent>> {
        read::changes(&self.readers, revision, limit)
            .await
            .map_err(failed("read the change feed"))
    }

    async fn events(&self, query: &EventQuery) -> RegistryResult<Vec<RegistryEvent>> {
        read::events(&self.readers, query)
            .await
            .map_err(failed("read events"))
    }

    async fn revision_at(&self, moment: Timestamp) -> RegistryResult<u64> {
        read::revision_at(&self.readers, moment)
            .await
            .map_err(failed("find a revision"))
    }

    async fn get_at(&self, key: &RecordKey, revision: u64) -> RegistryResult<Option<Record>> {
        read::get_at(&self.readers, key, revision)
            .await
            .map_err(failed("read a past record"))
    }

    async fn list_at(&self, kind: RecordKind, revision: u64) -> RegistryResult<Vec<Record>> {
        read::list_at(&self.readers, kind, revision)
            .await
            .map_err(failed("list past records"))
    }

    async fn tallies_at(
        &self,
        kind: RecordKind,
        prefix: &str,
        revision: u64,
    ) -> RegistryResult<BTreeMap<String, u64>> {
        read::tallies_at(&self.readers, kind, prefix, revision)
            .await
            .map_err(failed("read past tallies"))
    }

    async fn reply(&self, id: &str, now: Timestamp) -> RegistryResult<Option<RememberedReply>> {
        read::reply(&self.readers, id, now)
            .await
            .map_err(failed("read a remembered reply"))
    }

    async fn forget_replies(&self, now: Timestamp) -> RegistryResult<()> {
        self.maintain(Maintenance::ForgetReplies(now)).await
    }

    async fn mark_used(
        &self,
        kind: RecordKind,
        uses: &[(String, Timestamp)],
    ) -> RegistryResult<()> {
        self.maintain(Maintenance::MarkUsed(kind, uses.to_vec()))
            .await
    }

    async fn last_used(
        &self,
        kind: RecordKind,
        ids: &[String],
    ) -> RegistryResult<BTreeMap<String, Timestamp>> {
        read::last_used(&self.readers, kind, ids)
            .await
            .map_err(failed("read last uses"))
    }
}

impl SqliteRegistry {
    async fn maintain(&self, maintenance: Maintenance) -> RegistryResult<()> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let gone = || RegistryError::new("write to the registry", "the registry is closed");
        let request = WriteRequest::Maintain(maintenance, answer);
        self.queue.send(request).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

fn failed(doing: &'static str) -> impl FnOnce(sqlx::Error) -> RegistryError {
    move |source| RegistryError::new(doing, source)
}

#[cfg(test)]
mod tests {
    use sqlx::Row;
    use sqlx::sqlite::SqliteConnectOptions;

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
        store.tallies(RecordKind::Tenant, "").await.unwrap();
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
        // When the disk is full, SQLite fails the statement and rolls back the whole
        // transaction.
        let full = "CREATE TRIGGER full BEFORE INSERT ON commits
                    BEGIN SELECT RAISE(ROLLBACK, 'the disk is full'); END";
        sqlx::query(full).execute(&outside).await.unwrap();
        let commit = || {
            let intent = crate::intent::Intent::ballast("test", "a reason");
            let write = ballast_domain::registry::RecordWrite {
                key: RecordKey::new(RecordKind::Fleet, "x"),
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
        // No rows, but the view can be queried.
        let keys = sqlx::query("SELECT * FROM view_keys");
        keys.fetch_all(&store.readers).await.unwrap();
    }
}
