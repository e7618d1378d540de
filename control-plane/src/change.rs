//! Read-modify-write of records by compare-and-swap.

use ballast_domain::registry::{CommitError, Precondition, RecordWrite};
use ballast_domain::{Error, ErrorCode, Result};

use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::Versioned;

/// How often a change without `If-Match` is retried after a conflict.
const ATTEMPTS: usize = 16;

/// Which versions the caller accepts: its `If-Match` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// Any version.
    Any,
    /// One of these versions.
    Versions(Vec<u64>),
}

impl IfMatch {
    /// Rejects a version that the caller did not name.
    pub fn check(&self, version: u64) -> Result<()> {
        match self {
            Self::Versions(versions) if !versions.contains(&version) => Err(Error::new(
                ErrorCode::Changed,
                format!("it is at version {version}, which is not the one in If-Match"),
            )),
            _ => Ok(()),
        }
    }
}

/// The result of editing a record.
pub(crate) struct Edit<T> {
    /// The version that was read.
    pub(crate) old: u64,
    /// The record's new value.
    pub(crate) value: T,
    /// The writes, the record's own first; empty when nothing changes.
    pub(crate) writes: Vec<RecordWrite>,
    /// Further preconditions of the commit.
    pub(crate) expects: Vec<Precondition>,
}

/// Retries a change after a conflict. A caller that named a version gets the
/// error; for a caller that did not, the loop reads and edits again.
///
/// ```text
///   loop { read, edit, if let Some(done) = attempts.commit(edit)? { return done } }
/// ```
pub(crate) struct Attempts<'a> {
    plane: &'a ControlPlane,
    intent: &'a Intent,
    action: &'static str,
    if_match: &'a IfMatch,
    left: usize,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(
        plane: &'a ControlPlane,
        intent: &'a Intent,
        action: &'static str,
        if_match: &'a IfMatch,
    ) -> Self {
        Self {
            plane,
            intent,
            action,
            if_match,
            left: ATTEMPTS,
        }
    }

    /// Commits an edit; `None` when the caller must read and edit again.
    pub(crate) async fn commit<T>(&mut self, edit: Edit<T>) -> Result<Option<Versioned<T>>> {
        let Edit {
            old,
            value,
            writes,
            expects,
        } = edit;
        self.if_match.check(old)?;
        if writes.is_empty() {
            return Ok(Some(Versioned {
                value,
                version: old,
            }));
        }
        let commit = self.intent.commit(self.action, writes, expects);
        match self.plane.registry().commit(commit).await {
            Ok(_) => Ok(Some(Versioned {
                value,
                version: old + 1,
            })),
            // The next attempt reads again and reports the cause, if any.
            Err(CommitError::Conflict { .. } | CommitError::LimitReached { .. })
                if self.left > 0 =>
            {
                self.left -= 1;
                Ok(None)
            }
            Err(other) => Err(commit_failed(other)),
        }
    }
}

/// Converts a commit error that the caller cannot retry.
pub(crate) fn commit_failed(error: CommitError) -> Error {
    match error {
        CommitError::Store(source) => source.into(),
        CommitError::Conflict { .. } => Error::new(
            ErrorCode::Busy,
            "it was changed by someone else at the same time",
        )
        .retry_after(1),
        CommitError::LimitReached { tally, limit } => Error::new(
            ErrorCode::TooMany,
            format!("{tally} is at its limit of {limit}"),
        ),
        CommitError::AlreadyAnswered => Error::new(
            ErrorCode::Busy,
            "the same request is being answered at the same time",
        )
        .retry_after(1),
    }
}
