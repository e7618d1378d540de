//! Writes the story: a line on the terminal when a chapter begins, a file for the console, and the
//! summary at the end.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ballast_console::{Chapter, ChapterState, DemoVerdict, Story};
use ballast_domain::Clock as _;
use serde::Serialize;

use super::api::FleetApi;
use super::chapters::DemoResult;
use super::count::{self, VoteCount};
use super::crowd::Voters;
use crate::machine::SystemClock;
use ballast_cli::Screen;

/// How often the figures on the page are updated.
const EVERY: Duration = Duration::from_millis(500);
/// How often votes are counted while people vote.
const COUNT_EVERY: Duration = Duration::from_secs(3);

/// The chapters: a key and a title.
const CHAPTERS: [(&str, &str); 6] = [
    ("people", "People vote"),
    ("crowd", "A flash crowd"),
    ("diagnosis", "The diagnosis"),
    ("move", "A migration under load"),
    ("kill", "kill -9 in the middle"),
    ("gone", "The hotspot is gone"),
];

/// Writes the story to the terminal and to the console's file.
pub(super) struct StoryWriter {
    story: Mutex<Story>,
    file: PathBuf,
    screen: Screen,
}

impl StoryWriter {
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

    /// Begins or continues a chapter.
    pub(super) fn begin(&self, chapter: &str, told: &str) {
        let known = CHAPTERS.iter().position(|(name, _)| *name == chapter);
        let place = known.unwrap_or(CHAPTERS.len());
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = None;
        for (number, held) in story.chapters.iter_mut().enumerate() {
            held.state = match number.cmp(&place) {
                std::cmp::Ordering::Less => ChapterState::Done,
                std::cmp::Ordering::Equal => ChapterState::Now,
                std::cmp::Ordering::Greater => ChapterState::Ahead,
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

    /// Quotes a diagnosis on the terminal; the console has a page for it.
    pub(super) fn quote(&self, letter: &str) {
        if self.screen.json {
            return;
        }
        let lines = letter.lines().map(|line| format!("     | {line}"));
        self.screen.note(&lines.collect::<Vec<_>>().join("\n"));
    }

    /// Records the hotspot.
    pub(super) fn record_hotspot(&self, hotspot: &str) {
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        story.hotspot_id = Some(hotspot.to_owned());
    }

    /// Records the plan.
    pub(super) fn record_plan(&self, plan: &str) {
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        story.plan_id = Some(plan.to_owned());
    }

    /// Records the migration and its write pause.
    pub(super) fn record_migration(&self, id: &str, pause_ms: Option<u64>) {
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        story.move_id = Some(id.to_owned());
        story.pause_ms = pause_ms.or(story.pause_ms);
    }

    /// Records a count.
    fn record_count(&self, found: &VoteCount) {
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        story.counted_at_ms = Some(now_ms());
        story.acknowledged_then = Some(found.acknowledged);
        story.found = Some(found.votes);
        story.lost = Some(found.lost);
        story.doubled = Some(found.doubled);
    }

    /// Counts periodically until it is dropped, for the page.
    pub(super) async fn run_counter(self: Arc<Self>, api: FleetApi, crowd: Arc<Voters>) {
        loop {
            tokio::time::sleep(COUNT_EVERY).await;
            // The fleet may be down; the next count succeeds.
            if let Ok(found) = count::count_all_votes(&api, &crowd).await {
                self.record_count(&found);
            }
        }
    }

    /// Records the final count.
    pub(super) fn finish(&self, crowd: &Voters, found: &VoteCount) {
        self.record_count(found);
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        for chapter in &mut story.chapters {
            chapter.state = ChapterState::Done;
        }
        let failed = crowd.failed.load(Ordering::SeqCst);
        story.verdict = Some(judge(found.lost, found.doubled, failed));
        drop(story);
        self.write(crowd);
    }

    /// Writes the page's file atomically.
    pub(super) fn write(&self, crowd: &Voters) {
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        story.acknowledged = crowd.acknowledged.load(Ordering::SeqCst);
        story.failed = crowd.failed.load(Ordering::SeqCst);
        story.sent_again = crowd.sent_again.load(Ordering::SeqCst);
        let draft = self.file.with_extension("new");
        let text = serde_json::to_vec(&*story).unwrap_or_default();
        // Ignore errors: the next write updates the page.
        let _ = std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, &self.file));
    }

    /// Updates the page's figures until it is dropped.
    pub(super) async fn run_writer(self: Arc<Self>, crowd: Arc<Voters>) {
        loop {
            self.write(&crowd);
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// The summary.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DemoSummary {
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
    /// What moved the tenant: `hotspots`, the product's own loop, or `hand`.
    moved_by: Option<&'static str>,
    hotspot: Option<String>,
    plan: Option<String>,
    /// The hotspot loop's verdict on its plan.
    verdict: Option<String>,
    /// Utilisation of the hot shard before and after, in percent of its capacity.
    fill_before: Option<u64>,
    fill_after: Option<u64>,
}

impl DemoSummary {
    pub(super) fn new(crowd: &Voters, found: &VoteCount, ended: &DemoResult) -> Self {
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

    /// Whether no vote was lost, counted twice or refused.
    pub(super) fn is_good(&self) -> bool {
        judge(self.lost, self.doubled, self.failed_requests).kept
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
                format!("{shard} from {before} % to {after} % of capacity")
            }
            _ => "not measured".to_owned(),
        };
        let verdict = judge(self.lost, self.doubled, self.failed_requests).words;
        format!(
            "\n{verdict}\n\
             \x20 acknowledged     {}\n\
             \x20 found            {}\n\
             \x20 lost             {}\n\
             \x20 doubled          {}\n\
             \x20 failed requests  {}\n\
             \x20 retried          {}   (while the process was down)\n\
             \x20 killed           {}, with {} ({way}{by})\n\
             \x20 hotspot          {relief}\n\
             \x20 write pause      {pause}; the slowest vote took {} ms\n",
            self.acknowledged,
            self.found,
            self.lost,
            self.doubled,
            self.failed_requests,
            self.sent_again,
            count_noun(self.kills, "time"),
            count_noun(self.moves, "migration"),
            self.slowest_vote_ms,
        )
    }
}

/// The verdict for the terminal and the page.
fn judge(lost: u64, doubled: u64, failed: u64) -> DemoVerdict {
    let kept = lost == 0 && doubled == 0 && failed == 0;
    let words = match kept {
        true => "No vote was lost, none was counted twice, no request failed.",
        false => "FAILED: votes were lost, counted twice or refused.",
    };
    DemoVerdict {
        kept,
        words: words.to_owned(),
    }
}

/// The time, in milliseconds since 1970.
fn now_ms() -> i64 {
    SystemClock.now().unix_ms()
}

/// `1 move`, `2 moves`.
fn count_noun(number: u32, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
