//! Drawings as SVG for a page: the main path from top to bottom, other states in a
//! second column.
//!
//! Shapes have classes and no colours: the page's style sheet defines the look of
//! `done`, `current`, `failed` and `stopped`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Mark;
use super::sketch::{Arrow, ArrowKind, ArrowTarget, Sketch, SketchNode};

const WIDTH: u32 = 200;
const HEIGHT: u32 = 34;
const GAP: u32 = 16;
const LEFT: u32 = 58;
const TOP: u32 = 8;
/// The gap between the main path and the second column.
const LANE: u32 = 46;
const SIDE_WIDTH: u32 = 122;

pub(super) fn draw(sketch: &Sketch, label: &str) -> String {
    let main = find_main_way(sketch);
    let side_nodes: Vec<&SketchNode> = sketch
        .nodes
        .iter()
        .filter(|node| !main.iter().any(|on| on.id == node.id))
        .collect();
    let places = position_boxes(&main, &side_nodes);
    let rows = u32::try_from(main.len().max(1)).unwrap_or(u32::MAX);
    let height = TOP * 2 + rows * (HEIGHT + GAP) - GAP;
    let width = LEFT
        + WIDTH
        + if side_nodes.is_empty() {
            LEFT
        } else {
            LANE + SIDE_WIDTH + TOP
        };
    let mut out = format!(
        "<svg class=\"flow\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">",
        escape(label)
    );
    out.push_str(
        "<defs><marker id=\"flow-tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" \
         markerHeight=\"6\" orient=\"auto-start-reverse\"><path class=\"tip-of-arrow\" d=\"M0 0 8 4 0 8z\"/></marker></defs>",
    );
    for (row, node) in main.iter().enumerate() {
        draw_arrows(&mut out, node, main.get(row + 1).copied(), &places);
    }
    for node in main.iter().chain(&side_nodes) {
        draw_box(&mut out, node, &places);
    }
    out.push_str("</svg>");
    out
}

/// Follows, from the start, the first arrow that is not a catcher and leads to a
/// state not visited yet.
fn find_main_way(sketch: &Sketch) -> Vec<&SketchNode> {
    let find = |to: ArrowTarget| match to {
        ArrowTarget::Node(id) => sketch.nodes.iter().find(|node| node.id == id),
        ArrowTarget::End => None,
    };
    let mut way: Vec<&SketchNode> = Vec::new();
    let mut next = sketch.entry.first().and_then(|arrow| find(arrow.to));
    while let Some(node) = next {
        way.push(node);
        let onward = node
            .arrows
            .iter()
            .filter(|arrow| arrow.way != ArrowKind::Catch);
        next = onward
            .filter_map(|arrow| find(arrow.to))
            .find(|to| !way.iter().any(|on| on.id == to.id));
    }
    way
}

/// The position of a node: its column and row.
#[derive(Debug, Clone, Copy)]
struct BoxPosition {
    in_side_column: bool,
    row: u32,
}

impl BoxPosition {
    fn x(self) -> u32 {
        if self.in_side_column {
            LEFT + WIDTH + LANE
        } else {
            LEFT
        }
    }
    fn width(self) -> u32 {
        if self.in_side_column {
            SIDE_WIDTH
        } else {
            WIDTH
        }
    }
    fn y(self) -> u32 {
        TOP + self.row * (HEIGHT + GAP)
    }
    fn middle(self) -> u32 {
        self.y() + HEIGHT / 2
    }
}

fn position_boxes(
    main: &[&SketchNode],
    side_nodes: &[&SketchNode],
) -> BTreeMap<usize, BoxPosition> {
    let mut places = BTreeMap::new();
    for (row, node) in (0..).zip(main) {
        places.insert(
            node.id,
            BoxPosition {
                in_side_column: false,
                row,
            },
        );
    }
    let rows = u32::try_from(main.len()).unwrap_or(0);
    let many = u32::try_from(side_nodes.len()).unwrap_or(0);
    let first = rows.saturating_sub(many) / 2;
    for (number, node) in (0..).zip(side_nodes) {
        let place = BoxPosition {
            in_side_column: true,
            row: first + number,
        };
        places.insert(node.id, place);
    }
    places
}

