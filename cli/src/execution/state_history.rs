//! Derives the state of each workflow state from a history: completed, failed or stopped. Pure:
//! events in, marks out.
//!
//! An event names the event that caused it, not always its state. To find the state, follow the
//! causes back to the event that entered it.

use std::collections::{BTreeMap, BTreeSet};

use ballast_state_machines::definitions::{BuiltInWorkflow, is_helper};
use ballast_state_machines::language::Definition;
use ballast_state_machines::language::draw::Marks;

use super::body::{Execution, HistoryEvent};

/// Maximum number of causes to follow; no state has a longer chain.
const BACK_MAX: usize = 100_000;

/// The states of an execution, as far as its events are known.
#[derive(Debug, Default)]
pub(crate) struct StateHistory {
    last: u64,
    events: BTreeMap<u64, RecordedEvent>,
    /// States entered and not yet left, by the event that entered them.
    open: BTreeMap<u64, String>,
    done: BTreeSet<String>,
    failed: BTreeSet<String>,
    /// States that were active when the execution was stopped from outside.
    stopped: BTreeSet<String>,
    /// Why the last attempt of a state failed.
    failures: BTreeMap<String, String>,
}

#[derive(Debug)]
struct RecordedEvent {
    previous: u64,
    entered: Option<String>,
    left: bool,
    failure: Option<String>,
}

/// Something that happened in a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateEvent {
    pub(crate) state: String,
    pub(crate) what: StateChange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StateChange {
    Entered,
    Left,
    /// It failed and a catcher handled the error.
    Caught(String),
    /// An attempt failed.
    Failed(String),
    TriedAgain,
}

impl StateHistory {
    /// Applies an event; ignores events that were applied before.
    pub(crate) fn apply(&mut self, event: &HistoryEvent) -> Option<StateEvent> {
        if event.id <= self.last {
            return None;
        }
        self.last = event.id;
        let previous = event.previous_event_id;
        let failure = event.is_failure().then(|| describe_error(event));
        let kept = RecordedEvent {
            previous,
            entered: event.entered().map(str::to_owned),
            left: event.left().is_some(),
            failure: failure.clone(),
        };
        self.events.insert(event.id, kept);
        let (state, what) = if let Some(name) = event.entered() {
            self.open.insert(event.id, name.to_owned());
            (name.to_owned(), StateChange::Entered)
        } else if let Some(name) = event.left() {
            (name.to_owned(), self.leave_state(name, previous))
        } else if let Some(why) = failure {
            let named = event.detail("state").map(str::to_owned);
            if let Some(state) = &named {
                self.failed.insert(state.clone());
            }
            let state = named.or_else(|| self.find_state(previous))?;
            self.failures.insert(state.clone(), why.clone());
            (state, StateChange::Failed(why))
        } else if event.kind.ends_with("Scheduled") && self.failure_at(previous).is_some() {
            (self.find_state(previous)?, StateChange::TriedAgain)
        } else {
            self.end_execution(event);
            return None;
        };
        Some(StateEvent { state, what })
    }

    fn leave_state(&mut self, name: &str, previous: u64) -> StateChange {
        let caught = self.failure_at(previous).map(str::to_owned);
        let way = self.events_back_to(previous, name);
        let inner: Vec<String> = way.iter().filter_map(|id| self.open.remove(id)).collect();
        let Some(error) = caught else {
            self.failed.remove(name);
            self.done.insert(name.to_owned());
            return StateChange::Left;
        };
        // In a Parallel or Map, also the states that made it fail.
        for state in inner.into_iter().chain([name.to_owned()]) {
            self.done.remove(&state);
            self.failed.insert(state);
        }
        StateChange::Caught(error)
    }

    /// Ends the execution: the states that caused the failure failed, all other open states were
    /// stopped.
    fn end_execution(&mut self, event: &HistoryEvent) {
        let failed: Vec<u64> = match event.kind.as_str() {
            "ExecutionFailed" => self.events_back_to(event.previous_event_id, ""),
            "ExecutionTimedOut" => self.open.keys().copied().collect(),
            "ExecutionAborted" => Vec::new(),
            _ => return,
        };
        for id in failed {
            self.failed.extend(self.open.remove(&id));
        }
        self.stopped
            .extend(std::mem::take(&mut self.open).into_values());
    }

    /// The events back to the one that entered the state, or to the start.
    fn events_back_to(&self, from: u64, name: &str) -> Vec<u64> {
        let mut way = Vec::new();
        let mut at = from;
        while let Some(kept) = self.events.get(&at) {
            way.push(at);
            if kept.entered.as_deref() == Some(name) || way.len() == BACK_MAX {
                break;
            }
            at = kept.previous;
        }
        way
    }

    fn failure_at(&self, id: u64) -> Option<&str> {
        self.events.get(&id)?.failure.as_deref()
    }

    /// The state that an event belongs to.
    pub(crate) fn find_state(&self, from: u64) -> Option<String> {
        let mut at = from;
        for _ in 0..BACK_MAX {
            let kept = self.events.get(&at)?;
            if let Some(name) = &kept.entered {
                return Some(name.clone());
            }
            // Later events no longer belong to the state.
            if kept.left {
                return None;
            }
            at = kept.previous;
        }
        None
    }

    /// Why the last attempt of a state failed, if it did.
    pub(crate) fn last_failure(&self, state: &str) -> Option<&str> {
        self.failures.get(state).map(String::as_str)
    }

