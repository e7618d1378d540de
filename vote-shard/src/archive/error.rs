//! Why an archive does not do what it was asked.

use parquet::errors::ParquetError;

use super::throttle::ArchiveStopped;
use crate::shard::ShardError;

/// A result of an archive.
pub type ArchiveResult<T> = Result<T, ArchiveError>;

/// Why an archive does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file that is named is not there.
    #[error("{path} is not there")]
    Missing {
        /// Which file.
        path: String,
    },
    /// What is there was not written so.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// Which file.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// The place where files are kept failed.
    #[error("{doing} {path}")]
    Store {
        /// What was being done.
        doing: &'static str,
        /// Which file.
        path: String,
        /// The cause.
        #[source]
        source: object_store::Error,
    },
    /// The shard.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// Whoever sets the pace ended it; it can be taken up again.
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

    /// Parquet failed on bytes whose checksum was right, or while writing.
    pub(super) fn parquet(path: &str) -> impl FnOnce(ParquetError) -> Self {
        move |error| Self::damaged(path, error.to_string())
    }

    /// The store failed while doing something to a file.
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
