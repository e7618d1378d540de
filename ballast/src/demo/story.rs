//! The story as it is told: a line in the terminal when a chapter begins, a
//! file for the page, and the summary at the end.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ballast_console::{Chapter, Progress, Story, Verdict};
use ballast_domain::Clock as _;
use serde::Serialize;

use super::api::Api;
use super::chapters::Ended;
use super::count::{self, Found};
use super::crowd::Crowd;
use crate::machine::SystemClock;
use ballast_cli::Screen;

/// How often the figures on the page are brought up to date.
const EVERY: Duration = Duration::from_millis(500);
/// How often votes are counted while people vote.
const COUNT_EVERY: Duration = Duration::from_secs(3);

/// The chapters: a word to name them, and what they are called.
const CHAPTERS: [(&str, &str); 6] = [
    ("people", "People vote"),
    ("crowd", "A flash crowd"),
    ("diagnosis", "What is hot"),
    ("move", "A move under fire"),
    ("kill", "kill -9 in the middle"),
    ("gone", "The hotspot is gone"),
];

/// Whoever tells it.
pub(super) struct Teller {
    story: Mutex<Story>,
    file: PathBuf,
    screen: Screen,
}

impl Teller {
    pub(super) fn new(file: PathBuf, screen: &Screen, chaos: bool) -> Self {
        let titles = CHAPTERS.iter().map(|(_, title)| *title);
        let more = chaos.then_some("Chaos");
        let chapter = |title: &str| Chapter {
            title: title.to_owned(),
            ..Chapter::default()
        };
        let story = Story {
            chapters: titles.chain(more).map(chapter).collect(),
            ..Story::default()
        };
        Self {
            story: Mutex::new(story),
            file,
            screen: screen.clone(),
        }
    }

    /// Begins a chapter, or goes on with it.
    pub(super) fn begin(&self, chapter: &str, told: &str) {
        let known = CHAPTERS.iter().position(|(name, _)| *name == chapter);
        let place = known.unwrap_or(CHAPTERS.len());
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = None;
        for (number, held) in story.chapters.iter_mut().enumerate() {
            held.state = match number.cmp(&place) {
                std::cmp::Ordering::Less => Progress::Done,
                std::cmp::Ordering::Equal => Progress::Now,
                std::cmp::Ordering::Greater => Progress::Ahead,
            };
            if number == place {
                if held.told.is_empty() {
                    fresh = Some(format!("{}. {}", number + 1, held.title));
                }
                told.clone_into(&mut held.told);
            }
        }
        drop(story);
        if !self.screen.json {
            if let Some(title) = fresh {
                self.screen.note(&format!("\n{title}"));
            }
            self.screen.note(&format!("   {told}"));
        }
    }

    /// What somebody else says, word for word: for the terminal, because the
    /// page has a page for it.
    pub(super) fn quote(&self, letter: &str) {
        if self.screen.json {
            return;
        }
        let lines = letter.lines().map(|line| format!("     | {line}"));
        self.screen.note(&lines.collect::<Vec<_>>().join("\n"));
    }

    /// Notes the finding.
    pub(super) fn found(&self, hotspot: &str) {
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        story.hotspot_id = Some(hotspot.to_owned());
    }

    /// Notes the plan.
    pub(super) fn planned(&self, plan: &str) {
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        story.plan_id = Some(plan.to_owned());
    }

    /// Notes which move it is about, and how long its pause was.
    pub(super) fn moving(&self, id: &str, pause_ms: Option<u64>) {
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        story.move_id = Some(id.to_owned());
        story.pause_ms = pause_ms.or(story.pause_ms);
    }

    /// Notes what was counted.
    fn there(&self, found: &Found) {
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        story.counted_at_ms = Some(now_ms());
        story.acknowledged_then = Some(found.acknowledged);
        story.found = Some(found.votes);
        story.lost = Some(found.lost);
        story.doubled = Some(found.doubled);
    }

    /// Counts again and again until it is dropped, so that the page can tell
    /// while it happens.
    pub(super) async fn keep_counting(self: Arc<Self>, api: Api, crowd: Arc<Crowd>) {
        loop {
            tokio::time::sleep(COUNT_EVERY).await;
            // The fleet may be away: then the next count tells.
            if let Ok(found) = count::of(&api, &crowd).await {
                self.there(&found);
            }
        }
    }

    /// Notes what was found at the end.
    pub(super) fn counted(&self, crowd: &Crowd, found: &Found) {
        self.there(found);
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        for chapter in &mut story.chapters {
            chapter.state = Progress::Done;
        }
        let failed = crowd.failed.load(Ordering::SeqCst);
        story.verdict = Some(verdict(found.lost, found.doubled, failed));
        drop(story);
        self.write(crowd);
    }

