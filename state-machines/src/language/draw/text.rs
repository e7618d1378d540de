//! Drawings as lines for a terminal.
//!
//! The main path runs from top to bottom. At a Choice it continues with the next
//! state of the definition if that leads to an end without going back, else with
//! the first state that does. A state that only another path leads to is drawn
//! indented.

use std::collections::{BTreeMap, BTreeSet};

use super::Mark;
use super::sketch::{Arrow, ArrowKind, ArrowTarget, Sketch, SketchNode};

/// The maximum width of a line, in characters.
const COLUMNS: usize = 80;
/// The maximum indentation of paths; deeper ones are drawn after the main path.
const DEPTH_MAX: usize = 8;

pub(super) fn draw(sketch: &Sketch) -> String {
    let mut lines = Vec::new();
    draw_machine(sketch, "", 0, &mut lines);
    let mut out = lines.join("\n");
    out.push('\n');
    out
}

fn draw_machine(sketch: &Sketch, prefix: &str, depth: usize, lines: &mut Vec<String>) {
    let mut drawing = TextDrawing {
        nodes: sketch.nodes.iter().map(|node| (node.id, node)).collect(),
        met: find_merge_points(sketch),
        drawn: BTreeSet::new(),
        later: Vec::new(),
        lines,
    };
    for arrow in &sketch.entry {
        if !arrow.label.is_empty() || arrow.to == ArrowTarget::End {
            drawing.draw_arrow(prefix, arrow);
        }
        drawing.draw_way(arrow.to, prefix, depth);
    }
    // Drawing one may append more.
    let mut next = 0;
    while let Some(id) = drawing.later.get(next).copied() {
        drawing.draw_way(ArrowTarget::Node(id), prefix, depth);
        next += 1;
    }
}

fn find_merge_points(sketch: &Sketch) -> BTreeSet<usize> {
    let mut sources: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for node in &sketch.nodes {
        for arrow in &node.arrows {
            if let ArrowTarget::Node(id) = arrow.to {
                sources.entry(id).or_default().insert(node.id);
            }
        }
    }
    sources.retain(|_, sources| sources.len() > 1);
    sources.into_keys().collect()
}

struct TextDrawing<'a, 'b> {
    nodes: BTreeMap<usize, &'a SketchNode>,
    /// States with several predecessors.
    met: BTreeSet<usize>,
    drawn: BTreeSet<usize>,
    /// States that are drawn after the main path: nested too deep, or with several
    /// predecessors.
    later: Vec<usize>,
    lines: &'b mut Vec<String>,
}

