//! Lines for a terminal.
//!
//! The main way goes from top to bottom. At a Choice it goes on with the state
//! that is written next, if that leads to an end and not back; else with the
//! first one that does. Where another way leads to a state that is drawn nowhere else,
//! that state is drawn indented beside it.

use std::collections::{BTreeMap, BTreeSet};

use super::Mark;
use super::sketch::{Arrow, Node, Sketch, Target, Way};

/// How wide a line may be, in characters.
const COLUMNS: usize = 80;
/// How deep ways are drawn within ways; deeper ones get lines of their own.
const DEPTH_MAX: usize = 8;

pub(super) fn draw(sketch: &Sketch) -> String {
    let mut lines = Vec::new();
    machine(sketch, "", 0, &mut lines);
    let mut out = lines.join("\n");
    out.push('\n');
    out
}

fn machine(sketch: &Sketch, prefix: &str, depth: usize, lines: &mut Vec<String>) {
    let mut drawing = Drawing {
        nodes: sketch.nodes.iter().map(|node| (node.id, node)).collect(),
        met: met(sketch),
        drawn: BTreeSet::new(),
        later: Vec::new(),
        lines,
    };
    for arrow in &sketch.entry {
        if !arrow.label.is_empty() || arrow.to == Target::End {
            drawing.arrow(prefix, arrow);
        }
        drawing.way(arrow.to, prefix, depth);
    }
    // In order, and each may add more.
    let mut next = 0;
    while let Some(id) = drawing.later.get(next).copied() {
        drawing.way(Target::Node(id), prefix, depth);
        next += 1;
    }
}

fn met(sketch: &Sketch) -> BTreeSet<usize> {
    let mut sources: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for node in &sketch.nodes {
        for arrow in &node.arrows {
            if let Target::Node(id) = arrow.to {
                sources.entry(id).or_default().insert(node.id);
            }
        }
    }
    sources.retain(|_, sources| sources.len() > 1);
    sources.into_keys().collect()
}

struct Drawing<'a, 'b> {
    nodes: BTreeMap<usize, &'a Node>,
    /// States that several others lead to.
    met: BTreeSet<usize>,
    drawn: BTreeSet<usize>,
    /// States that are drawn after the main way: too deep to be drawn where
    /// they were met, or met from several sides.
    later: Vec<usize>,
    lines: &'b mut Vec<String>,
}

impl<'a> Drawing<'a, '_> {
    /// Draws a way from a state on, as far as it is not drawn elsewhere.
    fn way(&mut self, start: Target, prefix: &str, depth: usize) {
        let main = self.main_way(start);
        for (index, (node, chosen)) in main.iter().enumerate() {
            let sign = match node.mark {
                Some(Mark::Current) => '▶',
                Some(Mark::Failed) => '✗',
                Some(Mark::Stopped) => '■',
                Some(Mark::Done) => '✓',
                None => '○',
            };
            let name = plain(&node.name);
            self.push(&format!("{prefix}{sign} {name} ({})", node.kind));
            let rail = if index + 1 == main.len() {
                "    "
            } else {
                "│   "
            };
            self.beside(node, *chosen, &format!("{prefix}{rail}"), depth);
        }
    }

    /// What stands beside a state: machines within it, and its other ways.
    fn beside(&mut self, node: &'a Node, chosen: Option<&Arrow>, prefix: &str, depth: usize) {
        for inner in &node.inner {
            let title = inner.title.strip_prefix(&node.name).unwrap_or(&inner.title);
            let title = title.trim_start_matches(": ");
            self.push(&format!("{prefix}{title}:"));
            machine(inner, &format!("{prefix}  "), depth + 1, self.lines);
        }
        for arrow in &node.arrows {
            if Some(arrow) == chosen {
                continue;
            }
            self.arrow(prefix, arrow);
            let Target::Node(id) = arrow.to else {
                continue;
            };
            if self.drawn.contains(&id) {
                continue;
            }
            if depth < DEPTH_MAX && !self.met.contains(&id) {
                self.way(arrow.to, &format!("{prefix}  "), depth + 1);
            } else {
                self.later.push(id);
            }
        }
        if let Some(chosen) = chosen.filter(|arrow| !arrow.label.is_empty()) {
            self.labelled(prefix, &chosen.label, "↓");
        }
    }

    fn arrow(&mut self, prefix: &str, arrow: &Arrow) {
        let to = match arrow.to {
            Target::End => "end".to_owned(),
            Target::Node(id) => self
                .nodes
                .get(&id)
                .map_or_else(String::new, |node| plain(&node.name)),
        };
        self.labelled(prefix, &arrow.label, &format!("→ {to}"));
    }

    /// A label and where it leads; if there is no room for both, the label is
    /// cut short.
    fn labelled(&mut self, prefix: &str, label: &str, to: &str) {
        let room = COLUMNS.saturating_sub(prefix.chars().count() + to.chars().count() + 1);
        let label = cut(&plain(label), room.max(8));
        let space = if label.is_empty() { "" } else { " " };
        self.push(&format!("{prefix}{label}{space}{to}"));
    }

    fn push(&mut self, line: &str) {
        self.lines.push(cut(line, COLUMNS));
    }

    /// The states of a way, each with the arrow by which it is left; from now
    /// on they count as drawn.
    fn main_way(&mut self, start: Target) -> Vec<(&'a Node, Option<&'a Arrow>)> {
        let mut way: Vec<(&'a Node, Option<&'a Arrow>)> = Vec::new();
        let mut at = start;
        while let Target::Node(id) = at {
            if !self.drawn.insert(id) {
                break;
            }
            let Some(node) = self.nodes.get(&id).copied() else {
                break;
            };
            let chosen = self.onward(node);
            way.push((node, chosen));
            let Some(arrow) = chosen else {
                break;
            };
            at = arrow.to;
        }
        way
    }

    /// The arrow that the main way takes, if one leads to a state that is not
    /// drawn yet.
    fn onward(&self, node: &'a Node) -> Option<&'a Arrow> {
        let mut ways: Vec<&'a Arrow> = node
            .arrows
            .iter()
            .filter(|arrow| arrow.way != Way::Catch)
            .filter(|arrow| matches!(arrow.to, Target::Node(id) if !self.drawn.contains(&id)))
            .collect();
        // Whoever wrote it down wrote the main way in order: the state that is
        // written next comes first, then what is written before.
        let distance = |arrow: &Arrow| match arrow.to {
            Target::Node(id) => (id < node.id, id),
            Target::End => (true, usize::MAX),
        };
        ways.sort_by_key(|arrow| (distance(arrow), arrow.way));
        if ways.len() > 1 {
            let good = ways.iter().find(|arrow| self.ends_well(arrow.to));
            return good.or(ways.first()).copied();
        }
        ways.first().copied()
    }

    /// Whether an end other than a Fail can be reached without states that are
    /// drawn.
    fn ends_well(&self, from: Target) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            let Target::Node(id) = at else {
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
            let ways = node.arrows.iter().filter(|arrow| arrow.way != Way::Catch);
            open.extend(ways.map(|arrow| arrow.to));
        }
        false
    }
}

/// A name on one line.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.trim_end().to_owned();
    }
    let kept: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}
