//! Faults on purpose: what a test plants to see that it would be found.
//!
//! Without the feature `faults` nothing of it is built: every question here is
//! answered with a constant "no". With it, the environment variable
//! `BALLAST_FAULT` of a process names the one fault it has, and without that
//! variable it has none.

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Groups are acknowledged, and written a moment later.
    AcknowledgedFirst,
    /// What is read back after a restart no longer says which requests made it.
    RequestsForgotten,
    /// What is read back after a restart no longer says who voted.
    VotersForgotten,
    /// A group counts as far as it can be read, although its checksum does not
    /// fit.
    TornAccepted,
    /// Syncs fail in a directory while it holds a file of this name.
    SyncFails,
    /// Counting a vote panics, when it is in the open group and not in memory.
    CountingPanics,
    /// A write is taken at any epoch, whatever the slice is to the shard.
    FenceIgnored,
    /// Orders of workers that were taken for dead are taken.
    TokensIgnored,
    /// A slice is removed whatever it is to the shard.
    PurgeUnchecked,
}

#[cfg(not(any(test, feature = "faults")))]
mod planted {
    use super::Fault;

    /// No.
    pub(in crate::embedded) const fn has(_: Fault) -> bool {
        false
    }

    pub(in crate::embedded) fn linger() {}

    pub(in crate::embedded) fn panic_if(_: Fault) {}
}

#[cfg(any(test, feature = "faults"))]
mod planted {
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::time::Duration;

    use super::Fault;

    /// How long a group that was acknowledged too early is not written.
    const LINGER: Duration = Duration::from_millis(30);

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
    pub(in crate::embedded) fn has(fault: Fault) -> bool {
        static PLANTED: OnceLock<Option<Fault>> = OnceLock::new();
        let planted = PLANTED.get_or_init(|| {
            let name = std::env::var("BALLAST_FAULT").ok()?;
            let found = NAMES.iter().find(|(known, _)| *known == name);
            if found.is_none() {
                tracing::error!(name, "there is no such fault");
            }
            found.map(|(_, fault)| *fault)
        });
        *planted == Some(fault) || HERE.get() == Some(fault)
    }

    thread_local! {
        static HERE: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Plants a fault on this thread alone: for tests that open a shard on it.
    #[cfg(test)]
    pub(in crate::embedded) fn plant(fault: Option<Fault>) {
        HERE.set(fault);
    }

    /// The same by its name, for simulations: a shard that is written step by
    /// step does everything on the thread of whoever steps it.
    #[cfg(feature = "faults")]
    pub fn plant_named(name: Option<&str>) {
        let named = |name| NAMES.iter().find(|(known, _)| *known == name);
        HERE.set(name.and_then(named).map(|(_, fault)| *fault));
    }

    /// The moment in which what was acknowledged is nowhere.
    #[allow(
        clippy::disallowed_methods,
        reason = "the fault itself: the log's own thread waits"
    )]
    pub(in crate::embedded) fn linger() {
        std::thread::sleep(LINGER);
    }

    /// The panic.
    #[allow(clippy::panic, reason = "the fault itself")]
    pub(in crate::embedded) fn panic_if(fault: Fault) {
        if has(fault) {
            panic!("a fault: {fault:?}");
        }
    }
}

#[cfg(test)]
pub(super) use planted::plant;
#[cfg(feature = "faults")]
pub use planted::plant_named;
pub(super) use planted::{has, linger, panic_if};
