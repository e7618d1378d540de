//! The writer's connection. After a failed write nothing is known of what
//! SQLite or the driver still holds, so the connection is closed and the next
//! write opens a new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, SqliteConnection};

use crate::FileIdentity;

/// The one connection that writes to a file.
#[derive(Debug)]
pub struct WriterConnection {
    /// `None` after a failed write.
    connection: Option<SqliteConnection>,
    options: SqliteConnectOptions,
    identity: FileIdentity,
    failing: Arc<AtomicBool>,
    /// Counts connections, so that a handler notices a new one.
    generation: u64,
}

impl WriterConnection {
    pub(crate) fn new(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        identity: FileIdentity,
    ) -> Self {
        Self {
            connection: Some(connection),
            options: options.create_if_missing(false),
            identity,
            failing: Arc::default(),
            generation: 0,
        }
    }

    /// The file that this connection writes to.
    #[must_use]
    pub fn identity(&self) -> &FileIdentity {
        &self.identity
    }

    /// Whether the last write failed; shared with those who report health.
    #[must_use]
    pub fn failing(&self) -> Arc<AtomicBool> {
        self.failing.clone()
    }

    /// Grows with each new connection. State that a handler caches from the file
    /// is out of date when this has changed: the failed write may have happened.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The connection, reopened after a failure. Fails when the file was removed
    /// or replaced: a write into an unlinked file would be lost.
    pub async fn get(&mut self) -> Result<&mut SqliteConnection, sqlx::Error> {
        self.identity.check()?;
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.generation += 1;
                SqliteConnection::connect_with(&self.options).await?
            }
        };
        Ok(self.connection.insert(connection))
    }

    /// Records that a write succeeded.
    pub fn record_success(&self) {
        self.failing.store(false, Ordering::Relaxed);
    }

    /// Records that a write failed, and closes the connection.
    pub async fn record_failure(&mut self) {
        self.failing.store(true, Ordering::Relaxed);
        if let Some(connection) = self.connection.take() {
            let _ = connection.close().await;
        }
    }

    /// Closes the connection and moves the write-ahead log into the file.
    pub(crate) async fn close(self) {
        let Some(mut connection) = self.connection else {
            return;
        };
        // A reader may still be about to close, and then closing would not
        // checkpoint, as closing the last connection does. Nothing may be written
        // after the checkpoint, so statistics are gathered before it.
        for last in [
            "PRAGMA analysis_limit = 400",
            "PRAGMA optimize",
            "PRAGMA wal_checkpoint(TRUNCATE)",
        ] {
            let _ = sqlx::query(last).execute(&mut connection).await;
        }
        let _ = connection.close().await;
    }
}
