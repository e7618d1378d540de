//! An execution and its journal: applies events and makes them one step. It does no
//! I/O.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::json;

use super::callbacks::TRUNCATED;
use crate::core::{
    Effect, Execution, ExecutionEvent, ExecutionStart, ExecutionStatus, TimedEvent, apply, replay,
};
use crate::data::errors::DATA_LIMIT_EXCEEDED;
use crate::language::Definition;
use crate::store::limits::{POSITION_BYTES_MAX, SNAPSHOT_BYTES_MAX};
use crate::store::{
    self, ClaimedExecution, ExecutionState, ExecutionStep, JournalEntry, Lease, LeaseAction,
};

/// Entries shorter than this are not worth a snapshot.
const SNAPSHOT_AFTER_BYTES: usize = 16 << 10;
/// How much one step may contain before the next one starts. The last event may
/// exceed the limit; the store's limits leave room for it.
const BATCH_ENTRIES_MAX: usize = 100;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// The largest result of a task. An item reader may return that much to a Map; the
/// language limits other results further.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// An event to apply.
#[derive(Debug)]
pub(super) struct PendingEvent {
    /// `None` for a message without an event: applying it only marks it as read.
    pub(super) event: Option<ExecutionEvent>,
    /// The number of the message that caused it; 0 for none.
    pub(super) message: u64,
}

impl PendingEvent {
    pub(super) fn from_event(event: ExecutionEvent) -> Self {
        Self {
            event: Some(event),
            message: 0,
        }
    }
}

/// An execution and the position of its journal.
pub(super) struct Journal {
    pub(super) definition: Arc<Definition>,
    pub(super) execution: Execution,
    next_seq: u64,
    next_history_id: u64,
    /// Bytes of the entries since the last snapshot, and of that snapshot.
    entry_bytes: usize,
    snapshot_bytes: usize,
    /// Whether an expression ran out of time since the last snapshot. A replay
    /// might not run out of time and diverge, so the next step carries a snapshot.
    is_out_of_time: bool,
    /// The last message that was read.
    pub(super) last_message_read: u64,
}

/// The outcome of events that were applied together.
#[derive(Default)]
pub(super) struct EventBatch {
    pub(super) entries: Vec<JournalEntry>,
    pub(super) effects: Vec<Effect>,
    bytes: usize,
    first_seq: u64,
    first_history_id: u64,
}

impl Journal {
    /// Creates a new execution.
    pub(super) fn create(definition: Arc<Definition>, begin: ExecutionStart) -> (Self, EventBatch) {
        let mut journal = Self::empty(definition);
        let at_ms = begin.at_ms;
        let begun = PendingEvent::from_event(ExecutionEvent::Begun(Box::new(begin)));
        let batch = journal.apply(&mut VecDeque::from([begun]), at_ms);
        (journal, batch)
    }

    /// A journal without an execution.
    fn empty(definition: Arc<Definition>) -> Self {
        Self {
            definition,
            execution: Execution::default(),
            next_seq: 1,
            next_history_id: 1,
            entry_bytes: 0,
            snapshot_bytes: 0,
            is_out_of_time: false,
            last_message_read: 0,
        }
    }

    /// Moves the journal out and leaves an empty one.
    pub(super) fn take(&mut self) -> Self {
        let empty = Self::empty(Arc::clone(&self.definition));
        std::mem::replace(self, empty)
    }

    /// Loads an execution from its snapshot and entries.
    pub(super) fn load(
        claim: &ClaimedExecution,
        definition: Arc<Definition>,
    ) -> Result<Self, String> {
        let (mut execution, snapshot_bytes) = match &claim.snapshot {
            None => (Execution::default(), 0),
            Some(snapshot) => {
                let read = serde_json::from_str(&snapshot.text)
                    .map_err(|error| format!("its snapshot cannot be parsed: {error}"))?;
                (read, snapshot.text.len())
            }
        };
        let mut entry_bytes = 0;
        for entry in &claim.entries {
            let event = serde_json::from_str(&entry.event)
                .map_err(|error| format!("its entry {} cannot be parsed: {error}", entry.seq))?;
            replay(
                &definition,
                &mut execution,
                TimedEvent::new(event, entry.at_ms),
            );
            entry_bytes += entry.event.len();
        }
        let next = execution.history_len() + 1;
        if next != claim.row.next_history_id {
            return Err(format!(
                "replaying its journal gives the next history event {next}, but the store has {}; \
                 was it written by another version?",
                claim.row.next_history_id
            ));
        }
        Ok(Self {
            definition,
            execution,
            next_seq: claim.row.next_seq,
            next_history_id: next,
            entry_bytes,
            snapshot_bytes,
            is_out_of_time: false,
            last_message_read: 0,
        })
    }

    /// Applies pending events, as many as fit into one step.
    pub(super) fn apply(&mut self, due: &mut VecDeque<PendingEvent>, now_ms: i64) -> EventBatch {
        let mut batch = EventBatch {
            first_seq: self.next_seq,
            first_history_id: self.next_history_id,
            ..EventBatch::default()
        };
        while batch.entries.len() < BATCH_ENTRIES_MAX
            && batch.bytes < BATCH_BYTES_MAX
            && !self.is_out_of_time
            && let Some(PendingEvent { event, message }) = due.pop_front()
        {
            self.last_message_read = self.last_message_read.max(message);
            if let Some(event) = event {
                self.apply_event(event, now_ms, due, &mut batch);
            }
        }
        self.next_seq += batch.entries.len() as u64;
        batch
    }

