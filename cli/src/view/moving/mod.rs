//! The live view of a migration: renders its state and the time as lines of a
//! given width and height. Pure; `paint.rs` writes them to the terminal.
//!
//! ```text
//!   mv-1k6tq8zr4-0a1bc  running  12 s
//!   acme from shard-1 to shard-3
//!
//!   ✓ planning                   finished, current and
//!   ▶ copying                    future phases
//!       █████▌░░░░░  41 %  4,920 of 12,000 rows  3 s left  2,460 rows/s
//!   ○ verifying
//! ```

pub(crate) mod log;

#[cfg(test)]
mod tests;

use ballast_domain::Timestamp;
use ballast_domain::migration::{MigrationStage, MigrationStatus};

use super::certificate::count_times;
use super::migrations::{describe_subject, has_progress};
use super::watch::bar;
use super::watch::line::{Style, StyledLine};
use super::watch::{Connection, connection_line};
use crate::execution::body::TaskProgress;
use crate::migration::body::MigrationBody;
use crate::table::count_noun;
use crate::time::format_duration;

/// Maximum width.
const COLUMNS_MAX: usize = 120;

/// A workflow state of `move-tenant`, what operators call it, and what happens
/// in it. Only `--json` shows the names of the states.
struct PhaseInfo {
    state: &'static str,
    label: &'static str,
    summary: &'static str,
}

/// The phases of a migration that completes, in order.
const PHASES: [PhaseInfo; 10] = [
    phase("DetectHotspot", "detection", "what is hot, and why"),
    phase("PlanMove", "planning", "check limits, wait for its turn"),
    phase("EnsureParquetBackfill", "archiving", "archive closed polls"),
    phase("CreateDataSyncTask", "preparing", "prepare the target"),
    phase(
        "WaitForSync",
        "copying",
        "copy while the source accepts votes",
    ),
    phase("VerifyConsistency", "verifying", "read back and compare"),
    phase(
        "UpdateTenantRouting",
        "cutting over",
        "seal, compare, switch the route",
    ),
    phase(
        "EnableDualRead",
        "opening window",
        "read from both, stream back",
    ),
    phase("MonitorDualRead", "window", "compare both for the window"),
    phase("CleanupOldShard", "cleaning up", "remove the source's copy"),
];
/// The phase of one that goes back to its source.
const ROLLBACK: PhaseInfo = phase("Rollback", "rolling back", "restore the previous state");

const fn phase(state: &'static str, label: &'static str, summary: &'static str) -> PhaseInfo {
    PhaseInfo {
        state,
        label,
        summary,
    }
}

/// What operators call a workflow state of `move-tenant`.
pub fn phase_label(state: &str) -> &str {
    let all = PHASES.iter().chain([&ROLLBACK]);
    let known = all.into_iter().find(|phase| phase.state == state);
    known.map_or(state, |phase| phase.label)
}

/// The input of a view.
pub(crate) struct MigrationScene<'a> {
    pub(crate) migration: &'a MigrationBody,
    pub(crate) link: Connection,
    pub(crate) now: Timestamp,
}

/// Renders the view for this size.
pub(crate) fn frame(scene: &MigrationScene<'_>, columns: usize, rows: usize) -> Vec<StyledLine> {
    let columns = columns.clamp(1, COLUMNS_MAX);
    let migration = scene.migration;
    let mut lines = vec![headline(migration, scene.now), subject(migration)];
    lines.extend(connection_line(scene.link, scene.now));
    lines.push(StyledLine::default());
    lines.extend(phase_lines(migration, columns, scene.now));
    let feet = footer_lines(migration, scene.now);
    if !feet.is_empty() {
        lines.push(StyledLine::default());
        lines.extend(feet);
    }
    // Leave one row for the cursor.
    let lines = fit_rows(lines, rows.saturating_sub(1).max(1));
    lines.into_iter().map(|line| line.cut(columns)).collect()
}

