//! Planted faults: tests enable one to check that it would be detected.
//!
//! Without the feature `faults` none is compiled in: every query is a constant
//! "false". With it, the environment variable `BALLAST_FAULT` selects the one
//! fault of a process; unset means none.

/// The faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Groups are acknowledged, and written a moment later.
    AcknowledgedFirst,
    /// Replay drops the requests that made each row.
    RequestsForgotten,
    /// Replay drops the voters.
    VotersForgotten,
    /// A group is accepted as far as it can be read, despite a wrong checksum.
    TornAccepted,
    /// Syncs fail in a directory that contains a file of this name.
    SyncFails,
    /// Counting a vote panics after it is in the open group and before it is in
    /// memory.
    CountingPanics,
    /// A write is accepted at any epoch, whatever the slice's holding.
    FenceIgnored,
    /// Stale fencing tokens are accepted.
    TokensIgnored,
    /// A slice is purged whatever its holding.
    PurgeUnchecked,
}

#[cfg(not(any(test, feature = "faults")))]
mod planted {
    use super::Fault;

    /// Always false.
    pub(in crate::embedded) const fn is_planted(_: Fault) -> bool {
        false
    }

    pub(in crate::embedded) fn delay_write() {}

    pub(in crate::embedded) fn panic_if(_: Fault) {}
}

#[cfg(any(test, feature = "faults"))]
mod planted {
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::time::Duration;

    use super::Fault;

    /// How long an early acknowledged group stays unwritten.
    const WRITE_DELAY: Duration = Duration::from_millis(30);

    const NAMES: [(&str, Fault); 9] = [
        ("acknowledged-first", Fault::AcknowledgedFirst),
        ("requests-forgotten", Fault::RequestsForgotten),
        ("voters-forgotten", Fault::VotersForgotten),
        ("torn-accepted", Fault::TornAccepted),
        ("sync-fails", Fault::SyncFails),
        ("counting-panics", Fault::CountingPanics),
        ("fence-ignored", Fault::FenceIgnored),
        ("tokens-ignored", Fault::TokensIgnored),
        ("purge-unchecked", Fault::PurgeUnchecked),
    ];

    /// Whether this process has the fault.
    pub(in crate::embedded) fn is_planted(fault: Fault) -> bool {
        static PLANTED: OnceLock<Option<Fault>> = OnceLock::new();
        let planted = PLANTED.get_or_init(|| {
            let name = std::env::var("BALLAST_FAULT").ok()?;
            let found = NAMES.iter().find(|(known, _)| *known == name);
            if found.is_none() {
                tracing::error!(name, "unknown fault");
            }
            found.map(|(_, fault)| *fault)
        });
        *planted == Some(fault) || ON_THIS_THREAD.get() == Some(fault)
    }

    thread_local! {
        static ON_THIS_THREAD: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Plants a fault on this thread only, for tests that open a shard on it.
    #[cfg(test)]
    pub(in crate::embedded) fn plant(fault: Option<Fault>) {
        ON_THIS_THREAD.set(fault);
    }

    /// Plants a fault on this thread by name, for simulations: a stepped shard
    /// runs on the thread of its caller.
    #[cfg(feature = "faults")]
    pub fn plant_named(name: Option<&str>) {
        let named = |name| NAMES.iter().find(|(known, _)| *known == name);
        ON_THIS_THREAD.set(name.and_then(named).map(|(_, fault)| *fault));
    }

    /// The time in which an acknowledged group is not stored anywhere.
    #[allow(
        clippy::disallowed_methods,
        reason = "the fault itself; blocks only the committer's thread"
    )]
    pub(in crate::embedded) fn delay_write() {
        std::thread::sleep(WRITE_DELAY);
    }

    /// Panics if the fault is planted.
    #[allow(clippy::panic, reason = "the fault itself")]
    pub(in crate::embedded) fn panic_if(fault: Fault) {
        if is_planted(fault) {
            panic!("a fault: {fault:?}");
        }
    }
}

#[cfg(test)]
pub(super) use planted::plant;
#[cfg(feature = "faults")]
pub use planted::plant_named;
pub(super) use planted::{delay_write, is_planted, panic_if};