    /// The marks for a drawing: the current positions; helper states of built-in workflows are
    /// folded.
    pub(crate) fn drawing_marks(&self, execution: &Execution, definition: &Definition) -> Marks {
        let folded = BuiltInWorkflow::find(&execution.workflow).is_some();
        let current = execution.position.iter().map(|at| at.state.clone());
        let marks = Marks {
            current: current.collect(),
            done: self.done.clone(),
            failed: self.failed.clone(),
            stopped: self.stopped.clone(),
            folded: BTreeSet::new(),
        };
        marks.folding(definition, |state| folded && is_helper(&state.kind))
    }
}

/// The error of an event, in a few words.
fn describe_error(event: &HistoryEvent) -> String {
    let error = event.detail("error").unwrap_or_default();
    match event.detail("cause").filter(|cause| !cause.is_empty()) {
        Some(cause) if error.is_empty() => cause.to_owned(),
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Events of these types, each led to by the one before or by another.
    pub(crate) fn history_events(events: &[(&str, u64, Value)]) -> Vec<HistoryEvent> {
        let read = |(place, (kind, previous, details)): (usize, &(&str, u64, Value))| {
            let event = json!({"timestamp": "2026-11-16T09:30:00.000Z", "type": kind,
                "id": place + 1, "previousEventId": previous, "xEventDetails": details});
            serde_json::from_value(event).unwrap()
        };
        events.iter().enumerate().map(read).collect()
    }

    fn names(set: &BTreeSet<String>) -> Vec<&str> {
        set.iter().map(String::as_str).collect()
    }

    #[test]
    fn a_state_that_failed_and_was_caught_is_not_done() {
        let mut story = StateHistory::default();
        let events = history_events(&[
            ("ExecutionStarted", 0, json!({})),
            ("PassStateEntered", 1, json!({"name": "Begin"})),
            ("PassStateExited", 2, json!({"name": "Begin"})),
            ("TaskStateEntered", 3, json!({"name": "Copy"})),
            ("TaskScheduled", 4, json!({})),
            ("TaskStarted", 5, json!({})),
            ("TaskFailed", 6, json!({"error": "Disk", "cause": "full"})),
            ("TaskScheduled", 7, json!({})),
            ("TaskTimedOut", 8, json!({"error": "States.Timeout"})),
            ("TaskStateExited", 9, json!({"name": "Copy"})),
            ("FailStateEntered", 10, json!({"name": "Stuck"})),
        ]);
        let happened: Vec<_> = events
            .iter()
            .filter_map(|event| story.apply(event))
            .collect();
        let copy = |what| StateEvent {
            state: "Copy".to_owned(),
            what,
        };
        assert_eq!(
            happened[2..6],
            [
                copy(StateChange::Entered),
                copy(StateChange::Failed("Disk: full".to_owned())),
                copy(StateChange::TriedAgain),
                copy(StateChange::Failed("States.Timeout".to_owned())),
            ]
        );
        assert_eq!(
            happened[6],
            copy(StateChange::Caught("States.Timeout".to_owned()))
        );
        assert_eq!(story.last_failure("Copy"), Some("States.Timeout"));
        assert_eq!(names(&story.done), ["Begin"]);
        assert_eq!(names(&story.failed), ["Copy"]);
        let mut end = history_events(&[("ExecutionFailed", 11, json!({}))]).remove(0);
        end.id = 12;
        assert_eq!(story.apply(&end), None);
        assert_eq!(names(&story.failed), ["Copy", "Stuck"]);
        assert_eq!(story.apply(&events[1]), None, "told before");
    }

    #[test]
    fn a_branch_that_brings_a_parallel_down_is_told_apart_from_its_sister() {
        let mut story = StateHistory::default();
        let events = history_events(&[
            ("ExecutionStarted", 0, json!({})),
            ("ParallelStateEntered", 1, json!({"name": "Both"})),
            ("ParallelStateStarted", 2, json!({})),
            ("TaskStateEntered", 3, json!({"name": "Left"})),
            ("TaskStateEntered", 3, json!({"name": "Right"})),
            ("TaskFailed", 4, json!({"error": "No"})),
            ("ParallelStateFailed", 6, json!({})),
            ("ExecutionFailed", 7, json!({})),
        ]);
        for event in &events {
            story.apply(event);
        }
        assert_eq!(names(&story.failed), ["Both", "Left"]);
        assert_eq!(names(&story.stopped), ["Right"]);
        assert!(story.done.is_empty());
    }

    #[test]
    fn what_is_cancelled_has_not_failed() {
        let mut story = StateHistory::default();
        let events = history_events(&[
            ("PassStateEntered", 0, json!({"name": "A"})),
            ("PassStateExited", 1, json!({"name": "A"})),
            ("TaskStateEntered", 2, json!({"name": "B"})),
            ("ExecutionAborted", 3, json!({})),
        ]);
        for event in &events {
            story.apply(event);
        }
        assert_eq!(names(&story.done), ["A"]);
        assert_eq!(names(&story.stopped), ["B"]);
        assert!(story.failed.is_empty());
    }

    #[test]
    fn a_loop_that_ends_well_is_done() {
        let mut story = StateHistory::default();
        let events = history_events(&[
            ("TaskStateEntered", 0, json!({"name": "A"})),
            ("TaskFailed", 1, json!({"error": "No"})),
            ("TaskStateExited", 2, json!({"name": "A"})),
            ("TaskStateEntered", 3, json!({"name": "A"})),
            ("TaskSucceeded", 4, json!({})),
            ("TaskStateExited", 5, json!({"name": "A"})),
        ]);
        for event in &events {
            story.apply(event);
        }
        assert_eq!(
            (names(&story.done), names(&story.failed)),
            (vec!["A"], vec![])
        );
    }
}
