//! Typed access to the fields of a form or a query string. An invalid field is
//! reported with its name.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;
use ballast_domain::{Error, Result};
use ballast_web::body::read_with_timeout;

/// The largest form body.
const FORM_BYTES_MAX: usize = 256 * 1_024;
/// How long a form body may take to arrive.
const BODY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);

/// The submitted fields; the last value wins if a name repeats.
#[derive(Debug, Default, Clone)]
pub(crate) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// Reads a form body.
    pub(crate) async fn read_body(body: Body) -> Result<Self> {
        let bytes = read_with_timeout(BODY_TIMEOUT, body, FORM_BYTES_MAX).await?;
        Ok(Self::parsed(&bytes))
    }

    /// Reads a query string.
    pub(crate) fn from_query(uri: &Uri) -> Self {
        Self::parsed(uri.query().unwrap_or_default().as_bytes())
    }

    fn parsed(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().collect())
    }

    #[cfg(test)]
    pub(crate) fn from_pairs(pairs: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self(pairs.iter().map(owned).collect())
    }

    /// A field's text, unchanged.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A field's trimmed text; `None` if empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.text(name)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    }

    /// Whether a checkbox is ticked.
    pub(crate) fn ticked(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Parses an optional field.
    pub(crate) fn optional<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.filled(name) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(bad) => Err(invalid_field::<T>(name, &bad)),
        }
    }

    /// Parses a required field.
    pub(crate) fn required<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T> {
        self.optional(name)?
            .ok_or_else(|| Error::invalid_field(&format!("/{name}"), "must not be empty"))
    }

    /// Parses a list separated by blanks or commas.
    pub(crate) fn words<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Vec<T>> {
        let text = self.text(name).unwrap_or_default();
        text.split([' ', ',', '\n', '\r', '\t'])
            .filter(|word| !word.is_empty())
            .map(|word| {
                word.parse()
                    .map_err(|bad: T::Err| invalid_field::<T>(name, &bad))
            })
            .collect()
    }

    /// The fields as a query string, with one field set or removed.
    pub(crate) fn query_with(&self, name: &str, value: Option<&str>) -> String {
        let mut out = form_urlencoded::Serializer::new(String::new());
        for (known, value) in self.0.iter().filter(|(known, _)| *known != name) {
            if !value.is_empty() {
                out.append_pair(known, value);
            }
        }
        if let Some(value) = value {
            out.append_pair(name, value);
        }
        out.finish()
    }
}

/// The error for an invalid field. The standard library's messages for numbers are
/// replaced; our own types have readable messages.
fn invalid_field<T>(name: &str, bad: &impl Display) -> Error {
    let words = match std::any::type_name::<T>() {
        "u16" | "u32" | "u64" | "usize" => "must be a whole number of 0 or more".to_owned(),
        "i32" | "i64" => "must be a whole number".to_owned(),
        "f64" => "must be a number".to_owned(),
        _ => bad.to_string(),
    };
    Error::invalid_field(&format!("/{name}"), words)
}

/// Extracts the request's query string.
impl<S: Send + Sync> FromRequestParts<S> for Fields {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> std::result::Result<Self, Self::Rejection> {
        Ok(Self::from_query(&parts.uri))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_fields_are_reported_by_name() {
        let fields = Fields::parsed(b"a=1&b=+x+y+&c=&a=2&on=");
        assert_eq!(fields.required::<u32>("a").unwrap(), 2);
        assert_eq!(fields.filled("b"), Some("x y"));
        assert_eq!(fields.optional::<u32>("c").unwrap(), None);
        assert!(fields.ticked("on") && !fields.ticked("off"));
        let bad = fields.required::<u32>("b").unwrap_err().to_string();
        assert_eq!(bad, "b: must be a whole number of 0 or more");
        assert!(fields.required::<u32>("d").is_err());
        assert_eq!(fields.words::<String>("b").unwrap(), ["x", "y"]);
        assert_eq!(fields.query_with("a", Some("&")), "b=+x+y+&a=%26");
    }
}
