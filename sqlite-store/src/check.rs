//! Reads a SQLite file for damage without changing it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Row};

/// How long a statement waits for a lock that another process holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SqliteCheckError {
    /// It cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: sqlx::Error,
    },
    /// It is damaged.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first damage.
        what: String,
    },
}

impl SqliteCheckError {
    /// Makes an error of a failed query.
    pub fn from_query(path: &Path) -> impl Fn(sqlx::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Unreadable {
            path: path.clone(),
            source,
        }
    }
}

/// Opens a file read-only and reads all of it for damage.
pub async fn open_to_check(path: &Path) -> Result<SqliteConnection, SqliteCheckError> {
    let unreadable = SqliteCheckError::from_query(path);
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .read_only(true)
        .busy_timeout(BUSY_TIMEOUT)
        .connect()
        .await
        .map_err(&unreadable)?;
    let found = sqlx::query("PRAGMA quick_check(1)")
        .fetch_one(&mut connection)
        .await
        .map_err(&unreadable)?;
    let found: String = found.try_get(0).map_err(&unreadable)?;
    match found.as_str() {
        "ok" => Ok(connection),
        _ => Err(SqliteCheckError::Damaged {
            path: path.to_owned(),
            what: found,
        }),
    }
}
