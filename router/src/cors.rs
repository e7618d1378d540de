//! CORS: which browser origins may use a tenant's keys.
//!
//! A preflight carries no key, so it is answered for every origin. The request that
//! follows carries a key, and is refused if the tenant does not allow its origin.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::{Error, ErrorCode, Result};

const METHODS: &str = "GET, POST, PATCH, DELETE";
const HEADERS: &str = "authorization, cache-control, content-type, idempotency-key, if-match, \
    if-none-match, last-event-id, voter-id, x-api-key";
const EXPOSED: &str = "ballast-also-on, ballast-epoch, ballast-region, ballast-shard, ballast-tenant, etag, \
    idempotency-replayed, location, ratelimit, ratelimit-policy, retry-after";
const MAX_AGE_SECONDS: &str = "600";

/// Whether a request is a browser's preflight.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight.
pub(crate) fn preflight(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let answer = response.headers_mut();
    if let Some(origin) = headers.get(header::ORIGIN) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    }
    let mut set = |name: HeaderName, value| answer.insert(name, HeaderValue::from_static(value));
    set(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    set(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
    set(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECONDS);
    set(header::VARY, "origin");
    response
}

/// The origin of the page that sent a request, if the page is of another site.
pub(crate) fn foreign_origin(uri: &Uri, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let own = is_own(origin.to_str().unwrap_or_default(), uri, headers);
    (!own).then(|| origin.clone())
}

/// Refuses an origin that the tenant does not allow.
pub(crate) fn check(origin: &HeaderValue, origins: &[String]) -> Result<()> {
    let text = origin.to_str().unwrap_or_default();
    if origins
        .iter()
        .any(|known| known == "*" || known.eq_ignore_ascii_case(text))
    {
        return Ok(());
    }
    let shown: String = text.chars().take(100).collect();
    let detail = format!("the tenant does not allow requests from pages of {shown:?}");
    Err(Error::new(ErrorCode::OriginNotAllowed, detail))
}

/// Whether this server served the page.
fn is_own(origin: &str, uri: &Uri, headers: &HeaderMap) -> bool {
    let named = headers.get(header::HOST);
    let named = named.and_then(|host| host.to_str().ok());
    // In HTTP/2 the host is part of the URI.
    let host = uri.authority().map(Authority::as_str).or(named);
    host.is_some() && origin.split_once("://").map(|(_, authority)| authority) == host
}

/// Lets the page read the response.
pub(crate) fn expose(response: &mut Response, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(EXPOSED),
    );
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(origin: &'static str, origins: &[&str]) -> Option<bool> {
        let headers = [
            (header::ORIGIN, HeaderValue::from_static(origin)),
            (header::HOST, HeaderValue::from_static("vote.example:8080")),
        ];
        let origins: Vec<String> = origins.iter().map(ToString::to_string).collect();
        let foreign = foreign_origin(&Uri::from_static("/polls"), &headers.into_iter().collect())?;
        Some(check(&foreign, &origins).is_ok())
    }

    #[test]
    fn only_named_origins_and_our_own_may_ask() {
        assert_eq!(
            judged("https://a.example", &["https://a.example"]),
            Some(true)
        );
        assert_eq!(judged("https://a.example", &["*"]), Some(true));
        assert_eq!(judged("http://vote.example:8080", &[]), None);
        assert_eq!(
            judged("https://b.example", &["https://a.example"]),
            Some(false)
        );
        assert_eq!(judged("null", &["https://a.example"]), Some(false));
        let uri = Uri::from_static("/polls");
        assert_eq!(foreign_origin(&uri, &HeaderMap::new()), None);
    }

    #[test]
    fn over_http_2_the_host_is_in_the_uri() {
        let own = HeaderValue::from_static("https://vote.example");
        let headers = [(header::ORIGIN, own.clone())].into_iter().collect();
        let asked = |uri| foreign_origin(&Uri::from_static(uri), &headers);
        assert_eq!(asked("https://vote.example/polls"), None);
        assert_eq!(asked("https://other.example/polls"), Some(own));
    }
}
