//! `/executions/{executionID}/watch`: an execution's changes as server-sent events.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ballast_state_machines::engine::{ExecutionDetails, ExecutionWatch};
use ballast_web::ApiError;
use futures::stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::caller::Caller;
use super::request::Id;
use crate::plane::ControlPlane;
use crate::tokens;
use crate::workflows::body::ExecutionBody;
use crate::workflows::{executions, workflows};

/// Changes in quick succession are sent as one event.
pub(super) const BATCH_DELAY: Duration = Duration::from_millis(100);
/// Interval of keepalives. Each also checks whether the token is still active.
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// A comment in the server-sent events format.
pub(super) const KEEPALIVE: &[u8] = b": still here\n\n";

/// Watch an execution.
///
/// Sends an event `execution` immediately and after every change, at most a few
/// times a second. The data is the response of `GET /executions/{executionID}`.
/// The last event is `end`.
#[utoipa::path(get, path = "/executions/{executionID}/watch", operation_id = "watchExecution",
    tag = "executions",
    params(("executionID" = String, Path)),
    responses((status = 200, description = "Server-sent events, until the execution ends",
        body = String, content_type = "text/event-stream")))]
pub(super) async fn watch(
    caller: Caller,
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
) -> Result<Response, ApiError> {
    // Return an error for an unknown id before the stream begins.
    executions::get(&plane, &id).await?;
    let workflows = workflows(&plane)?;
    let (place, ending) = workflows.subscribe()?;
    let watcher = ExecutionWatcher {
        watch: workflows.engine().watch(&id),
        last: None,
        plane: plane.clone(),
        secret: caller.secret.expose().to_owned(),
        ending,
        first: true,
        _place: place,
    };
    Ok(stream_events(watcher, ExecutionWatcher::next_event))
}

/// A response of server-sent events. `next` returns each event and the state for
/// the one after it.
pub(super) fn stream_events<W, F>(watcher: W, next: impl Fn(W) -> F + Send + 'static) -> Response
where
    W: Send + 'static,
    F: Future<Output = Option<(Bytes, Option<W>)>> + Send + 'static,
{
    let events = stream::unfold((Some(watcher), next), |(watcher, next)| async move {
        let (event, rest) = next(watcher?).await?;
        Some((Ok::<_, std::convert::Infallible>(event), (rest, next)))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, Body::from_stream(events)).into_response()
}

/// A client that watches an execution.
struct ExecutionWatcher {
    watch: ExecutionWatch,
    last: Option<ExecutionDetails>,
    plane: ControlPlane,
    secret: String,
    ending: watch::Receiver<bool>,
    first: bool,
    _place: OwnedSemaphorePermit,
}

impl ExecutionWatcher {
    /// The next event, and the watcher for the one after it.
    async fn next_event(mut self) -> Option<(Bytes, Option<Self>)> {
        if let Some(last) = self.last.take_if(|last| last.is_ended()) {
            return Some((format_event("end", &ExecutionBody::from(last)), None));
        }
        if !std::mem::take(&mut self.first) {
            tokio::time::sleep(BATCH_DELAY).await;
        }
        let mut ending = self.ending.clone();
        tokio::select! {
            changed = self.watch.next() => {
                // On errors, end the stream: a new request returns the reason.
                let now = changed.ok()??;
                self.last = Some(now.clone());
                Some((format_event("execution", &ExecutionBody::from(now)), Some(self)))
            }
            () = tokio::time::sleep(KEEPALIVE_INTERVAL) => {
                let known = tokens::authenticate(&self.plane, &self.secret).await;
                // A failed check does not end the stream; an inactive token does.
                if matches!(known, Ok(None)) {
                    return None;
                }
                Some((Bytes::from_static(KEEPALIVE), Some(self)))
            }
            () = shutdown_requested(&mut ending) => None,
        }
    }
}

pub(super) async fn shutdown_requested(ending: &mut watch::Receiver<bool>) {
    // A dropped sender means shutdown as well.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// Formats an event.
pub(super) fn format_event<T: Serialize>(name: &str, body: &T) -> Bytes {
    // The body has string keys only, so serialisation cannot fail.
    let data = serde_json::to_string(body).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into()
}
