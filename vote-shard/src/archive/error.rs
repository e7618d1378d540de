//! Why an archive operation failed.

use parquet::errors::ParquetError;

use super::throttle::ArchiveStopped;
use crate::shard::ShardError;

/// The result of an archive operation.
pub type ArchiveResult<T> = Result<T, ArchiveError>;

/// Why an archive operation failed.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file is missing.
    #[error("{path} is missing")]
    Missing {
        /// The file.
        path: String,
    },
    /// A file is damaged.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: String,
        /// The damage.
        what: String,
    },
    /// The object store failed.
    #[error("{doing} {path}")]
    Store {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: object_store::Error,
    },
    /// The shard failed.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// The throttle ended the work, which can be resumed.
    #[error(transparent)]
    Stopped(#[from] ArchiveStopped),
}

impl ArchiveError {
    pub(super) fn damaged(path: &str, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    /// Parquet failed on bytes with the right checksum, or while writing.
    pub(super) fn parquet(path: &str) -> impl FnOnce(ParquetError) -> Self {
        move |error| Self::damaged(path, error.to_string())
    }

    /// The store failed during an operation on a file.
    pub(super) fn store(
        doing: &'static str,
        path: &str,
    ) -> impl FnOnce(object_store::Error) -> Self {
        let path = path.to_owned();
        move |error| match error {
            object_store::Error::NotFound { .. } => Self::Missing { path },
            source => Self::Store {
                doing,
                path,
                source,
            },
        }
    }
}
