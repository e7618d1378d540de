//! Who wants to know when an execution changes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Counters by execution; only those that somebody looks at.
#[derive(Default)]
pub(super) struct Watched {
    by_id: Mutex<HashMap<String, watch::Sender<u64>>>,
}

impl Watched {
    /// Something happened to an execution.
    pub(super) fn changed(&self, id: &str) {
        let mut by_id = self.by_id();
        if let Some(count) = by_id.get(id) {
            if count.receiver_count() == 0 {
                by_id.remove(id);
            } else {
                count.send_modify(|count| *count += 1);
            }
        }
    }

    /// Changes whenever something happens to an execution here.
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
