//! `GET /polls/{poll}/votes/live`: results as they change, as server-sent
//! events.
//!
//! ```text
//!   view.rs  how counts stand            feed.rs  shards' counts into the view
//!   hub.rs   one task per watched poll: results written once, seen by all
//! ```

mod feed;
mod hub;
#[cfg(test)]
mod moving_tests;
mod view;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State as Given;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ballast_domain::error::Kind;
use ballast_domain::{Error, ErrorCode, PollId, Result};
use futures::stream;
use tokio::sync::watch;
use tokio::time::Interval;

pub(crate) use feed::Feeds;
pub(crate) use hub::Hub;
pub use view::{LiveView, MemoryView, Origin, Standing, Subject, Version};

use self::hub::Frame;
use crate::admit::{Access, Allowed, ToRead, still};
use crate::request::{PollPath, utf8_header};
use crate::slots::Slot;
use crate::{RouterError, State};

/// How often it is looked whether a viewer may still watch.
const CHECK: Duration = Duration::from_secs(1);
/// After so many checks something is sent even when there is nothing to say.
const CHECKS_PER_HEARTBEAT: u32 = 15;

/// Watch a poll's results.
///
/// An event `results` comes at once and whenever they have changed, a few
/// times a second at the most; its data is what `GET /polls/{poll}/votes`
/// answers. The event `closed` is the last one. After a break, `Last-Event-ID`
/// keeps what is known from being sent again.
#[utoipa::path(get, path = "/polls/{poll}/votes/live", tag = "results",
    params(("poll" = PollId, Path),
        ("Last-Event-ID" = Option<String>, Header, description = "The last event's `id`")),
    responses((status = 200, body = String, content_type = "text/event-stream"),
        (status = 204, description = "The poll has closed, and you know the last event")))]
pub(crate) async fn live(
    Allowed(access, _): Allowed<ToRead>,
    Given(state): Given<State>,
    PollPath(poll): PollPath,
    headers: HeaderMap,
) -> Result<Response, RouterError> {
    let seen = utf8_header(&headers, "last-event-id")?.and_then(|id| id.trim().parse().ok());
    let slot = state.parts.viewers.take(&access.tenant.tenant_id, 0);
    let slot = slot.ok_or_else(|| {
        let error = Error::new(ErrorCode::Busy, "too many watch results already");
        error.retry_after(5)
    })?;
    let frames = state.watch(&access, poll).await?;
    // From here on it is no query any more: viewers have bounds of their own.
    let access = access.after_query();
    // Whoever has seen the end must not come back for it again and again:
    // this answer tells a browser to stop.
    let ended = frames.borrow().closing.as_ref().map(|(id, _)| *id);
    if ended.is_some() && ended == seen {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let viewer = Viewer {
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

/// Somebody who watches.
struct Viewer {
    state: State,
    access: Access,
    frames: watch::Receiver<Arc<Frame>>,
    seen: Option<u128>,
    first: bool,
    checks: u32,
    check: Interval,
    _slot: Slot,
}

impl Viewer {
    /// The next event, and whoever waits for the one after it.
    async fn next(mut self) -> Option<(Bytes, Option<Self>)> {
        if std::mem::take(&mut self.first) {
            // Even when there is nothing new, the answer begins at once.
            let known = self.frames.borrow_and_update().clone();
            return Some(match self.news(&known) {
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
            let ending = self.state.ending();
            tokio::select! {
                changed = self.frames.changed() => {
                    // Nobody looks after the poll any more.
                    changed.ok()?;
                    let frame = self.frames.borrow_and_update().clone();
                    if let Some(event) = self.news(&frame) {
                        return Some((event, Some(self)));
                    }
                    if let Some((_, closing)) = &frame.closing {
                        return Some((closing.clone(), None));
                    }
                }
                _ = self.check.tick() => {
                    self.may_stay().await?;
                    self.checks += 1;
                    if self.checks.is_multiple_of(CHECKS_PER_HEARTBEAT) {
                        return Some((Bytes::from_static(b": still here\n\n"), Some(self)));
                    }
                }
                () = ending => return None,
            }
        }
    }

    /// Whoever would not be let in now may not stay; that it cannot be judged
    /// right now is no reason to go.
    async fn may_stay(&self) -> Option<()> {
        match still(&self.state, &self.access).await {
            Err(error) if error.code().kind() != Kind::Unavailable => None,
            _ => Some(()),
        }
    }

    /// The event of results that the viewer has not seen.
    fn news(&mut self, frame: &Frame) -> Option<Bytes> {
        if self.seen == Some(frame.id) {
            return None;
        }
        self.seen = Some(frame.id);
        Some(frame.event.clone())
    }
}
