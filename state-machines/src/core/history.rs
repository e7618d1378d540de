//! The history of an execution, in the shape of `GetExecutionHistory`.
//!
//! The interpreter emits new events and does not store the history, so that the
//! cost of a step does not depend on the age of the execution.
//!
//! The start of a task (`TaskStarted`, `LambdaFunctionStarted`,
//! `ActivityStarted`) is recorded together with `TaskScheduled` and has its time:
//! it is visible while the task runs and costs no step of its own. If a task
//! waits for a free worker, or runs again after a crash, its real start is later.

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::clock;
use crate::data::parse_timestamp;

/// An event of the history.
///
/// As JSON it has `timestamp`, `type`, `id`, `previousEventId`, and its
/// details under the name that its type calls for, such as
/// `stateEnteredEventDetails`. Payloads within the details are JSON texts, as
/// AWS has them.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEvent {
    /// Its number, from 1.
    pub id: u64,
    /// The event that caused it; 0 for none.
    pub previous_event_id: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// What happened.
    pub kind: HistoryType,
    /// The details.
    pub details: Map<String, Value>,
}

impl HistoryEvent {
    /// The name of the state or Map in the details, if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.details.get("name").and_then(Value::as_str)
    }

    /// The index of the iteration in the details, if any.
    #[must_use]
    pub fn index(&self) -> Option<u64> {
        self.details.get("index").and_then(Value::as_u64)
    }
}

macro_rules! history_types {
    ($($name:ident $details:literal)*) => {
        /// The types of history events, by the names that AWS gives them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "the names are AWS's, and say what they mean")]
        pub enum HistoryType { $($name),* }

        impl HistoryType {
            /// The name, as AWS writes it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }

            /// The name of the field with its details; empty if it has none.
            #[must_use]
            pub fn details_name(self) -> &'static str {
                match self { $(Self::$name => $details),* }
            }

            /// Finds a type by its name.
            #[must_use]
            pub fn parse(name: &str) -> Option<Self> {
                match name { $(stringify!($name) => Some(Self::$name),)* _ => None }
            }
        }
    };
}

history_types! {
    ExecutionStarted "executionStartedEventDetails"
    ExecutionSucceeded "executionSucceededEventDetails"
    ExecutionFailed "executionFailedEventDetails"
    ExecutionTimedOut "executionTimedOutEventDetails"
    ExecutionAborted "executionAbortedEventDetails"
    TaskStateEntered "stateEnteredEventDetails"
    TaskStateExited "stateExitedEventDetails"
    TaskStateAborted ""
    ChoiceStateEntered "stateEnteredEventDetails"
    ChoiceStateExited "stateExitedEventDetails"
    WaitStateEntered "stateEnteredEventDetails"
    WaitStateExited "stateExitedEventDetails"
    WaitStateAborted ""
    PassStateEntered "stateEnteredEventDetails"
    PassStateExited "stateExitedEventDetails"
    SucceedStateEntered "stateEnteredEventDetails"
    SucceedStateExited "stateExitedEventDetails"
    FailStateEntered "stateEnteredEventDetails"
    ParallelStateEntered "stateEnteredEventDetails"
    ParallelStateStarted ""
    ParallelStateSucceeded ""
    ParallelStateFailed ""
    ParallelStateAborted ""
    ParallelStateExited "stateExitedEventDetails"
    MapStateEntered "stateEnteredEventDetails"
    MapStateStarted "mapStateStartedEventDetails"
    MapStateSucceeded ""
    MapStateFailed ""
    MapStateAborted ""
    MapStateExited "stateExitedEventDetails"
    MapIterationStarted "mapIterationStartedEventDetails"
    MapIterationSucceeded "mapIterationSucceededEventDetails"
    MapIterationFailed "mapIterationFailedEventDetails"
    MapIterationAborted "mapIterationAbortedEventDetails"
    MapRunStarted "mapRunStartedEventDetails"
    MapRunSucceeded ""
    MapRunFailed "mapRunFailedEventDetails"
    MapRunAborted ""
    TaskScheduled "taskScheduledEventDetails"
    TaskStarted "taskStartedEventDetails"
    TaskSubmitted "taskSubmittedEventDetails"
    TaskSucceeded "taskSucceededEventDetails"
    TaskFailed "taskFailedEventDetails"
    TaskTimedOut "taskTimedOutEventDetails"
    LambdaFunctionScheduled "lambdaFunctionScheduledEventDetails"
    LambdaFunctionStarted ""
    LambdaFunctionSucceeded "lambdaFunctionSucceededEventDetails"
    LambdaFunctionFailed "lambdaFunctionFailedEventDetails"
    LambdaFunctionTimedOut "lambdaFunctionTimedOutEventDetails"
    ActivityScheduled "activityScheduledEventDetails"
    ActivityStarted "activityStartedEventDetails"
    ActivitySucceeded "activitySucceededEventDetails"
    ActivityFailed "activityFailedEventDetails"
    ActivityTimedOut "activityTimedOutEventDetails"
    EvaluationFailed "evaluationFailedEventDetails"
}

impl Serialize for HistoryEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("timestamp", &clock::to_iso8601(self.at_ms))?;
        map.serialize_entry("type", &self.kind)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("previousEventId", &self.previous_event_id)?;
        let name = self.kind.details_name();
        if !name.is_empty() {
            map.serialize_entry(name, &self.details)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for HistoryEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Written {
            timestamp: String,
            r#type: HistoryType,
            id: u64,
            previous_event_id: u64,
            #[serde(flatten)]
            rest: Map<String, Value>,
        }
        let mut written = Written::deserialize(deserializer)?;
        let time = parse_timestamp(&written.timestamp)
            .ok_or_else(|| D::Error::custom("invalid timestamp"))?;
        let details = match written.rest.remove(written.r#type.details_name()) {
            Some(Value::Object(details)) => details,
            _ => Map::new(),
        };
        Ok(Self {
            id: written.id,
            previous_event_id: written.previous_event_id,
            at_ms: clock::to_milliseconds(time),
            kind: written.r#type,
            details,
        })
    }
}

/// Builds details field by field; absent values are left out.
#[derive(Debug, Default)]
pub(super) struct Details(Map<String, Value>);

impl Details {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub(super) fn with_optional(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a payload as JSON text, and its `…Details` field as on AWS. AWS truncates
    /// long payloads; here they are complete.
    pub(super) fn with_payload(self, name: &str, value: &Value) -> Self {
        self.with(name, value.to_string())
            .with(&format!("{name}Details"), json!({"truncated": false}))
    }

    pub(super) fn into_map(self) -> Map<String, Value> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_aws_writes_it_and_read_back() {
        let event = HistoryEvent {
            id: 2,
            previous_event_id: 0,
            at_ms: 1_700_000_000_123,
            kind: HistoryType::TaskStateEntered,
            details: Details::new()
                .with("name", "Copy")
                .with_payload("input", &json!({"a": 1}))
                .into_map(),
        };
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(
            written,
            json!({
                "timestamp": "2023-11-14T22:13:20.123Z",
                "type": "TaskStateEntered",
                "id": 2,
                "previousEventId": 0,
                "stateEnteredEventDetails": {
                    "name": "Copy",
                    "input": "{\"a\":1}",
                    "inputDetails": {"truncated": false},
                },
            })
        );
        assert_eq!(
            serde_json::from_value::<HistoryEvent>(written).unwrap(),
            event
        );
        assert_eq!(event.name(), Some("Copy"));
        assert_eq!(
            HistoryType::parse("MapRunAborted"),
            Some(HistoryType::MapRunAborted)
        );
    }
}