    /// Writes the page's file: whole or not at all.
    pub(super) fn write(&self, crowd: &Crowd) {
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        story.acknowledged = crowd.acknowledged.load(Ordering::SeqCst);
        story.failed = crowd.failed.load(Ordering::SeqCst);
        story.sent_again = crowd.sent_again.load(Ordering::SeqCst);
        let draft = self.file.with_extension("new");
        let text = serde_json::to_vec(&*story).unwrap_or_default();
        // A page that is a moment behind is no reason to end the story.
        let _ = std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, &self.file));
    }

    /// Keeps the page's figures up to date until it is dropped.
    pub(super) async fn keep_telling(self: Arc<Self>, crowd: Arc<Crowd>) {
        loop {
            self.write(&crowd);
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// How it came out.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    acknowledged: u64,
    found: u64,
    lost: u64,
    doubled: u64,
    failed_requests: u64,
    sent_again: u64,
    slowest_vote_ms: u64,
    kills: u32,
    moves: u32,
    pause_ms: Option<u64>,
    longest_pause_ms: Option<u64>,
    tenant: Option<String>,
    from_shard: Option<String>,
    to_shard: Option<String>,
    migration: Option<String>,
    /// Who had it moved: `hotspots`, the product's own loop, or `hand`.
    moved_by: Option<&'static str>,
    hotspot: Option<String>,
    plan: Option<String>,
    /// What the hotspot loop says of its own move.
    verdict: Option<String>,
    /// How full the hot shard was and is, in percent of what it can take.
    fill_before: Option<u64>,
    fill_after: Option<u64>,
}

impl Summary {
    pub(super) fn of(crowd: &Crowd, found: &Found, ended: &Ended) -> Self {
        Self {
            acknowledged: crowd.acknowledged.load(Ordering::SeqCst),
            found: found.votes,
            lost: found.lost,
            doubled: found.doubled,
            failed_requests: crowd.failed.load(Ordering::SeqCst),
            sent_again: crowd.sent_again.load(Ordering::SeqCst),
            slowest_vote_ms: crowd.slowest_ms.load(Ordering::SeqCst),
            kills: ended.kills,
            moves: ended.moves,
            pause_ms: ended.pause_ms,
            longest_pause_ms: ended.longest_pause_ms,
            tenant: ended.tenant.clone(),
            from_shard: ended.from.clone(),
            to_shard: ended.to.clone(),
            migration: ended.migration.clone(),
            moved_by: ended.moved_by,
            hotspot: ended.hotspot.clone(),
            plan: ended.plan.clone(),
            verdict: ended.verdict.clone(),
            fill_before: ended.fill.map(|(before, _)| before),
            fill_after: ended.fill.map(|(_, after)| after),
        }
    }

    /// Whether the promise was kept.
    pub(super) fn is_good(&self) -> bool {
        verdict(self.lost, self.doubled, self.failed_requests).kept
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let way = match (&self.tenant, &self.from_shard, &self.to_shard) {
            (Some(tenant), Some(from), Some(to)) => format!("{tenant} moved {from} → {to}"),
            _ => "nothing moved".to_owned(),
        };
        let pause = self
            .pause_ms
            .map_or_else(|| "none".to_owned(), |ms| format!("{ms} ms"));
        let by = match self.moved_by {
            Some("hotspots") => ", by the hotspot loop",
            Some(_) => ", by hand",
            None => "",
        };
        let relief = match (&self.from_shard, self.fill_before, self.fill_after) {
            (Some(shard), Some(before), Some(after)) => {
                format!("{shard} {before} % → {after} % of what it can take")
            }
            _ => "not followed to its end".to_owned(),
        };
        let verdict = verdict(self.lost, self.doubled, self.failed_requests).words;
        format!(
            "\n{verdict}\n\
             \x20 acknowledged     {}\n\
             \x20 found            {}\n\
             \x20 lost             {}\n\
             \x20 doubled          {}\n\
             \x20 failed requests  {}\n\
             \x20 sent again       {}   (while the process was down)\n\
             \x20 killed           {}, with {} ({way}{by})\n\
             \x20 hotspot          {relief}\n\
             \x20 pause            {pause} at the cutover; the slowest vote took {} ms\n",
            self.acknowledged,
            self.found,
            self.lost,
            self.doubled,
            self.failed_requests,
            self.sent_again,
            counted(self.kills, "time"),
            counted(self.moves, "move"),
            self.slowest_vote_ms,
        )
    }
}

/// Whether the promise was kept, in the words of the terminal and the page.
fn verdict(lost: u64, doubled: u64, failed: u64) -> Verdict {
    let kept = lost == 0 && doubled == 0 && failed == 0;
    let words = match kept {
        true => "No vote was lost, none was counted twice, no request failed.",
        false => "THE PROMISE WAS BROKEN.",
    };
    Verdict {
        kept,
        words: words.to_owned(),
    }
}

/// The time, in milliseconds since 1970.
fn now_ms() -> i64 {
    SystemClock.now().unix_ms()
}

/// `1 move`, `2 moves`.
fn counted(number: u32, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
