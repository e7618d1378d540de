//! Where an execution stands, in words: a line or two for each run of it.

use ballast_domain::Timestamp;

use super::bar;
use super::line::{Line, Paint};
use crate::execution::body::{Doing, Execution, Position, Progress};
use crate::execution::story::Story;
use crate::table::number;
use crate::time::{clock, span};

/// `Copy`, or `Copy [Each 3]` for the fourth item of the Map `Each`.
pub(crate) fn place(at: &Position) -> String {
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

/// How long it has been there.
fn since(at: &Position, now: Timestamp) -> String {
    span(now.unix_ms().saturating_sub(at.entered_at.unix_ms()))
}

/// What is done there, and since when or until when.
pub(crate) fn doing(at: &Position, paused: bool, now: Timestamp) -> String {
    let since = since(at, now);
    let until = |moment: Timestamp| span(moment.unix_ms().saturating_sub(now.unix_ms()));
    match (at.doing, at.wakes_at) {
        (Doing::Ready, _) if paused => "goes on when it is resumed".to_owned(),
        (Doing::Ready, _) => "about to go on".to_owned(),
        (Doing::Waiting, Some(moment)) => {
            format!("waits until {}, {} left", clock(moment, now), until(moment))
        }
        (Doing::BackingOff, Some(moment)) => format!(
            "attempt {} failed, attempt {} in {}",
            at.attempt.max(1),
            at.attempt.max(1) + 1,
            until(moment)
        ),
        (Doing::Waiting | Doing::BackingOff, None) => format!("waits, for {since}"),
        (Doing::AwaitingCallback, _) => format!("waits for a signal, for {since}"),
        (Doing::Gathering, _) => match (at.done, at.total) {
            (Some(done), Some(total)) => {
                format!("{} of {} done, for {since}", number(done), number(total))
            }
            _ => format!("waits for what is within, for {since}"),
        },
        (Doing::Working | Doing::Unknown, _) if at.attempt > 0 => {
            format!("attempt {}, for {since} in all", at.attempt + 1)
        }
        (Doing::Working | Doing::Unknown, _) => format!("for {since}"),
    }
}

/// How a task that waits for a signal is answered.
pub(crate) fn how_to_signal(id: &str, at: &Position) -> String {
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

/// Branches or iterations up to which a bar would say less than the numbers.
const FEW: u64 = 4;

/// What a Map of many items has done, as if it were a task's progress, with its
/// mean pace since it was entered.
fn gathered(at: &Position, now: Timestamp) -> Option<Progress> {
    let (done, total) = match (at.doing, at.done, at.total) {
        (Doing::Gathering, Some(done), Some(total)) if total > FEW => (done, total),
        _ => return None,
    };
    let seconds = now.unix_ms().saturating_sub(at.entered_at.unix_ms()) as f64 / 1_000.0;
    Some(Progress {
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

fn sign(doing: Doing) -> (&'static str, Paint) {
    match doing {
        Doing::BackingOff => ("↻", Paint::Yellow),
        Doing::AwaitingCallback => ("?", Paint::Yellow),
        Doing::Waiting => ("◷", Paint::Cyan),
        _ => ("▶", Paint::Cyan),
    }
}

/// All positions, each with its progress.
pub(super) fn lines(
    execution: &Execution,
    story: &Story,
    columns: usize,
    now: Timestamp,
) -> Vec<Vec<Line>> {
    let mut told: Vec<&Progress> = execution.progress.iter().collect();
    told.sort_by_key(|progress| progress.task);
    let widest = execution
        .position
        .iter()
        .map(|at| place(at).chars().count());
    let width = widest.max().unwrap_or(0).min(columns / 2);
    let mut groups = Vec::new();
    for at in &execution.position {
        let (sign, paint) = sign(at.doing);
        let name = format!("{:width$}", place(at));
        let many = gathered(at, now);
        let words = match many {
            // The bar has the numbers.
            Some(_) => format!("for {}", since(at, now)),
            None => doing(at, execution.paused, now),
        };
        let head = Line::of(paint, sign)
            .with(Paint::Bold, &format!(" {name}"))
            .then(Paint::Plain, &words);
        let mut group = vec![head];
        if let Some(progress) = many {
            group.push(bar::progress(&progress, "  ", columns, now));
        }
        if at.doing == Doing::BackingOff
            && let Some(why) = story.trouble(&at.state)
        {
            group.push(Line::of(Paint::Dim, &format!("  {why}")));
        }
        if at.doing == Doing::AwaitingCallback {
            let how = how_to_signal(&execution.id, at);
            group.push(Line::of(Paint::Dim, &format!("  {how}")));
        }
        // Of several that do the same, the first is the first.
        let mine = told.iter().position(|progress| progress.state == at.state);
        if at.doing == Doing::Working
            && let Some(mine) = mine
        {
            let progress = told.remove(mine);
            group.push(bar::progress(progress, "  ", columns, now));
            if let Some(note) = &progress.note {
                group.push(Line::of(Paint::Dim, &format!("  {note}")));
            }
        }
        groups.push(group);
    }
    groups
}
