//! Finds the API key in a request.

use std::borrow::Cow;
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

use ballast_domain::Result;
use ballast_web::problem::malformed;

use crate::original_request::OriginalRequest;

/// A place in a request where a key may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// `Authorization: Bearer <key>`.
    Bearer,
    /// A header whose value is the key.
    Header(HeaderName),
    /// A query parameter whose value is the key.
    Query(String),
}

/// The error for a text that names no place for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadKeyPlace(String);

impl std::fmt::Display for BadKeyPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} is not a place for a key: use bearer, header:NAME or query:NAME",
            self.0
        )
    }
}

impl std::error::Error for BadKeyPlace {}

impl FromStr for KeyPlace {
    type Err = BadKeyPlace;
    fn from_str(text: &str) -> Result<Self, BadKeyPlace> {
        let bad = || BadKeyPlace(text.chars().take(80).collect());
        match text.split_once(':') {
            None if text == "bearer" => Ok(Self::Bearer),
            Some(("header", name)) => name.parse().map(Self::Header).map_err(|_| bad()),
            Some(("query", name)) if is_plain(name) => Ok(Self::Query(name.to_owned())),
            _ => Err(bad()),
        }
    }
}

/// Whether a name needs no escaping in a query string.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))
}

/// The places to search for a key, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPlaces(pub Vec<KeyPlace>);

impl Default for KeyPlaces {
    fn default() -> Self {
        Self(vec![
            KeyPlace::Header(HeaderName::from_static("x-api-key")),
            KeyPlace::Bearer,
            KeyPlace::Query("api_key".to_owned()),
        ])
    }
}

impl KeyPlaces {
    /// Finds the key in a request, in the first place that has one. For a resolve
    /// request of a proxy, the query of the original request is searched as well.
    /// A header that is there twice is refused: a proxy may have checked the other one.
    pub(crate) fn find<'r>(
        &self,
        headers: &'r HeaderMap,
        uri: &'r Uri,
        original: &OriginalRequest<'r>,
    ) -> Result<Option<Cow<'r, str>>> {
        for place in &self.0 {
            let key = match place {
                KeyPlace::Bearer => bearer(headers)?,
                KeyPlace::Header(name) => {
                    let key = only_value(headers, name)?.map(str::trim);
                    // An empty header counts as absent.
                    key.filter(|key| !key.is_empty())
                }
                KeyPlace::Query(name) => uri
                    .query()
                    .into_iter()
                    .chain(original.queries())
                    .find_map(|query| in_query(query, name)),
            };
            if let Some(key) = key {
                return Ok(Some(Cow::Borrowed(key)));
            }
        }
        Ok(None)
    }

    /// The `Vary` header: the headers that keys may be in.
    pub(crate) fn vary(&self) -> HeaderValue {
        let names: Vec<&str> = self
            .0
            .iter()
            .filter_map(|place| match place {
                KeyPlace::Bearer => Some("authorization"),
                KeyPlace::Header(name) => Some(name.as_str()),
                // The query is part of the URL.
                KeyPlace::Query(_) => None,
            })
            .collect();
        HeaderValue::from_str(&names.join(", ")).unwrap_or(HeaderValue::from_static("*"))
    }

    /// Describes the places, for an error message.
    pub(crate) fn describe(&self) -> String {
        let words: Vec<String> = self
            .0
            .iter()
            .map(|place| match place {
                KeyPlace::Bearer => "Authorization: Bearer <key>".to_owned(),
                KeyPlace::Header(name) => format!("header {name}"),
                KeyPlace::Query(name) => format!("query parameter {name}"),
            })
            .collect();
        words.join(", ")
    }
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>> {
    let value = only_value(headers, &header::AUTHORIZATION)?;
    let parts = value.and_then(|value| value.split_once(' '));
    let key = parts.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    Ok(key.map(|(_, key)| key.trim()))
}

/// The value of a header as text; `None` if it is absent or not text.
fn only_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(malformed(format!(
            "the header {name} appears more than once"
        )));
    }
    Ok(value.and_then(|value| value.to_str().ok()))
}

