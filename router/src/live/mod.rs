//! `GET /polls/{poll}/votes/live`: results as they change, as server-sent
//! events.
//!
//! ```text
//!   view.rs  the current counts of polls, outside of the shards
//!   feed.rs  brings the shards' counts into the view
//!   hub.rs   one task per watched poll renders its results once for all viewers
//! ```

mod feed;
mod hub;
#[cfg(test)]
mod moving_tests;
mod view;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::error::ErrorCategory;
use ballast_domain::{Error, ErrorCode, PollId, Result};
use futures::stream;
use tokio::sync::watch;
use tokio::time::Interval;

pub(crate) use feed::Feeds;
pub(crate) use hub::WatchHub;
pub use view::{CountsOrigin, CountsVersion, LiveView, MemoryView, PollAtShard, PollCounts};

use self::hub::ResultsFrame;
use crate::admit::{Access, Authorized, ReadAccess, reauthenticate};
use crate::request::{PollPath, utf8_header};
use crate::request_summary::SummarizedResponse;
use crate::slots::Slot;
use crate::{RouterError, RouterState};

/// How often a viewer's access is checked again.
const CHECK: Duration = Duration::from_secs(1);
/// After this many checks a comment is sent, to keep the connection alive.
const CHECKS_PER_HEARTBEAT: u32 = 15;

/// Watch a poll's results.
///
/// The event `results` is sent at once and whenever the results change, at most a few
/// times a second. Its data is the answer of `GET /polls/{poll}/votes`. The event
/// `closed` is the last one. After a reconnect, `Last-Event-ID` prevents that known
/// results are sent again.
#[utoipa::path(get, path = "/polls/{poll}/votes/live", operation_id = "watchResults",
    tag = "results",
    params(("poll" = PollId, Path),
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event")),
    responses((status = 200, description = "Server-sent events, until the poll closes",
        body = String, content_type = "text/event-stream"),
        (status = 204, description = "The poll has closed, and you have received the last event")))]
pub(crate) async fn live(
    Authorized {
        mut access, path, ..
    }: Authorized<ReadAccess, PollPath>,
    State(state): State<RouterState>,
    headers: HeaderMap,
) -> SummarizedResponse {
    let events = watch_results(state, &mut access, path, &headers).await;
    access.answer(events)
}

async fn watch_results(
    state: RouterState,
    access: &mut Access,
    PollPath(poll): PollPath,
    headers: &HeaderMap,
) -> Result<Response, RouterError> {
    let seen = utf8_header(headers, "last-event-id")?.and_then(|id| id.trim().parse().ok());
    let slot = state.parts.viewers.acquire(&access.tenant.tenant_id, 0);
    let slot = slot.ok_or_else(|| {
        let error = Error::new(ErrorCode::Busy, "there are too many viewers");
        error.retry_after(5)
    })?;
    let frames = state.watch(access, poll).await?;
    // From here on it is not a query: viewers have their own limits.
    let access = access.clone().after_query();
    // A client that has received the last event must not reconnect. This
    // status tells a browser to stop.
    let ended = frames.borrow().closing.as_ref().map(|(id, _)| *id);
    if ended.is_some() && ended == seen {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let viewer = LiveViewer {
        state,
        access,
        frames,
        seen,
        first: true,
        checks: 0,
        check: tokio::time::interval(CHECK),
        _slot: slot,
    };
    let events = stream::unfold(Some(viewer), async |viewer| {
        let (event, rest) = viewer?.next().await?;
        Some((Ok::<_, std::convert::Infallible>(event), rest))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Body::from_stream(events)).into_response())
}

/// A client that watches a poll.
struct LiveViewer {
    state: RouterState,
    access: Access,
    frames: watch::Receiver<Arc<ResultsFrame>>,
    seen: Option<u128>,
    first: bool,
    checks: u32,
    check: Interval,
    _slot: Slot,
}

impl LiveViewer {
    /// The next event, and the viewer if there is more to come.
    async fn next(mut self) -> Option<(Bytes, Option<Self>)> {
        if std::mem::take(&mut self.first) {
            // Begin the response at once, even if there is nothing new.
            let known = self.frames.borrow_and_update().clone();
            return Some(match self.unseen_event(&known) {
                Some(event) => (event, Some(self)),
                None => (Bytes::from_static(b": nothing new\n\n"), Some(self)),
            });
        }
        let frame = self.frames.borrow().clone();
        if self.seen == Some(frame.id)
            && let Some((_, closing)) = &frame.closing
        {
            return Some((closing.clone(), None));
        }
        loop {
            let ending = self.state.wait_for_end();
            tokio::select! {
                changed = self.frames.changed() => {
                    // An error means that the poll's task has ended.
                    changed.ok()?;
                    let frame = self.frames.borrow_and_update().clone();
                    if let Some(event) = self.unseen_event(&frame) {
                        return Some((event, Some(self)));
                    }
                    if let Some((_, closing)) = &frame.closing {
                        return Some((closing.clone(), None));
                    }
                }
                _ = self.check.tick() => {
                    self.check_access().await?;
                    self.checks += 1;
                    if self.checks.is_multiple_of(CHECKS_PER_HEARTBEAT) {
                        return Some((Bytes::from_static(b": still here\n\n"), Some(self)));
                    }
                }
                () = ending => return None,
            }
        }
    }

    /// Ends the viewer if its access was revoked. An access check that fails because
    /// the registry is unavailable does not end it.
    async fn check_access(&self) -> Option<()> {
        match reauthenticate(&self.state, &self.access).await {
            Err(error) if error.code().kind() != ErrorCategory::Unavailable => None,
            _ => Some(()),
        }
    }

    /// The event of these results, unless the viewer has received them.
    fn unseen_event(&mut self, frame: &ResultsFrame) -> Option<Bytes> {
        if self.seen == Some(frame.id) {
            return None;
        }
        self.seen = Some(frame.id);
        Some(frame.event.clone())
    }
}
