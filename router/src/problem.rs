//! Errors on the wire: RFC 9457 problem documents.

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ballast_domain::Error;
use ballast_domain::error::Wire;

/// An [`Error`] as an HTTP answer. It is logged here, once, when it is ours.
#[derive(Debug)]
pub struct RouterError(Box<Error>);

impl From<Error> for RouterError {
    fn from(error: Error) -> Self {
        Self(Box::new(error))
    }
}

impl IntoResponse for RouterError {
    fn into_response(self) -> Response {
        if let Some(cause) = self.0.log_line() {
            tracing::error!(code = self.0.code().name(), cause, "{}", self.0);
        }
        let Wire {
            status,
            headers,
            body,
        } = self.0.wire();
        let mut response = body.into_response();
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}
