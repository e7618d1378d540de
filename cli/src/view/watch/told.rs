//! An execution told line by line, for a pipe or a log: each change once, with
//! its time. Pure: what is heard goes in, lines come out.

use std::collections::{BTreeMap, BTreeSet};

use ballast_domain::Timestamp;

use super::bar::percent;
use super::position::{doing, how_to_signal, place};
use crate::execution::body::{Doing, Execution, HistoryEvent, Position, Progress};
use crate::execution::story::{Happening, Story, What};
use crate::table::{clean, number};
use crate::time::span;

/// Progress is told again after so much of the whole, or so long.
const SHARE_STEP: f64 = 0.05;
const STEP_MS: i64 = 10_000;

/// Whoever tells, with what was told.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    story: Story,
    from_start: bool,
    begun: bool,
    lost: Option<Timestamp>,
    paused: bool,
    positions: BTreeSet<String>,
    progress: BTreeMap<(String, u64, i64), (f64, i64)>,
}

impl Teller {
    /// Tells from now on, or also what happened before.
    pub(crate) fn new(from_start: bool) -> Self {
        Self {
            from_start,
            ..Self::default()
        }
    }

    /// The lines for what was heard.
    pub(crate) fn tell(
        &mut self,
        execution: &Execution,
        events: &[HistoryEvent],
        now: Timestamp,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let first = !std::mem::replace(&mut self.begun, true);
        if let Some(since) = self.lost.take() {
            let away = span(now.unix_ms() - since.unix_ms());
            let place = standing(execution);
            lines.push(at(now, &format!("connected again after {away}{place}")));
        }
        if first {
            lines.push(self.head(execution, now));
            self.paused = execution.paused;
        }
        let silent = first && !self.from_start;
        for event in events {
            let happened = self.story.take(event).filter(|_| !silent);
            lines.extend(happened.map(|told| at(event.timestamp, &words(&told))));
        }
        // What is known with its time comes before what is told as of now.
        let mut known: Vec<&Progress> = execution.progress.iter().collect();
        known.sort_by_key(|progress| progress.at);
        for progress in known {
            lines.extend(self.progress(progress));
        }
        if execution.paused != self.paused && !execution.status.is_ended() {
            self.paused = execution.paused;
            let word = if self.paused { "paused" } else { "resumed" };
            lines.push(at(now, word));
        }
        for position in &execution.position {
            lines.extend(self.position(execution, position, now));
        }
        lines
    }

    /// The first line, with a time that none after it is before: whoever is
    /// told from the start is told of the start.
    fn head(&self, execution: &Execution, now: Timestamp) -> String {
        let id = &execution.id;
        if self.from_start {
            return at(execution.started_at, &format!("{id} started"));
        }
        let status = execution.status.as_str();
        let place = standing(execution);
        let told = execution.progress.iter().map(|progress| progress.at);
        let earliest = told.fold(now, Timestamp::min);
        at(earliest, &format!("{id} is {status}{place}"))
    }

    /// The line for a connection that is lost.
    pub(crate) fn lost(&mut self, now: Timestamp) -> String {
        self.lost.get_or_insert(now);
        at(now, "connection lost, trying again…")
    }

    /// What will not happen by itself or not at once is told with when or how.
    fn position(&mut self, whole: &Execution, it: &Position, now: Timestamp) -> Option<String> {
        let signal = match it.doing {
            Doing::Waiting | Doing::BackingOff => String::new(),
            Doing::AwaitingCallback => format!(": {}", how_to_signal(&whole.id, it)),
            _ => return None,
        };
        let place = place(it);
        let key = format!("{place} {:?} {} {}", it.doing, it.attempt, it.entered_at);
        let new = self.positions.insert(key);
        new.then(|| {
            at(
                now,
                &format!("{place}: {}{signal}", doing(it, whole.paused, now)),
            )
        })
    }

    fn progress(&mut self, told: &Progress) -> Option<String> {
        let key = (told.state.clone(), told.task, told.begun_at.unix_ms());
        let total = told.total.filter(|total| *total > 0);
        let share = total.map(|total| told.done as f64 / total as f64);
        let (now, ms) = (share.unwrap_or(0.0), told.at.unix_ms());
        let due = match self.progress.get(&key) {
            None => true,
            Some((last, _)) if now >= 1.0 => *last < 1.0,
            Some((last, last_ms)) => now - last >= SHARE_STEP || ms - last_ms >= STEP_MS,
        };
        if !due {
            return None;
        }
        self.progress.insert(key, (now, ms));
        let mut words = vec![format!("{}:", told.state)];
        words.extend(share.map(|share| format!("{},", percent(share.min(1.0)).trim_start())));
        words.push(number(told.done));
        words.extend(total.map(|total| format!("of {}", number(total))));
        words.push(told.unit.clone());
        let note = told.note.as_deref().unwrap_or_default();
        words.extend((!note.is_empty()).then(|| format!("({note})")));
        words.retain(|word| !word.is_empty());
        Some(at(told.at, &words.join(" ")))
    }
}

fn at(moment: Timestamp, text: &str) -> String {
    clean(&format!("{moment} {text}"))
}

/// Where it stands, in few words.
fn standing(execution: &Execution) -> String {
    let places: Vec<String> = execution.position.iter().map(place).collect();
    let paused = if execution.paused { ", paused" } else { "" };
    if places.is_empty() {
        paused.to_owned()
    } else {
        format!("{paused}, in {}", places.join(", "))
    }
}

fn words(told: &Happening) -> String {
    let state = &told.state;
    match &told.what {
        What::Entered => format!("entered {state}"),
        What::Left => format!("left {state}"),
        What::Caught(error) => format!("left {state}, which failed: {error}"),
        What::Failed(error) => format!("{state} failed: {error}"),
        What::TriedAgain => format!("{state} is tried again"),
    }
}
