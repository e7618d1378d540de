//! What changes on a page, as server-sent events.
//!
//! ```text
//!   a source waits for a change and draws parts of the page anew
//!     ──► only those that differ are sent: `patch` {id: html}
//!         `charts` all of a chart, `sample` one more moment of it, `end`
//! ```
//! The parts are drawn by the functions that drew the page, so there is one
//! way in which anything looks.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ballast_control_plane::tokens;
use ballast_domain::TokenId;
use futures::stream;
use maud::Markup;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::console::Console;
use crate::page::error::Broken;

/// How often something is sent even when there is nothing to say, and it is
/// looked whether the session's token still works.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// Changes that follow each other quickly are told as one.
const BREATH: Duration = Duration::from_millis(150);
const STILL_HERE: &[u8] = b": still here\n\n";

/// What is told.
pub(crate) enum Told {
    /// Parts of the page, by their ids.
    Parts(Vec<(&'static str, Markup)>),
    /// Whole charts, by their names.
    Charts(Value),
    /// One more moment of charts.
    Sample(Value),
    /// There will be no more.
    End,
}

/// Whoever knows when something has changed. Waiting may be broken off at any
/// point.
pub(crate) trait Source: Send + 'static {
    /// What is to be told next; nothing more when it is `None`.
    fn next(&mut self) -> impl Future<Output = Option<Vec<Told>>> + Send;
}

/// Somebody who watches.
struct Watcher<S> {
    console: Console,
    /// Whose session it is; nobody's, for what anyone may see.
    token: Option<TokenId>,
    source: S,
    ending: watch::Receiver<bool>,
    /// What was sent of each part.
    sent: HashMap<&'static str, u64>,
    over: bool,
    first: bool,
    _place: OwnedSemaphorePermit,
}

/// Tells what a source has to tell, for as long as somebody listens.
pub(crate) fn streamed<S: Source>(
    console: &Console,
    token: Option<TokenId>,
    source: S,
) -> Result<Response, Broken> {
    let (place, ending) = console.watcher()?;
    let watcher = Watcher {
        console: console.clone(),
        token,
        source,
        ending,
        sent: HashMap::new(),
        over: false,
        first: true,
        _place: place,
    };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((Ok::<_, Infallible>(event), watcher))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // A proxy that gathers an answer would keep it from being live.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(events)).into_response())
}

impl<S: Source> Watcher<S> {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        if !std::mem::take(&mut self.first) {
            tokio::time::sleep(BREATH).await;
        }
        let mut ending = self.ending.clone();
        let quiet = tokio::time::sleep(SIGN_OF_LIFE);
        tokio::pin!(quiet);
        loop {
            tokio::select! {
                told = self.source.next() => {
                    let text = self.written(told?);
                    if !text.is_empty() {
                        return Some(text.into());
                    }
                }
                () = &mut quiet => {
                    if let Some(token) = &self.token {
                        let known = tokens::working(&self.console.plane, token).await;
                        // That it cannot be judged right now is no reason to go.
                        if matches!(known, Ok(None)) {
                            return None;
                        }
                    }
                    return Some(Bytes::from_static(STILL_HERE));
                }
                () = told_to_go(&mut ending) => return None,
            }
        }
    }

    fn written(&mut self, told: Vec<Told>) -> String {
        let mut text = String::new();
        for told in told {
            match told {
                Told::Parts(parts) => {
                    let changed = self.changed(parts);
                    if !changed.is_empty() {
                        text.push_str(&event("patch", &Value::Object(changed)));
                    }
                }
                Told::Charts(data) => text.push_str(&event("charts", &data)),
                Told::Sample(data) => text.push_str(&event("sample", &data)),
                Told::End => {
                    text.push_str(&event("end", &Value::Null));
                    self.over = true;
                }
            }
        }
        text
    }

    /// The parts that are not as they were sent.
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

async fn told_to_go(ending: &mut watch::Receiver<bool>) {
    // Whoever would tell is gone: then it is time too.
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
