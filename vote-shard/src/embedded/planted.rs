//! Bugs that the ledger must find. A test plants one on its own thread, where
//! it also opens the shard; nobody else sees it.

use std::cell::Cell;

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// Who has voted is forgotten when the log is read back.
    DedupLostOnReplay,
    /// A group is taken for whole though its checksum is wrong.
    TornTailAccepted,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug on this thread.
pub(super) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether it is planted.
pub(super) fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