/// Drops lines that do not fit, the least important first.
fn fit_rows(mut lines: Vec<StyledLine>, rows: usize) -> Vec<StyledLine> {
    let dull = |line: &StyledLine| *line == StyledLine::default() || !line.has_style(Style::Bold);
    while lines.len() > rows {
        match lines.iter().skip(1).position(dull) {
            Some(place) => {
                lines.remove(place + 1);
            }
            None => lines.truncate(rows),
        }
    }
    lines
}

fn headline(migration: &MigrationBody, now: Timestamp) -> StyledLine {
    let record = &migration.record;
    let paint = match migration.status {
        MigrationStatus::Running => Style::Cyan,
        MigrationStatus::Completed => Style::Green,
        MigrationStatus::Failed => Style::Red,
        _ => Style::Yellow,
    };
    let until = record.ended.as_ref().map_or(now, |ended| ended.at);
    let for_ms = until.unix_ms() - record.requested_at.unix_ms();
    StyledLine::new(Style::Bold, migration.id())
        .then_spaced(paint, migration.status.name())
        .then_spaced(Style::Plain, &format_duration(for_ms))
}

fn subject(migration: &MigrationBody) -> StyledLine {
    let record = &migration.record;
    let what = describe_subject(record.tenant_id.as_str(), record.slice);
    let text = format!("{what} from {} to {}", record.from, record.to);
    StyledLine::new(Style::Plain, &text)
}

/// Whether a migration is being or was rolled back.
fn is_rolling_back(migration: &MigrationBody) -> bool {
    migration.phase == ROLLBACK.state
}

/// The index of the current phase, or of the last one certainly reached.
fn reached_phase(migration: &MigrationBody) -> usize {
    let place = |name: &str| PHASES.iter().position(|phase| phase.state == name);
    if let Some(place) = place(&migration.phase) {
        return place;
    }
    let figures = &migration.record.figures;
    let known = match migration.record.stage {
        MigrationStage::CutOver => "MonitorDualRead",
        MigrationStage::Cleaning => "CleanupOldShard",
        _ if figures.cut_over_at.is_some() => "MonitorDualRead",
        _ if figures.copying_since.is_some() => "WaitForSync",
        _ => "PlanMove",
    };
    place(known).unwrap_or(0)
}

fn phase_lines(migration: &MigrationBody, columns: usize, now: Timestamp) -> Vec<StyledLine> {
    let reached = reached_phase(migration);
    let completed = migration.status == MigrationStatus::Completed;
    let back = is_rolling_back(migration);
    let mut lines = Vec::new();
    for (place, phase) in PHASES.iter().enumerate() {
        let mark = match place {
            _ if completed || place < reached => PhaseMark::Done,
            _ if place > reached => PhaseMark::ToCome,
            _ if back => PhaseMark::Broken,
            _ if migration.record.is_over() => PhaseMark::Broken,
            _ => PhaseMark::Now,
        };
        if back && mark == PhaseMark::ToCome {
            continue;
        }
        lines.push(mark.line(phase));
        if mark == PhaseMark::Now {
            lines.extend(progress_lines(migration, columns, now));
        }
    }
    if back {
        let mark = match migration.record.is_over() {
            true => PhaseMark::Done,
            false => PhaseMark::Now,
        };
        lines.push(mark.line(&ROLLBACK));
        if mark == PhaseMark::Now {
            lines.extend(progress_lines(migration, columns, now));
        }
    }
    lines
}

/// The state of a phase.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PhaseMark {
    Done,
    Now,
    Broken,
    ToCome,
}

impl PhaseMark {
    fn line(self, phase: &PhaseInfo) -> StyledLine {
        let (sign, paint, then) = match self {
            Self::Done => ("✓", Style::Green, Style::Plain),
            Self::Now => ("▶", Style::Cyan, Style::Bold),
            Self::Broken => ("■", Style::Yellow, Style::Plain),
            Self::ToCome => ("○", Style::Dim, Style::Dim),
        };
        StyledLine::new(paint, sign)
            .with(then, &format!(" {:14}", phase.label))
            .then_spaced(Style::Dim, phase.summary)
    }
}

