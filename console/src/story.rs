//! What whoever runs a demonstration tells, shown above the fleet: which
//! chapter it is, and whether a vote was lost so far. It is read from a file,
//! so that it outlives the process that is killed in the middle of it.

use std::path::Path;

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use crate::page::words::number;

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

    pub(crate) fn show(&self) -> Markup {
        let known = |figure: Option<u64>| figure.map_or_else(|| "—".to_owned(), number);
        let class = |figure: u64| if figure == 0 { "good" } else { "bad" };
        html! {
            section class="card story" aria-label="The demonstration" {
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
                    div { dt { "Found" } dd { (known(self.found)) } }
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
        assert!(story.show().into_string().contains("1,234"));
        std::fs::write(&file, "{").unwrap();
        assert_eq!(Story::read(&file), None);
        assert_eq!(Story::read(&directory.path().join("none")), None);
    }
}
