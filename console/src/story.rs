//! The demonstration's progress, shown above the fleet: the current chapter and
//! whether any vote was lost so far. The demonstration writes it to a file, so
//! that it survives the server that the demonstration kills and restarts.

use std::path::Path;

use ballast_domain::Timestamp;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use crate::page::format::{number, span};

/// The largest story file that is read.
const BYTES_MAX: u64 = 64 * 1_024;

/// The demonstration's progress, as the file has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Story {
    /// The chapters, in order.
    pub chapters: Vec<Chapter>,
    /// Votes that were acknowledged to clients.
    pub acknowledged: u64,
    /// Votes found at the last count.
    pub found: Option<u64>,
    /// When the last count was made, in milliseconds since 1970.
    pub counted_at_ms: Option<i64>,
    /// Votes acknowledged before the last count, all of which it must contain.
    pub acknowledged_then: Option<u64>,
    /// Acknowledged votes that were not found.
    pub lost: Option<u64>,
    /// Votes that were counted more than once.
    pub doubled: Option<u64>,
    /// Requests that were answered with an error.
    pub failed: u64,
    /// Requests that were retried because the server was down.
    pub sent_again: u64,
    /// The write pause at the cutover, in milliseconds.
    pub pause_ms: Option<u64>,
    /// The hotspot that was detected.
    pub hotspot_id: Option<String>,
    /// The plan that was made for it.
    pub plan_id: Option<String>,
    /// The migration that the demonstration runs.
    pub move_id: Option<String>,
    /// The result, once the demonstration is over.
    pub verdict: Option<DemoVerdict>,
}

/// The demonstration's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemoVerdict {
    /// Whether no vote was lost or doubled.
    pub kept: bool,
    /// The same in a sentence.
    pub words: String,
}

/// A chapter of the demonstration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chapter {
    /// Its title.
    pub title: String,
    /// What happened in it; empty before it begins.
    pub told: String,
    /// Its state.
    pub state: ChapterState,
}

/// The state of a chapter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChapterState {
    /// Not started.
    #[default]
    Ahead,
    /// In progress.
    Now,
    /// Finished.
    Done,
}

impl ChapterState {
    fn class(self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::Now => "now",
            Self::Done => "done",
        }
    }
}

impl Story {
    /// Reads the story file; `None` if it is missing, too large or invalid.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        if std::fs::metadata(file).ok()?.len() > BYTES_MAX {
            return None;
        }
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }

    /// Whether the demonstration has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.verdict.is_some()
    }

    /// The votes found, out of those acknowledged at the time of the count, with
    /// the count's age: more votes are acknowledged while people vote, and without
    /// the age it would look as if votes were missing.
    fn counted(&self, now: Timestamp) -> Markup {
        let (Some(found), Some(then)) = (self.found, self.acknowledged_then) else {
            return html! { (self.found.map_or_else(|| "—".to_owned(), number)) };
        };
        let there = found.min(then.saturating_sub(self.lost.unwrap_or(0)));
        let ago = self.counted_at_ms.map(|at| now.unix_ms() - at);
        let ago = ago.and_then(|ms| u64::try_from(ms).ok());
        html! {
            (number(there)) " of " (number(then)) " "
            small {
                @match ago {
                    _ if self.is_over() => { "acknowledged" }
                    Some(1_000..) => { "acknowledged when counted, " (span(ago.unwrap_or(0) / 1_000 * 1_000)) " ago" }
                    _ => { "acknowledged when counted, just now" }
                }
            }
        }
    }

    pub(crate) fn show(&self, now: Timestamp) -> Markup {
        let known = |figure: Option<u64>| figure.map_or_else(|| "—".to_owned(), number);
        let class = |figure: u64| if figure == 0 { "good" } else { "bad" };
        html! {
            section class="card story" aria-label="The demonstration" {
                @if let Some(verdict) = &self.verdict {
                    p class=(if verdict.kept { "note good" } else { "note bad" }) role="status" {
                        strong { (verdict.words) }
                    }
                }
                ol class="chapters" {
                    @for chapter in &self.chapters {
                        li class=(chapter.state.class()) aria-current=[(chapter.state == ChapterState::Now).then_some("step")] {
                            strong { (chapter.title) }
                            @if !chapter.told.is_empty() { span { (chapter.told) } }
                        }
                    }
                }
                dl class="strip" {
                    div { dt { "Acknowledged" } dd { (number(self.acknowledged)) } }
                    div { dt { "Found" } dd { (self.counted(now)) } }
                    div { dt { "Lost" } dd class=[self.lost.map(class)] { (known(self.lost)) } }
                    div { dt { "Doubled" } dd class=[self.doubled.map(class)] { (known(self.doubled)) } }
                    div { dt { "Failed requests" } dd class=(class(self.failed)) { (number(self.failed)) } }
                    div { dt { "Retried requests" } dd { (number(self.sent_again)) } }
                    div { dt { "Write pause at the cutover" } dd {
                        @match self.pause_ms { Some(ms) => { (ms) " ms" } None => { "—" } }
                    } }
                    (link("The finding", "hotspots", self.hotspot_id.as_deref(), "read it"))
                    (link("The plan", "plans", self.plan_id.as_deref(), "read it"))
                    (link("The migration", "moves", self.move_id.as_deref(), "watch it"))
                }
            }
            br;
        }
    }
}

/// A link to a page with details, once that page exists.
fn link(title: &str, room: &str, id: Option<&str>, words: &str) -> Markup {
    html! {
        @if let Some(id) = id {
            div { dt { (title) } dd { a class="small" href=(format!("/console/{room}/{id}")) { (words) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_shown_with_its_total_and_age() {
        let mut story = Story {
            acknowledged: 3_120,
            found: Some(2_999),
            counted_at_ms: Some(10_000),
            acknowledged_then: Some(2_997),
            lost: Some(0),
            ..Story::default()
        };
        let shown = |story: &Story, ms| {
            let shown = story.show(Timestamp::from_unix_ms(ms)).into_string();
            shown.replace("<small>", "").replace("</small>", "")
        };
        assert!(
            shown(&story, 13_400).contains("2,997 of 2,997 acknowledged when counted, 3.0 s ago")
        );
        assert!(shown(&story, 10_100).contains("when counted, just now"));
        story.lost = Some(2);
        assert!(
            shown(&story, 13_400).contains("2,995 of 2,997"),
            "two are missing"
        );
        assert!(!story.is_over());
        story.verdict = Some(DemoVerdict {
            kept: true,
            words: "No vote was lost.".to_owned(),
        });
        assert!(shown(&story, 0).contains("No vote was lost.") && story.is_over());
    }

    #[test]
    fn a_story_is_read_back_and_an_invalid_file_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("story.json");
        let story = Story {
            acknowledged: 1_234,
            lost: Some(0),
            ..Story::default()
        };
        std::fs::write(&file, serde_json::to_vec(&story).unwrap()).unwrap();
        assert_eq!(Story::read(&file), Some(story.clone()));
        let shown = story.show(Timestamp::from_unix_ms(0)).into_string();
        assert!(shown.contains("1,234"));
        std::fs::write(&file, "{").unwrap();
        assert_eq!(Story::read(&file), None);
        assert_eq!(Story::read(&directory.path().join("none")), None);
    }
}
