//! Writes groups to the log, one after the other, on a thread of its own.
//!
//! ```text
//!   wait for a group ──► take it ──► append, sync ──► tell those who wait
//!         ▲                              │ failed
//!         └── memory rebuilt ◄── open the log anew, again and again
//! ```
//! While one group is synced the next is gathered: the slower the disk, the
//! larger the groups.

use std::time::Duration;

use super::core::Group;
use super::faults::{self, Fault};
use super::log::{Log, LogError};
use super::open::{Opened, Opener};
use super::shared::Shared;

/// How long to wait before a failed disk is tried again.
const RETRY_FIRST: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 50 });
const RETRY_LAST: Duration = Duration::from_secs(5);

/// The thread.
pub(super) fn run(shared: &Shared, mut log: Log, opener: &Opener) {
    let mut ticked = None;
    while let Some((group, tallies)) = shared.next(&mut ticked) {
        if faults::has(Fault::AcknowledgedFirst) {
            shared.committed(&group, tallies);
            faults::linger();
            let _ = log.append(&group.payload);
            continue;
        }
        match log.append(&group.payload) {
            Ok(_) => {
                shared.committed(&group, tallies);
                forget(shared, &mut log, opener);
            }
            Err(error) => match recover(shared, &group, &error, opener, log) {
                Some(reopened) => log = reopened,
                None => return,
            },
        }
    }
}

/// Gives up what the keeper no longer needs of the log. A failure costs only
/// room: the next time it is tried again.
fn forget(shared: &Shared, log: &mut Log, opener: &Opener) {
    let up_to = shared.take_forgettable();
    if up_to > 0
        && let Err(error) = log.forget_up_to(up_to)
    {
        tracing::warn!(shard = opener.name(), %error, "old segments could not be removed");
    }
}

/// Opens the log anew until that works or the shard is stopped.
fn recover(
    shared: &Shared,
    group: &Group,
    error: &LogError,
    opener: &Opener,
    log: Log,
) -> Option<Log> {
    let mut why = format!("the shard's log failed: {}", causes(error));
    tracing::error!(
        shard = opener.name(),
        cause = why,
        "a group could not be written"
    );
    shared.failed(group, &why);
    drop(log);
    let mut patience = RETRY_FIRST;
    loop {
        if shared.pause(patience) {
            return None;
        }
        patience = (patience * 2).min(RETRY_LAST);
        let files = shared.hold_files();
        let opened = opener.open();
        drop(files);
        match opened {
            Ok(Opened {
                log, core, store, ..
            }) => {
                tracing::info!(shard = opener.name(), "the shard works again");
                shared.restart(core, store);
                return Some(log);
            }
            Err(error) => {
                why = format!("the shard's log cannot be opened: {}", causes(&error));
                shared.lock().trouble = Some(why);
            }
        }
    }
}

/// An error and what it comes from: that is what an operator can mend.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}