    fn apply_event(
        &mut self,
        event: ExecutionEvent,
        now_ms: i64,
        due: &mut VecDeque<PendingEvent>,
        batch: &mut EventBatch,
    ) {
        let (event, text) = encode_event(event);
        let at = TimedEvent::new(event, now_ms);
        let outcome = apply(&self.definition, &mut self.execution, at);
        if !outcome.accepted {
            return;
        }
        self.is_out_of_time |= outcome.is_out_of_time;
        let history: Vec<String> = outcome.history.iter().map(to_json_text).collect();
        self.next_history_id += history.len() as u64;
        self.entry_bytes += text.len();
        batch.bytes += text.len() + history.iter().map(String::len).sum::<usize>();
        batch.entries.push(JournalEntry {
            at_ms: now_ms,
            event: text,
            history,
        });
        for effect in outcome.effects {
            match effect {
                // Applied next: in this step if there is room, otherwise first in
                // the next.
                Effect::Continue { turn } => {
                    due.push_front(PendingEvent::from_event(ExecutionEvent::Continued { turn }));
                }
                effect => batch.effects.push(effect),
            }
        }
    }

    /// The store's step for a batch.
    pub(super) fn build_step(
        &mut self,
        entries: EventBatch,
        lease: Lease,
        lease_action: LeaseAction,
    ) -> ExecutionStep {
        let snapshot = self.snapshot();
        ExecutionStep {
            lease,
            seq: entries.first_seq,
            first_history_id: entries.first_history_id,
            entries: entries.entries,
            state: self.execution_state(),
            messages_read: self.last_message_read,
            snapshot,
            lease_action,
        }
    }

    /// The snapshot of a new execution: only if a replay might diverge.
    pub(super) fn first_snapshot(&mut self) -> Option<String> {
        self.is_out_of_time.then(|| self.snapshot()).flatten()
    }

    /// The whole execution as a snapshot, if the entries since the last one are
    /// longer than it: then snapshots cost no more than the entries, and loading
    /// reads at most twice the minimum. Also if a replay might diverge.
    fn snapshot(&mut self) -> Option<String> {
        let is_worth_it = self.entry_bytes > self.snapshot_bytes.max(SNAPSHOT_AFTER_BYTES);
        let is_needed = std::mem::take(&mut self.is_out_of_time);
        if self.execution.status().is_ended() || !(is_worth_it || is_needed) {
            return None;
        }
        let text = to_json_text(&self.execution);
        self.entry_bytes = 0;
        self.snapshot_bytes = text.len();
        (text.len() <= SNAPSHOT_BYTES_MAX).then_some(text)
    }

    /// The execution's state as the store keeps it.
    pub(super) fn execution_state(&self) -> ExecutionState {
        let execution = &self.execution;
        let position = self.position();
        let status = match execution.status() {
            ExecutionStatus::Pending | ExecutionStatus::Running => {
                return ExecutionState {
                    paused: execution.is_paused(),
                    ..ExecutionState::running(position)
                };
            }
            ExecutionStatus::Succeeded => store::StoredStatus::Succeeded,
            ExecutionStatus::Failed => store::StoredStatus::Failed,
            ExecutionStatus::TimedOut => store::StoredStatus::TimedOut,
            ExecutionStatus::Aborted => store::StoredStatus::Aborted,
        };
        let outcome = match execution.output() {
            Some(output) => json!({"output": output}),
            None => json!({"error": execution.error(), "cause": execution.cause()}),
        };
        let at_ms = execution.changed_at_ms();
        ExecutionState::ended(status, position, outcome.to_string(), at_ms)
    }

    /// The positions as JSON, truncated to what the store accepts.
    fn position(&self) -> String {
        let mut text = "[".to_owned();
        for position in self.execution.position() {
            let mut one = to_json_text(&position);
            let is_cut = text.len() + one.len() + TRUNCATED.len() + 3 > POSITION_BYTES_MAX;
            if is_cut {
                TRUNCATED.clone_into(&mut one);
            }
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&one);
            if is_cut {
                break;
            }
        }
        text.push(']');
        text
    }
}

/// Encodes an event as JSON. A result that exceeds the limit becomes a failure.
fn encode_event(event: ExecutionEvent) -> (ExecutionEvent, String) {
    let text = to_json_text(&event);
    let (ExecutionEvent::TaskSucceeded { task, .. } | ExecutionEvent::TaskSubmitted { task, .. }) =
        &event
    else {
        return (event, text);
    };
    if text.len() <= ANSWER_BYTES_MAX {
        return (event, text);
    }
    let event = ExecutionEvent::TaskFailed {
        task: *task,
        error: DATA_LIMIT_EXCEEDED.to_owned(),
        cause: format!(
            "the result has {} bytes; at most {ANSWER_BYTES_MAX} are allowed",
            text.len()
        ),
    };
    let text = to_json_text(&event);
    (event, text)
}

/// Encodes a value as JSON. Our types have string keys and only JSON numbers, so
/// this cannot fail.
pub(super) fn to_json_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