fn draw_arrows(
    out: &mut String,
    node: &SketchNode,
    below: Option<&SketchNode>,
    places: &BTreeMap<usize, BoxPosition>,
) {
    let Some(from) = places.get(&node.id) else {
        return;
    };
    let mut drawn: BTreeMap<usize, &Arrow> = BTreeMap::new();
    for arrow in &node.arrows {
        if let ArrowTarget::Node(to) = arrow.to
            && to != node.id
        {
            // Of several arrows to one state, draw one that is not a catcher.
            let known = drawn.entry(to).or_insert(arrow);
            if arrow.way < known.way {
                *known = arrow;
            }
        }
    }
    for (id, arrow) in drawn {
        let Some(to) = places.get(&id) else { continue };
        let mut class = match arrow.way {
            ArrowKind::Catch => "catch",
            ArrowKind::Onward | ArrowKind::Choice => "onward",
        };
        let path = if below.is_some_and(|below| below.id == id) {
            if node.mark == Some(Mark::Done) && below.is_some_and(|below| below.mark.is_some()) {
                class = "walked";
            }
            let x = LEFT + WIDTH / 2;
            format!("M{x} {}V{}", from.y() + HEIGHT, to.y() - 1)
        } else if to.in_side_column {
            let lane = LEFT + WIDTH + LANE / 2;
            let (start, end) = (LEFT + WIDTH, to.x() - 1);
            format!("M{start} {}H{lane}V{}H{end}", from.middle(), to.middle())
        } else {
            // Back, or further ahead: around the left side.
            let out = LEFT - 46;
            let (start, end) = (from.middle(), to.middle());
            format!(
                "M{LEFT} {start}C{out} {start} {out} {end} {} {end}",
                LEFT - 1
            )
        };
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "<path class=\"{class}\" d=\"{path}\" marker-end=\"url(#flow-tip)\"/>"
        );
    }
}

fn draw_box(out: &mut String, node: &SketchNode, places: &BTreeMap<usize, BoxPosition>) {
    let Some(place) = places.get(&node.id) else {
        return;
    };
    let class = node.mark.map_or("ahead", Mark::as_str);
    let (x, y, width) = (place.x(), place.y(), place.width());
    let name = escape(&node.name);
    let _ = write!(
        out,
        "<g class=\"{class}\"><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" rx=\"6\"/>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{name}</text></g>",
        x + width / 2,
        y + HEIGHT / 2 + 4
    );
}

/// Escapes markup.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::{BuiltInWorkflow, is_helper};
    use crate::language::draw::{Marks, svg};

    #[test]
    fn names_cannot_become_markup() {
        assert_eq!(
            escape("<a href='x'>&\""),
            "&lt;a href=&#39;x&#39;&gt;&amp;&quot;"
        );
    }

    #[test]
    fn the_migration_is_drawn_with_its_position() {
        let definition = BuiltInWorkflow::find("move-tenant")
            .unwrap()
            .definition()
            .unwrap();
        let marks = Marks {
            current: ["WaitForSync".to_owned()].into(),
            done: ["DetectHotspot".to_owned(), "PlanMove".to_owned()].into(),
            ..Marks::default()
        };
        let marks = marks.folding(&definition, |state| is_helper(&state.kind));
        let drawn = svg(&definition, &marks, "a move");
        assert_eq!(
            drawn.matches("<rect").count(),
            11,
            "ten steps and the rollback"
        );
        assert_eq!(drawn.matches("class=\"current\"").count(), 1);
        assert_eq!(drawn.matches("class=\"done\"").count(), 2);
        assert_eq!(drawn.matches("class=\"walked\"").count(), 1);
        let steps = [
            "DetectHotspot",
            "WaitForSync",
            "CleanupOldShard",
            "Rollback",
        ];
        let places: Vec<_> = steps
            .iter()
            .map(|step| drawn.find(*step).unwrap())
            .collect();
        assert!(places.is_sorted(), "in the order of the main path");
    }
}
