//! Drawings in Graphviz DOT.

use std::fmt::Write;

use super::Mark;
use super::sketch::{Arrow, ArrowKind, ArrowTarget, Sketch, SketchNode};

pub(super) fn draw(sketch: &Sketch) -> String {
    let mut out = String::from("digraph machine {\n");
    push_line(&mut out, 1, "rankdir=TB;");
    push_line(&mut out, 1, "graph [fontname=\"Helvetica\", fontsize=12];");
    push_line(&mut out, 1, "node [fontname=\"Helvetica\", shape=box];");
    push_line(&mut out, 1, "edge [fontname=\"Helvetica\", fontsize=10];");
    push_line(
        &mut out,
        1,
        "b0 [label=\"\", shape=circle, style=filled, fillcolor=black, width=0.15];",
    );
    draw_machine(&mut out, sketch, 1);
    draw_arrows(&mut out, sketch, "b0", "");
    out.push_str("}\n");
    out
}

fn push_line(out: &mut String, depth: usize, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}{text}", "    ".repeat(depth));
}

/// Draws the nodes of a machine, with nested machines as clusters.
fn draw_machine(out: &mut String, sketch: &Sketch, depth: usize) {
    for node in &sketch.nodes {
        push_line(out, depth, &format!("s{} [{}];", node.id, attributes(node)));
        for inner in &node.inner {
            push_line(out, depth, &format!("subgraph cluster_{} {{", inner.number));
            let title = format!("label={};", quote(&inner.title));
            push_line(out, depth + 1, &title);
            draw_machine(out, inner, depth + 1);
            push_line(out, depth, "}");
        }
    }
    if sketch.has_end() {
        let end = format!(
            "e{} [label=\"\", shape=doublecircle, width=0.15];",
            sketch.number
        );
        push_line(out, depth, &end);
    }
}

/// Draws the arrows of a machine and of its nested machines.
fn draw_arrows(out: &mut String, sketch: &Sketch, from: &str, entry: &str) {
    for arrow in &sketch.entry {
        draw_arrow(out, sketch, from, entry, arrow);
    }
    for node in &sketch.nodes {
        let from = format!("s{}", node.id);
        for arrow in &node.arrows {
            let style = match arrow.way {
                ArrowKind::Catch => "style=dashed",
                ArrowKind::Onward | ArrowKind::Choice => "",
            };
            draw_arrow(out, sketch, &from, style, arrow);
        }
        for inner in &node.inner {
            draw_arrows(out, inner, &from, "style=bold");
        }
    }
}

fn draw_arrow(out: &mut String, sketch: &Sketch, from: &str, style: &str, arrow: &Arrow) {
    let to = match arrow.to {
        ArrowTarget::Node(id) => format!("s{id}"),
        ArrowTarget::End => format!("e{}", sketch.number),
    };
    let mut attributes = Vec::new();
    if !arrow.label.is_empty() {
        attributes.push(format!("label={}", quote(&arrow.label)));
    }
    if !style.is_empty() {
        attributes.push(style.to_owned());
    }
    let attributes = if attributes.is_empty() {
        String::new()
    } else {
        format!(" [{}]", attributes.join(", "))
    };
    push_line(out, 1, &format!("{from} -> {to}{attributes};"));
}

fn attributes(node: &SketchNode) -> String {
    let mut attributes = vec![format!("label={}", quote(&node.name))];
    let shape = match node.kind {
        "Choice" => "shape=diamond",
        "Wait" => "shape=hexagon",
        "Succeed" => "shape=oval",
        "Fail" => "shape=octagon",
        "Parallel" | "Map" => "peripheries=2",
        _ => "",
    };
    if !shape.is_empty() {
        attributes.push(shape.to_owned());
    }
    let colours = match node.mark {
        Some(Mark::Current) => "style=\"filled,bold\", fillcolor=\"#ffe08a\"",
        Some(Mark::Failed) => "style=filled, fillcolor=\"#f6c6c6\"",
        Some(Mark::Stopped) => "style=\"filled,dashed\", fillcolor=\"#dddddd\"",
        Some(Mark::Done) => "style=filled, fillcolor=\"#d5f0d5\"",
        None if node.kind == "Pass" => "style=rounded",
        None => "",
    };
    if !colours.is_empty() {
        attributes.push(colours.to_owned());
    }
    attributes.join(", ")
}

/// Quotes a text and escapes quotes, backslashes and ampersands.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '&' => out.push_str("&amp;"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_end_early() {
        assert_eq!(quote("a \"b\" \\N\nc\u{0}"), r#""a \"b\" \\N\nc""#);
        assert_eq!(quote("&lt; a&b"), "\"&amp;lt; a&amp;b\"");
        assert_eq!(quote("größer {<東京>}"), "\"größer {<東京>}\"");
    }
}
