//! Opens a SQLite file: creates it if it is missing, brings its schema up to
//! date, and refuses one that a newer program wrote.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::{FileIdentity, WriterConnection};

/// Read-only connections. They mostly wait for the page cache.
const READERS: u32 = 4;
/// How large the write-ahead log grows before a checkpoint: 64 MiB of pages. A
/// group touches thousands of pages, and the next group touches them again.
const CHECKPOINT_PAGES: &str = "16384";
/// How long a statement waits for a lock that another process holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Page cache of the writer. Negative, so SQLite takes it for KiB.
const WRITER_CACHE_KIB: &str = "-32768";

/// How a file is opened.
#[derive(Debug, Clone)]
pub struct SqliteFileOptions {
    /// What the file holds, for error messages: "the registry".
    pub contents: &'static str,
    /// The schema, step by step.
    pub migrations: &'static Migrator,
    /// Page cache of each reader.
    pub reader_cache_kib: u32,
    /// How long a read waits for a free reader.
    pub reader_wait: Duration,
}

/// An open file: readers, and the connection of its one writer.
#[derive(Debug)]
pub struct SqliteFile {
    /// Read-only connections.
    pub readers: SqlitePool,
    /// The writer's connection.
    pub writer: WriterConnection,
}

/// Why a SQLite file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SqliteOpenError {
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
    /// It cannot be opened or migrated.
    #[error("open {contents} {}", path.display())]
    Unusable {
        /// What the file holds.
        contents: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl SqliteFile {
    /// Opens the file, creating it and bringing its schema up to date.
    pub async fn open(path: &Path, options: SqliteFileOptions) -> Result<Self, SqliteOpenError> {
        let unusable = |source: Box<dyn Error + Send + Sync>| SqliteOpenError::Unusable {
            contents: options.contents,
            path: path.to_owned(),
            source,
        };
        let connect = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // Durable when acknowledged: the log is synced at every commit.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT);
        let write = connect
            .clone()
            .pragma("cache_size", WRITER_CACHE_KIB)
            .pragma("wal_autocheckpoint", CHECKPOINT_PAGES);
        let writers = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(write.clone())
            .await
            .map_err(|source| unusable(source.into()))?;
        let migrated = options.migrations.run(&writers).await;
        migrated.map_err(|error| match error {
            MigrateError::VersionMissing(found) => SqliteOpenError::Newer {
                path: path.to_owned(),
                found,
                known: newest_step(options.migrations),
            },
            other => unusable(other.into()),
        })?;
        let reader_cache = format!("-{}", options.reader_cache_kib);
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(options.reader_wait)
            .connect_with(connect.read_only(true).pragma("cache_size", reader_cache))
            .await
            .map_err(|source| unusable(source.into()))?;
        let connection = writers
            .acquire()
            .await
            .map_err(|source| unusable(source.into()))?;
        let identity = FileIdentity::read(path).map_err(|source| unusable(source.into()))?;
        let writer = WriterConnection::new(connection.detach(), write, identity);
        Ok(Self { readers, writer })
    }
}

fn newest_step(migrations: &Migrator) -> i64 {
    migrations
        .iter()
        .map(|step| step.version)
        .max()
        .unwrap_or(0)
}
