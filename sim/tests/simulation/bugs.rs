//! Bugs that are planted to be found: each breaks one rule of a move, and the
//! simulation must notice.
//!
//! One is not here: shards that take orders of late workers (the fault
//! `tokens-ignored` of the engine). Epochs and names of moves catch nearly all
//! of that, and 400 worlds did not show the rest; the model checker does.

use std::cell::Cell;

use ballast_vote_shard::embedded::plant;

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A shard takes a write at any epoch, whatever the slice is to it.
    FenceIgnored,
    /// A shard removes a slice whatever it is to it.
    PurgeUnchecked,
    /// A shard acknowledges before its disk has synced.
    SyncsSkipped,
    /// A shard that starts no longer knows which requests made its rows.
    RequestsForgotten,
    /// A copy comes without the requests that made its rows.
    RequestsLeftBehind,
    /// It is cut over without comparing both sides once the source is sealed.
    PositionBeforeSeal,
    /// The target is told before the record is changed.
    PublishBeforeCommit,
    /// A move that is called off gives the owner its old epoch back.
    EpochReused,
    /// The record is changed although it is no longer what was seen.
    RecordOverwritten,
    /// A router has both sides acknowledge, and does not carry anything over.
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
    // Those that are in the engine.
    plant(match bug {
        Some(Bug::FenceIgnored) => Some("fence-ignored"),
        Some(Bug::PurgeUnchecked) => Some("purge-unchecked"),
        Some(Bug::RequestsForgotten) => Some("requests-forgotten"),
        _ => None,
    });
}

/// Whether a bug is planted.
pub(crate) fn has(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether any is.
pub(crate) fn any() -> bool {
    PLANTED.get().is_some()
}
