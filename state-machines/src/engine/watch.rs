//! Watches an execution for changes.

use super::{Engine, ExecutionDetails};
use crate::store::ExecutionStoreResult;

/// Watches an execution for changes. Rapid changes are merged.
pub struct ExecutionWatch {
    engine: Engine,
    id: String,
    changes: tokio::sync::watch::Receiver<u64>,
    last: Option<ExecutionDetails>,
}

impl ExecutionWatch {
    pub(super) fn new(engine: Engine, id: &str) -> Self {
        let changes = engine.shared.change_notifier.subscribe(id);
        Self {
            engine,
            id: id.to_owned(),
            changes,
            last: None,
        }
    }

    /// The execution's current state: at once for the first call, then after each
    /// change. `None` after its end, or if it does not exist.
    pub async fn next(&mut self) -> ExecutionStoreResult<Option<ExecutionDetails>> {
        if self.last.as_ref().is_some_and(ExecutionDetails::is_ended) {
            return Ok(None);
        }
        loop {
            self.changes.borrow_and_update();
            let Some(found) = self.engine.get(&self.id).await? else {
                return Ok(None);
            };
            if self.last.as_ref() != Some(&found) {
                self.last = Some(found.clone());
                return Ok(Some(found));
            }
            let clock = &self.engine.shared.clock;
            // Another process may change it without a notification.
            let poll = clock
                .now_ms()
                .saturating_add(self.engine.shared.settings.poll_ms);
            tokio::select! {
                _ = self.changes.changed() => {}
                () = clock.sleep_until(poll) => {}
            }
        }
    }
}
