//! What changes on a page, as server-sent events.
//!
//! ```text
//!   a source waits for a change and draws parts of the page anew
//!     ──► only those that differ are sent: `patch` {id: html}
//!         `charts` all of a chart, `sample` one more moment of it, `end`
//! ```
//! The parts are drawn by the functions that drew the page, so there is one
//! way in which anything looks. Whoever's right to watch is over is sent
//! `over` and let go, however much there is to tell.

mod every;
mod right;
mod rooms;

pub(crate) use every::{Every, Parts};
pub(crate) use right::Right;
pub(crate) use rooms::Rooms;

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

use self::rooms::Place;
use crate::console::Console;
use crate::page::error::Broken;

/// How often it is looked whether somebody may still watch.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// After so many looks something is sent even when there is nothing to say.
const SIGN_OF_LIFE: u32 = 7;
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
    right: Right,
    source: S,
    ending: watch::Receiver<bool>,
    /// When it is looked at the right. It is kept from one event to the next:
    /// a source that always has something to tell must not put it off.
    looks: Interval,
    /// Looks since something was sent.
    quiet: u32,
    /// What was sent of each part.
    sent: HashMap<&'static str, u64>,
    over: bool,
    first: bool,
    _place: Place,
}

/// Tells what a source has to tell, for as long as somebody listens who may.
pub(crate) fn streamed<S: Source>(
    console: &Console,
    right: Right,
    source: S,
) -> Result<Response, Broken> {
    let place = match right.link() {
        None => console.rooms.operator()?,
        Some(link) => console.rooms.public(link)?,
    };
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watcher = Watcher {
        console: console.clone(),
        right,
        source,
        ending: console.ending(),
        looks,
        quiet: 0,
        sent: HashMap::new(),
        over: false,
        first: true,
        _place: place,
    };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        watcher.quiet = 0;
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
        loop {
            let told = match self.heard().await {
                Heard::Told(told) => told?,
                Heard::Nothing => return Some(Bytes::from_static(STILL_HERE)),
                Heard::Over => {
                    self.over = true;
                    return Some(event("over", &Value::Null).into());
                }
                Heard::Ending => return None,
            };
            let text = self.written(told);
            if !text.is_empty() {
                return Some(text.into());
            }
        }
    }

    async fn heard(&mut self) -> Heard {
        let mut ending = self.ending.clone();
        // Looking at the right does not break the source off: one that takes
        // long would never come to its end.
        let waiting = self.source.next();
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                biased;
                _ = self.looks.tick() => {
                    if self.right.is_over(&self.console).await {
                        return Heard::Over;
                    }
                    self.quiet += 1;
                    if self.quiet >= SIGN_OF_LIFE {
                        return Heard::Nothing;
                    }
                }
                () = told_to_go(&mut ending) => return Heard::Ending,
                told = &mut waiting => return Heard::Told(told),
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

/// What somebody who watches waits for.
enum Heard {
    /// What the source has to tell.
    Told(Option<Vec<Told>>),
    /// It was quiet for long.
    Nothing,
    /// The right to watch is over.
    Over,
    /// The process is about to end.
    Ending,
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
