//! Error responses: RFC 9457 problem documents.

use axum::http::{HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use ballast_domain::error::ErrorResponse;
use ballast_domain::registry::RegistryError;
use ballast_domain::{Error, ErrorCode};

/// An [`Error`] as an HTTP response. An error of the server is logged here, once.
#[derive(Debug)]
pub struct ApiError(Box<Error>);

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self(Box::new(error))
    }
}

impl From<RegistryError> for ApiError {
    fn from(error: RegistryError) -> Self {
        Error::from(error).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self(error) = self;
        if let Some(cause) = error.log_line() {
            tracing::error!(code = error.code().name(), cause, "{error}");
        }
        let ErrorResponse {
            status,
            headers,
            body,
        } = error.to_http();
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, body).into_response();
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// The error for a request that cannot be read.
pub fn malformed(detail: impl Into<String>) -> Error {
    Error::new(ErrorCode::MalformedRequest, detail)
}

/// The response to a method that a path does not support.
pub async fn wrong_method() -> ApiError {
    let detail = "the path exists, but does not support this method";
    Error::new(ErrorCode::MethodNotAllowed, detail).into()
}

/// The page that a problem's `type` links to; `None` for an unknown code.
pub fn catalogue_page(code: &str) -> Option<Response> {
    let code = ErrorCode::ALL.iter().find(|known| known.name() == code)?;
    let page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>{name}</title>\
         <style>body{{font:16px/1.5 system-ui;margin:3rem auto;max-width:40rem;padding:0 1rem}}</style>\
         <h1><code>{name}</code></h1><p>{title} (HTTP {status}).</p><h2>What to do next</h2><p>{next}</p>",
        name = code.name(),
        title = code.title(),
        status = code.kind().http_status(),
        next = code.next_step(),
    );
    Some(Html(page).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_becomes_an_answer() {
        let error = Error::new(ErrorCode::Unavailable, "not now").retry_after(3);
        let response = ApiError::from(error).into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        let headers = response.headers();
        assert_eq!(headers["content-type"], "application/problem+json");
        assert_eq!(headers["retry-after"], "3");
    }

    #[test]
    fn every_code_has_its_page() {
        for code in ErrorCode::ALL {
            assert!(catalogue_page(code.name()).is_some(), "{}", code.name());
        }
        assert!(catalogue_page("nonsense").is_none());
    }
}
