//! Tasks that were handed over: who waits for an answer, and which token is
//! waited for. Read from where an execution stands; it asks nobody.

use serde::Serialize;

use crate::core::{Doing, Iteration, Position, TaskId, token_names};

/// A task that was handed over and is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// The state that it is the work of.
    pub state: String,
    /// The task.
    pub task: TaskId,
    /// What [a signal](super::Engine::signal) names it by. Whoever has it may
    /// answer for the task.
    pub token: String,
    /// Since when it is waited for, in milliseconds since 1970.
    pub since_ms: i64,
    /// The iterations of Maps that it is in, from the outside in.
    pub iterations: Vec<Iteration>,
}

/// Where an execution stands, as a store keeps it.
#[derive(Debug, PartialEq)]
pub(super) struct Stands {
    pub(super) positions: Vec<Position>,
    /// Whether these are all.
    is_whole: bool,
}

/// Stands at the end of a list that was too long to be kept whole.
pub(super) const CUT: &str = "null";

impl Stands {
    pub(super) fn read(text: &str) -> Self {
        let read: Vec<Option<Position>> = serde_json::from_str(text).unwrap_or_default();
        Self {
            is_whole: !read.is_empty() && read.iter().all(Option::is_some),
            positions: read.into_iter().flatten().collect(),
        }
    }

    /// The tasks that were handed over.
    pub(super) fn waiting(self) -> Vec<Waiting> {
        let waiting = self.positions.into_iter().filter_map(|position| {
            let is_waiting = position.doing == Doing::AwaitingCallback;
            Some(Waiting {
                state: position.state,
                task: position.task.filter(|_| is_waiting)?,
                token: position.token?,
                since_ms: position.awaiting_since_ms.unwrap_or(position.entered_at_ms),
                iterations: position.iterations,
            })
        });
        waiting.collect()
    }

    /// Whether a token may be waited for. A task that has not been handed over
    /// yet may be answered already: of such a task only its id is known here,
    /// and of very many runs not all are.
    pub(super) fn may_wait_for(&self, token: &str) -> bool {
        let Some((_, task)) = token_names(token) else {
            return false;
        };
        self.of(task).map_or(!self.is_whole, |position| {
            let known = position.token.as_deref();
            position.child.is_none() && known.is_none_or(|known| known == token)
        })
    }

    /// Whether a task may be in flight.
    pub(super) fn may_have(&self, task: TaskId) -> bool {
        !self.is_whole || self.of(task).is_some()
    }

    fn of(&self, task: TaskId) -> Option<&Position> {
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
    fn what_was_handed_over_waits_for_its_own_token() {
        let text = json!([position(1, Some("w:1#1#aa")), position(2, None)]).to_string();
        let stands = Stands::read(&text);
        assert!(stands.may_wait_for("w:1#1#aa"));
        assert!(!stands.may_wait_for("w:1#1#bb"), "forged");
        assert!(stands.may_wait_for("w:1#2#cc"), "not handed over yet");
        assert!(!stands.may_wait_for("w:1#3#dd"), "not in flight");
        assert!(!stands.may_wait_for("nonsense"));
        let waiting = stands.waiting();
        assert_eq!(waiting.len(), 1);
        assert_eq!((waiting[0].task, waiting[0].since_ms), (TaskId(1), 7));
        assert_eq!(waiting[0].token, "w:1#1#aa");
    }

    #[test]
    fn of_a_list_that_was_cut_nothing_is_known_to_be_missing() {
        let text = json!([position(1, None), null]).to_string();
        let stands = Stands::read(&text);
        assert_eq!(stands.positions.len(), 1);
        assert!(stands.may_wait_for("w:1#3#dd"));
        assert!(Stands::read("not JSON").may_wait_for("w:1#3#dd"));
    }
}
