//! What whoever runs a demonstration tells, shown above the fleet: which
//! chapter it is, and whether a vote was lost so far. It is read from a file,
//! so that it outlives the process that is killed in the middle of it.

use std::path::Path;

use ballast_domain::Timestamp;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use crate::page::words::{number, span};

/// A story is not longer than this.
const BYTES_MAX: u64 = 64 * 1_024;

/// What is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Story {
    /// The chapters, in order.
    pub chapters: Vec<Chapter>,
    /// Votes that clients were told are counted.
    pub acknowledged: u64,
    /// Votes that were found when it was last counted.
    pub found: Option<u64>,
    /// When it was last counted, in milliseconds since 1970.
    pub counted_at_ms: Option<i64>,
    /// Votes that were acknowledged before that count: all of them must be in
    /// it. More have been since.
    pub acknowledged_then: Option<u64>,
    /// Votes that were acknowledged and not found.
    pub lost: Option<u64>,
    /// Votes that were counted more than once.
    pub doubled: Option<u64>,
    /// Requests that were answered with an error.
    pub failed: u64,
    /// Requests that were sent again because the process was away.
    pub sent_again: u64,
    /// How long nobody could vote at the cutover, in milliseconds.
    pub pause_ms: Option<u64>,
    /// The hotspot that was found.
    pub hotspot_id: Option<String>,
    /// The plan that was made for it.
    pub plan_id: Option<String>,
    /// The move that it is about.
    pub move_id: Option<String>,
    /// How it came out, once it is over.
    pub verdict: Option<Verdict>,
}

/// How it came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the promise was kept.
    pub kept: bool,
    /// The same in a sentence.
    pub words: String,
}

/// A chapter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chapter {
    /// What it is called.
    pub title: String,
    /// What has happened in it; empty before it begins.
    pub told: String,
    /// How far it is.
    pub state: Progress,
}

/// How far a chapter is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Progress {
    /// It is to come.
    #[default]
    Ahead,
    /// It is being told.
    Now,
    /// It has been told.
    Done,
}

impl Progress {
    fn class(self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::Now => "now",
            Self::Done => "done",
        }
    }
}

impl Story {
    /// The story in a file, if there is one that can be read.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        if std::fs::metadata(file).ok()?.len() > BYTES_MAX {
            return None;
        }
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }

    /// Whether nothing more will be told.
    pub(crate) fn is_over(&self) -> bool {
        self.verdict.is_some()
    }

    /// What was found of what was acknowledged. While people vote, more is
    /// acknowledged than was counted: a count is told with its age, or it would
    /// look as if votes were missing.
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
                        li class=(chapter.state.class()) aria-current=[(chapter.state == Progress::Now).then_some("step")] {
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
                    div { dt { "Sent again" } dd { (number(self.sent_again)) } }
                    div { dt { "Pause at the cutover" } dd {
                        @match self.pause_ms { Some(ms) => { (ms) " ms" } None => { "—" } }
                    } }
                    (link("The finding", "hotspots", self.hotspot_id.as_deref(), "read it"))
                    (link("The plan", "plans", self.plan_id.as_deref(), "read it"))
                    (link("The move", "moves", self.move_id.as_deref(), "watch it"))
                }
            }
            br;
        }
    }
}

/// A page that more is told on, once there is one.
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
    fn a_count_is_told_with_what_it_is_of_and_how_old_it_is() {
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
        story.verdict = Some(Verdict {
            kept: true,
            words: "No vote was lost.".to_owned(),
        });
        assert!(shown(&story, 0).contains("No vote was lost.") && story.is_over());
    }

    #[test]
    fn a_story_survives_its_file_and_nonsense_is_none() {
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
