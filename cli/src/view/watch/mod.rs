//! The live view of an execution: renders its state and the time as lines of a given width and
//! height. Pure; `paint.rs` writes them to the terminal.
//!
//! ```text
//!   hello:42  RUNNING  2 min 13 s          the head
//!
//!   ✓ Prepare (Pass)                       the graph; what does not fit is
//!   ▶ Copy (Task)                          left out around where it stands
//!   ○ Verify (Task)
//!
//!   ▶ Copy  attempt 2, for 12 s in total     where it stands, run by run
//!     █████▌░░░░░  41 %  410 of 1,000 rows  49 s left  12 rows/s
//! ```

pub(crate) mod bar;
mod fit;
pub(crate) mod line;
pub(crate) mod log;
pub(crate) mod pace;
pub(crate) mod position;

#[cfg(test)]
mod tests;

use ballast_domain::Timestamp;
use ballast_state_machines::language::Definition;
use ballast_state_machines::language::draw;

use crate::execution::body::{Execution, ExecutionStatus};
use crate::execution::state_history::StateHistory;
use crate::time::format_duration;
use line::{Style, StyledLine};

/// How long to show that the connection is restored.
const BACK_SHOWN_MS: i64 = 5_000;
/// Maximum width.
const COLUMNS_MAX: usize = 120;

/// The input of a view.
pub(crate) struct ExecutionScene<'a> {
    pub(crate) execution: &'a Execution,
    pub(crate) definition: &'a Definition,
    pub(crate) story: &'a StateHistory,
    pub(crate) link: Connection,
    pub(crate) now: Timestamp,
}

/// The state of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connection {
    Up,
    Lost { since: Timestamp },
    Restored { since: Timestamp, at: Timestamp },
}

impl Connection {
    /// Marks the connection as lost.
    pub(crate) fn lose(self, now: Timestamp) -> Self {
        match self {
            Self::Lost { .. } => self,
            _ => Self::Lost { since: now },
        }
    }

    /// Marks the connection as restored.
    pub(crate) fn restore(self, now: Timestamp) -> Self {
        match self {
            Self::Lost { since } => Self::Restored { since, at: now },
            Self::Restored { at, .. } if now.unix_ms() - at.unix_ms() > BACK_SHOWN_MS => Self::Up,
            same => same,
        }
    }
}

/// Renders the view for this size.
pub(crate) fn frame(scene: &ExecutionScene<'_>, columns: usize, rows: usize) -> Vec<StyledLine> {
    let columns = columns.clamp(1, COLUMNS_MAX);
    let mut head = vec![headline(scene.execution, scene.now)];
    head.extend(connection_line(scene.link, scene.now));
    let marks = scene.story.drawing_marks(scene.execution, scene.definition);
    let graph = draw::text(scene.definition, &marks);
    let graph: Vec<StyledLine> = graph.lines().map(coloured_line).collect();
    let feet = position::position_lines(scene.execution, scene.story, columns, scene.now);
    // Leave one row for the cursor.
    let lines = fit::fit_rows(head, graph, feet, rows.saturating_sub(1));
    lines.into_iter().map(|line| line.cut(columns)).collect()
}

/// The id, the status and the duration.
fn headline(execution: &Execution, now: Timestamp) -> StyledLine {
    let status = execution.status;
    let paint = match status {
        ExecutionStatus::Running | ExecutionStatus::Unknown => Style::Cyan,
        ExecutionStatus::Succeeded => Style::Green,
        ExecutionStatus::Failed | ExecutionStatus::TimedOut | ExecutionStatus::Aborted => {
            Style::Red
        }
    };
    let mut line = StyledLine::new(Style::Bold, &execution.id).then_spaced(paint, status.as_str());
    if execution.paused {
        line = line.then_spaced(Style::Yellow, "paused");
    }
    line = line.then_spaced(Style::Plain, &format_duration(execution.elapsed_ms(now)));
    // Usually the ID contains the workflow's name.
    if !execution.id.starts_with(&execution.workflow) {
        line = line.then_spaced(Style::Dim, &execution.workflow);
    }
    line
}

pub(crate) fn connection_line(link: Connection, now: Timestamp) -> Option<StyledLine> {
    let since = |from: Timestamp, to: Timestamp| format_duration(to.unix_ms() - from.unix_ms());
    match link {
        Connection::Lost { since: from } => Some(StyledLine::new(
            Style::Yellow,
            &format!("connection lost, reconnecting… ({})", since(from, now)),
        )),
        Connection::Restored { since: from, at }
            if now.unix_ms() - at.unix_ms() <= BACK_SHOWN_MS =>
        {
            Some(StyledLine::new(
                Style::Green,
                &format!("reconnected after {}", since(from, at)),
            ))
        }
        _ => None,
    }
}

/// A line of the graph, coloured by its mark.
fn coloured_line(text: &str) -> StyledLine {
    let Some((rails, sign, rest)) = split_mark(text) else {
        return StyledLine::new(Style::Dim, text);
    };
    let (first, then) = match sign {
        '▶' => (Style::Cyan, Style::Bold),
        '✓' => (Style::Green, Style::Plain),
        '✗' => (Style::Red, Style::Plain),
        '■' => (Style::Yellow, Style::Plain),
        _ => (Style::Dim, Style::Plain),
    };
    StyledLine::new(Style::Dim, rails)
        .with(first, &sign.to_string())
        .with(then, rest)
}

/// Splits a state's line into rails, mark and text; `None` for other lines.
fn split_mark(text: &str) -> Option<(&str, char, &str)> {
    let at = text.find(|c| !matches!(c, ' ' | '│'))?;
    let (rails, rest) = text.split_at_checked(at)?;
    let sign = rest.chars().next().filter(|c| "▶✓✗■○".contains(*c))?;
    let rest = rest.get(sign.len_utf8()..)?;
    rest.starts_with(' ').then_some((rails, sign, rest))
}
