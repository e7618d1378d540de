//! The RFC 9457 problem document: the body of every error response.

use serde::{Deserialize, Serialize};

use super::{Error, ErrorCategory, ErrorCode};

/// An error response of Ballast's APIs (`application/problem+json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDocument {
    /// The page that explains this kind of problem, relative to the server.
    #[serde(rename = "type")]
    #[schema(example = "/problems/tenant-not-found")]
    pub kind: String,
    /// The kind of problem in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable code: what programs compare.
    #[schema(example = "tenant-not-found")]
    pub code: String,
    /// What is wrong in this case.
    pub detail: String,
    /// What to do next.
    pub next: String,
    /// The invalid fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
}

/// An invalid field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FieldProblem {
    /// A JSON pointer into the body, or `?name` for a query parameter.
    #[schema(example = "/weight")]
    pub pointer: String,
    /// What is wrong with it.
    pub message: String,
}

impl ProblemDocument {
    pub(super) fn new(
        code: ErrorCode,
        detail: String,
        next: Option<String>,
        errors: Vec<FieldProblem>,
    ) -> Self {
        Self {
            kind: format!("/problems/{}", code.name()),
            title: code.title().to_owned(),
            status: code.kind().http_status(),
            code: code.name().to_owned(),
            detail,
            next: next.unwrap_or_else(|| code.next_step().to_owned()),
            errors,
        }
    }
}

/// An error as an HTTP response, independent of the HTTP framework.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body, JSON.
    pub body: Vec<u8>,
}

impl Error {
    /// This error as an HTTP response.
    pub fn to_http(&self) -> ErrorResponse {
        let problem = self.problem();
        let mut headers = vec![
            ("content-type", "application/problem+json".to_owned()),
            ("cache-control", "no-store".to_owned()),
        ];
        if let Some(seconds) = self.retry_after_seconds() {
            headers.push(("retry-after", seconds.to_string()));
        }
        if self.code().kind() == ErrorCategory::Unauthenticated {
            headers.push(("www-authenticate", "Bearer realm=\"ballast\"".to_owned()));
        }
        ErrorResponse {
            status: problem.status,
            headers,
            body: serde_json::to_vec(&problem).unwrap_or_default(),
        }
    }

    /// The line to log if it is an error of the server: the chain of causes.
    pub fn log_line(&self) -> Option<String> {
        if !matches!(self.code(), ErrorCode::Internal | ErrorCode::Unavailable) {
            return None;
        }
        let causes = std::iter::successors(std::error::Error::source(self), |error| error.source());
        let line: Vec<String> = causes.map(ToString::to_string).collect();
        // "Unavailable" without a cause is not worth logging.
        let silent = line.is_empty() && self.code() == ErrorCode::Unavailable;
        (!silent).then(|| line.join(": "))
    }
}
