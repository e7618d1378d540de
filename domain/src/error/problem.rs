//! The RFC 9457 problem document: the one shape of every error answer.

use serde::{Deserialize, Serialize};

use super::ErrorCode;

/// An error, as every API of Ballast answers it (`application/problem+json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Problem {
    /// Where this kind of problem is explained, relative to the server.
    #[serde(rename = "type")]
    #[schema(example = "/problems/tenant-not-found")]
    pub kind: String,
    /// What kind of problem it is, in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable code: what programs compare.
    #[schema(example = "tenant-not-found")]
    pub code: String,
    /// What was wrong this time.
    pub detail: String,
    /// What to do next.
    pub next: String,
    /// The fields that were wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
}

/// One field that was wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FieldProblem {
    /// Where it is: a JSON pointer into the body, or `?name` for a query
    /// parameter.
    #[schema(example = "/weight")]
    pub pointer: String,
    /// What is wrong with it.
    pub message: String,
}

impl Problem {
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
