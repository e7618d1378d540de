//! Size limits of every store. Larger input is refused before it is queued, with an
//! error that names the limit.

use super::model::{
    Claimant, ExecutionCreation, ExecutionState, ExecutionStep, InitialLease, JournalEntry,
    NewMessage, StoredDefinition,
};
use super::{InvalidRecord, Lease};

/// Ids, names, hashes, keys.
pub const NAME_BYTES_MAX: usize = 256;
/// The text of a definition: the limit of Step Functions.
pub const DEFINITION_BYTES_MAX: usize = 1 << 20;
/// An input, an outcome or a message. Payloads of states are smaller.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// An execution's position.
pub const POSITION_BYTES_MAX: usize = 16 << 10;
/// All entries of one step, with their history events.
pub const STEP_BYTES_MAX: usize = 16 << 20;
/// The entries of one step.
pub const STEP_ENTRIES_MAX: usize = 1_000;
/// A snapshot.
pub const SNAPSHOT_BYTES_MAX: usize = 32 << 20;
/// The entries of one execution.
pub const ENTRIES_MAX: u64 = (1 << 24) - 1;
/// Unread messages of one execution.
pub const MESSAGES_WAITING_MAX: u64 = 1_000;
/// Executions in one list or claim. Larger than any page, so that callers can ask
/// for one more to see whether there is a next page.
pub const LIST_MAX: usize = 2_000;
/// History events in one page.
pub const HISTORY_MAX: usize = 1_000;
/// Roughly the bytes of history in one page. One event always fits.
pub const HISTORY_PAGE_BYTES: usize = 4 << 20;

/// Separates texts stored in one field. JSON has this character only escaped.
pub(super) const SEPARATOR: char = '\u{1e}';

type LimitCheck = Result<(), InvalidRecord>;

pub(super) fn check_definition(definition: &StoredDefinition) -> LimitCheck {
    check_name("a workflow's name", &definition.name)?;
    check_name("a definition's hash", &definition.hash)?;
    check_text("a definition", &definition.text, DEFINITION_BYTES_MAX)
}

pub(super) fn check_creation(new: &ExecutionCreation) -> LimitCheck {
    check_name("an execution's id", &new.id)?;
    check_name("a workflow's name", &new.workflow)?;
    check_name("a definition's hash", &new.definition)?;
    check_text("an input", &new.input, PAYLOAD_BYTES_MAX)?;
    check_entries(&new.entries)?;
    check_state(&new.state)?;
    check_snapshot(new.snapshot.as_deref())?;
    match &new.start {
        InitialLease::Held { worker, .. } => check_name("a worker's name", worker),
        InitialLease::Parked { .. } => Ok(()),
    }
}

pub(super) fn check_step(step: &ExecutionStep) -> LimitCheck {
    check_lease(&step.lease)?;
    check_entries(&step.entries)?;
    check_state(&step.state)?;
    check_snapshot(step.snapshot.as_deref())
}

pub(super) fn check_message(post: &NewMessage) -> LimitCheck {
    check_name("a message's key", &post.key)?;
    check_text("a message", &post.body, PAYLOAD_BYTES_MAX)
}

pub(super) fn check_claimant(by: &Claimant) -> LimitCheck {
    check_name("a worker's name", &by.worker)
}

fn check_lease(lease: &Lease) -> LimitCheck {
    check_name("an execution's id", &lease.id)
}

fn check_entries(entries: &[JournalEntry]) -> LimitCheck {
    if entries.len() > STEP_ENTRIES_MAX {
        return Err(InvalidRecord(format!(
            "a step has {} entries; at most {STEP_ENTRIES_MAX} are allowed",
            entries.len()
        )));
    }
    let mut left = STEP_BYTES_MAX;
    for entry in entries {
        for part in entry.history.iter().chain([&entry.event]) {
            check_text("the entries of a step", part, left)?;
            left -= part.len();
        }
        if entry.history.iter().any(String::is_empty) {
            return Err(InvalidRecord("a history event is empty".to_owned()));
        }
    }
    Ok(())
}

fn check_state(state: &ExecutionState) -> LimitCheck {
    check_text("a position", &state.position, POSITION_BYTES_MAX)?;
    if let Some(outcome) = &state.outcome {
        check_text("an outcome", outcome, PAYLOAD_BYTES_MAX)?;
    }
    if state.status.is_open() != state.ended_at_ms.is_none() {
        return Err(InvalidRecord(
            "an end time is required for an ended execution, and not allowed for an open one"
                .to_owned(),
        ));
    }
    Ok(())
}

fn check_snapshot(snapshot: Option<&str>) -> LimitCheck {
    snapshot.map_or(Ok(()), |snapshot| {
        check_text("a snapshot", snapshot, SNAPSHOT_BYTES_MAX)
    })
}

fn check_name(what: &str, name: &str) -> LimitCheck {
    if name.is_empty() {
        return Err(InvalidRecord(format!("{what} is empty")));
    }
    check_text(what, name, NAME_BYTES_MAX)
}

fn check_text(what: &str, text: &str, bytes_max: usize) -> LimitCheck {
    if text.len() > bytes_max {
        return Err(InvalidRecord(format!(
            "{what}: {} bytes exceed the limit of {bytes_max}",
            text.len()
        )));
    }
    // Databases cannot store NUL in text.
    if text.contains(['\0', SEPARATOR]) {
        return Err(InvalidRecord(format!(
            "{what}: the characters U+0000 and U+001E are not allowed; escape them as JSON does"
        )));
    }
    Ok(())
}
