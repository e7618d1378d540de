//! The counts that are durable, for live views.
//!
//! Memory runs ahead of the disk; what is here does not. A group's counts are
//! copied when it is taken to be synced, and put here when it is durable.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::record::PollNo;
use crate::shard::Tally;

/// The tallies of all polls as of the last durable group.
pub(super) struct Published {
    tallies: Mutex<Tallies>,
    mark: watch::Sender<u64>,
}

#[derive(Default)]
struct Tallies {
    by_poll: HashMap<PollNo, Tally>,
    by_mark: BTreeSet<(u64, PollNo)>,
}

impl Published {
    pub(super) fn new() -> Self {
        Self {
            tallies: Mutex::default(),
            mark: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything and begins anew: after memory was rebuilt.
    pub(super) fn restart(&self, mark: u64, tallies: impl IntoIterator<Item = (PollNo, Tally)>) {
        *self.lock() = Tallies::default();
        self.put(mark, tallies);
    }

    /// A group is durable, and these are the counts it left.
    pub(super) fn put(&self, mark: u64, tallies: impl IntoIterator<Item = (PollNo, Tally)>) {
        {
            let mut all = self.lock();
            for (number, mut tally) in tallies {
                tally.mark = mark;
                if let Some(old) = all.by_poll.insert(number, tally) {
                    all.by_mark.remove(&(old.mark, number));
                }
                all.by_mark.insert((mark, number));
            }
        }
        self.mark.send_replace(mark);
    }

    /// A poll's counts as of the last durable group.
    pub(super) fn get(&self, number: PollNo) -> Option<Tally> {
        self.lock().by_poll.get(&number).cloned()
    }

    /// A poll is gone.
    pub(super) fn remove(&self, number: PollNo) {
        let mut all = self.lock();
        if let Some(old) = all.by_poll.remove(&number) {
            all.by_mark.remove(&(old.mark, number));
        }
    }

    /// What changed after `seen`, waiting until something did.
    pub(super) async fn since(&self, seen: u64) -> (u64, Vec<Tally>) {
        let mut marks = self.mark.subscribe();
        loop {
            let mark = *marks.borrow_and_update();
            if mark > seen {
                let changed = self.changed(seen);
                if !changed.is_empty() {
                    return (mark, changed);
                }
            }
            if marks.changed().await.is_err() {
                // The shard is closing; the caller will be told so.
                return (seen, Vec::new());
            }
        }
    }

    fn changed(&self, seen: u64) -> Vec<Tally> {
        let all = self.lock();
        let after = all.by_mark.range((seen + 1, 0)..);
        let tallies = after.filter_map(|(_, number)| all.by_poll.get(number));
        tallies.cloned().collect()
    }
}