impl<'a> TextDrawing<'a, '_> {
    /// Draws the path from a state, up to states that are drawn already.
    fn draw_way(&mut self, start: ArrowTarget, prefix: &str, depth: usize) {
        let main = self.follow_main_way(start);
        for (index, (node, chosen)) in main.iter().enumerate() {
            let sign = match node.mark {
                Some(Mark::Current) => '▶',
                Some(Mark::Failed) => '✗',
                Some(Mark::Stopped) => '■',
                Some(Mark::Done) => '✓',
                None => '○',
            };
            let name = to_single_line(&node.name);
            self.push(&format!("{prefix}{sign} {name} ({})", node.kind));
            let rail = if index + 1 == main.len() {
                "    "
            } else {
                "│   "
            };
            self.draw_details(node, *chosen, &format!("{prefix}{rail}"), depth);
        }
    }

    /// Draws the nested machines and the other arrows of a state.
    fn draw_details(
        &mut self,
        node: &'a SketchNode,
        chosen: Option<&Arrow>,
        prefix: &str,
        depth: usize,
    ) {
        for inner in &node.inner {
            let title = inner.title.strip_prefix(&node.name).unwrap_or(&inner.title);
            let title = title.trim_start_matches(": ");
            self.push(&format!("{prefix}{title}:"));
            draw_machine(inner, &format!("{prefix}  "), depth + 1, self.lines);
        }
        for arrow in &node.arrows {
            if Some(arrow) == chosen {
                continue;
            }
            self.draw_arrow(prefix, arrow);
            let ArrowTarget::Node(id) = arrow.to else {
                continue;
            };
            if self.drawn.contains(&id) {
                continue;
            }
            if depth < DEPTH_MAX && !self.met.contains(&id) {
                self.draw_way(arrow.to, &format!("{prefix}  "), depth + 1);
            } else {
                self.later.push(id);
            }
        }
        if let Some(chosen) = chosen.filter(|arrow| !arrow.label.is_empty()) {
            self.push_labelled(prefix, &chosen.label, "↓");
        }
    }

    fn draw_arrow(&mut self, prefix: &str, arrow: &Arrow) {
        let to = match arrow.to {
            ArrowTarget::End => "end".to_owned(),
            ArrowTarget::Node(id) => self
                .nodes
                .get(&id)
                .map_or_else(String::new, |node| to_single_line(&node.name)),
        };
        self.push_labelled(prefix, &arrow.label, &format!("→ {to}"));
    }

    /// Adds a line with a label and its target; truncates the label if the line is
    /// too long.
    fn push_labelled(&mut self, prefix: &str, label: &str, to: &str) {
        let room = COLUMNS.saturating_sub(prefix.chars().count() + to.chars().count() + 1);
        let label = truncate(&to_single_line(label), room.max(8));
        let space = if label.is_empty() { "" } else { " " };
        self.push(&format!("{prefix}{label}{space}{to}"));
    }

    fn push(&mut self, line: &str) {
        self.lines.push(truncate(line, COLUMNS));
    }

    /// Follows the main path: returns its states with the arrows that leave them, and
    /// marks them as drawn.
    fn follow_main_way(&mut self, start: ArrowTarget) -> Vec<(&'a SketchNode, Option<&'a Arrow>)> {
        let mut way: Vec<(&'a SketchNode, Option<&'a Arrow>)> = Vec::new();
        let mut at = start;
        while let ArrowTarget::Node(id) = at {
            if !self.drawn.insert(id) {
                break;
            }
            let Some(node) = self.nodes.get(&id).copied() else {
                break;
            };
            let chosen = self.choose_onward(node);
            way.push((node, chosen));
            let Some(arrow) = chosen else {
                break;
            };
            at = arrow.to;
        }
        way
    }

    /// Chooses the arrow of the main path, if one leads to a state that is not drawn
    /// yet.
    fn choose_onward(&self, node: &'a SketchNode) -> Option<&'a Arrow> {
        let mut ways: Vec<&'a Arrow> = node
            .arrows
            .iter()
            .filter(|arrow| arrow.way != ArrowKind::Catch)
            .filter(|arrow| matches!(arrow.to, ArrowTarget::Node(id) if !self.drawn.contains(&id)))
            .collect();
        // Authors write the main path in order: prefer the next state of the
        // definition, then earlier ones.
        let distance = |arrow: &Arrow| match arrow.to {
            ArrowTarget::Node(id) => (id < node.id, id),
            ArrowTarget::End => (true, usize::MAX),
        };
        ways.sort_by_key(|arrow| (distance(arrow), arrow.way));
        if ways.len() > 1 {
            let good = ways.iter().find(|arrow| self.ends_well(arrow.to));
            return good.or(ways.first()).copied();
        }
        ways.first().copied()
    }

    /// Whether an end other than a Fail is reachable through states that are not
    /// drawn yet.
    fn ends_well(&self, from: ArrowTarget) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            let ArrowTarget::Node(id) = at else {
                return true;
            };
            if self.drawn.contains(&id) || !seen.insert(id) {
                continue;
            }
            let Some(node) = self.nodes.get(&id) else {
                continue;
            };
            if node.kind == "Succeed" {
                return true;
            }
            let ways = node
                .arrows
                .iter()
                .filter(|arrow| arrow.way != ArrowKind::Catch);
            open.extend(ways.map(|arrow| arrow.to));
        }
        false
    }
}

/// Replaces control characters by spaces.
fn to_single_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn truncate(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.trim_end().to_owned();
    }
    let kept: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}
