//! Reads the head of a request: path, query string and `Idempotency-Key`. Errors name the
//! field and the reason.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use ballast_domain::bounds::IDEMPOTENCY_KEY_CHARS_MAX;
use ballast_domain::object::add_suggestion;
use ballast_domain::{Error, ErrorCode, Result};
use serde::de::DeserializeOwned;

use crate::problem::{ApiError, malformed};

/// The parameters of a path, in order.
pub async fn segments(parts: &mut Parts) -> Result<Vec<String>> {
    let Path(named) = Path::<Vec<(String, String)>>::from_request_parts(parts, &())
        .await
        .map_err(|bad| malformed(format!("the path cannot be read: {bad}")))?;
    Ok(named.into_iter().map(|(_, text)| text).collect())
}

/// The query string.
#[derive(Debug)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self(query(&parts.uri)?))
    }
}

/// Reads the query string of a URI.
pub fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T> {
    let Query(params) = Query::try_from_uri(uri).map_err(|bad| {
        let source = std::error::Error::source(&bad).map(ToString::to_string);
        let message = add_suggestion(&source.unwrap_or_else(|| bad.to_string()));
        let name = message.split(':').next().unwrap_or_default().to_owned();
        let detail = format!("in the query string: {message}");
        Error::new(ErrorCode::InvalidField, detail).with_field(&format!("?{name}"), message)
    })?;
    Ok(params)
}

/// The `Idempotency-Key` of a request.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let readable = value
        .to_str()
        .ok()
        .filter(|key| (1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&key.len()));
    match readable {
        Some(key) => Ok(Some(key)),
        None => {
            let detail = format!(
                "Idempotency-Key must be 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters"
            );
            Err(Error::new(ErrorCode::InvalidField, detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn an_idempotency_key_is_checked() {
        let read = |value: &str| {
            let value = HeaderValue::from_str(value).unwrap();
            let headers = HeaderMap::from_iter([("idempotency-key".parse().unwrap(), value)]);
            idempotency_key(&headers).map(|key| key.map(str::to_owned))
        };
        assert_eq!(read("abc").unwrap().as_deref(), Some("abc"));
        assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
        assert!(read("").is_err());
        assert!(read(&"a".repeat(IDEMPOTENCY_KEY_CHARS_MAX)).is_ok());
        assert!(read(&"a".repeat(IDEMPOTENCY_KEY_CHARS_MAX + 1)).is_err());
        assert!(read("ä").is_err());
    }

    #[test]
    fn an_invalid_parameter_is_named() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wanted {
            limit: Option<u32>,
        }
        let read = |text: &str| query::<Wanted>(&text.parse().unwrap());
        assert_eq!(read("/x?limit=3").unwrap().limit, Some(3));
        let wrong = read("/x?limit=many").unwrap_err();
        assert_eq!(wrong.code(), ErrorCode::InvalidField);
        assert_eq!(wrong.problem().errors[0].pointer, "?limit");
        assert!(read("/x?limits=3").is_err());
    }
}
