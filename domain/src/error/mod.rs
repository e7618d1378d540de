//! Errors of the public APIs, with texts that say what to do next.
//!
//! Libraries have their own error types. At the API they become an [`Error`]: a stable
//! [`ErrorCode`], a detail, the invalid fields and the next step. [`ProblemDocument`] is
//! its RFC 9457 form; [`ErrorCategory::http_status`] maps categories to HTTP statuses.

mod code;
mod problem;

use std::fmt;

use crate::registry::RegistryError;
pub use code::{ErrorCategory, ErrorCode};
pub use problem::{ErrorResponse, FieldProblem, ProblemDocument};

/// A result whose error can be sent to a caller.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that can be sent to a caller.
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
    /// An error with this code; `detail` says what is wrong in this case.
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

    /// An internal error. Its cause is logged and not sent to the caller.
    pub fn internal(
        doing: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let mut error = Self::new(ErrorCode::Internal, format!("could not {doing}"));
        error.source = Some(source.into());
        error
    }

    /// An invalid field of the request; `pointer` is a JSON pointer.
    pub fn invalid_field(pointer: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let place = pointer.trim_start_matches('/');
        let detail = match place {
            "" => message.clone(),
            place => format!("{place}: {message}"),
        };
        Self::new(ErrorCode::InvalidField, detail).with_field(pointer, message)
    }

    /// Sets the next step for this case, instead of the code's default.
    #[must_use]
    pub fn with_next_step(mut self, step: impl Into<String>) -> Self {
        self.next = Some(step.into());
        self
    }

    /// Adds an invalid field.
    #[must_use]
    pub fn with_field(mut self, pointer: &str, message: impl Into<String>) -> Self {
        self.fields.push(FieldProblem {
            pointer: pointer.to_owned(),
            message: message.into(),
        });
        self
    }

    /// Sets the `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// Sets the cause, which is logged and not sent to the caller.
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

    /// The `Retry-After`, if it is set.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after_seconds
    }

    /// The problem document of this error.
    pub fn problem(&self) -> ProblemDocument {
        ProblemDocument::new(
            self.code,
            self.detail.clone(),
            self.next.clone(),
            self.fields.clone(),
        )
    }
}

/// A failing store is temporary and not the caller's fault.
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

/// `; did you mean "…"?` with the candidate nearest to `text`, or an empty text if none is
/// near.
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
