//! Errors on the wire: problem documents, and how the tenant stands.

use axum::response::{IntoResponse, Response};
use ballast_domain::Error;
use ballast_web::ApiError;

use crate::limits::Allowance;

/// An [`Error`] as an HTTP answer, with what is told of a limit.
#[derive(Debug)]
pub struct RouterError {
    error: ApiError,
    allowance: Allowance,
}

impl From<Error> for RouterError {
    fn from(error: Error) -> Self {
        Self {
            error: error.into(),
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
        let mut response = self.error.into_response();
        self.allowance.write(response.headers_mut());
        response
    }
}