/// The progress and the note of the current phase.
fn progress_lines(migration: &MigrationBody, columns: usize, now: Timestamp) -> Vec<StyledLine> {
    let it = &migration.progress;
    let mut lines = Vec::new();
    if has_progress(migration) && (it.total.is_some_and(|total| total > 0) || it.done > 0) {
        let bar_progress = TaskProgress {
            state: String::new(),
            task: 0,
            begun_at: now,
            at: now,
            done: it.done,
            total: it.total,
            unit: it.unit.clone(),
            per_second: it.per_second.map(|rate| rate as f64),
            note: None,
        };
        lines.push(bar::progress_line(&bar_progress, "    ", columns, now));
    }
    if let Some(note) = &it.note
        && migration.record.waiting_for.is_none()
    {
        lines.push(StyledLine::new(Style::Plain, &format!("    {note}")));
    }
    lines
}

/// What it waits for, what was requested, what was measured.
fn footer_lines(migration: &MigrationBody, now: Timestamp) -> Vec<StyledLine> {
    let record = &migration.record;
    let figures = &record.figures;
    let mut lines = Vec::new();
    if let Some(why) = &record.waiting_for {
        lines.push(StyledLine::new(
            Style::Yellow,
            &format!("waiting for {why}"),
        ));
    }
    if let Some(paused) = &record.asked.paused {
        let since = format_duration(now.unix_ms() - paused.at.unix_ms());
        let text = format!("paused by {} for {since}", paused.actor);
        lines.push(StyledLine::new(Style::Yellow, &text));
    }
    if let Some(ms) = migration.pause_ms {
        let most = record.terms.max_pause_ms;
        let most = most.map(|most| format!(" of at most {most} ms"));
        let text = format!("write pause {ms} ms{}", most.unwrap_or_default());
        lines.push(StyledLine::new(Style::Bold, &text));
    }
    if figures.put_off > 0 {
        let text = format!(
            "cutover postponed {}",
            count_times(u64::from(figures.put_off))
        );
        lines.push(StyledLine::new(Style::Plain, &text));
    }
    if figures.cut_over_at.is_some() || figures.compared > 0 {
        lines.push(comparison_line(migration));
    }
    if let Some(last) = record.findings.last() {
        lines.push(StyledLine::new(Style::Yellow, &log::describe_finding(last)));
    }
    if record.stage == MigrationStage::CutOver && !is_rolling_back(migration) {
        lines.extend(window_lines(migration, now));
    }
    if let Some(why) = record.ended.as_ref().and_then(|ended| ended.why.as_ref()) {
        lines.push(StyledLine::new(
            Style::Yellow,
            &format!("{}: {why}", migration.status),
        ));
    }
    lines
}

fn comparison_line(migration: &MigrationBody) -> StyledLine {
    let figures = &migration.record.figures;
    let text = format!(
        "compared both shards {}, {}",
        count_times(figures.compared),
        count_noun(figures.differences, "difference")
    );
    let paint = match figures.differences {
        0 => Style::Plain,
        _ => Style::Red,
    };
    StyledLine::new(paint, &text)
}

/// When the window ends, and how to end it.
fn window_lines(migration: &MigrationBody, now: Timestamp) -> Vec<StyledLine> {
    let record = &migration.record;
    let ms = i64::try_from(record.terms.window_ms).unwrap_or(i64::MAX);
    let Some(at) = record.figures.cut_over_at else {
        return Vec::new();
    };
    let left = at
        .unix_ms()
        .saturating_add(ms)
        .saturating_sub(now.unix_ms());
    let bar_progress = [
        format!("the window ends in {}", format_duration(left)),
        format!(
            "  end it now: ballast migration complete {}",
            migration.id()
        ),
        format!("  move back:  ballast migration reverse {}", migration.id()),
    ];
    bar_progress
        .map(|text| StyledLine::new(Style::Dim, &text))
        .to_vec()
}
