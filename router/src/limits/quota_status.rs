//! The answers of the limiter and their headers: `RateLimit-Policy` and `RateLimit`
//! (draft-ietf-httpapi-ratelimit-headers, structured fields), and `Retry-After` for
//! a refusal.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, IntoResponseParts, Response, ResponseParts};
use ballast_domain::{Error, ErrorCode};

use crate::RouterError;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// What is left of a tenant's quota; empty for a tenant without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use = "write it into the response headers"]
pub struct QuotaStatus(pub(super) Option<Quota>);

/// A limit and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quota {
    /// Votes per second.
    Votes {
        limit: u64,
        left: u64,
        full_in: Duration,
    },
    /// Concurrent queries.
    Queries { limit: u64, left: u64 },
}

impl QuotaStatus {
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

/// Lets a handler return `(quota_status, body)`.
impl IntoResponseParts for QuotaStatus {
    type Error = Infallible;
    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        self.write(parts.headers_mut());
        Ok(parts)
    }
}

/// A limit was exceeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitExceeded {
    pub(super) quota: QuotaStatus,
    pub(super) wait: Duration,
    pub(super) detail: String,
    pub(super) next: Option<String>,
}

impl LimitExceeded {
    /// The tenant's quota.
    pub fn quota_status(&self) -> QuotaStatus {
        self.quota
    }

    /// How long to wait before a retry can succeed.
    pub fn wait(&self) -> Duration {
        self.wait
    }
}

impl From<LimitExceeded> for Error {
    fn from(limited: LimitExceeded) -> Self {
        let seconds = whole_seconds(limited.wait).max(1);
        let error = Self::new(ErrorCode::RateLimited, limited.detail).retry_after(seconds);
        match limited.next {
            Some(next) => error.with_next_step(next),
            None => error,
        }
    }
}

impl From<LimitExceeded> for RouterError {
    fn from(limited: LimitExceeded) -> Self {
        let quota = limited.quota;
        Self::from(Error::from(limited)).with_quota(quota)
    }
}

impl IntoResponse for LimitExceeded {
    fn into_response(self) -> Response {
        RouterError::from(self).into_response()
    }
}

/// The wait in whole seconds, rounded up.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_headers(response: &Response) -> [&str; 3] {
        ["ratelimit-policy", "ratelimit", "retry-after"].map(|name| {
            let value = response.headers().get(name);
            value.map_or("", |value| value.to_str().unwrap())
        })
    }

    fn votes(left: u64, full_in_ms: u64) -> QuotaStatus {
        QuotaStatus(Some(Quota::Votes {
            limit: 100,
            left,
            full_in: Duration::from_millis(full_in_ms),
        }))
    }

    fn refused(quota: QuotaStatus, wait_ms: u64) -> Response {
        let limited = LimitExceeded {
            quota,
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
        assert_eq!(limit_headers(&answer), [policy, "\"votes\";r=99;t=1", ""]);
        let answer = (votes(100, 0), "nothing").into_response();
        assert_eq!(limit_headers(&answer), [policy, "\"votes\";r=100;t=0", ""]);
        let queries = QuotaStatus(Some(Quota::Queries { limit: 8, left: 3 }));
        let policy = "\"queries\";q=8;qu=\"concurrent-requests\"";
        let answer = (queries, "found").into_response();
        assert_eq!(limit_headers(&answer), [policy, "\"queries\";r=3", ""]);
        let answer = (QuotaStatus::default(), "no limit").into_response();
        assert_eq!(limit_headers(&answer), ["", "", ""]);
    }

    #[test]
    fn a_refusal_has_a_retry_after_in_whole_seconds() {
        let policy = "\"votes\";q=100;w=1";
        for (wait_ms, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2")] {
            let response = refused(votes(0, 1_000), wait_ms);
            assert_eq!(response.status(), 429);
            assert_eq!(
                limit_headers(&response),
                [policy, "\"votes\";r=0;t=1", seconds]
            );
        }
    }
}
