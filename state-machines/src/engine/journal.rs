//! An execution and its journal: events applied, and made one step. It writes
//! nothing itself.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::json;

use super::waiting::CUT;
use crate::core::{Begin, Effect, Event, Execution, Status, TimedEvent, apply, replay};
use crate::data::errors::DATA_LIMIT_EXCEEDED;
use crate::language::Definition;
use crate::store::limits::{POSITION_BYTES_MAX, SNAPSHOT_BYTES_MAX};
use crate::store::{self, Claim, Entry, Lease, Standing, Step, Then};

/// Entries that are shorter than this are not worth a snapshot.
const SNAPSHOT_AFTER_BYTES: usize = 16 << 10;
/// What one step may have before another is made. A last event may go beyond;
/// what it can add fits.
const BATCH_ENTRIES_MAX: usize = 100;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// The largest answer of a task: what a reader brings to a Map may be this
/// large, what others answer is bounded by the language.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Something that is to be applied.
#[derive(Debug)]
pub(super) struct Due {
    /// Nothing, for a message that says nothing.
    pub(super) event: Option<Event>,
    /// The message that it came with; 0 for none.
    pub(super) message: u64,
}

impl Due {
    pub(super) fn event(event: Event) -> Self {
        Self {
            event: Some(event),
            message: 0,
        }
    }
}

/// An execution, and where its journal is.
pub(super) struct Journal {
    pub(super) definition: Arc<Definition>,
    pub(super) execution: Execution,
    next_seq: u64,
    next_history_id: u64,
    /// Entries since the last snapshot, and that snapshot, in bytes.
    entry_bytes: usize,
    snapshot_bytes: usize,
    /// Whether an expression took too long since the last snapshot. It might
    /// not the next time, so it is not evaluated again: the next step has one.
    is_out_of_time: bool,
    /// The last message that was read.
    pub(super) taken: u64,
}

/// What came of events that were applied together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) entries: Vec<Entry>,
    pub(super) effects: Vec<Effect>,
    bytes: usize,
    first_seq: u64,
    first_history_id: u64,
}

impl Journal {
    /// A new execution.
    pub(super) fn begin(definition: Arc<Definition>, begin: Begin) -> (Self, Batch) {
        let mut journal = Self::empty(definition);
        let at_ms = begin.at_ms;
        let begun = Due::event(Event::Begun(Box::new(begin)));
        let batch = journal.apply(&mut VecDeque::from([begun]), at_ms);
        (journal, batch)
    }

    /// One without an execution.
    fn empty(definition: Arc<Definition>) -> Self {
        Self {
            definition,
            execution: Execution::default(),
            next_seq: 1,
            next_history_id: 1,
            entry_bytes: 0,
            snapshot_bytes: 0,
            is_out_of_time: false,
            taken: 0,
        }
    }

    /// Takes it away for a while.
    pub(super) fn take_out(&mut self) -> Self {
        let empty = Self::empty(Arc::clone(&self.definition));
        std::mem::replace(self, empty)
    }

