//! `/executions/{executionID}/watch`: an execution as it changes, as
//! server-sent events.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ballast_state_machines::engine::{Description, Watch};
use ballast_web::ApiError;
use futures::stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::caller::Caller;
use super::request::Id;
use crate::plane::ControlPlane;
use crate::tokens;
use crate::workflows::body::ExecutionBody;
use crate::workflows::{executions, running};

/// Changes that follow each other quickly are told as one.
pub(super) const BREATH: Duration = Duration::from_millis(100);
/// How often something is sent even when there is nothing to say, and it is
/// looked whether the token still works.
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// A comment, as server-sent events have it.
pub(super) const STILL_HERE: &[u8] = b": still here\n\n";

/// Watch an execution.
///
/// An event `execution` comes at once and whenever it has changed, a few times
/// a second at the most; its data is what `GET /executions/{executionID}`
/// answers. The event `end` is the last one.
#[utoipa::path(get, path = "/executions/{executionID}/watch", tag = "executions",
    params(("executionID" = String, Path)),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub(super) async fn watch(
    caller: Caller,
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
) -> Result<Response, ApiError> {
    // It is refused before anything is sent if there is none.
    executions::get(&plane, &id).await?;
    let workflows = running(&plane)?;
    let (place, ending) = workflows.watcher()?;
    let watcher = Watcher {
        watch: workflows.engine().watch(&id),
        last: None,
        plane: plane.clone(),
        secret: caller.secret.expose().to_owned(),
        ending,
        first: true,
        _place: place,
    };
    Ok(streamed(watcher, Watcher::next))
}

/// An answer that is told event by event: each comes with whoever tells the
/// one after it.
pub(super) fn streamed<W, F>(watcher: W, next: impl Fn(W) -> F + Send + 'static) -> Response
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

/// Somebody who watches.
struct Watcher {
    watch: Watch,
    last: Option<Description>,
    plane: ControlPlane,
    secret: String,
    ending: watch::Receiver<bool>,
    first: bool,
    _place: OwnedSemaphorePermit,
}

impl Watcher {
    /// The next event, and whoever waits for the one after it.
    async fn next(mut self) -> Option<(Bytes, Option<Self>)> {
        if let Some(last) = self.last.take_if(|last| last.is_ended()) {
            return Some((event("end", &ExecutionBody::from(last)), None));
        }
        if !std::mem::take(&mut self.first) {
            tokio::time::sleep(BREATH).await;
        }
        let mut ending = self.ending.clone();
        tokio::select! {
            changed = self.watch.next() => {
                // Whoever asks again is told why it cannot be read.
                let now = changed.ok()??;
                self.last = Some(now.clone());
                Some((event("execution", &ExecutionBody::from(now)), Some(self)))
            }
            () = tokio::time::sleep(SIGN_OF_LIFE) => {
                let known = tokens::authenticate(&self.plane, &self.secret).await;
                // That it cannot be judged right now is no reason to go.
                if matches!(known, Ok(None)) {
                    return None;
                }
                Some((Bytes::from_static(STILL_HERE), Some(self)))
            }
            () = told_to_go(&mut ending) => None,
        }
    }
}

pub(super) async fn told_to_go(ending: &mut watch::Receiver<bool>) {
    // Whoever would tell is gone: then it is time too.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// An event of this name.
pub(super) fn event<T: Serialize>(name: &str, body: &T) -> Bytes {
    // It has no keys that are no text, so it can always be written.
    let data = serde_json::to_string(body).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into()
}
