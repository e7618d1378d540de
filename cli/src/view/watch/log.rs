//! Logs an execution line by line, for a pipe: each change once, with its time. Pure: snapshots in,
//! lines out.

use std::collections::{BTreeMap, BTreeSet};

use ballast_domain::Timestamp;

use super::bar::format_percent;
use super::position::{describe_activity, describe_place, signal_command};
use crate::execution::body::{Execution, HistoryEvent, Position, PositionActivity, TaskProgress};
use crate::execution::state_history::{StateChange, StateEvent, StateHistory};
use crate::table::{format_number, sanitize};
use crate::time::format_duration;

/// Log progress again after this share of the total, or this time.
const SHARE_STEP: f64 = 0.05;
const STEP_MS: i64 = 10_000;

/// What was logged so far.
#[derive(Debug, Default)]
pub(crate) struct ExecutionLog {
    story: StateHistory,
    from_start: bool,
    begun: bool,
    lost: Option<Timestamp>,
    paused: bool,
    positions: BTreeSet<String>,
    progress: BTreeMap<(String, u64, i64), (f64, i64)>,
}

impl ExecutionLog {
    /// Logs from now on, or from the start of the execution.
    pub(crate) fn new(from_start: bool) -> Self {
        Self {
            from_start,
            ..Self::default()
        }
    }

    /// Returns the lines for a new snapshot.
    pub(crate) fn log_changes(
        &mut self,
        execution: &Execution,
        events: &[HistoryEvent],
        now: Timestamp,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let first = !std::mem::replace(&mut self.begun, true);
        if let Some(since) = self.lost.take() {
            let away = format_duration(now.unix_ms() - since.unix_ms());
            let place = describe_standing(execution);
            lines.push(timed_line(now, &format!("reconnected after {away}{place}")));
        }
        if first {
            lines.push(self.head(execution, now));
            self.paused = execution.paused;
        }
        let silent = first && !self.from_start;
        for event in events {
            let happened = self.story.apply(event).filter(|_| !silent);
            lines.extend(happened.map(|item| timed_line(event.timestamp, &describe_event(&item))));
        }
        // Log timestamped progress before current positions.
        let mut known: Vec<&TaskProgress> = execution.progress.iter().collect();
        known.sort_by_key(|progress| progress.at);
        for progress in known {
            lines.extend(self.progress(progress));
        }
        if execution.paused != self.paused && !execution.status.is_ended() {
            self.paused = execution.paused;
            let word = if self.paused { "paused" } else { "resumed" };
            lines.push(timed_line(now, word));
        }
        for position in &execution.position {
            lines.extend(self.position(execution, position, now));
        }
        lines
    }

    /// The first line. From the start it has the start time, so that the times are in order.
    fn head(&self, execution: &Execution, now: Timestamp) -> String {
        let id = &execution.id;
        if self.from_start {
            return timed_line(execution.started_at, &format!("{id} started"));
        }
        let status = execution.status.as_str();
        let place = describe_standing(execution);
        let item = execution.progress.iter().map(|progress| progress.at);
        let earliest = item.fold(now, Timestamp::min);
        timed_line(earliest, &format!("{id} is {status}{place}"))
    }

    /// The line for a lost connection.
    pub(crate) fn log_disconnected(&mut self, now: Timestamp) -> String {
        self.lost.get_or_insert(now);
        timed_line(now, "connection lost, reconnecting…")
    }

    /// Logs a position that waits, with when or how it continues.
    fn position(&mut self, whole: &Execution, it: &Position, now: Timestamp) -> Option<String> {
        let signal = match it.doing {
            PositionActivity::Waiting | PositionActivity::BackingOff => String::new(),
            PositionActivity::AwaitingCallback => format!(": {}", signal_command(&whole.id, it)),
            _ => return None,
        };
        let place = describe_place(it);
        let key = format!("{place} {:?} {} {}", it.doing, it.attempt, it.entered_at);
        let new = self.positions.insert(key);
        new.then(|| {
            timed_line(
                now,
                &format!(
                    "{place}: {}{signal}",
                    describe_activity(it, whole.paused, now)
                ),
            )
        })
    }

    fn progress(&mut self, item: &TaskProgress) -> Option<String> {
        let key = (item.state.clone(), item.task, item.begun_at.unix_ms());
        let total = item.total.filter(|total| *total > 0);
        let share = total.map(|total| item.done as f64 / total as f64);
        let (now, ms) = (share.unwrap_or(0.0), item.at.unix_ms());
        let due = match self.progress.get(&key) {
            None => true,
            Some((last, _)) if now >= 1.0 => *last < 1.0,
            Some((last, last_ms)) => now - last >= SHARE_STEP || ms - last_ms >= STEP_MS,
        };
        if !due {
            return None;
        }
        self.progress.insert(key, (now, ms));
        let mut words = vec![format!("{}:", item.state)];
        words
            .extend(share.map(|share| format!("{},", format_percent(share.min(1.0)).trim_start())));
        words.push(format_number(item.done));
        words.extend(total.map(|total| format!("of {}", format_number(total))));
        words.push(item.unit.clone());
        let note = item.note.as_deref().unwrap_or_default();
        words.extend((!note.is_empty()).then(|| format!("({note})")));
        words.retain(|word| !word.is_empty());
        Some(timed_line(item.at, &words.join(" ")))
    }
}

fn timed_line(moment: Timestamp, text: &str) -> String {
    sanitize(&format!("{moment} {text}"))
}

/// Its current states, in few words.
fn describe_standing(execution: &Execution) -> String {
    let places: Vec<String> = execution.position.iter().map(describe_place).collect();
    let paused = if execution.paused { ", paused" } else { "" };
    if places.is_empty() {
        paused.to_owned()
    } else {
        format!("{paused}, in {}", places.join(", "))
    }
}

fn describe_event(item: &StateEvent) -> String {
    let state = &item.state;
    match &item.what {
        StateChange::Entered => format!("entered {state}"),
        StateChange::Left => format!("left {state}"),
        StateChange::Caught(error) => format!("left {state}, which failed: {error}"),
        StateChange::Failed(error) => format!("{state} failed: {error}"),
        StateChange::TriedAgain => format!("{state} is tried again"),
    }
}
