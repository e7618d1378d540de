//! Logs a migration line by line, for a pipe: each change once, with its time. Pure: snapshots in,
//! lines out.

use ballast_domain::Timestamp;

use super::phase_label;
use crate::migration::body::MigrationBody;
use crate::table::{format_number, sanitize};
use crate::time::format_duration;
use crate::view::certificate::count_times;
use crate::view::migrations::{describe_progress, describe_return, describe_subject, has_progress};

/// Log progress again after this share of the total, or this time.
const SHARE_STEP: f64 = 0.05;
const STEP_MS: i64 = 10_000;

/// What was logged so far.
#[derive(Debug, Default)]
pub(crate) struct MigrationLog {
    before: Option<MigrationBody>,
    lost: Option<Timestamp>,
    /// The share that was logged last, and when.
    share: f64,
    at_ms: i64,
}

impl MigrationLog {
    /// Returns the lines for a new snapshot.
    pub(crate) fn log_changes(&mut self, migration: &MigrationBody, now: Timestamp) -> Vec<String> {
        let mut messages = Vec::new();
        let before = self.before.replace(migration.clone());
        if let Some(since) = self.lost.take() {
            let away = format_duration(now.unix_ms() - since.unix_ms());
            messages.push(format!(
                "reconnected after {away}, phase: {}",
                phase_label(&migration.phase)
            ));
        }
        let Some(before) = before else {
            let record = &migration.record;
            messages.push(format!(
                "{} of {} from {} to {} is {}, phase: {}",
                migration.id(),
                describe_subject(record.tenant_id.as_str(), record.slice),
                record.from,
                record.to,
                migration.status,
                phase_label(&migration.phase)
            ));
            messages.extend(changes(None, migration));
            messages.extend(self.progress(migration, true, now));
            return timed_lines(now, &messages);
        };
        let entered = before.phase != migration.phase;
        if entered && !migration.record.is_over() {
            messages.push(format!("phase: {}", phase_label(&migration.phase)));
        }
        messages.extend(changes(Some(&before), migration));
        messages.extend(self.progress(migration, entered, now));
        if before.status != migration.status {
            messages.push(format!("is {}", migration.status));
        }
        timed_lines(now, &messages)
    }

    /// The line for a lost connection.
    pub(crate) fn log_disconnected(&mut self, now: Timestamp) -> String {
        self.lost.get_or_insert(now);
        format!("{now} connection lost, reconnecting…")
    }

    fn progress(
        &mut self,
        migration: &MigrationBody,
        fresh: bool,
        now: Timestamp,
    ) -> Option<String> {
        let it = &migration.progress;
        if !has_progress(migration) || migration.record.waiting_for.is_some() {
            return None;
        }
        let total = it.total.filter(|total| *total > 0);
        let share = total.map_or(0.0, |total| (it.done as f64 / total as f64).min(1.0));
        let due = match share >= 1.0 {
            true => self.share < 1.0,
            false => share - self.share >= SHARE_STEP || now.unix_ms() - self.at_ms >= STEP_MS,
        };
        if !fresh && !due {
            return None;
        }
        (self.share, self.at_ms) = (share, now.unix_ms());
        Some(format!(
            "{}: {}",
            phase_label(&migration.phase),
            describe_progress(migration)
        ))
    }
}

/// The changes of a migration's record.
fn changes(before: Option<&MigrationBody>, now: &MigrationBody) -> Vec<String> {
    let mut messages = Vec::new();
    let old = before.map(|before| &before.record);
    let new = &now.record;
    let waited = old.and_then(|old| old.waiting_for.as_ref());
    match &new.waiting_for {
        Some(why) if waited != Some(why) => messages.push(format!("waiting for {why}")),
        None if waited.is_some() => messages.push("no longer waiting".to_owned()),
        _ => {}
    }
    let paused = old.is_some_and(|old| old.asked.paused.is_some());
    match &new.asked.paused {
        Some(word) if !paused => messages.push(format!("paused by {}", word.actor)),
        None if paused => messages.push("resumed".to_owned()),
        _ => {}
    }
    let was_asked = |pick: fn(&ballast_domain::migration::MigrationRequests) -> bool| {
        pick(&new.asked) && !old.is_some_and(|old| pick(&old.asked))
    };
    if was_asked(|asked| asked.approved.is_some()) {
        messages.push("approved".to_owned());
    }
    if let Some(back) = &new.asked.back
        && was_asked(|asked| asked.back.is_some())
    {
        messages.push(describe_return(back.how).to_owned());
    }
    if was_asked(|asked| asked.complete.is_some()) {
        messages.push("end of the window requested".to_owned());
    }
    let pause = before.and_then(|before| before.pause_ms);
    if let Some(ms) = now.pause_ms.filter(|_| pause != now.pause_ms) {
        messages.push(format!("write pause {ms} ms"));
    }
    if let Some(differences) = difference(old, new) {
        messages.push(differences);
    }
    let known = old.map_or(&[][..], |old| &old.findings[..]);
    let news = new.findings.iter().filter(|one| !known.contains(one));
    messages.extend(news.map(describe_finding));
    let was_over = old.is_some_and(|old| old.ended.is_some());
    let ended = new.ended.as_ref().filter(|_| !was_over);
    if let Some(why) = ended.and_then(|ended| ended.why.as_ref()) {
        messages.push(format!("ended: {why}"));
    }
    messages
}

/// Describes a finding in one line.
pub(crate) fn describe_finding(finding: &ballast_domain::migration::MigrationFinding) -> String {
    let ballast_domain::migration::MigrationFinding {
        shard, what, then, ..
    } = finding;
    format!("{shard} has wrong data: {what} ({then})")
}

/// New differences between both shards.
fn difference(
    old: Option<&ballast_domain::migration::Migration>,
    new: &ballast_domain::migration::Migration,
) -> Option<String> {
    let before = old.map_or(0, |old| old.figures.differences);
    let now = &new.figures;
    (now.differences > before).then(|| {
        format!(
            "both shards differed {} in {} comparisons",
            count_times(now.differences),
            format_number(now.compared)
        )
    })
}

fn timed_lines(now: Timestamp, messages: &[String]) -> Vec<String> {
    messages
        .iter()
        .map(|text| sanitize(&format!("{now} {text}")))
        .collect()
}
