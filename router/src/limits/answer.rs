//! What a limiter answers, and how it is told: `RateLimit-Policy` and
//! `RateLimit` (draft-ietf-httpapi-ratelimit-headers, structured fields), and
//! for a refusal also `Retry-After`.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, IntoResponseParts, Response, ResponseParts};
use ballast_domain::{Error, ErrorCode};

use crate::RouterError;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// How a tenant stands with a limit; of a tenant without one, nothing is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use = "the answer's headers should tell it"]
pub struct Allowance(pub(super) Option<Quota>);

/// A limit and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quota {
    /// So many votes in each second.
    Votes {
        limit: u64,
        left: u64,
        full_in: Duration,
    },
    /// So many queries at the same time.
    Queries { limit: u64, left: u64 },
}

impl Allowance {
    /// Writes the headers.
    pub fn write(&self, headers: &mut HeaderMap) {
        let Some(quota) = self.0 else { return };
        let (policy, standing) = match quota {
            Quota::Votes {
                limit,
                left,
                full_in,
            } => (
                format!("\"votes\";q={limit};w=1"),
                format!("\"votes\";r={left};t={}", whole_seconds(full_in)),
            ),
            Quota::Queries { limit, left } => (
                format!("\"queries\";q={limit};qu=\"concurrent-requests\""),
                format!("\"queries\";r={left}"),
            ),
        };
        for (name, text) in [(POLICY, policy), (LIMIT, standing)] {
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.insert(name, value);
            }
        }
    }
}

/// So that a handler may answer with `(allowance, body)`.
impl IntoResponseParts for Allowance {
    type Error = Infallible;
    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        self.write(parts.headers_mut());
        Ok(parts)
    }
}

/// The tenant asks for more than it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    pub(super) allowance: Allowance,
    pub(super) wait: Duration,
    pub(super) detail: String,
    pub(super) next: Option<String>,
}

impl Limited {
    /// How the tenant stands.
    pub fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// How long to wait before it is worth trying again.
    pub fn wait(&self) -> Duration {
        self.wait
    }
}

impl From<Limited> for Error {
    fn from(limited: Limited) -> Self {
        let seconds = whole_seconds(limited.wait).max(1);
        let error = Self::new(ErrorCode::RateLimited, limited.detail).retry_after(seconds);
        match limited.next {
            Some(next) => error.next(next),
            None => error,
        }
    }
}

impl From<Limited> for RouterError {
    fn from(limited: Limited) -> Self {
        let allowance = limited.allowance;
        Self::from(Error::from(limited)).with(allowance)
    }
}

impl IntoResponse for Limited {
    fn into_response(self) -> Response {
        RouterError::from(self).into_response()
    }
}

/// Rounded up: who waits that long has waited long enough.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(response: &Response) -> [&str; 3] {
        ["ratelimit-policy", "ratelimit", "retry-after"].map(|name| {
            let value = response.headers().get(name);
            value.map_or("", |value| value.to_str().unwrap())
        })
    }

    fn votes(left: u64, full_in_ms: u64) -> Allowance {
        Allowance(Some(Quota::Votes {
            limit: 100,
            left,
            full_in: Duration::from_millis(full_in_ms),
        }))
    }

    fn refused(allowance: Allowance, wait_ms: u64) -> Response {
        let limited = Limited {
            allowance,
            wait: Duration::from_millis(wait_ms),
            detail: "too much".to_owned(),
            next: None,
        };
        limited.into_response()
    }

    #[test]
    fn headers_are_structured_fields_of_the_draft() {
        let policy = "\"votes\";q=100;w=1";
        let answer = (votes(99, 10), "counted").into_response();
        assert_eq!(told(&answer), [policy, "\"votes\";r=99;t=1", ""]);
        let answer = (votes(100, 0), "nothing").into_response();
        assert_eq!(told(&answer), [policy, "\"votes\";r=100;t=0", ""]);
        let queries = Allowance(Some(Quota::Queries { limit: 8, left: 3 }));
        let policy = "\"queries\";q=8;qu=\"concurrent-requests\"";
        let answer = (queries, "found").into_response();
        assert_eq!(told(&answer), [policy, "\"queries\";r=3", ""]);
        let answer = (Allowance::default(), "no limit").into_response();
        assert_eq!(told(&answer), ["", "", ""]);
    }

    #[test]
    fn a_refusal_says_when_to_come_back_in_whole_seconds() {
        let policy = "\"votes\";q=100;w=1";
        for (wait_ms, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2")] {
            let response = refused(votes(0, 1_000), wait_ms);
            assert_eq!(response.status(), 429);
            assert_eq!(told(&response), [policy, "\"votes\";r=0;t=1", seconds]);
        }
    }
}
