//! Planted bugs: each breaks one rule of a migration, and the simulation must notice.
//!
//! One is missing: shards that accept commands of late workers (the engine's fault
//! `tokens-ignored`). Epochs and migration ids catch nearly all of these commands, and
//! 400 worlds did not show the rest; the model checker does.

use std::cell::Cell;

use ballast_vote_shard::embedded::plant;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A shard accepts a write at any epoch, whatever its fence says.
    FenceIgnored,
    /// A shard removes a slice whatever its fence says.
    PurgeUnchecked,
    /// A shard acknowledges before its disk has synced.
    SyncsSkipped,
    /// A restarted shard has forgotten the request ids of its rows.
    RequestsForgotten,
    /// Rows are copied without their request ids.
    RequestsLeftBehind,
    /// The cutover does not compare both sides after the seal.
    PositionBeforeSeal,
    /// The target is activated before the record is updated.
    PublishBeforeCommit,
    /// An aborted migration gives the owner its old epoch back.
    EpochReused,
    /// The record is overwritten without comparing it with the one that was read.
    RecordOverwritten,
    /// A router acknowledges for both sides without copying anything.
    MirrorSkipped,
}

pub(crate) const ALL: [Bug; 10] = [
    Bug::FenceIgnored,
    Bug::PurgeUnchecked,
    Bug::SyncsSkipped,
    Bug::RequestsForgotten,
    Bug::RequestsLeftBehind,
    Bug::PositionBeforeSeal,
    Bug::PublishBeforeCommit,
    Bug::EpochReused,
    Bug::RecordOverwritten,
    Bug::MirrorSkipped,
];

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug in this thread's worlds, or none.
pub(crate) fn set(bug: Option<Bug>) {
    PLANTED.set(bug);
    // Bugs in the engine.
    plant(match bug {
        Some(Bug::FenceIgnored) => Some("fence-ignored"),
        Some(Bug::PurgeUnchecked) => Some("purge-unchecked"),
        Some(Bug::RequestsForgotten) => Some("requests-forgotten"),
        _ => None,
    });
}

/// Whether a bug is planted.
pub(crate) fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether any bug is planted.
pub(crate) fn is_any_planted() -> bool {
    PLANTED.get().is_some()
}
