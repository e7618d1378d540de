//! An execution as it changes.

use super::{Description, Engine};
use crate::store::StoreResult;

/// An execution as it changes. Changes that follow each other quickly are seen
/// as one.
pub struct Watch {
    engine: Engine,
    id: String,
    changes: tokio::sync::watch::Receiver<u64>,
    last: Option<Description>,
}

impl Watch {
    pub(super) fn new(engine: Engine, id: &str) -> Self {
        let changes = engine.shared.watched.subscribe(id);
        Self {
            engine,
            id: id.to_owned(),
            changes,
            last: None,
        }
    }

    /// How the execution stands: at once the first time, then when it has
    /// changed. `None` after its end, or if there is no such execution.
    pub async fn next(&mut self) -> StoreResult<Option<Description>> {
        if self.last.as_ref().is_some_and(Description::is_ended) {
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
            // Another process may have it.
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
