//! Flags that several commands share.

use ballast_domain::Timestamp;
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};

use super::time::When;

/// Of a command that creates something.
#[derive(Debug, Default, Args)]
pub(crate) struct Creation {
    /// Why: kept with the change in the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Repeated with the same text within 24 hours, it happens once
    #[arg(long, value_name = "TEXT")]
    pub(crate) idempotency_key: Option<String>,
}

/// Of a command that changes something.
#[derive(Debug, Default, Args)]
pub(crate) struct Guard {
    /// Why: kept with the change in the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Only if it is still at this version
    #[arg(long, value_name = "VERSION")]
    pub(crate) if_match: Option<u64>,
}

/// Of a command that lists.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Paging {
    /// How many at the most
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
    /// Begin after this: the nextCursor of the page before
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    /// All of them, page after page
    #[arg(long)]
    pub(crate) all: bool,
}

/// A weight: any finite number; what is too small or too large, the server
/// says. (NaN and infinity have no JSON.)
pub(crate) fn weight(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(weight) if weight.is_finite() => Ok(weight),
        _ => Err("a weight is a number such as 1 or 2.5".to_owned()),
    }
}

/// A JSON object of the fields that were given.
#[derive(Debug, Default)]
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Adds a field if there is a value.
    pub(crate) fn with<T: Serialize>(mut self, name: &str, value: Option<T>) -> Self {
        if let Some(value) = value.and_then(|value| serde_json::to_value(value).ok()) {
            self.0.insert(name.to_owned(), value);
        }
        self
    }

    /// Adds when something ends. A distance is sent as one, so that the same
    /// command sent again is the same request.
    pub(crate) fn expiring(self, when: Option<When>, now: Timestamp) -> Self {
        match when {
            Some(When::Off(distance)) if distance.as_secs() > 0 => {
                self.with("expiresInSeconds", Some(distance.as_secs()))
            }
            _ => self.with("expiresAt", when.map(|when| when.future(now))),
        }
    }

    /// Adds a list unless it is empty.
    pub(crate) fn with_list<T: Serialize>(self, name: &str, list: &[T]) -> Self {
        self.with(name, Some(list).filter(|list| !list.is_empty()))
    }

    /// Adds a list if there is one, or an empty one to forget what is there.
    pub(crate) fn with_list_or_none(self, name: &str, list: &[String], none: bool) -> Self {
        self.with(name, Some(list).filter(|list| none || !list.is_empty()))
    }

    /// Adds a value if there is one, or `null` to lift what is there.
    pub(crate) fn with_or_null<T: Serialize>(
        self,
        name: &str,
        value: Option<T>,
        null: bool,
    ) -> Self {
        if null {
            self.with(name, Some(Value::Null))
        } else {
            self.with(name, value)
        }
    }

    /// Whether nothing was given.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object, if anything was given.
    pub(crate) fn some(self) -> Option<Value> {
        Some(self)
            .filter(|fields| !fields.is_empty())
            .map(Self::value)
    }

    /// The object.
    pub(crate) fn value(self) -> Value {
        Value::Object(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_finite() {
        assert_eq!(weight("2.5"), Ok(2.5));
        assert_eq!(
            weight("-1"),
            Ok(-1.0),
            "the server says what is wrong with it"
        );
        for bad in ["NaN", "inf", "much"] {
            assert!(weight(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_what_was_given_is_sent() {
        let fields = Fields::default()
            .with("name", Some("Acme"))
            .with("weight", None::<f64>)
            .with_list("zones", &[] as &[String])
            .with_or_null("votesPerSecond", None::<u64>, true);
        assert_eq!(
            fields.value().to_string(),
            r#"{"name":"Acme","votesPerSecond":null}"#
        );
    }
}
