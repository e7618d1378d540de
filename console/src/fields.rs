//! The fields of a form or a query string, read one by one: each is refused
//! with its name and the reason.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;
use ballast_domain::{Error, Result};
use ballast_web::body::read_within;

/// What a form may hold.
const FORM_BYTES_MAX: usize = 256 * 1_024;
/// How long a form may take to arrive.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(15);

/// The fields that were sent; of several with one name, the last.
#[derive(Debug, Default, Clone)]
pub(crate) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// Those of a form.
    pub(crate) async fn of_body(body: Body) -> Result<Self> {
        let bytes = read_within(PATIENCE, body, FORM_BYTES_MAX).await?;
        Ok(Self::parsed(&bytes))
    }

    /// Those of a query string.
    pub(crate) fn of_query(uri: &Uri) -> Self {
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

    /// A text as it was sent.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A text without blanks around it; `None` when nothing is left.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.text(name)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    }

    /// Whether a box is ticked.
    pub(crate) fn ticked(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// What a field says, if it says anything.
    pub(crate) fn optional<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.filled(name) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(bad) => Err(refused::<T>(name, &bad)),
        }
    }

    /// What a field must say.
    pub(crate) fn required<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T> {
        self.optional(name)?
            .ok_or_else(|| Error::invalid_field(&format!("/{name}"), "it is empty"))
    }

    /// A list of words, parted by blanks or commas.
    pub(crate) fn words<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Vec<T>> {
        let text = self.text(name).unwrap_or_default();
        text.split([' ', ',', '\n', '\r', '\t'])
            .filter(|word| !word.is_empty())
            .map(|word| word.parse().map_err(|bad: T::Err| refused::<T>(name, &bad)))
            .collect()
    }

    /// The fields again as a query string, with one of them set or left out.
    pub(crate) fn query_with(&self, name: &str, value: Option<&str>) -> String {
        let mut out = form_urlencoded::Serializer::new(String::new());
        for (known, held) in self.0.iter().filter(|(known, _)| *known != name) {
            if !held.is_empty() {
                out.append_pair(known, held);
            }
        }
        if let Some(value) = value {
            out.append_pair(name, value);
        }
        out.finish()
    }
}

/// Says what is wrong with a field. The language's own words about numbers are
/// of no use to people; what we parse ourselves has words of its own.
fn refused<T>(name: &str, bad: &impl Display) -> Error {
    let words = match std::any::type_name::<T>() {
        "u16" | "u32" | "u64" | "usize" => "it is not a whole number from 0 on".to_owned(),
        "i32" | "i64" => "it is not a whole number".to_owned(),
        "f64" => "it is not a number".to_owned(),
        _ => bad.to_string(),
    };
    Error::invalid_field(&format!("/{name}"), words)
}

/// Those of the request's query string.
impl<S: Send + Sync> FromRequestParts<S> for Fields {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> std::result::Result<Self, Self::Rejection> {
        Ok(Self::of_query(&parts.uri))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_refused_by_name() {
        let fields = Fields::parsed(b"a=1&b=+x+y+&c=&a=2&on=");
        assert_eq!(fields.required::<u32>("a").unwrap(), 2);
        assert_eq!(fields.filled("b"), Some("x y"));
        assert_eq!(fields.optional::<u32>("c").unwrap(), None);
        assert!(fields.ticked("on") && !fields.ticked("off"));
        let bad = fields.required::<u32>("b").unwrap_err().to_string();
        assert_eq!(bad, "b: it is not a whole number from 0 on");
        assert!(fields.required::<u32>("d").is_err());
        assert_eq!(fields.words::<String>("b").unwrap(), ["x", "y"]);
        assert_eq!(fields.query_with("a", Some("&")), "b=+x+y+&a=%26");
    }
}
