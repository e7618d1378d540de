//! Reading, changing and writing back by compare-and-swap.

use ballast_domain::registry::{CommitError, Expect, Write};
use ballast_domain::{Error, ErrorCode, Result};

use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed::Versioned;

/// How often a change without `If-Match` is made anew to what is there.
const ATTEMPTS: usize = 16;

/// Which versions the caller is willing to change: its `If-Match` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// Whatever is there.
    Any,
    /// Only one of these.
    Versions(Vec<u64>),
}

impl IfMatch {
    /// Refuses a version that the caller did not name.
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

/// What a change makes of a record.
pub(crate) struct Edit<T> {
    /// The version that was read.
    pub(crate) old: u64,
    /// The record's new value.
    pub(crate) value: T,
    /// The writes, the record's own first; none when nothing changes.
    pub(crate) writes: Vec<Write>,
    /// What else must hold.
    pub(crate) expects: Vec<Expect>,
}

/// A change that is made anew when the record changed in between: a caller
/// that named its version is told so, for one that did not the loop reads and
/// edits again.
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

    /// Commits an edit; `None` when it has to be made anew.
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
            // The next edit looks again and says what is in its way, if
            // anything.
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

/// A commit failed in a way that the caller can do nothing about.
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
