//! Tasks that wait for a callback, and which tokens an execution waits for. Parsed
//! from the stored position; it does no I/O.

use serde::Serialize;

use crate::core::{Iteration, Position, RunActivity, TaskId, parse_token};

/// A task that waits for a callback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingCallback {
    /// The name of its state.
    pub state: String,
    /// The task.
    pub task: TaskId,
    /// The token that [a signal](super::Engine::signal) uses. Anyone who has it can
    /// complete the task.
    pub token: String,
    /// Since when it waits, in milliseconds since 1970.
    pub since_ms: i64,
    /// The Map iterations around it, outermost first.
    pub iterations: Vec<Iteration>,
}

/// An execution's position as the store keeps it.
#[derive(Debug, PartialEq)]
pub(super) struct StoredPosition {
    pub(super) positions: Vec<Position>,
    /// Whether the list is complete.
    is_whole: bool,
}

/// Marks the end of a truncated list.
pub(super) const TRUNCATED: &str = "null";

impl StoredPosition {
    pub(super) fn parse(text: &str) -> Self {
        let read: Vec<Option<Position>> = serde_json::from_str(text).unwrap_or_default();
        Self {
            is_whole: !read.is_empty() && read.iter().all(Option::is_some),
            positions: read.into_iter().flatten().collect(),
        }
    }

    /// The tasks that wait for a callback.
    pub(super) fn into_pending_callbacks(self) -> Vec<PendingCallback> {
        let waiting = self.positions.into_iter().filter_map(|position| {
            let is_waiting = position.doing == RunActivity::AwaitingCallback;
            Some(PendingCallback {
                state: position.state,
                task: position.task.filter(|_| is_waiting)?,
                token: position.token?,
                since_ms: position.awaiting_since_ms.unwrap_or(position.entered_at_ms),
                iterations: position.iterations,
            })
        });
        waiting.collect()
    }

    /// Whether the execution may wait for a token. A task may be signalled before
    /// its submission is recorded; then only its id is known here. In a truncated
    /// list any task may be missing.
    pub(super) fn may_await_token(&self, token: &str) -> bool {
        let Some((_, task)) = parse_token(token) else {
            return false;
        };
        self.find_task(task).map_or(!self.is_whole, |position| {
            let known = position.token.as_deref();
            position.child.is_none() && known.is_none_or(|known| known == token)
        })
    }

    /// Whether a task may be in flight.
    pub(super) fn may_have_task(&self, task: TaskId) -> bool {
        !self.is_whole || self.find_task(task).is_some()
    }

    fn find_task(&self, task: TaskId) -> Option<&Position> {
        let mut positions = self.positions.iter();
        positions.find(|position| position.task == Some(task))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn position(task: u64, token: Option<&str>) -> Value {
        let mut position = json!({"state": "Ask", "doing": "working", "attempt": 0,
            "entered_at_ms": 5, "task": task, "wakes_at_ms": null, "iterations": []});
        if let Some(token) = token {
            position["doing"] = json!("awaiting_callback");
            position["token"] = json!(token);
            position["awaiting_since_ms"] = json!(7);
        }
        position
    }

    #[test]
    fn a_callback_task_waits_for_its_own_token() {
        let text = json!([position(1, Some("w:1#1#aa")), position(2, None)]).to_string();
        let stands = StoredPosition::parse(&text);
        assert!(stands.may_await_token("w:1#1#aa"));
        assert!(!stands.may_await_token("w:1#1#bb"), "forged");
        assert!(stands.may_await_token("w:1#2#cc"), "not handed over yet");
        assert!(!stands.may_await_token("w:1#3#dd"), "not in flight");
        assert!(!stands.may_await_token("nonsense"));
        let waiting = stands.into_pending_callbacks();
        assert_eq!(waiting.len(), 1);
        assert_eq!((waiting[0].task, waiting[0].since_ms), (TaskId(1), 7));
        assert_eq!(waiting[0].token, "w:1#1#aa");
    }

    #[test]
    fn any_task_may_be_missing_from_a_truncated_list() {
        let text = json!([position(1, None), null]).to_string();
        let stands = StoredPosition::parse(&text);
        assert_eq!(stands.positions.len(), 1);
        assert!(stands.may_await_token("w:1#3#dd"));
        assert!(StoredPosition::parse("not JSON").may_await_token("w:1#3#dd"));
    }
}