    /// An execution as it was left.
    pub(super) fn load(claim: &Claim, definition: Arc<Definition>) -> Result<Self, String> {
        let (mut execution, snapshot_bytes) = match &claim.snapshot {
            None => (Execution::default(), 0),
            Some(snapshot) => {
                let read = serde_json::from_str(&snapshot.text)
                    .map_err(|error| format!("its snapshot cannot be read: {error}"))?;
                (read, snapshot.text.len())
            }
        };
        let mut entry_bytes = 0;
        for entry in &claim.entries {
            let event = serde_json::from_str(&entry.event)
                .map_err(|error| format!("its entry {} cannot be read: {error}", entry.seq))?;
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
                "its journal leads to history event {next}, and {} is next; \
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
            taken: 0,
        })
    }

    /// Applies what is due, as much as fits one step.
    pub(super) fn apply(&mut self, due: &mut VecDeque<Due>, now_ms: i64) -> Batch {
        let mut batch = Batch {
            first_seq: self.next_seq,
            first_history_id: self.next_history_id,
            ..Batch::default()
        };
        while batch.entries.len() < BATCH_ENTRIES_MAX
            && batch.bytes < BATCH_BYTES_MAX
            && !self.is_out_of_time
            && let Some(Due { event, message }) = due.pop_front()
        {
            self.taken = self.taken.max(message);
            if let Some(event) = event {
                self.take(event, now_ms, due, &mut batch);
            }
        }
        self.next_seq += batch.entries.len() as u64;
        batch
    }

    fn take(&mut self, event: Event, now_ms: i64, due: &mut VecDeque<Due>, batch: &mut Batch) {
        let (event, text) = kept(event);
        let at = TimedEvent::new(event, now_ms);
        let outcome = apply(&self.definition, &mut self.execution, at);
        if !outcome.accepted {
            return;
        }
        self.is_out_of_time |= outcome.is_out_of_time;
        let history: Vec<String> = outcome.history.iter().map(json_text).collect();
        self.next_history_id += history.len() as u64;
        self.entry_bytes += text.len();
        batch.bytes += text.len() + history.iter().map(String::len).sum::<usize>();
        batch.entries.push(Entry {
            at_ms: now_ms,
            event: text,
            history,
        });
        for effect in outcome.effects {
            match effect {
                // There is room in this step, or it begins the next one.
                Effect::Continue { turn } => {
                    due.push_front(Due::event(Event::Continued { turn }));
                }
                effect => batch.effects.push(effect),
            }
        }
    }

    /// The step that makes a batch durable.
    pub(super) fn step(&mut self, entries: Batch, lease: Lease, then: Then) -> Step {
        let snapshot = self.snapshot();
        Step {
            lease,
            seq: entries.first_seq,
            first_history_id: entries.first_history_id,
            entries: entries.entries,
            standing: self.standing(),
            taken: self.taken,
            snapshot,
            then,
        }
    }

    /// That of a new execution: only where a replay might lead elsewhere.
    pub(super) fn first_snapshot(&mut self) -> Option<String> {
        self.is_out_of_time.then(|| self.snapshot()).flatten()
    }

    /// The whole execution, when the entries since the last time are longer
    /// than it: so writing it costs no more than the entries did, and reading
    /// never costs more than twice what it must.
    /// And where a replay might lead elsewhere.
    fn snapshot(&mut self) -> Option<String> {
        let is_worth_it = self.entry_bytes > self.snapshot_bytes.max(SNAPSHOT_AFTER_BYTES);
        let is_needed = std::mem::take(&mut self.is_out_of_time);
        if self.execution.status().is_ended() || !(is_worth_it || is_needed) {
            return None;
        }
        let text = json_text(&self.execution);
        self.entry_bytes = 0;
        self.snapshot_bytes = text.len();
        (text.len() <= SNAPSHOT_BYTES_MAX).then_some(text)
    }

    /// How the execution stands, for the store.
    pub(super) fn standing(&self) -> Standing {
        let execution = &self.execution;
        let position = self.position();
        let status = match execution.status() {
            Status::Pending | Status::Running => {
                return Standing {
                    paused: execution.is_paused(),
                    ..Standing::running(position)
                };
            }
            Status::Succeeded => store::Status::Succeeded,
            Status::Failed => store::Status::Failed,
            Status::TimedOut => store::Status::TimedOut,
            Status::Aborted => store::Status::Aborted,
        };
        let outcome = match execution.output() {
            Some(output) => json!({"output": output}),
            None => json!({"error": execution.error(), "cause": execution.cause()}),
        };
        let at_ms = execution.changed_at_ms();
        Standing::ended(status, position, outcome.to_string(), at_ms)
    }

    /// Where it stands: of many runs, as many as fit.
    fn position(&self) -> String {
        let mut text = "[".to_owned();
        for position in self.execution.position() {
            let mut one = json_text(&position);
            let is_cut = text.len() + one.len() + CUT.len() + 3 > POSITION_BYTES_MAX;
            if is_cut {
                CUT.clone_into(&mut one);
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

/// An event with its text. An answer that no step could keep is a failure.
fn kept(event: Event) -> (Event, String) {
    let text = json_text(&event);
    let (Event::TaskSucceeded { task, .. } | Event::TaskSubmitted { task, .. }) = &event else {
        return (event, text);
    };
    if text.len() <= ANSWER_BYTES_MAX {
        return (event, text);
    }
    let event = Event::TaskFailed {
        task: *task,
        error: DATA_LIMIT_EXCEEDED.to_owned(),
        cause: format!(
            "the answer has {} bytes, and {ANSWER_BYTES_MAX} can be kept",
            text.len()
        ),
    };
    let text = json_text(&event);
    (event, text)
}

/// Our own words have string keys and no numbers that JSON lacks, so they can
/// always be written.
pub(super) fn json_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
