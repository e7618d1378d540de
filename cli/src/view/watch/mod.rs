//! The live view of an execution: what is known and what time it is become
//! lines of a given width and height. Pure; the edge is `cli/paint.rs`.
//!
//! ```text
//!   hello:42  RUNNING  2 min 13 s          the head
//!
//!   ✓ Prepare (Pass)                       the graph; what does not fit is
//!   ▶ Copy (Task)                          left out around where it stands
//!   ○ Verify (Task)
//!
//!   ▶ Copy  attempt 2, for 12 s in all     where it stands, run by run
//!     █████▌░░░░░  41 %  410 of 1,000 rows  49 s left  12 rows/s
//! ```

pub(crate) mod bar;
mod fit;
pub(crate) mod line;
pub(crate) mod pace;
pub(crate) mod position;
pub(crate) mod told;

#[cfg(test)]
mod tests;

use ballast_domain::Timestamp;
use ballast_state_machines::language::Definition;
use ballast_state_machines::language::draw;

use crate::execution::body::{Execution, Status};
use crate::execution::story::Story;
use crate::time::span;
use line::{Line, Paint};

/// How long it is shown that the connection is there again.
const BACK_SHOWN_MS: i64 = 5_000;
/// Columns beyond which nothing is gained.
const COLUMNS_MAX: usize = 120;

/// All that a view is made of.
pub(crate) struct Scene<'a> {
    pub(crate) execution: &'a Execution,
    pub(crate) definition: &'a Definition,
    pub(crate) story: &'a Story,
    pub(crate) link: Link,
    pub(crate) now: Timestamp,
}

/// Whether the server is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Fine,
    Lost { since: Timestamp },
    Back { since: Timestamp, at: Timestamp },
}

impl Link {
    /// Nothing is heard any more.
    pub(crate) fn lost(self, now: Timestamp) -> Self {
        match self {
            Self::Lost { .. } => self,
            _ => Self::Lost { since: now },
        }
    }

    /// Something is heard.
    pub(crate) fn back(self, now: Timestamp) -> Self {
        match self {
            Self::Lost { since } => Self::Back { since, at: now },
            Self::Back { at, .. } if now.unix_ms() - at.unix_ms() > BACK_SHOWN_MS => Self::Fine,
            same => same,
        }
    }
}

/// The view, in so many columns and rows.
pub(crate) fn frame(scene: &Scene<'_>, columns: usize, rows: usize) -> Vec<Line> {
    let columns = columns.clamp(1, COLUMNS_MAX);
    let mut head = vec![headline(scene.execution, scene.now)];
    head.extend(link(scene.link, scene.now));
    let marks = scene.story.marks(scene.execution, scene.definition);
    let graph = draw::text(scene.definition, &marks);
    let graph: Vec<Line> = graph.lines().map(coloured).collect();
    let feet = position::lines(scene.execution, scene.story, columns, scene.now);
    // The cursor stands on a row of its own, below.
    let lines = fit::fitted(head, graph, feet, rows.saturating_sub(1));
    lines.into_iter().map(|line| line.cut(columns)).collect()
}

/// Which execution, how it stands, for how long.
fn headline(execution: &Execution, now: Timestamp) -> Line {
    let status = execution.status;
    let paint = match status {
        Status::Running | Status::Unknown => Paint::Cyan,
        Status::Succeeded => Paint::Green,
        Status::Failed | Status::TimedOut | Status::Aborted => Paint::Red,
    };
    let mut line = Line::of(Paint::Bold, &execution.id).then(paint, status.as_str());
    if execution.paused {
        line = line.then(Paint::Yellow, "paused");
    }
    line = line.then(Paint::Plain, &span(execution.elapsed_ms(now)));
    // Usually the ID says it.
    if !execution.id.starts_with(&execution.workflow) {
        line = line.then(Paint::Dim, &execution.workflow);
    }
    line
}

pub(crate) fn link(link: Link, now: Timestamp) -> Option<Line> {
    let since = |from: Timestamp, to: Timestamp| span(to.unix_ms() - from.unix_ms());
    match link {
        Link::Lost { since: from } => Some(Line::of(
            Paint::Yellow,
            &format!("connection lost, trying again… ({})", since(from, now)),
        )),
        Link::Back { since: from, at } if now.unix_ms() - at.unix_ms() <= BACK_SHOWN_MS => {
            Some(Line::of(
                Paint::Green,
                &format!("connected again after {}", since(from, at)),
            ))
        }
        _ => None,
    }
}

/// A line of a drawing, with the colours of its mark.
fn coloured(text: &str) -> Line {
    let Some((rails, sign, rest)) = marked(text) else {
        return Line::of(Paint::Dim, text);
    };
    let (first, then) = match sign {
        '▶' => (Paint::Cyan, Paint::Bold),
        '✓' => (Paint::Green, Paint::Plain),
        '✗' => (Paint::Red, Paint::Plain),
        '■' => (Paint::Yellow, Paint::Plain),
        _ => (Paint::Dim, Paint::Plain),
    };
    Line::of(Paint::Dim, rails)
        .with(first, &sign.to_string())
        .with(then, rest)
}

/// The rails before a state's sign, the sign, and what is behind it; none if
/// it is no state's line.
fn marked(text: &str) -> Option<(&str, char, &str)> {
    let at = text.find(|c| !matches!(c, ' ' | '│'))?;
    let (rails, rest) = text.split_at_checked(at)?;
    let sign = rest.chars().next().filter(|c| "▶✓✗■○".contains(*c))?;
    let rest = rest.get(sign.len_utf8()..)?;
    rest.starts_with(' ').then_some((rails, sign, rest))
}