/// The raw value of a query parameter. Keys and ids are plain ASCII, so values that
/// need decoding cannot be valid.
pub(crate) fn in_query<'r>(query: &'r str, name: &str) -> Option<&'r str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_domain::ErrorCode;
    use proptest::prelude::*;

    fn find_key(
        places: &KeyPlaces,
        headers: &[(&'static str, &'static str)],
        uri: &str,
    ) -> Option<String> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        let uri = uri.parse().unwrap();
        places
            .find(
                &headers,
                &uri,
                &OriginalRequest::from_request(&uri, &headers),
            )
            .unwrap()
            .map(Cow::into_owned)
    }

    #[test]
    fn places_are_searched_in_order() {
        let places = KeyPlaces::default();
        let all = [("x-api-key", "one"), ("authorization", "bearer two")];
        assert_eq!(
            find_key(&places, &all, "/?api_key=three").as_deref(),
            Some("one")
        );
        assert_eq!(
            find_key(&places, &all[1..], "/?api_key=three").as_deref(),
            Some("two")
        );
        assert_eq!(
            find_key(&places, &[], "/?a=b&api_key=three").as_deref(),
            Some("three")
        );
        assert_eq!(
            find_key(&places, &[("authorization", "Basic x")], "/"),
            None
        );
        let empty = [("x-api-key", " "), ("authorization", "Bearer two")];
        assert_eq!(find_key(&places, &empty, "/").as_deref(), Some("two"));
    }

    #[test]
    fn the_original_requests_query_is_searched_last() {
        let places = KeyPlaces::default();
        for header in ["x-original-uri", "x-forwarded-uri"] {
            let original = [
                (header, "/polls?a=b&api_key=original"),
                ("x-api-key", "own"),
            ];
            let key = |headers, uri| find_key(&places, headers, uri);
            assert_eq!(key(&original[..1], "/resolve").as_deref(), Some("original"));
            assert_eq!(key(&original, "/resolve").as_deref(), Some("own"));
            let own = key(&original[..1], "/resolve/polls?api_key=own");
            assert_eq!(own.as_deref(), Some("own"));
            assert_eq!(key(&original[..1], "/polls"), None, "only when resolving");
        }
    }

    #[test]
    fn a_header_that_is_there_twice_is_refused() {
        let places = KeyPlaces::default();
        for name in ["x-api-key", "authorization"] {
            let mut headers = HeaderMap::new();
            for value in ["Bearer one", "Bearer one"] {
                headers.append(name, value.parse().unwrap());
            }
            let uri = Uri::from_static("/");
            let original = OriginalRequest::from_request(&uri, &headers);
            let refused = places.find(&headers, &uri, &original).unwrap_err();
            assert_eq!(refused.code(), ErrorCode::MalformedRequest, "{name}");
        }
    }

    #[test]
    fn places_are_configured_by_name() {
        assert_eq!("bearer".parse(), Ok(KeyPlace::Bearer));
        assert_eq!("query:k".parse(), Ok(KeyPlace::Query("k".to_owned())));
        assert_eq!(
            "header:X-Key".parse(),
            Ok(KeyPlace::Header(HeaderName::from_static("x-key")))
        );
        for bad in [
            "",
            "cookie:k",
            "query:",
            "query:a b",
            "header:",
            "header:a b",
        ] {
            assert!(bad.parse::<KeyPlace>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_key_comes_only_from_a_configured_place(
            path in "[ -~]{0,40}",
            values in prop::collection::vec((0..4_usize, prop::collection::vec(any::<u8>(), 0..60)), 0..4),
        ) {
            let names = ["x-api-key", "authorization", "x-original-uri", "x-forwarded-uri"];
            let mut headers = HeaderMap::new();
            for (name, value) in values {
                if let Ok(value) = HeaderValue::from_bytes(&value) {
                    headers.append(names[name], value);
                }
            }
            let uri: Result<Uri, _> = format!("/resolve{path}").parse();
            if let Ok(uri) = uri {
                let places = KeyPlaces::default();
                let original = OriginalRequest::from_request(&uri, &headers);
                let key = places.find(&headers, &uri, &original).unwrap_or_default();
                let from_header = headers.values().any(|value| {
                    let text = value.to_str().unwrap_or_default();
                    key.as_ref().is_some_and(|key| text.contains(&**key))
                });
                let from_query = uri.query().unwrap_or_default();
                prop_assert!(key.is_none_or(|key| from_header || from_query.contains(&*key)));
            }
        }

        #[test]
        fn a_key_is_found_wherever_it_may_be(
            key in "bl_live_[0-9a-zA-Z]{49}",
            place in 0..4_usize,
            more in "([a-z]{1,5}=[a-z0-9%+]{0,5}&){0,4}",
            spaces in " {0,3}",
        ) {
            let query = format!("/resolve?{more}api_key={key}");
            let padded = format!("{spaces}{key}{spaces}");
            let mut headers = HeaderMap::new();
            let mut uri: Uri = format!("/resolve?{more}").parse().unwrap();
            match place {
                0 => drop(headers.insert("x-api-key", padded.parse().unwrap())),
                1 => {
                    let value = format!("BEARER {padded}").parse().unwrap();
                    headers.insert("authorization", value);
                }
                2 => uri = query.parse().unwrap(),
                _ => drop(headers.insert("x-original-uri", query.parse().unwrap())),
            }
            let places = KeyPlaces::default();
            let original = OriginalRequest::from_request(&uri, &headers);
            let found = places.find(&headers, &uri, &original).unwrap();
            prop_assert_eq!(found.as_deref(), Some(&*key));
        }
    }
}
