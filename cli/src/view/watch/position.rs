//! Renders the positions of an execution: one or two lines per branch.

use ballast_domain::Timestamp;

use super::bar;
use super::line::{Style, StyledLine};
use crate::execution::body::{Execution, Position, PositionActivity, TaskProgress};
use crate::execution::state_history::StateHistory;
use crate::table::format_number;
use crate::time::{format_clock, format_duration};

/// `Copy`, or `Copy [Each 3]` for the fourth item of the Map `Each`.
pub(crate) fn describe_place(at: &Position) -> String {
    let within = at
        .iterations
        .iter()
        .map(|iteration| format!("{} {}", iteration.map, iteration.index));
    let within: Vec<String> = within.collect();
    if within.is_empty() {
        at.state.clone()
    } else {
        format!("{} [{}]", at.state, within.join(", "))
    }
}

/// The time since the state was entered.
fn time_since_entered(at: &Position, now: Timestamp) -> String {
    format_duration(now.unix_ms().saturating_sub(at.entered_at.unix_ms()))
}

/// Describes the activity, and since when or until when.
pub(crate) fn describe_activity(at: &Position, paused: bool, now: Timestamp) -> String {
    let since = time_since_entered(at, now);
    let until = |moment: Timestamp| format_duration(moment.unix_ms().saturating_sub(now.unix_ms()));
    match (at.doing, at.wakes_at) {
        (PositionActivity::Ready, _) if paused => "continues when it is resumed".to_owned(),
        (PositionActivity::Ready, _) => "about to continue".to_owned(),
        (PositionActivity::Waiting, Some(moment)) => {
            format!(
                "waits until {}, {} left",
                format_clock(moment, now),
                until(moment)
            )
        }
        (PositionActivity::BackingOff, Some(moment)) => format!(
            "attempt {} failed, attempt {} in {}",
            at.attempt.max(1),
            at.attempt.max(1) + 1,
            until(moment)
        ),
        (PositionActivity::Waiting | PositionActivity::BackingOff, None) => {
            format!("waits, for {since}")
        }
        (PositionActivity::AwaitingCallback, _) => format!("waits for a signal, for {since}"),
        (PositionActivity::Gathering, _) => match (at.done, at.total) {
            (Some(done), Some(total)) => {
                format!(
                    "{} of {} done, for {since}",
                    format_number(done),
                    format_number(total)
                )
            }
            _ => format!("waits for its branches, for {since}"),
        },
        (PositionActivity::Working | PositionActivity::Unknown, _) if at.attempt > 0 => {
            format!("attempt {}, for {since} in total", at.attempt + 1)
        }
        (PositionActivity::Working | PositionActivity::Unknown, _) => format!("for {since}"),
    }
}

/// The command that signals a waiting task.
pub(crate) fn signal_command(id: &str, at: &Position) -> String {
    let quoted = |text: &str| {
        let simple = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
        if !text.is_empty() && text.chars().all(simple) {
            text.to_owned()
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
    };
    format!(
        "ballast execution signal {} --state {} --output '{{}}'",
        quoted(id),
        quoted(&at.state)
    )
}

/// With this many branches or fewer, numbers are clearer than a bar.
const FEW: u64 = 4;

/// The progress of a Map with many items, with its mean rate.
fn map_progress(at: &Position, now: Timestamp) -> Option<TaskProgress> {
    let (done, total) = match (at.doing, at.done, at.total) {
        (PositionActivity::Gathering, Some(done), Some(total)) if total > FEW => (done, total),
        _ => return None,
    };
    let seconds = now.unix_ms().saturating_sub(at.entered_at.unix_ms()) as f64 / 1_000.0;
    Some(TaskProgress {
        state: at.state.clone(),
        task: 0,
        begun_at: at.entered_at,
        at: now,
        done,
        total: Some(total),
        unit: "items".to_owned(),
        per_second: (done > 0 && seconds > 0.0).then(|| done as f64 / seconds),
        note: None,
    })
}

fn activity_symbol(doing: PositionActivity) -> (&'static str, Style) {
    match doing {
        PositionActivity::BackingOff => ("↻", Style::Yellow),
        PositionActivity::AwaitingCallback => ("?", Style::Yellow),
        PositionActivity::Waiting => ("◷", Style::Cyan),
        _ => ("▶", Style::Cyan),
    }
}

/// All positions with their progress.
pub(super) fn position_lines(
    execution: &Execution,
    story: &StateHistory,
    columns: usize,
    now: Timestamp,
) -> Vec<Vec<StyledLine>> {
    let mut progresses: Vec<&TaskProgress> = execution.progress.iter().collect();
    progresses.sort_by_key(|progress| progress.task);
    let widest = execution
        .position
        .iter()
        .map(|at| describe_place(at).chars().count());
    let width = widest.max().unwrap_or(0).min(columns / 2);
    let mut groups = Vec::new();
    for at in &execution.position {
        let (sign, paint) = activity_symbol(at.doing);
        let name = format!("{:width$}", describe_place(at));
        let many = map_progress(at, now);
        let words = match many {
            // The bar shows the numbers.
            Some(_) => format!("for {}", time_since_entered(at, now)),
            None => describe_activity(at, execution.paused, now),
        };
        let head = StyledLine::new(paint, sign)
            .with(Style::Bold, &format!(" {name}"))
            .then_spaced(Style::Plain, &words);
        let mut group = vec![head];
        if let Some(progress) = many {
            group.push(bar::progress_line(&progress, "  ", columns, now));
        }
        if at.doing == PositionActivity::BackingOff
            && let Some(why) = story.last_failure(&at.state)
        {
            group.push(StyledLine::new(Style::Dim, &format!("  {why}")));
        }
        if at.doing == PositionActivity::AwaitingCallback {
            let how = signal_command(&execution.id, at);
            group.push(StyledLine::new(Style::Dim, &format!("  {how}")));
        }
        // Several branches in the same state: match them in order.
        let mine = progresses
            .iter()
            .position(|progress| progress.state == at.state);
        if at.doing == PositionActivity::Working
            && let Some(mine) = mine
        {
            let progress = progresses.remove(mine);
            group.push(bar::progress_line(progress, "  ", columns, now));
            if let Some(note) = &progress.note {
                group.push(StyledLine::new(Style::Dim, &format!("  {note}")));
            }
        }
        groups.push(group);
    }
    groups
}
