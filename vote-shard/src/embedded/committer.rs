//! Writes groups to the log, one after the other, on a thread of its own.
//!
//! ```text
//!   wait for a group ──► take it ──► append, sync ──► tell those who wait
//!         ▲                              │ failed
//!         └── memory rebuilt ◄── open the log anew, again and again
//! ```
//! While one group is synced the next is gathered: the slower the disk, the
//! larger the groups.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ballast_domain::{Clock, Timestamp};

use super::core::{Core, Group};
use super::log::{Log, LogError};
use super::open::{Opened, Opener};
use super::published::Published;
use super::record::PollNo;
use crate::shard::Tally;

/// How often expired polls are looked for.
const TICK: Duration = Duration::from_millis(500);
/// Polls closed in one group.
const CLOSED_AT_ONCE: usize = 1_000;
/// How long to wait before a failed disk is tried again.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(5);

/// What the committer shares with those who ask.
pub(super) struct Shared {
    core: Mutex<Core>,
    /// Told when the open group is no longer empty, and when to stop.
    wake: Condvar,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) published: Published,
    stopping: std::sync::atomic::AtomicBool,
}

impl Shared {
    pub(super) fn new(core: Core, clock: Arc<dyn Clock>) -> Self {
        let shared = Self {
            core: Mutex::new(core),
            wake: Condvar::new(),
            clock,
            published: Published::new(),
            stopping: false.into(),
        };
        shared.publish_all(&shared.lock());
        shared
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic while deciding would leave memory half changed. None is
        // known; if one happens, the log is still the truth.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the open group may have something in it.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(super) fn stop(&self) {
        let _core = self.lock();
        self.stopping
            .store(true, std::sync::atomic::Ordering::Release);
        self.wake.notify_all();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Waits for a group; `None` when it is time to stop and none is left.
    fn next(&self, ticked: &mut Timestamp) -> Option<(Group, Vec<(PollNo, Tally)>)> {
        let mut core = self.lock();
        loop {
            let now = self.clock.now();
            if now.unix_ms() - ticked.unix_ms() >= TICK.as_millis() as i64 {
                *ticked = now;
                core.close_expired(now, CLOSED_AT_ONCE);
            }
            if !core.open.is_empty() {
                return Some(take(&mut core));
            }
            if self.is_stopping() {
                return None;
            }
            core = self
                .wake
                .wait_timeout(core, TICK)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn publish_all(&self, core: &Core) {
        let mark = core.open.sequence - 1;
        let polls = core.state.polls.values();
        let tallies = polls.map(|poll| (poll.number, poll.tally(mark)));
        self.published.restart(mark, tallies);
    }

    fn committed(&self, group: &Group, tallies: Vec<(PollNo, Tally)>) {
        {
            let mut core = self.lock();
            core.syncing = None;
            for number in &group.counted {
                if !core.state.polls.contains_key(number) {
                    self.published.remove(*number);
                }
            }
        }
        self.published.put(group.sequence, tallies);
        let _ = group.done.set(Ok(()));
    }

    /// Nothing that was gathered is known to be on disk: all of it fails, and
    /// so does everything that is asked, until memory was rebuilt.
    fn failed(&self, group: &Group, why: &str) {
        let open = {
            let mut core = self.lock();
            core.trouble = Some(why.to_owned());
            core.syncing = None;
            let sequence = core.open.sequence;
            std::mem::replace(&mut core.open, Group::new(sequence))
        };
        for group in [group, &open] {
            let _ = group.done.set(Err(why.to_owned()));
        }
    }

    /// Memory was rebuilt.
    fn restart(&self, core: Core) {
        let mut own = self.lock();
        *own = core;
        self.publish_all(&own);
    }
}

/// Takes the open group, with the counts it leaves.
fn take(core: &mut Core) -> (Group, Vec<(PollNo, Tally)>) {
    let group = core.take();
    let polls = group.counted.iter();
    let tallies = polls
        .filter_map(|number| core.state.polls.get(number))
        .map(|poll| (poll.number, poll.tally(group.sequence)))
        .collect();
    (group, tallies)
}

/// The thread.
pub(super) fn run(shared: &Shared, mut log: Log, opener: &Opener) {
    let mut ticked = shared.clock.now();
    while let Some((group, tallies)) = shared.next(&mut ticked) {
        match log.append(&group.payload) {
            Ok(_) => shared.committed(&group, tallies),
            Err(error) => match recover(shared, &group, &error, opener, log) {
                Some(reopened) => log = reopened,
                None => return,
            },
        }
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
        let core = shared.lock();
        if shared.is_stopping() {
            return None;
        }
        drop(
            shared
                .wake
                .wait_timeout(core, patience)
                .unwrap_or_else(PoisonError::into_inner),
        );
        patience = (patience * 2).min(RETRY_LAST);
        match opener.open() {
            Ok(Opened { log, core }) => {
                tracing::info!(shard = opener.name(), "the shard works again");
                shared.restart(core);
                return Some(log);
            }
            Err(error) => {
                why = format!("the shard's log cannot be opened: {error}");
                shared.lock().trouble = Some(why);
            }
        }
    }
}

fn causes(error: &LogError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}
