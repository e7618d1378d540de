//! How large things may be, for every store. What is larger is refused before
//! it is queued, and the refusal says what and how much.

use super::model::{Claimant, Definition, Entry, New, Post, Standing, Start, Step};
use super::{Lease, Unfit};

/// An id, a name, a hash, a key.
pub const NAME_BYTES_MAX: usize = 256;
/// The text of a definition: as much as Step Functions takes.
pub const DEFINITION_BYTES_MAX: usize = 1 << 20;
/// An input, an outcome, a message. Payloads of states are smaller.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Where an execution is, for lists.
pub const POSITION_BYTES_MAX: usize = 16 << 10;
/// All entries of one step together, with their histories.
pub const STEP_BYTES_MAX: usize = 16 << 20;
/// The entries of one step.
pub const STEP_ENTRIES_MAX: usize = 1_000;
/// The state of an execution.
pub const SNAPSHOT_BYTES_MAX: usize = 32 << 20;
/// The entries of one execution.
pub const ENTRIES_MAX: u64 = (1 << 24) - 1;
/// Messages that may wait for one execution.
pub const MESSAGES_WAITING_MAX: u64 = 1_000;
/// Executions in one list, and in one claim: more than a page that is shown,
/// so that one can be asked for too many.
pub const LIST_MAX: usize = 2_000;
/// History events in one page.
pub const HISTORY_MAX: usize = 1_000;
/// About how many bytes of history one page has. One event always fits.
pub const HISTORY_PAGE_BYTES: usize = 4 << 20;

/// Stands between texts that are kept in one field. JSON does not have it
/// outside of strings, and has it escaped within.
pub(super) const SEPARATOR: char = '\u{1e}';

type Fit = Result<(), Unfit>;

pub(super) fn definition(definition: &Definition) -> Fit {
    name("a workflow's name", &definition.name)?;
    name("a definition's hash", &definition.hash)?;
    text("a definition", &definition.text, DEFINITION_BYTES_MAX)
}

pub(super) fn new(new: &New) -> Fit {
    name("an execution's id", &new.id)?;
    name("a workflow's name", &new.workflow)?;
    name("a definition's hash", &new.definition)?;
    text("an input", &new.input, PAYLOAD_BYTES_MAX)?;
    entries(&new.entries)?;
    standing(&new.standing)?;
    snapshot(new.snapshot.as_deref())?;
    match &new.start {
        Start::Held { worker, .. } => name("a worker's name", worker),
        Start::Parked { .. } => Ok(()),
    }
}

pub(super) fn step(step: &Step) -> Fit {
    lease(&step.lease)?;
    entries(&step.entries)?;
    standing(&step.standing)?;
    snapshot(step.snapshot.as_deref())
}

pub(super) fn post(post: &Post) -> Fit {
    name("a message's key", &post.key)?;
    text("a message", &post.body, PAYLOAD_BYTES_MAX)
}

pub(super) fn claimant(by: &Claimant) -> Fit {
    name("a worker's name", &by.worker)
}

fn lease(lease: &Lease) -> Fit {
    name("an execution's id", &lease.id)
}

fn entries(entries: &[Entry]) -> Fit {
    if entries.len() > STEP_ENTRIES_MAX {
        return Err(Unfit(format!(
            "a step has {} entries; at most {STEP_ENTRIES_MAX} are kept at once",
            entries.len()
        )));
    }
    let mut left = STEP_BYTES_MAX;
    for entry in entries {
        for part in entry.history.iter().chain([&entry.event]) {
            text("the entries of a step", part, left)?;
            left -= part.len();
        }
        if entry.history.iter().any(String::is_empty) {
            return Err(Unfit("a history event is empty".to_owned()));
        }
    }
    Ok(())
}

fn standing(standing: &Standing) -> Fit {
    text("a position", &standing.position, POSITION_BYTES_MAX)?;
    if let Some(outcome) = &standing.outcome {
        text("an outcome", outcome, PAYLOAD_BYTES_MAX)?;
    }
    if standing.status.is_open() != standing.ended_at_ms.is_none() {
        return Err(Unfit(
            "an execution has a time at which it ended if and only if it has ended".to_owned(),
        ));
    }
    Ok(())
}

fn snapshot(snapshot: Option<&str>) -> Fit {
    snapshot.map_or(Ok(()), |snapshot| {
        text("a snapshot", snapshot, SNAPSHOT_BYTES_MAX)
    })
}

fn name(what: &str, name: &str) -> Fit {
    if name.is_empty() {
        return Err(Unfit(format!("{what} is empty")));
    }
    text(what, name, NAME_BYTES_MAX)
}

fn text(what: &str, text: &str, bytes_max: usize) -> Fit {
    if text.len() > bytes_max {
        return Err(Unfit(format!(
            "{what}: {} bytes are more than the {bytes_max} that are kept",
            text.len()
        )));
    }
    // NUL is what databases cannot keep in a text.
    if text.contains(['\0', SEPARATOR]) {
        return Err(Unfit(format!(
            "{what}: the characters U+0000 and U+001E are not kept; JSON writes them escaped"
        )));
    }
    Ok(())
}
