//! Writes groups to the log, one after the other, on a thread of its own.
//!
//! ```text
//!   wait for a group ──► take it ──► append, sync ──► tell those who wait
//!         ▲                              │ no room, failed, or a panic
//!         └── memory rebuilt ◄── open the log anew, again and again
//! ```
//! While one group is synced the next is gathered: the slower the disk, the
//! larger the groups.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ballast_domain::Timestamp;

use super::core::Group;
use super::faults::{self, Fault};
use super::log::Log;
use super::open::{Opened, Opener};
use super::record::PollNo;
use super::shared::{Next, Shared};
use crate::shard::Tally;

/// How long to wait before a failed disk is tried again.
const RETRY_FIRST: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 50 });
const RETRY_LAST: Duration = Duration::from_secs(5);

/// Why no more groups are written.
enum Ended {
    Stopped,
    Failed(String),
}

/// The thread.
pub(super) fn run(shared: &Shared, mut log: Log, opener: &Opener) {
    let mut ticked = None;
    loop {
        let writing = || write_groups(shared, &mut log, opener, &mut ticked);
        // A panic here is like a failed write: nobody knows what is on disk
        // and what is in memory, and both are thrown away.
        let why = match catch_unwind(AssertUnwindSafe(writing)) {
            Ok(Ended::Stopped) => return,
            Ok(Ended::Failed(why)) => why,
            Err(_) => "a panic while the shard's log was written".to_owned(),
        };
        match recover(shared, &why, opener, log) {
            Some(reopened) => log = reopened,
            None => return,
        }
    }
}

/// Writes groups until that fails or the shard is stopped.
fn write_groups(
    shared: &Shared,
    log: &mut Log,
    opener: &Opener,
    ticked: &mut Option<Timestamp>,
) -> Ended {
    loop {
        let (group, tallies) = match shared.next(ticked) {
            Next::Write(group, tallies) => (group, tallies),
            Next::Rebuild(why) => return Ended::Failed(why),
            Next::Stop => return Ended::Stopped,
        };
        if let Err(why) = write(shared, log, opener, &group, tallies) {
            return Ended::Failed(why);
        }
    }
}

/// Writes a group, and tells those who wait for it.
pub(super) fn write(
    shared: &Shared,
    log: &mut Log,
    opener: &Opener,
    group: &Group,
    tallies: Vec<(PollNo, Tally)>,
) -> Result<(), String> {
    if faults::has(Fault::AcknowledgedFirst) {
        shared.committed(group, tallies);
        faults::linger();
        let _ = log.append(&group.payload);
        return Ok(());
    }
    let began = shared.clock.now().unix_ms();
    match log.append(&group.payload) {
        Ok(_) => {
            let waited = group.began.map_or(0, |first| began - first.unix_ms());
            shared.felt(waited, shared.clock.now().unix_ms() - began);
            shared.committed(group, tallies);
            forget(shared, log, opener);
            Ok(())
        }
        // Also when there was no room for it: whoever is told that a vote was
        // not taken may choose again, so it must not be written later.
        Err(error) => Err(format!("the shard's log failed: {}", causes(&error))),
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
fn recover(shared: &Shared, why: &str, opener: &Opener, log: Log) -> Option<Log> {
    give_up(shared, why, opener, log);
    let mut patience = RETRY_FIRST;
    loop {
        if shared.pause(patience) {
            return None;
        }
        patience = (patience * 2).min(RETRY_LAST);
        if let Some(log) = reopen(shared, opener) {
            return Some(log);
        }
    }
}

/// Throws away what is in memory, and whoever waits is told.
pub(super) fn give_up(shared: &Shared, why: &str, opener: &Opener, log: Log) {
    tracing::error!(
        shard = opener.name(),
        cause = why,
        "memory is rebuilt from disk"
    );
    shared.failed(why);
    drop(log);
}

/// Opens the log anew, if that works now.
pub(super) fn reopen(shared: &Shared, opener: &Opener) -> Option<Log> {
    match opened(shared, opener) {
        Ok(Opened {
            log, core, store, ..
        }) => {
            tracing::info!(shard = opener.name(), "the shard works again");
            shared.restart(core, store);
            Some(log)
        }
        Err(why) => {
            shared.lock().trouble = Some(why);
            None
        }
    }
}

fn opened(shared: &Shared, opener: &Opener) -> Result<Opened, String> {
    let files = shared.hold_files();
    let opened = catch_unwind(AssertUnwindSafe(|| opener.open_again()));
    drop(files);
    match opened {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(error)) => {
            let why = causes(&error);
            Err(format!("the shard's log cannot be opened: {why}"))
        }
        Err(_) => Err("a panic while the shard's log was opened".to_owned()),
    }
}

/// An error and what it comes from: that is what an operator can mend.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}
