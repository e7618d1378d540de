//! Errors on the wire: RFC 9457 problem documents.

use axum::http::{HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use ballast_domain::error::Wire;
use ballast_domain::{Error, ErrorCode};

/// An [`Error`] as an HTTP answer. It is logged here, once, when it is ours.
#[derive(Debug)]
pub struct ApiError(Box<Error>);

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self(Box::new(error))
    }
}

impl From<ballast_domain::registry::StoreError> for ApiError {
    fn from(error: ballast_domain::registry::StoreError) -> Self {
        Error::from(error).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self(error) = self;
        if let Some(cause) = error.log_line() {
            tracing::error!(code = error.code().name(), cause, "{error}");
        }
        let Wire {
            status,
            headers,
            body,
        } = error.wire();
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

/// The page that a problem's `type` leads to; `None` for an unknown code.
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
