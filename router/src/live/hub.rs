//! Watched polls: one task each looks a few times a second how the results
//! stand, and what it writes is shared by all viewers.
//!
//! ```text
//!   first viewer ──► task ──► frame, frame, … ──► no viewer left: it ends
//! ```
//! A viewer that is slow gets the newest frame when it is ready, not all that
//! it missed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use ballast_domain::{ErrorCode, PollId, Result, TenantId};
use tokio::sync::watch;

use crate::State;
use crate::admit::Access;
use crate::results::Shown;

/// The least time between two events of a poll.
const TICK: Duration = Duration::from_millis(250);

/// Results as an event.
#[derive(Debug)]
pub(super) struct Frame {
    /// Its id.
    pub(super) id: u128,
    /// The event, as it is sent.
    pub(super) event: Bytes,
    /// The last event, if the poll has closed, and its id.
    pub(super) closing: Option<(u128, Bytes)>,
}

impl Frame {
    fn new(shown: &Shown) -> Self {
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

/// JSON has no line breaks, so it is one line of data.
fn event(name: &str, id: u128, json: &Bytes) -> Bytes {
    let mut text = format!("event: {name}\nid: {id}\ndata: ").into_bytes();
    text.extend_from_slice(json);
    text.extend_from_slice(b"\n\n");
    text.into()
}

type Watched = (TenantId, PollId);

/// The polls that are watched.
#[derive(Default)]
pub(crate) struct Hub(Mutex<HashMap<Watched, watch::Sender<Arc<Frame>>>>);

impl Hub {
    fn lock(&self) -> MutexGuard<'_, HashMap<Watched, watch::Sender<Arc<Frame>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The results of a poll as they change, beginning with those of now.
    pub(super) async fn watch(
        &self,
        access: &Access,
        poll: PollId,
    ) -> Result<watch::Receiver<Arc<Frame>>> {
        let watched = (access.tenant.tenant_id.clone(), poll);
        if let Some(sender) = self.parts.hub.lock().get(&watched) {
            return Ok(sender.subscribe());
        }
        let first = Arc::new(Frame::new(&*self.results(access, poll, false).await?));
        let mut hub = self.parts.hub.lock();
        // Somebody else may have been quicker.
        if let Some(sender) = hub.get(&watched) {
            return Ok(sender.subscribe());
        }
        let sender = watch::Sender::new(first);
        let frames = sender.subscribe();
        hub.insert(watched.clone(), sender);
        drop(hub);
        tokio::spawn(look_after(
            self.clone(),
            access.clone().after_query(),
            watched,
        ));
        Ok(frames)
    }
}

/// Looks how a poll's results stand until nobody watches or it has closed.
async fn look_after(state: State, access: Access, watched: Watched) {
    let ending = state.ending();
    let looking = async {
        while look(&state, &access, &watched).await {
            tokio::time::sleep(TICK).await;
        }
    };
    tokio::select! {
        () = looking => {}
        () = ending => {}
    }
}

/// Looks once and shows what is new to all viewers; says whether to look
/// again.
async fn look(state: &State, access: &Access, watched: &Watched) -> bool {
    let found = state.results(access, watched.1, false).await;
    let mut hub = state.parts.hub.lock();
    let Some(sender) = hub.get(watched) else {
        return false;
    };
    let there_is_more = match found {
        Ok(shown) => {
            // Never back: ids grow with every change, and with every move.
            if shown.id > sender.borrow().id {
                sender.send_replace(Arc::new(Frame::new(&shown)));
            }
            shown.closing.is_none()
        }
        // Trouble passes; that a poll is gone does not.
        Err(error) => error.code() != ErrorCode::PollNotFound,
    };
    let goes_on = there_is_more && sender.receiver_count() > 0;
    if !goes_on {
        // Under the lock: whoever comes now begins anew.
        hub.remove(watched);
    }
    goes_on
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_three_lines_and_an_empty_one() {
        let text = event("results", 7, &Bytes::from_static(b"{}"));
        assert_eq!(&text[..], b"event: results\nid: 7\ndata: {}\n\n");
    }
}
