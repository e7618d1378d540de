//! Notifies watchers when an execution changes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Change counters by execution id, for executions that are being watched.
#[derive(Default)]
pub(super) struct ChangeNotifier {
    by_id: Mutex<HashMap<String, watch::Sender<u64>>>,
}

impl ChangeNotifier {
    /// Notifies the watchers of an execution.
    pub(super) fn notify(&self, id: &str) {
        let mut by_id = self.by_id();
        if let Some(count) = by_id.get(id) {
            if count.receiver_count() == 0 {
                by_id.remove(id);
            } else {
                count.send_modify(|count| *count += 1);
            }
        }
    }

    /// Subscribes to an execution: the value changes with each change in this
    /// process.
    pub(super) fn subscribe(&self, id: &str) -> watch::Receiver<u64> {
        let mut by_id = self.by_id();
        by_id.retain(|_, count| count.receiver_count() > 0);
        let count = by_id.entry(id.to_owned()).or_default();
        count.subscribe()
    }

    fn by_id(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<u64>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
