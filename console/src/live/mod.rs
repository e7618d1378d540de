//! Live page updates as server-sent events.
//!
//! ```text
//!   a source waits for a change and renders the page's parts again
//!     ──► only parts that differ are sent: `patch` {id: html}
//!         `charts` whole charts, `sample` one more point, `end`
//! ```
//! The functions that render the page also render its parts. When a viewer's
//! session or link ends, the stream sends `over` and closes, even while updates
//! are pending.

mod access;
mod limits;
mod periodic;

pub(crate) use access::ViewerAccess;
pub(crate) use limits::StreamLimits;
pub(crate) use periodic::{PageParts, PeriodicSource};

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::stream;
use maud::Markup;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};

use self::limits::StreamPermit;
use crate::console::Console;
use crate::page::error::ErrorPage;

/// How often the viewer's access is checked.
const ACCESS_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Access checks without an update after which a keep-alive comment is sent.
const KEEP_ALIVE_CHECKS: u32 = 7;
/// Debounce: quick successive changes are sent as one update.
const DEBOUNCE: Duration = Duration::from_millis(150);
const KEEP_ALIVE: &[u8] = b": still here\n\n";

/// One update of a page.
pub(crate) enum LiveUpdate {
    /// Parts of the page, by element id.
    Parts(Vec<(&'static str, Markup)>),
    /// Whole charts, by name.
    Charts(Value),
    /// One more point of each chart.
    Sample(Value),
    /// The stream ends.
    End,
}

/// Waits for changes and renders them. `next` must be cancel-safe.
pub(crate) trait Source: Send + 'static {
    /// The next updates; `None` ends the stream.
    fn next(&mut self) -> impl Future<Output = Option<Vec<LiveUpdate>>> + Send;
}

/// One live stream.
struct LiveStream<S> {
    console: Console,
    right: ViewerAccess,
    source: S,
    ending: watch::Receiver<bool>,
    /// The timer of access checks. It is kept across events, so that a source that
    /// always has updates cannot postpone the checks.
    access_checks: Interval,
    /// Access checks since the last event was sent.
    idle_checks: u32,
    /// A hash of what was last sent of each part.
    sent: HashMap<&'static str, u64>,
    over: bool,
    first: bool,
    _permit: StreamPermit,
}

/// Streams a source's updates for as long as the viewer is connected and has access.
pub(crate) fn stream_updates<S: Source>(
    console: &Console,
    right: ViewerAccess,
    source: S,
) -> Result<Response, ErrorPage> {
    let permit = match right.link() {
        None => console.stream_limits.acquire_operator()?,
        Some(link) => console.stream_limits.acquire_public(link)?,
    };
    let mut access_checks = tokio::time::interval(ACCESS_CHECK_INTERVAL);
    access_checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watcher = LiveStream {
        console: console.clone(),
        right,
        source,
        ending: console.ending(),
        access_checks,
        idle_checks: 0,
        sent: HashMap::new(),
        over: false,
        first: true,
        _permit: permit,
    };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        watcher.idle_checks = 0;
        Some((Ok::<_, Infallible>(event), watcher))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Stops nginx from buffering the stream.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(events)).into_response())
}

impl<S: Source> LiveStream<S> {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        if !std::mem::take(&mut self.first) {
            tokio::time::sleep(DEBOUNCE).await;
        }
        loop {
            let updates = match self.wait_for_event().await {
                StreamEvent::Updates(updates) => updates?,
                StreamEvent::Idle => return Some(Bytes::from_static(KEEP_ALIVE)),
                StreamEvent::AccessEnded => {
                    self.over = true;
                    return Some(event("over", &Value::Null).into());
                }
                StreamEvent::Shutdown => return None,
            };
            let text = self.encode(updates);
            if !text.is_empty() {
                return Some(text.into());
            }
        }
    }

    async fn wait_for_event(&mut self) -> StreamEvent {
        let mut ending = self.ending.clone();
        // The access check does not cancel the source's future: a slow source would
        // otherwise never finish.
        let waiting = self.source.next();
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                biased;
                _ = self.access_checks.tick() => {
                    if self.right.is_over(&self.console).await {
                        return StreamEvent::AccessEnded;
                    }
                    self.idle_checks += 1;
                    if self.idle_checks >= KEEP_ALIVE_CHECKS {
                        return StreamEvent::Idle;
                    }
                }
                () = wait_for_shutdown(&mut ending) => return StreamEvent::Shutdown,
                updates = &mut waiting => return StreamEvent::Updates(updates),
            }
        }
    }

    fn encode(&mut self, updates: Vec<LiveUpdate>) -> String {
        let mut text = String::new();
        for update in updates {
            match update {
                LiveUpdate::Parts(parts) => {
                    let changed = self.changed(parts);
                    if !changed.is_empty() {
                        text.push_str(&event("patch", &Value::Object(changed)));
                    }
                }
                LiveUpdate::Charts(data) => text.push_str(&event("charts", &data)),
                LiveUpdate::Sample(data) => text.push_str(&event("sample", &data)),
                LiveUpdate::End => {
                    text.push_str(&event("end", &Value::Null));
                    self.over = true;
                }
            }
        }
        text
    }

    /// The parts that differ from what was sent.
    fn changed(&mut self, parts: Vec<(&'static str, Markup)>) -> Map<String, Value> {
        let mut changed = Map::new();
        for (id, markup) in parts {
            let text = markup.into_string();
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let hash = hasher.finish();
            if self.sent.insert(id, hash) != Some(hash) {
                changed.insert(id.to_owned(), Value::String(text));
            }
        }
        changed
    }
}

/// What a live stream waits for.
enum StreamEvent {
    /// The source has updates.
    Updates(Option<Vec<LiveUpdate>>),
    /// No update for a while: a keep-alive is due.
    Idle,
    /// The viewer's session or link ended.
    AccessEnded,
    /// The process is shutting down.
    Shutdown,
}

async fn wait_for_shutdown(ending: &mut watch::Receiver<bool>) {
    // A closed channel means that the console is gone: stop as well.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// JSON has no line breaks, so it is one line of data.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use maud::html;
    use serde_json::json;

    #[test]
    fn an_event_is_one_line_of_data_whatever_is_in_it() {
        let text = event("patch", &json!({ "a": "one\ntwo\r\nevent: end" }));
        assert_eq!(text.lines().count(), 3);
        assert!(text.ends_with("\n\n"));
        let _ = html! {};
    }
}
