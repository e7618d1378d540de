//! Fits a view to the height of a terminal: keeps the head, and the part around the current state.

use super::line::{Style, StyledLine};

/// A smaller part of a graph is useless.
const GRAPH_MIN: usize = 3;

/// Head, graph and feet in at most `rows` rows.
pub(super) fn fit_rows(
    head: Vec<StyledLine>,
    graph: Vec<StyledLine>,
    feet: Vec<Vec<StyledLine>>,
    rows: usize,
) -> Vec<StyledLine> {
    let room = rows.saturating_sub(head.len());
    // Reserve half of the rows for the graph, even with many branches.
    let feet_max = (room / 2).max(room.saturating_sub(graph.len() + 2));
    let feet = shorten_groups(feet, feet_max);
    let between = 1 + usize::from(!feet.is_empty());
    let graph_max = room.saturating_sub(feet.len() + between);
    let mut lines = head;
    if graph_max >= GRAPH_MIN || graph.len() <= graph_max {
        lines.push(StyledLine::default());
        lines.extend(window_around_current(graph, graph_max));
    }
    if !feet.is_empty() {
        lines.push(StyledLine::default());
        lines.extend(feet);
    }
    lines.truncate(rows.max(1));
    lines
}

/// Shortens groups to the available rows: their heads first.
fn shorten_groups(groups: Vec<Vec<StyledLine>>, rows_max: usize) -> Vec<StyledLine> {
    if groups.iter().map(Vec::len).sum::<usize>() <= rows_max {
        return groups.into_iter().flatten().collect();
    }
    let count = groups.len();
    if count <= rows_max {
        // Then further lines of the first groups.
        let mut spare = rows_max - count;
        let cut = |mut group: Vec<StyledLine>| {
            let more = group.len().saturating_sub(1).min(spare);
            spare -= more;
            group.truncate(1 + more);
            group
        };
        return groups.into_iter().flat_map(cut).collect();
    }
    let shown = rows_max.saturating_sub(1);
    let heads = groups
        .into_iter()
        .filter_map(|group| group.into_iter().next());
    let mut lines: Vec<StyledLine> = heads.take(shown).collect();
    lines.push(omitted_line(count - shown, "more"));
    lines.truncate(rows_max);
    lines
}

/// The part of a graph around the first current state, or its end.
fn window_around_current(graph: Vec<StyledLine>, rows_max: usize) -> Vec<StyledLine> {
    if graph.len() <= rows_max {
        return graph;
    }
    let is_current = |line: &StyledLine| line.has_style(Style::Cyan);
    let inner = rows_max.saturating_sub(2).max(1);
    let at = graph.iter().position(is_current);
    let from = match at {
        // Show one third before the current state, the rest after it.
        Some(at) => at.saturating_sub(inner / 3),
        None => graph.len(),
    };
    let from = from.min(graph.len() - inner);
    // Instead of "1 more", show that line.
    let from = if from <= 1 { 0 } else { from };
    let above = usize::from(from > 0);
    let to = (from + rows_max - above - 1).min(graph.len());
    let to = if to + 1 == graph.len() {
        graph.len()
    } else {
        to
    };
    let below = graph.len() - to;
    let mut lines = Vec::new();
    if from > 0 {
        lines.push(omitted_line(from, "lines above"));
    }
    lines.extend(graph.into_iter().skip(from).take(to - from));
    if below > 0 {
        lines.push(omitted_line(below, "lines below"));
    }
    lines
}

fn omitted_line(count: usize, what: &str) -> StyledLine {
    StyledLine::new(Style::Dim, &format!("⋮ {count} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(lines: usize, current: Option<usize>) -> Vec<StyledLine> {
        let line = |n| {
            let paint = if Some(n) == current {
                Style::Cyan
            } else {
                Style::Dim
            };
            StyledLine::new(paint, &format!("line {n}"))
        };
        (0..lines).map(line).collect()
    }

    fn feet(count: usize) -> Vec<Vec<StyledLine>> {
        let group = |n: usize| {
            let line = |part: &str| StyledLine::new(Style::Plain, &format!("run {n} {part}"));
            vec![line("head"), line("bar")]
        };
        (0..count).map(group).collect()
    }

    #[test]
    fn nothing_is_higher_than_the_terminal_and_the_current_state_is_seen() {
        let head = || vec![StyledLine::new(Style::Bold, "head")];
        for rows in 1..60 {
            for size in [1, 2, 7, 40] {
                for current in 0..size {
                    for runs in [0, 1, 3, 30] {
                        let lines = fit_rows(head(), graph(size, Some(current)), feet(runs), rows);
                        let case = format!("{rows} rows, {size} lines, {current}, {runs} runs");
                        assert!(lines.len() <= rows, "{case}: {}", lines.len());
                        let has_graph = lines.iter().any(|line| line.text().starts_with("line"));
                        let seen = lines.iter().any(|line| line.has_style(Style::Cyan));
                        assert!(seen || !has_graph, "{case}: {lines:?}");
                        if rows >= 12 {
                            assert!(has_graph, "{case}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_left_out_is_counted() {
        for (size, current, rows) in [(40, 20, 9), (40, 0, 9), (40, 39, 9), (9, 4, 8)] {
            let lines = window_around_current(graph(size, Some(current)), rows);
            assert!(lines.len() <= rows);
            let mut counted = 0;
            for line in &lines {
                let text = line.text();
                counted += match text.strip_prefix("⋮ ") {
                    Some(rest) => rest.split(' ').next().unwrap().parse().unwrap(),
                    None => 1,
                };
            }
            assert_eq!(counted, size, "{lines:?}");
        }
    }

    #[test]
    fn many_runs_are_told_by_their_heads() {
        let lines = shorten_groups(feet(4), 5);
        let texts: Vec<String> = lines.iter().map(StyledLine::text).collect();
        assert_eq!(
            texts,
            [
                "run 0 head",
                "run 0 bar",
                "run 1 head",
                "run 2 head",
                "run 3 head"
            ]
        );
        let lines = shorten_groups(feet(9), 3);
        assert_eq!(lines.last().unwrap().text(), "⋮ 7 more");
    }
}
