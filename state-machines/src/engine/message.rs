//! Messages to a running execution. They go through the store's inbox, so they are
//! durable and reach the worker that holds the execution.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ProgressReport;
use crate::core::{Execution, ExecutionEvent, TaskId, parse_token};

/// A message to an execution. Inboxes store it as JSON: changing it changes the
/// stored format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum InboxMessage {
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
        progress: ProgressReport,
    },
    /// The child that the task with this token waits for may have ended.
    ChildEnded {
        token: String,
    },
    /// The task with this token no longer waits for the child that it started.
    Disowned {
        token: String,
    },
}

/// The result of a callback task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Signal {
    /// The task succeeded with this result.
    Success(Value),
    /// The task failed.
    Failure {
        /// The name of the error.
        error: String,
        /// The reason.
        cause: String,
    },
}

/// What a message does to its execution.
#[derive(Debug, PartialEq)]
pub(super) enum MessageEffect {
    /// It adds an event.
    Event(ExecutionEvent),
    /// It is the heartbeat of a callback task.
    Heartbeat(TaskId, ProgressReport),
    /// It asks to check a task's child.
    CheckChild(TaskId),
    /// Nothing: it names no task in flight.
    Ignore,
}

impl InboxMessage {
    /// The prefix of the message's key.
    pub(super) fn key_prefix(&self) -> &'static str {
        match self {
            Self::Pause | Self::Resume | Self::Cancel { .. } | Self::Alive { .. } => "ask",
            Self::Answer { .. } => "answer",
            Self::ChildEnded { .. } => "ended",
            Self::Disowned { .. } => "disowned",
        }
    }

    pub(super) fn into_effect(self, execution: &Execution) -> MessageEffect {
        let event = match self {
            Self::Pause => ExecutionEvent::Paused,
            Self::Resume => ExecutionEvent::Resumed,
            Self::Cancel { error, cause } => ExecutionEvent::Cancelled { error, cause },
            Self::Answer { token, signal } => match (find_task_by_token(execution, &token), signal)
            {
                (None, _) => return MessageEffect::Ignore,
                (Some(task), Signal::Success(output)) => {
                    ExecutionEvent::TaskSucceeded { task, output }
                }
                (Some(task), Signal::Failure { error, cause }) => {
                    ExecutionEvent::TaskFailed { task, error, cause }
                }
            },
            Self::Alive { token, progress } => {
                return match find_task_by_token(execution, &token) {
                    Some(task) => MessageEffect::Heartbeat(task, progress),
                    None => MessageEffect::Ignore,
                };
            }
            Self::ChildEnded { token } => {
                return find_task_by_token(execution, &token)
                    .map_or(MessageEffect::Ignore, MessageEffect::CheckChild);
            }
            Self::Disowned { token } => {
                let origin = execution.origin();
                let known = origin.and_then(|origin| origin.token.as_ref());
                if known != Some(&token) {
                    return MessageEffect::Ignore;
                }
                parent_gone_event()
            }
        };
        MessageEffect::Event(event)
    }
}

/// The event for an execution whose parent no longer waits for it.
pub(super) fn parent_gone_event() -> ExecutionEvent {
    ExecutionEvent::Cancelled {
        error: None,
        cause: Some("the execution that started it no longer waits for it".to_owned()),
    }
}

/// The task in flight that has exactly this token.
fn find_task_by_token(execution: &Execution, token: &str) -> Option<TaskId> {
    let (_, task) = parse_token(token)?;
    let flight = execution.task(task)?;
    (flight.order.token == token).then_some(task)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Pins the stored format of messages.
    #[test]
    fn messages_keep_their_stored_format() {
        let token = || "run#1#00".to_owned();
        for (message, written) in [
            (InboxMessage::Pause, json!("Pause")),
            (InboxMessage::Resume, json!("Resume")),
            (
                InboxMessage::Cancel {
                    error: None,
                    cause: Some("why".to_owned()),
                },
                json!({"Cancel": {"error": null, "cause": "why"}}),
            ),
            (
                InboxMessage::Answer {
                    token: token(),
                    signal: Signal::Success(json!(1)),
                },
                json!({"Answer": {"token": "run#1#00", "signal": {"Success": 1}}}),
            ),
            (
                InboxMessage::Alive {
                    token: token(),
                    progress: ProgressReport::default(),
                },
                json!({"Alive": {"token": "run#1#00", "progress":
                    {"done": 0, "total": null, "unit": "", "note": null}}}),
            ),
            (
                InboxMessage::ChildEnded { token: token() },
                json!({"ChildEnded": {"token": "run#1#00"}}),
            ),
            (
                InboxMessage::Disowned { token: token() },
                json!({"Disowned": {"token": "run#1#00"}}),
            ),
        ] {
            assert_eq!(serde_json::to_value(&message).unwrap(), written);
            assert_eq!(
                serde_json::from_value::<InboxMessage>(written).unwrap(),
                message
            );
        }
    }

    #[test]
    fn a_message_for_an_unknown_task_is_ignored() {
        let signal = Signal::Success(json!(1));
        let token = "run#1#00".to_owned();
        let effect = InboxMessage::Answer { token, signal }.into_effect(&Execution::default());
        assert_eq!(effect, MessageEffect::Ignore);
    }
}
