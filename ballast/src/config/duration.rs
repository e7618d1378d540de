//! Durations as people write them: `24h`, `5min`, `1h 30min`.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A duration written as `24h` or `5min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct HumanDuration(pub Duration);

impl HumanDuration {
    /// So many hours.
    pub(crate) const fn hours(hours: u64) -> Self {
        Self(Duration::from_secs(hours * 3_600))
    }

    /// So many seconds.
    pub(crate) const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// So many minutes.
    pub(crate) const fn minutes(minutes: u64) -> Self {
        Self(Duration::from_secs(minutes * 60))
    }
}

impl TryFrom<String> for HumanDuration {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        humantime::parse_duration(&text)
            .map(Self)
            .map_err(|error| format!("{text:?} is not a duration such as 24h or 5min: {error}"))
    }
}

impl From<HumanDuration> for String {
    fn from(human: HumanDuration) -> Self {
        humantime::format_duration(human.0).to_string()
    }
}

impl JsonSchema for HumanDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["24h", "5min", "1h 30min"] })
    }
}
