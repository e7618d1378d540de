//! The live view of a move: how it stands and what time it is become lines of
//! a given width and height. Pure; the edge is `cli/paint.rs`.
//!
//! ```text
//!   mv-1k6tq8zr4-0a1bc  running  12 s
//!   acme from shard-1 to shard-3
//!
//!   ✓ PlanMove                   what is done, what is being done and what is
//!   ▶ WaitForSync                to come
//!       █████▌░░░░░  41 %  4,920 of 12,000 rows  3 s left  2,460 rows/s
//!   ○ VerifyConsistency
//! ```

pub(crate) mod told;

#[cfg(test)]
mod tests;

use ballast_domain::Timestamp;
use ballast_domain::migration::{Stage, Status};

use super::certificate::times;
use super::migrations::is_telling;
use super::watch::bar;
use super::watch::line::{Line, Paint};
use super::watch::{Link, link};
use crate::execution::body::Progress;
use crate::migration::body::Migration;
use crate::table::number;
use crate::time::span;

/// Columns beyond which nothing is gained.
const COLUMNS_MAX: usize = 120;

/// The phases of a move that goes as it is meant to.
pub(crate) const PHASES: [(&str, &str); 10] = [
    ("DetectHotspot", "what is hot, and why"),
    ("PlanMove", "may it be, and is it its turn"),
    ("EnsureParquetBackfill", "archive closed polls"),
    ("CreateDataSyncTask", "prepare the target"),
    ("WaitForSync", "copy, while the source takes votes"),
    ("VerifyConsistency", "read back and compare"),
    ("UpdateTenantRouting", "seal, compare, switch the route"),
    ("EnableDualRead", "read from both, stream back"),
    ("MonitorDualRead", "compare both for the window"),
    ("CleanupOldShard", "remove the source's copy"),
];
/// The phase of one that does not.
const BACK: (&str, &str) = ("Rollback", "leave or bring everything as it was");

/// All that a view is made of.
pub(crate) struct Scene<'a> {
    pub(crate) migration: &'a Migration,
    pub(crate) link: Link,
    pub(crate) now: Timestamp,
}

/// The view, in so many columns and rows.
pub(crate) fn frame(scene: &Scene<'_>, columns: usize, rows: usize) -> Vec<Line> {
    let columns = columns.clamp(1, COLUMNS_MAX);
    let migration = scene.migration;
    let mut lines = vec![headline(migration, scene.now), subject(migration)];
    lines.extend(link(scene.link, scene.now));
    lines.push(Line::default());
    lines.extend(phases(migration, columns, scene.now));
    let feet = feet(migration, scene.now);
    if !feet.is_empty() {
        lines.push(Line::default());
        lines.extend(feet);
    }
    // The cursor stands on a row of its own, below.
    let lines = fitted(lines, rows.saturating_sub(1).max(1));
    lines.into_iter().map(|line| line.cut(columns)).collect()
}

/// What does not fit is left out: first what says least.
fn fitted(mut lines: Vec<Line>, rows: usize) -> Vec<Line> {
    let dull = |line: &Line| *line == Line::default() || !line.has(Paint::Bold);
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

fn headline(migration: &Migration, now: Timestamp) -> Line {
    let record = &migration.record;
    let paint = match migration.status {
        Status::Running => Paint::Cyan,
        Status::Completed => Paint::Green,
        Status::Failed => Paint::Red,
        _ => Paint::Yellow,
    };
    let until = record.ended.as_ref().map_or(now, |ended| ended.at);
    let for_ms = until.unix_ms() - record.requested_at.unix_ms();
    Line::of(Paint::Bold, migration.id())
        .then(paint, migration.status.name())
        .then(Paint::Plain, &span(for_ms))
}

fn subject(migration: &Migration) -> Line {
    let record = &migration.record;
    let slice = match record.slice {
        0 => String::new(),
        slice => format!("slice {slice} of "),
    };
    let text = format!(
        "{slice}{} from {} to {}",
        record.tenant_id, record.from, record.to
    );
    Line::of(Paint::Plain, &text)
}

/// Whether a move goes back, or has.
fn goes_back(migration: &Migration) -> bool {
    migration.phase == BACK.0
}

/// How many phases were gone through, for sure.
fn reached(migration: &Migration) -> usize {
    let place = |name: &str| PHASES.iter().position(|(phase, _)| *phase == name);
    if let Some(place) = place(&migration.phase) {
        return place;
    }
    let figures = &migration.record.figures;
    let known = match migration.record.stage {
        Stage::CutOver => "MonitorDualRead",
        Stage::Cleaning => "CleanupOldShard",
        _ if figures.cut_over_at.is_some() => "MonitorDualRead",
        _ if figures.copying_since.is_some() => "WaitForSync",
        _ => "PlanMove",
    };
    place(known).unwrap_or(0)
}

fn phases(migration: &Migration, columns: usize, now: Timestamp) -> Vec<Line> {
    let reached = reached(migration);
    let completed = migration.status == Status::Completed;
    let back = goes_back(migration);
    let mut lines = Vec::new();
    for (place, phase) in PHASES.iter().enumerate() {
        let mark = match place {
            _ if completed || place < reached => Mark::Done,
            _ if place > reached => Mark::ToCome,
            _ if back => Mark::Broken,
            _ if migration.record.is_over() => Mark::Broken,
            _ => Mark::Now,
        };
        if back && mark == Mark::ToCome {
            continue;
        }
        lines.push(mark.line(phase));
        if mark == Mark::Now {
            lines.extend(far(migration, columns, now));
        }
    }
    if back {
        let mark = match migration.record.is_over() {
            true => Mark::Done,
            false => Mark::Now,
        };
        lines.push(mark.line(&BACK));
        if mark == Mark::Now {
            lines.extend(far(migration, columns, now));
        }
    }
    lines
}

/// How a phase stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Done,
    Now,
    Broken,
    ToCome,
}

