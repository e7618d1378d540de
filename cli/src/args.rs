//! Flags that several commands share.

use ballast_domain::Timestamp;
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};

use super::time::TimeArg;

/// Flags of commands that create a record.
#[derive(Debug, Default, Args)]
pub(crate) struct CreationArgs {
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Repeating the request with this key within 24 hours runs it once
    #[arg(long, value_name = "TEXT")]
    pub(crate) idempotency_key: Option<String>,
}

/// Flags of commands that change a record.
#[derive(Debug, Default, Args)]
pub(crate) struct GuardArgs {
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Only if the record still has this version
    #[arg(long, value_name = "VERSION")]
    pub(crate) if_match: Option<u64>,
}

/// Flags of commands that list records.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PagingArgs {
    /// Maximum number of items
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u32>,
    /// Start after this cursor: the nextCursor of the previous page
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    /// Fetch all pages
    #[arg(long)]
    pub(crate) all: bool,
}

/// Parses a weight: any finite number. The server checks the range. (JSON has no NaN or infinity.)
pub(crate) fn parse_weight(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(weight) if weight.is_finite() => Ok(weight),
        _ => Err("a weight is a number such as 1 or 2.5".to_owned()),
    }
}

/// A JSON object that holds only the fields that have a value.
#[derive(Debug, Default)]
pub(crate) struct JsonFields(Map<String, Value>);

impl JsonFields {
    /// Adds a field if there is a value.
    pub(crate) fn with<T: Serialize>(mut self, name: &str, value: Option<T>) -> Self {
        if let Some(value) = value.and_then(|value| serde_json::to_value(value).ok()) {
            self.0.insert(name.to_owned(), value);
        }
        self
    }

    /// Adds an expiry. A duration is sent as a duration, so that repeating the command repeats the
    /// same request.
    pub(crate) fn with_expiry(self, when: Option<TimeArg>, now: Timestamp) -> Self {
        match when {
            Some(TimeArg::Off(distance)) if distance.as_secs() > 0 => {
                self.with("expiresInSeconds", Some(distance.as_secs()))
            }
            _ => self.with("expiresAt", when.map(|when| when.future(now))),
        }
    }

    /// Adds a list unless it is empty.
    pub(crate) fn with_list<T: Serialize>(self, name: &str, list: &[T]) -> Self {
        self.with(name, Some(list).filter(|list| !list.is_empty()))
    }

    /// Adds a list unless it is empty; `none` adds an empty list, which clears the field.
    pub(crate) fn with_list_or_none(self, name: &str, list: &[String], none: bool) -> Self {
        self.with(name, Some(list).filter(|list| none || !list.is_empty()))
    }

    /// Adds a value if there is one; `null` clears the field.
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

    /// Whether no field is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object, unless it is empty.
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
        assert_eq!(parse_weight("2.5"), Ok(2.5));
        assert_eq!(
            parse_weight("-1"),
            Ok(-1.0),
            "the server says what is wrong with it"
        );
        for bad in ["NaN", "inf", "much"] {
            assert!(parse_weight(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_what_was_given_is_sent() {
        let fields = JsonFields::default()
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
