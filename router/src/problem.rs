//! Error responses: a problem document, and the headers of the tenant's quota.

use axum::response::{IntoResponse, Response};
use ballast_domain::Error;
use ballast_web::ApiError;

use crate::limits::QuotaStatus;

/// An [`Error`] as an HTTP response, with the state of the tenant's quota.
#[derive(Debug)]
pub struct RouterError {
    error: ApiError,
    quota: QuotaStatus,
}

impl From<Error> for RouterError {
    fn from(error: Error) -> Self {
        Self {
            error: error.into(),
            quota: QuotaStatus::default(),
        }
    }
}

impl RouterError {
    /// Adds the state of the tenant's quota.
    pub(crate) fn with_quota(mut self, quota: QuotaStatus) -> Self {
        self.quota = quota;
        self
    }
}

impl IntoResponse for RouterError {
    fn into_response(self) -> Response {
        let mut response = self.error.into_response();
        self.quota.write(response.headers_mut());
        response
    }
}
