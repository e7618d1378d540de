//! A run: the progress of one machine. The whole definition is one run, each
//! branch of a Parallel and each iteration of a Map is another.
//!
//! ```text
//!   Entering ─▶ Trying ─┬─▶ Working ────┐
//!      ▲          ▲     ├─▶ Waiting ────┤
//!      │          │     ├─▶ Gathering ──┼─▶ Finished ─▶ the next state, or the end
//!      │          │     └───────────────┘      │
//!      │          └── BackingOff ◀── Failing ◀─┘
//!      └───────────────── caught ◀─────┘
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::execution::RunActivity;
use super::{RunId, TaskId, TimerId};

/// The progress of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    /// The run that waits for it; none for the whole definition.
    pub(super) parent: Option<Parent>,
    /// The current state, or the state to enter next.
    pub(super) state: String,
    /// The raw input of the state.
    pub(super) input: Value,
    /// The variables that its own states assigned; it can read those of its
    /// parents too.
    pub(super) variables: Map<String, Value>,
    pub(super) entered_at_ms: i64,
    /// The history event that recorded the entry of the state.
    pub(super) entered_event: u64,
    /// The history event before that.
    pub(super) before_event: u64,
    /// The last history event of the run.
    pub(super) last_event: u64,
    /// How many times each retrier of the state was used.
    pub(super) retries: Vec<u64>,
    /// How many times the state was retried.
    pub(super) attempts: u64,
    /// How many states the run has entered.
    pub(super) states: u64,
    /// Whether it belongs to a distributed Map, whose runs record no history.
    pub(super) is_silent: bool,
    pub(super) phase: Phase,
}

/// The parent of a branch or iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Parent {
    pub(super) run: RunId,
    /// The index of the branch or item, from 0.
    pub(super) index: u64,
}

/// The progress of a run within its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// About to enter the state.
    Entering,
    /// In the state, and about to start an attempt.
    Trying,
    /// A task is in flight.
    Working(TaskId),
    /// An item reader is reading the items of a Map.
    Reading(TaskId),
    /// Waiting for a time.
    Waiting(TimerId),
    /// Waiting before the next attempt.
    BackingOff(TimerId),
    /// Branches or iterations are running.
    Gathering(Box<ChildRuns>),
    /// The work of the state has this result.
    Finished(Value),
    /// The items of a Map were read.
    Read(Value),
    /// The attempt failed.
    Failing(Failure),
}

/// An error in a state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Failure {
    /// The name of the error; a Fail may have none.
    pub(super) error: Option<String>,
    pub(super) cause: Option<String>,
    /// Whether a heartbeat timeout expired. The error is then `States.Timeout`;
    /// handlers for `States.HeartbeatTimeout` match too.
    pub(super) is_heartbeat: bool,
}

impl Failure {
    pub(super) fn new(error: impl Into<String>, cause: impl Into<String>) -> Self {
        Self {
            error: Some(error.into()),
            cause: Some(cause.into()),
            is_heartbeat: false,
        }
    }
}

/// The branches or iterations that a run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ChildRuns {
    pub(super) kind: ChildRunsKind,
    /// The input of the branches, or the value of `$` in `ItemSelector`.
    pub(super) input: Value,
    /// The items of a Map, or the batches made of them.
    pub(super) items: Vec<Value>,
    /// Whether the items are batches.
    pub(super) is_batched: bool,
    /// The number of children.
    pub(super) total: u64,
    /// The concurrency limit.
    pub(super) at_once: u64,
    /// How many were started.
    pub(super) begun: u64,
    /// The running children, by index.
    pub(super) running: BTreeMap<u64, RunId>,
    /// The outputs of the finished children, by index.
    pub(super) outputs: Vec<Value>,
    /// How many have finished.
    pub(super) done: u64,
    /// How many of them failed.
    pub(super) failed: u64,
    /// How many may fail.
    pub(super) failed_max: u64,
}

/// The kind of state that the children belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ChildRunsKind {
    Parallel,
    Inline,
    Distributed,
}

impl ChildRuns {
    pub(super) fn is_map(&self) -> bool {
        self.kind != ChildRunsKind::Parallel
    }
}

impl Phase {
    pub(super) fn task(&self) -> Option<TaskId> {
        match self {
            Self::Working(task) | Self::Reading(task) => Some(*task),
            _ => None,
        }
    }

    pub(super) fn timer(&self) -> Option<TimerId> {
        match self {
            Self::Waiting(timer) | Self::BackingOff(timer) => Some(*timer),
            _ => None,
        }
    }

    pub(super) fn activity(&self) -> RunActivity {
        match self {
            Self::Entering
            | Self::Trying
            | Self::Finished(_)
            | Self::Read(_)
            | Self::Failing(_) => RunActivity::Ready,
            Self::Working(_) | Self::Reading(_) => RunActivity::Working,
            Self::Waiting(_) => RunActivity::Waiting,
            Self::BackingOff(_) => RunActivity::BackingOff,
            Self::Gathering(children) => RunActivity::Gathering {
                done: children.done,
                total: children.total,
            },
        }
    }
}
