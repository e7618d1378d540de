//! Watched polls: one task per poll reads the results a few times a second, and all
//! viewers share the rendered events.
//!
//! ```text
//!   first viewer ──► task ──► frame, frame, … ──► ends when no viewer is left
//! ```
//! A slow viewer gets the newest frame when it is ready, not every frame.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use ballast_domain::{ErrorCode, PollId, Result, TenantId};
use tokio::sync::watch;

use crate::RouterState;
use crate::admit::Access;
use crate::results::RenderedResults;

/// The least time between two events of a poll.
const TICK: Duration = Duration::from_millis(250);

/// Results as an event.
#[derive(Debug)]
pub(super) struct ResultsFrame {
    /// Its id.
    pub(super) id: u128,
    /// The event.
    pub(super) event: Bytes,
    /// The last event, if the poll has closed, and its id.
    pub(super) closing: Option<(u128, Bytes)>,
}

impl ResultsFrame {
    fn new(shown: &RenderedResults) -> Self {
        let id = shown.id;
        let closing = shown.closing.as_ref().map(|json| {
            let last = id.saturating_add(1);
            (last, event("closed", last, json))
        });
        Self {
            id,
            event: event("results", id, &shown.json),
            closing,
        }
    }
}

/// Formats an event. JSON has no line breaks, so the data is one line.
fn event(name: &str, id: u128, json: &Bytes) -> Bytes {
    let mut text = format!("event: {name}\nid: {id}\ndata: ").into_bytes();
    text.extend_from_slice(json);
    text.extend_from_slice(b"\n\n");
    text.into()
}

type WatchKey = (TenantId, PollId);

/// The latest frame of each watched poll.
#[derive(Default)]
pub(crate) struct WatchHub(Mutex<HashMap<WatchKey, watch::Sender<Arc<ResultsFrame>>>>);

impl WatchHub {
    fn lock(&self) -> MutexGuard<'_, HashMap<WatchKey, watch::Sender<Arc<ResultsFrame>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RouterState {
    /// Receives the results of a poll: the current ones, and then every change.
    pub(super) async fn watch(
        &self,
        access: &mut Access,
        poll: PollId,
    ) -> Result<watch::Receiver<Arc<ResultsFrame>>> {
        let watched = (access.tenant.tenant_id.clone(), poll);
        if let Some(sender) = self.parts.hub.lock().get(&watched) {
            return Ok(sender.subscribe());
        }
        let first = Arc::new(ResultsFrame::new(
            &*self.results(access, poll, false).await?,
        ));
        let mut hub = self.parts.hub.lock();
        // Another viewer may have been faster.
        if let Some(sender) = hub.get(&watched) {
            return Ok(sender.subscribe());
        }
        let sender = watch::Sender::new(first);
        let frames = sender.subscribe();
        hub.insert(watched.clone(), sender);
        drop(hub);
        tokio::spawn(publish_results(
            self.clone(),
            access.clone().after_query(),
            watched,
        ));
        Ok(frames)
    }
}

/// Publishes a poll's results until it has no viewers or has closed.
async fn publish_results(state: RouterState, mut access: Access, watched: WatchKey) {
    let ending = state.wait_for_end();
    let publishing = async {
        while publish_once(&state, &mut access, &watched).await {
            tokio::time::sleep(TICK).await;
        }
    };
    tokio::select! {
        () = publishing => {}
        () = ending => {}
    }
}

/// Reads the results once and publishes them if they are new. Returns whether to go
/// on.
async fn publish_once(state: &RouterState, access: &mut Access, watched: &WatchKey) -> bool {
    let found = state.results(access, watched.1, false).await;
    let mut hub = state.parts.hub.lock();
    let Some(sender) = hub.get(watched) else {
        return false;
    };
    let there_is_more = match found {
        Ok(shown) => {
            // Never publish older results: ids grow with every change and every migration.
            if shown.id > sender.borrow().id {
                sender.send_replace(Arc::new(ResultsFrame::new(&shown)));
            }
            shown.closing.is_none()
        }
        // Other errors are temporary; a deleted poll stays deleted.
        Err(error) => error.code() != ErrorCode::PollNotFound,
    };
    let goes_on = there_is_more && sender.receiver_count() > 0;
    if !goes_on {
        // Under the lock, so that the next viewer starts a new task.
        hub.remove(watched);
    }
    goes_on
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_three_lines_and_a_blank_one() {
        let text = event("results", 7, &Bytes::from_static(b"{}"));
        assert_eq!(&text[..], b"event: results\nid: 7\ndata: {}\n\n");
    }
}
