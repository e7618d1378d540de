//! What can go wrong at a public edge, in words that say what to do next.
//!
//! Inside, libraries have errors of their own. At the edge they become an
//! [`Error`]: a stable [`ErrorCode`], what was wrong, where, and the next
//! step. [`ProblemDocument`] is its RFC 9457 form; [`RecordKind::http_status`] is the one
//! place where kinds become HTTP statuses.

mod code;
mod problem;

use std::fmt;

use crate::registry::RegistryError;
pub use code::{ErrorCategory, ErrorCode};
pub use problem::{ErrorResponse, FieldProblem, ProblemDocument};

/// A result whose error is fit to be shown.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error fit to be shown to whoever asked.
#[derive(Debug)]
pub struct Error {
    code: ErrorCode,
    detail: String,
    next: Option<String>,
    fields: Vec<FieldProblem>,
    retry_after_seconds: Option<u64>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of this code; `detail` says what was wrong in this case.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            next: None,
            fields: Vec::new(),
            retry_after_seconds: None,
            source: None,
        }
    }

    /// Something of ours failed. The cause is for the log, not for the caller.
    pub fn internal(
        doing: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let mut error = Self::new(ErrorCode::Internal, format!("could not {doing}"));
        error.source = Some(source.into());
        error
    }

    /// One field of the request is wrong; `pointer` is a JSON pointer.
    pub fn invalid_field(pointer: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let place = pointer.trim_start_matches('/');
        let detail = match place {
            "" => message.clone(),
            place => format!("{place}: {message}"),
        };
        Self::new(ErrorCode::InvalidField, detail).with_field(pointer, message)
    }

    /// Says what to do next in this very case.
    #[must_use]
    pub fn with_next_step(mut self, step: impl Into<String>) -> Self {
        self.next = Some(step.into());
        self
    }

    /// Names a field that is wrong.
    #[must_use]
    pub fn with_field(mut self, pointer: &str, message: impl Into<String>) -> Self {
        self.fields.push(FieldProblem {
            pointer: pointer.to_owned(),
            message: message.into(),
        });
        self
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// Adds the cause: for the log, not for the caller.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// When to try again, if that was said.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after_seconds
    }

    /// The document that is sent.
    pub fn problem(&self) -> ProblemDocument {
        ProblemDocument::new(
            self.code,
            self.detail.clone(),
            self.next.clone(),
            self.fields.clone(),
        )
    }
}

/// The store being away is not the caller's fault and may pass.
impl From<RegistryError> for Error {
    fn from(source: RegistryError) -> Self {
        let mut error = Self::new(
            ErrorCode::Unavailable,
            "the registry cannot be used right now",
        );
        error.source = Some(Box::new(source));
        error.retry_after(1)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// `; did you mean "…"?` for the candidate nearest to `text`, or nothing when
/// none is near.
pub fn suggest_nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(text, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|one, two| one.0.total_cmp(&two.0))
        .map(|(_, nearest)| format!("; did you mean {nearest:?}?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_candidate_is_suggested_and_a_far_one_is_not() {
        assert_eq!(
            suggest_nearest("shrad-1", ["shard-1", "eu"]),
            "; did you mean \"shard-1\"?"
        );
        assert_eq!(suggest_nearest("zebra", ["shard-1", "eu"]), "");
    }
}
