//! Errors on the wire: RFC 9457 problem documents.

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ballast_domain::Error;
use ballast_domain::error::Wire;

use crate::limits::Allowance;

/// An [`Error`] as an HTTP answer. It is logged here, once, when it is ours.
#[derive(Debug)]
pub struct RouterError {
    error: Box<Error>,
    allowance: Allowance,
}

impl From<Error> for RouterError {
    fn from(error: Error) -> Self {
        Self {
            error: Box::new(error),
            allowance: Allowance::default(),
        }
    }
}

impl RouterError {
    /// Tells also how the tenant stands with a limit.
    pub(crate) fn with(mut self, allowance: Allowance) -> Self {
        self.allowance = allowance;
        self
    }
}

impl IntoResponse for RouterError {
    fn into_response(self) -> Response {
        if let Some(cause) = self.error.log_line() {
            tracing::error!(code = self.error.code().name(), cause, "{}", self.error);
        }
        let Wire {
            status,
            headers,
            body,
        } = self.error.wire();
        let mut response = body.into_response();
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        self.allowance.write(response.headers_mut());
        response
    }
}
