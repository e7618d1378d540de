//! Durable counts, for live views.
//!
//! Memory runs ahead of the disk; these counts do not. A group's counts are
//! copied when its sync starts, and published when it is durable.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::embedded::record::PollNo;
use crate::shard::Tally;

/// The tallies of all polls as of the last durable group.
pub(in crate::embedded) struct PublishedTallies {
    tallies: Mutex<Tallies>,
    mark: watch::Sender<u64>,
}

#[derive(Default)]
struct Tallies {
    by_poll: HashMap<PollNo, Tally>,
    by_mark: BTreeSet<(u64, PollNo)>,
}

impl PublishedTallies {
    pub(in crate::embedded) fn new() -> Self {
        Self {
            tallies: Mutex::default(),
            mark: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces everything, after memory has been rebuilt.
    pub(in crate::embedded) fn reset(
        &self,
        mark: u64,
        tallies: impl IntoIterator<Item = (PollNo, Tally)>,
    ) {
        *self.lock() = Tallies::default();
        self.publish(mark, tallies);
    }

    /// Publishes the counts of a durable group.
    pub(in crate::embedded) fn publish(
        &self,
        mark: u64,
        tallies: impl IntoIterator<Item = (PollNo, Tally)>,
    ) {
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
    pub(in crate::embedded) fn get(&self, number: PollNo) -> Option<Tally> {
        self.lock().by_poll.get(&number).cloned()
    }

    /// Removes a purged poll.
    pub(in crate::embedded) fn remove(&self, number: PollNo) {
        let mut all = self.lock();
        if let Some(old) = all.by_poll.remove(&number) {
            all.by_mark.remove(&(old.mark, number));
        }
    }

    /// Waits for tallies that changed after `seen`.
    pub(in crate::embedded) async fn since(&self, seen: u64) -> (u64, Vec<Tally>) {
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
                // The shard is closing; the caller gets an error on its next
                // call.
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
