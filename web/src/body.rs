//! Reads the body of a request: all of it, up to a size, as a JSON object.

use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, header};
use ballast_domain::object::from_json;
use ballast_domain::{Error, ErrorCode, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::problem::malformed;

/// Reads a whole body, up to a size. It waits as long as the client takes, for callers with
/// their own timeout.
pub async fn read(body: Body, most: usize) -> Result<Bytes> {
    to_bytes(body, most)
        .await
        .map_err(|bad| describe_read_error(&bad, most))
}

/// Reads a whole body, up to a size, with a timeout.
pub async fn read_with_timeout(timeout: Duration, body: Body, most: usize) -> Result<Bytes> {
    let mut reading = std::pin::pin!(read(body, most));
    // A small body arrives with its head: no timer is set then.
    match futures::poll!(&mut reading) {
        Poll::Ready(read) => read,
        Poll::Pending => tokio::time::timeout(timeout, reading)
            .await
            .unwrap_or_else(|_| Err(malformed("the body did not arrive in time"))),
    }
}

fn describe_read_error(bad: &axum::Error, most: usize) -> Error {
    // Exceeding the limit is a separate error, somewhere in the chain of causes.
    let mut causes =
        std::iter::successors(Some(bad as &(dyn std::error::Error + 'static)), |cause| {
            cause.source()
        });
    if causes.any(|cause| cause.to_string().contains("length limit exceeded")) {
        let detail = format!("the body has more than {most} bytes");
        return Error::new(ErrorCode::TooLarge, detail);
    }
    malformed(format!("the body did not arrive: {bad}"))
}

/// Reads a JSON object. An empty body counts as an empty object if none is required.
pub fn decode<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8], required: bool) -> Result<T> {
    match bytes {
        b"" if required => Err(malformed("there is no body; send a JSON object")),
        b"" => from_json(b"{}"),
        _ => {
            refuse_other_types(headers)?;
            from_json(bytes)
        }
    }
}

fn refuse_other_types(headers: &HeaderMap) -> Result<()> {
    let given = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = given.map(|text| {
        let essence = text.split(';').next().unwrap_or_default();
        essence.trim().to_ascii_lowercase()
    });
    let detail = match essence.as_deref() {
        Some("application/json") => return Ok(()),
        Some(kind) if kind.starts_with("application/") && kind.ends_with("+json") => return Ok(()),
        Some(other) => format!("the body is {other}, not JSON"),
        None => "there is no Content-Type".to_owned(),
    };
    Err(Error::new(ErrorCode::UnsupportedMediaType, detail))
}

/// No body, or an empty object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmptyBody {}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_large_body_is_distinguished_from_a_broken_one() {
        let large = read(Body::from("12345"), 4).await.unwrap_err();
        assert_eq!(large.code(), ErrorCode::TooLarge);
        assert_eq!(&read(Body::from("1234"), 4).await.unwrap()[..], b"1234");
        let broken = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("cut"))]);
        let broken = read(Body::from_stream(broken), 4).await.unwrap_err();
        assert_eq!(broken.code(), ErrorCode::MalformedRequest);
    }

    #[tokio::test]
    async fn a_body_that_does_not_arrive_times_out() {
        let never = futures::stream::pending::<Result<Bytes, std::io::Error>>();
        let late = read_with_timeout(TIMEOUT, Body::from_stream(never), 4).await;
        let late = late.unwrap_err();
        assert_eq!(late.code(), ErrorCode::MalformedRequest);
        assert!(late.to_string().contains("in time"), "{late}");
    }

    #[test]
    fn a_complete_body_sets_no_timer() {
        // This runtime has no timers: setting one would panic.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let read = runtime.block_on(read_with_timeout(TIMEOUT, Body::from("1234"), 4));
        assert_eq!(&read.unwrap()[..], b"1234");
    }

    #[test]
    fn a_body_is_a_json_object_and_says_so() {
        let with = |kind: &'static str| -> HeaderMap {
            [(header::CONTENT_TYPE, kind.parse().unwrap())]
                .into_iter()
                .collect()
        };
        let code = |headers: &HeaderMap, bytes: &[u8], required| {
            decode::<EmptyBody>(headers, bytes, required)
                .err()
                .map(|error| error.code())
        };
        let none = HeaderMap::new();
        for kind in ["application/json; charset=utf-8", "Application/Merge+JSON"] {
            assert_eq!(code(&with(kind), b"{}", true), None, "{kind}");
        }
        let other = Some(ErrorCode::UnsupportedMediaType);
        assert_eq!(code(&with("text/plain"), b"{}", true), other);
        assert_eq!(code(&none, b"{}", true), other);
        // An empty body needs no Content-Type.
        assert_eq!(code(&none, b"", false), None);
        assert_eq!(code(&none, b"", true), Some(ErrorCode::MalformedRequest));
    }
}
