//! What is asked of an execution while it runs. It goes through the store's
//! inbox, so it is durable and reaches whoever holds the execution.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Progress;
use crate::core::{Event, Execution, TaskId, token_names};

/// What is asked. Inboxes hold these as JSON: a change of it is a change of
/// format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Message {
    Pause,
    Resume,
    Cancel {
        error: Option<String>,
        cause: Option<String>,
    },
    Answer {
        token: String,
        signal: Signal,
    },
    Alive {
        token: String,
        progress: Progress,
    },
    /// The execution that the task with this token waits for may have ended.
    ChildEnded {
        token: String,
    },
    /// The task with this token no longer waits for what it started.
    Disowned {
        token: String,
    },
}

/// How a task that was handed over went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Signal {
    /// It is done, and this is its result.
    Success(Value),
    /// It was not done.
    Failure {
        /// The name of the error.
        error: String,
        /// What happened.
        cause: String,
    },
}

/// What a message is to its execution.
#[derive(Debug, PartialEq)]
pub(super) enum Meaning {
    /// An event.
    Event(Event),
    /// A task that was handed over is alive.
    Alive(TaskId, Progress),
    /// The execution that a task waits for has to be looked at.
    Look(TaskId),
    /// Nothing: it names no task that is in flight.
    Nothing,
}

impl Message {
    /// What it is, in its key.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Pause | Self::Resume | Self::Cancel { .. } | Self::Alive { .. } => "ask",
            Self::Answer { .. } => "answer",
            Self::ChildEnded { .. } => "ended",
            Self::Disowned { .. } => "disowned",
        }
    }

    pub(super) fn meaning(self, execution: &Execution) -> Meaning {
        let event = match self {
            Self::Pause => Event::Paused,
            Self::Resume => Event::Resumed,
            Self::Cancel { error, cause } => Event::Cancelled { error, cause },
            Self::Answer { token, signal } => match (named(execution, &token), signal) {
                (None, _) => return Meaning::Nothing,
                (Some(task), Signal::Success(output)) => Event::TaskSucceeded { task, output },
                (Some(task), Signal::Failure { error, cause }) => {
                    Event::TaskFailed { task, error, cause }
                }
            },
            Self::Alive { token, progress } => {
                return match named(execution, &token) {
                    Some(task) => Meaning::Alive(task, progress),
                    None => Meaning::Nothing,
                };
            }
            Self::ChildEnded { token } => {
                return named(execution, &token).map_or(Meaning::Nothing, Meaning::Look);
            }
            Self::Disowned { token } => {
                let origin = execution.origin();
                let known = origin.and_then(|origin| origin.token.as_ref());
                if known != Some(&token) {
                    return Meaning::Nothing;
                }
                disowned()
            }
        };
        Meaning::Event(event)
    }
}

/// Whoever started the execution no longer waits for it.
pub(super) fn disowned() -> Event {
    Event::Cancelled {
        error: None,
        cause: Some("the execution that started it no longer waits for it".to_owned()),
    }
}

/// The task in flight that has this very token.
fn named(execution: &Execution, token: &str) -> Option<TaskId> {
    let (_, task) = token_names(token)?;
    let flight = execution.task(task)?;
    (flight.order.token == token).then_some(task)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What inboxes hold: a change here is a change of format.
    #[test]
    fn messages_are_written_as_they_always_were() {
        let token = || "run#1#00".to_owned();
        for (message, written) in [
            (Message::Pause, json!("Pause")),
            (Message::Resume, json!("Resume")),
            (
                Message::Cancel {
                    error: None,
                    cause: Some("why".to_owned()),
                },
                json!({"Cancel": {"error": null, "cause": "why"}}),
            ),
            (
                Message::Answer {
                    token: token(),
                    signal: Signal::Success(json!(1)),
                },
                json!({"Answer": {"token": "run#1#00", "signal": {"Success": 1}}}),
            ),
            (
                Message::Alive {
                    token: token(),
                    progress: Progress::default(),
                },
                json!({"Alive": {"token": "run#1#00", "progress":
                    {"done": 0, "total": null, "unit": "", "note": null}}}),
            ),
            (
                Message::ChildEnded { token: token() },
                json!({"ChildEnded": {"token": "run#1#00"}}),
            ),
            (
                Message::Disowned { token: token() },
                json!({"Disowned": {"token": "run#1#00"}}),
            ),
        ] {
            assert_eq!(serde_json::to_value(&message).unwrap(), written);
            assert_eq!(serde_json::from_value::<Message>(written).unwrap(), message);
        }
    }

    #[test]
    fn a_token_that_names_no_task_means_nothing() {
        let signal = Signal::Success(json!(1));
        let token = "run#1#00".to_owned();
        let meaning = Message::Answer { token, signal }.meaning(&Execution::default());
        assert_eq!(meaning, Meaning::Nothing);
    }
}