impl Mark {
    fn line(self, (name, what): &(&str, &str)) -> Line {
        let (sign, paint, then) = match self {
            Self::Done => ("✓", Paint::Green, Paint::Plain),
            Self::Now => ("▶", Paint::Cyan, Paint::Bold),
            Self::Broken => ("■", Paint::Yellow, Paint::Plain),
            Self::ToCome => ("○", Paint::Dim, Paint::Dim),
        };
        Line::of(paint, sign)
            .with(then, &format!(" {name:21}"))
            .then(Paint::Dim, what)
    }
}

/// How far the present phase is, and what is being done in it.
fn far(migration: &Migration, columns: usize, now: Timestamp) -> Vec<Line> {
    let it = &migration.progress;
    let mut lines = Vec::new();
    if is_telling(migration) && (it.total.is_some_and(|total| total > 0) || it.done > 0) {
        let told = Progress {
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
        lines.push(bar::progress(&told, "    ", columns, now));
    }
    if let Some(note) = &it.note
        && migration.record.waiting_for.is_none()
    {
        lines.push(Line::of(Paint::Plain, &format!("    {note}")));
    }
    lines
}

/// What it waits for, what was asked of it, what was measured.
fn feet(migration: &Migration, now: Timestamp) -> Vec<Line> {
    let record = &migration.record;
    let figures = &record.figures;
    let mut lines = Vec::new();
    if let Some(why) = &record.waiting_for {
        lines.push(Line::of(Paint::Yellow, &format!("waiting for {why}")));
    }
    if let Some(paused) = &record.asked.paused {
        let since = span(now.unix_ms() - paused.at.unix_ms());
        let text = format!("paused by {} for {since}", paused.actor);
        lines.push(Line::of(Paint::Yellow, &text));
    }
    if let Some(ms) = migration.pause_ms {
        let most = record.terms.max_pause_ms;
        let most = most.map(|most| format!(" of {most} ms at the most"));
        let text = format!("pause {ms} ms{}", most.unwrap_or_default());
        lines.push(Line::of(Paint::Bold, &text));
    }
    if figures.put_off > 0 {
        let text = format!(
            "the cutover was put off {}",
            times(u64::from(figures.put_off))
        );
        lines.push(Line::of(Paint::Plain, &text));
    }
    if figures.cut_over_at.is_some() || figures.compared > 0 {
        lines.push(both_sides(migration));
    }
    if let Some(last) = record.findings.last() {
        lines.push(Line::of(Paint::Yellow, &told::found(last)));
    }
    if record.stage == Stage::CutOver && !goes_back(migration) {
        lines.extend(window(migration, now));
    }
    if let Some(why) = record.ended.as_ref().and_then(|ended| ended.why.as_ref()) {
        lines.push(Line::of(
            Paint::Yellow,
            &format!("{}: {why}", migration.status),
        ));
    }
    lines
}

fn both_sides(migration: &Migration) -> Line {
    let figures = &migration.record.figures;
    let text = format!(
        "both sides compared {}, {} differences",
        times(figures.compared),
        number(figures.differences)
    );
    let paint = match figures.differences {
        0 => Paint::Plain,
        _ => Paint::Red,
    };
    Line::of(paint, &text)
}

/// How long the window is still open, and how to end it.
fn window(migration: &Migration, now: Timestamp) -> Vec<Line> {
    let record = &migration.record;
    let ms = i64::try_from(record.terms.window_ms).unwrap_or(i64::MAX);
    let Some(at) = record.figures.cut_over_at else {
        return Vec::new();
    };
    let left = at
        .unix_ms()
        .saturating_add(ms)
        .saturating_sub(now.unix_ms());
    let told = [
        format!("the window ends in {}", span(left)),
        format!("  sooner: ballast migration complete {}", migration.id()),
        format!("  back:   ballast migration reverse {}", migration.id()),
    ];
    told.map(|text| Line::of(Paint::Dim, &text)).to_vec()
}
