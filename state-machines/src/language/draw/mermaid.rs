//! Drawings as Mermaid flowcharts.

use std::fmt::Write;

use super::Mark;
use super::sketch::{Arrow, ArrowKind, ArrowTarget, Sketch, SketchNode};

pub(super) fn draw(sketch: &Sketch) -> String {
    let mut out = String::from("flowchart TD\n");
    push_line(&mut out, 1, "b0(( ))");
    draw_machine(&mut out, sketch, 1);
    draw_arrows(&mut out, sketch, "b0", "-->");
    draw_classes(&mut out, sketch);
    out
}

fn push_line(out: &mut String, depth: usize, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}{text}", "    ".repeat(depth));
}

/// Draws the nodes of a machine, with nested machines as subgraphs.
fn draw_machine(out: &mut String, sketch: &Sketch, depth: usize) {
    for node in &sketch.nodes {
        push_line(out, depth, &format!("s{}{}", node.id, shape(node)));
        for inner in &node.inner {
            let title = escape(&inner.title);
            push_line(
                out,
                depth,
                &format!("subgraph m{}[\"{title}\"]", inner.number),
            );
            draw_machine(out, inner, depth + 1);
            push_line(out, depth, "end");
        }
    }
    if sketch.has_end() {
        push_line(out, depth, &format!("e{}((( )))", sketch.number));
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
            let line = match arrow.way {
                ArrowKind::Catch => "-.->",
                ArrowKind::Onward | ArrowKind::Choice => "-->",
            };
            draw_arrow(out, sketch, &from, line, arrow);
        }
        for inner in &node.inner {
            draw_arrows(out, inner, &from, "==>");
        }
    }
}

fn draw_arrow(out: &mut String, sketch: &Sketch, from: &str, style: &str, arrow: &Arrow) {
    let to = match arrow.to {
        ArrowTarget::Node(id) => format!("s{id}"),
        ArrowTarget::End => format!("e{}", sketch.number),
    };
    let label = if arrow.label.is_empty() {
        String::new()
    } else {
        format!("|\"{}\"|", escape(&arrow.label))
    };
    push_line(out, 1, &format!("{from} {style}{label} {to}"));
}

fn shape(node: &SketchNode) -> String {
    let name = escape(&node.name);
    match node.kind {
        "Choice" => format!("{{\"{name}\"}}"),
        "Wait" => format!("[/\"{name}\"/]"),
        "Pass" => format!("(\"{name}\")"),
        "Succeed" | "Fail" => format!("([\"{name}\"])"),
        "Parallel" | "Map" => format!("[[\"{name}\"]]"),
        _ => format!("[\"{name}\"]"),
    }
}

/// Defines a class with colours for each mark in use.
fn draw_classes(out: &mut String, sketch: &Sketch) {
    let nodes = sketch.all_nodes();
    for mark in Mark::ALL {
        let marked: Vec<String> = nodes
            .iter()
            .filter(|node| node.mark == Some(mark))
            .map(|node| format!("s{}", node.id))
            .collect();
        if marked.is_empty() {
            continue;
        }
        let colours = match mark {
            Mark::Current => "fill:#ffe08a,stroke:#8a6d00,color:#000,stroke-width:3px",
            Mark::Failed => "fill:#f6c6c6,stroke:#a02020,color:#000",
            Mark::Stopped => "fill:#dddddd,stroke:#555555,color:#000,stroke-dasharray:4 3",
            Mark::Done => "fill:#d5f0d5,stroke:#2e7d32,color:#000",
        };
        let name = mark.as_str();
        push_line(out, 1, &format!("classDef {name} {colours}"));
        push_line(out, 1, &format!("class {} {name}", marked.join(",")));
    }
}

/// Escapes a label. Mermaid reads entity codes between `#` and `;`, and interprets
/// some texts as Markdown, formulas (`$$x$$`) or icons (`fa:fa-car`), so every
/// character that is not known to be safe is escaped.
fn escape(text: &str) -> String {
    let mut out = String::new();
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let plain = match c {
            '$' => before != Some('$'),
            ':' => rest.peek().is_none_or(|next| next.is_whitespace()),
            c => c.is_alphanumeric() || " _-,()=!?'+./·…".contains(c),
        };
        before = Some(c);
        if c == '\n' {
            out.push_str("<br/>");
        } else if plain {
            out.push(c);
        } else if !c.is_control() {
            let _ = write!(out, "#{};", u32::from(c));
        }
    }
    // "1. x" and "- x" would be lists.
    let digits = out.chars().take_while(char::is_ascii_digit).count();
    if digits > 0 && out.get(digits..=digits) == Some(".") {
        out.replace_range(digits..=digits, "#46;");
    }
    if let Some(first @ ('-' | '+')) = out.chars().next() {
        out.replace_range(0..1, &format!("#{};", u32::from(first)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escape("Copy slice"), "Copy slice");
        assert_eq!(
            escape("say \"hi\"; #1 [a] {b} <c> | `d`"),
            "say #34;hi#34;#59; #35;1 #91;a#93; #123;b#125; #60;c#62; #124; #96;d#96;"
        );
        assert_eq!(escape("a\nb\r\u{0}c"), "a<br/>bc");
        assert_eq!(escape("größer 東京"), "größer 東京");
        assert_eq!(escape("$$x$$ $.a"), "$#36;x$#36; $.a");
        assert_eq!(escape("fa:fa-car: 1"), "fa#58;fa-car: 1");
        assert_eq!(escape("1. first"), "1#46; first");
        assert_eq!(escape("- first"), "#45; first");
    }
}
