//! A run: one machine of the definition on its way. The whole definition is
//! one, each branch of a Parallel and each iteration of a Map another.
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

use super::execution::Doing;
use super::{RunId, TaskId, TimerId};

/// A machine on its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    /// Who waits for it; the whole definition has none.
    pub(super) parent: Option<Parent>,
    /// The state it is in, or about to enter.
    pub(super) state: String,
    /// What came into the state.
    pub(super) input: Value,
    /// What its own states assigned; it reads those of its parents as well.
    pub(super) variables: Map<String, Value>,
    pub(super) entered_at_ms: i64,
    /// The history event of its state's entry.
    pub(super) entered_event: u64,
    /// The one before it.
    pub(super) before_event: u64,
    /// The last history event of the run.
    pub(super) last_event: u64,
    /// How often each retrier of the state was used.
    pub(super) retries: Vec<u64>,
    /// How often the state was tried again.
    pub(super) attempts: u64,
    /// How many states it has entered.
    pub(super) states: u64,
    /// Whether it belongs to a distributed Map: its events are in no history.
    pub(super) is_silent: bool,
    pub(super) phase: Phase,
}

/// Whose branch or iteration a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Parent {
    pub(super) run: RunId,
    /// Which branch or which item, from 0.
    pub(super) index: u64,
}

/// How far a run is with its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// About to enter it.
    Entering,
    /// In it, and about to try, or try again.
    Trying,
    /// A task is in flight.
    Working(TaskId),
    /// A reader brings the items of a Map.
    Reading(TaskId),
    /// It waits for a time.
    Waiting(TimerId),
    /// It waits until it tries again.
    BackingOff(TimerId),
    /// Its branches or iterations are on their way.
    Gathering(Box<Family>),
    /// Its work gave this.
    Finished(Value),
    /// The items of a Map were read.
    Read(Value),
    /// Something went wrong.
    Failing(Failure),
}

/// What went wrong in a state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Failure {
    /// The name of the error; a Fail need not have one.
    pub(super) error: Option<String>,
    pub(super) cause: Option<String>,
    /// Whether a task was silent for too long. Its error is `States.Timeout`,
    /// and it may be handled as `States.HeartbeatTimeout` as well.
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
pub(super) struct Family {
    pub(super) kind: FamilyKind,
    /// What the branches are given, or what `$` is for `ItemSelector`.
    pub(super) input: Value,
    /// The items of a Map; their inputs, if they were made into batches.
    pub(super) items: Vec<Value>,
    /// Whether the items are inputs already.
    pub(super) is_batched: bool,
    /// How many there are.
    pub(super) total: u64,
    /// How many run at once.
    pub(super) at_once: u64,
    /// How many were begun.
    pub(super) begun: u64,
    /// Those on their way.
    pub(super) running: BTreeMap<u64, RunId>,
    /// What those that are done gave, each in its place.
    pub(super) outputs: Vec<Value>,
    /// How many are done.
    pub(super) done: u64,
    /// How many of them failed.
    pub(super) failed: u64,
    /// How many may fail.
    pub(super) failed_max: u64,
}

/// Whose family it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FamilyKind {
    Parallel,
    Inline,
    Distributed,
}

impl Family {
    pub(super) fn is_map(&self) -> bool {
        self.kind != FamilyKind::Parallel
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

    pub(super) fn doing(&self) -> Doing {
        match self {
            Self::Entering
            | Self::Trying
            | Self::Finished(_)
            | Self::Read(_)
            | Self::Failing(_) => Doing::Ready,
            Self::Working(_) | Self::Reading(_) => Doing::Working,
            Self::Waiting(_) => Doing::Waiting,
            Self::BackingOff(_) => Doing::BackingOff,
            Self::Gathering(family) => Doing::Gathering {
                done: family.done,
                total: family.total,
            },
        }
    }
}
