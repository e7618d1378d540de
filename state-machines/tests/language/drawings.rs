//! Tests of drawings against expected files next to the definitions.
//! `BALLAST_UPDATE_DRAWINGS=1 cargo test` rewrites the files.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use ballast_state_machines::definitions::{self, is_helper};
use ballast_state_machines::language::draw::{Marks, dot, mermaid, text};
use ballast_state_machines::language::model::StateKind;
use ballast_state_machines::language::{Definition, check};

fn definition(name: &str) -> Definition {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/drawings");
    let written = std::fs::read_to_string(path.join(format!("{name}.json"))).unwrap();
    Definition::parse(&written).unwrap()
}

/// Compares a drawing with the expected file.
fn compare(file: &str, drawn: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/language/drawings")
        .join(file);
    if std::env::var_os("BALLAST_UPDATE_DRAWINGS").is_some() {
        std::fs::write(&path, drawn).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(drawn, expected, "{file} differs");
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_machine_that_polls() {
    let definition = definition("poll");
    let marks = Marks {
        current: names(&["Pause"]),
        done: names(&["Submit", "Pause", "Look", "Ready?"]),
        failed: names(&["Clean"]),
        stopped: BTreeSet::new(),
        folded: BTreeSet::new(),
    };
    compare("poll.mmd", &mermaid(&definition, &marks));
    compare("poll.dot", &dot(&definition, &marks));
    compare("poll.txt", &text(&definition, &marks));
}

#[test]
fn a_stopped_execution_shows_no_failure() {
    let definition = definition("poll");
    let marks = Marks {
        done: names(&["Submit", "Pause"]),
        stopped: names(&["Pause"]),
        folded: names(&["Pause"]),
        ..Marks::default()
    };
    let drawn = text(&definition, &marks);
    assert!(drawn.contains("■ Pause (Wait)"), "{drawn}");
    assert!(!drawn.contains('✗'), "{drawn}");
    let drawn = mermaid(&definition, &marks);
    assert!(drawn.contains(" stopped\n"), "{drawn}");
    assert!(!drawn.contains("classDef failed"), "{drawn}");
    let drawn = dot(&definition, &marks);
    assert!(drawn.contains("style=\"filled,dashed\""), "{drawn}");
}

#[test]
fn helper_states_are_folded() {
    let definition = definition("poll");
    let helper = |kind: &StateKind| {
        matches!(
            kind,
            StateKind::Choice(_) | StateKind::Wait(_) | StateKind::Fail(_)
        )
    };
    let marks = Marks::default().folding(&definition, |state| helper(&state.kind));
    compare("poll-folded.mmd", &mermaid(&definition, &marks));
    compare("poll-folded.dot", &dot(&definition, &marks));
    compare("poll-folded.txt", &text(&definition, &marks));
}

#[test]
fn a_folded_state_is_drawn_while_an_execution_is_in_it() {
    let definition = definition("poll");
    let marks = Marks {
        current: names(&["Pause"]),
        folded: names(&["Pause", "Give up"]),
        ..Marks::default()
    };
    let drawn = text(&definition, &marks);
    assert!(drawn.contains("▶ Pause (Wait)"), "{drawn}");
    assert!(!drawn.contains("Give up (Fail)"), "{drawn}");
}

#[test]
fn nested_machines_are_drawn() {
    let definition = definition("nested");
    let marks = Marks {
        current: names(&["Größe\nmessen"]),
        ..Marks::default()
    };
    compare("nested.mmd", &mermaid(&definition, &marks));
    compare("nested.dot", &dot(&definition, &marks));
    compare("nested.txt", &text(&definition, &marks));
}

/// Names with syntax of Mermaid, Graphviz, Markdown, formulas, icons, entities, HTML.
#[test]
fn names_are_escaped() {
    let definition = definition("nasty");
    compare("nasty.mmd", &mermaid(&definition, &Marks::default()));
    compare("nasty.dot", &dot(&definition, &Marks::default()));
    compare("nasty.txt", &text(&definition, &Marks::default()));
}

/// Renders the drawings with Graphviz, if it is installed.
#[test]
fn graphviz_accepts_the_drawings() {
    let mut all: Vec<Definition> = ["poll", "nested", "nasty"].map(definition).into();
    all.extend(definitions::ALL.map(|known| known.definition().unwrap()));
    for definition in all {
        let start = definition.start_at().to_owned();
        let marked = Marks {
            current: names(&[&start]),
            ..Marks::default()
        };
        let folded = Marks::default().folding(&definition, |state| is_helper(&state.kind));
        for marks in [Marks::default(), marked, folded] {
            let drawn = dot(&definition, &marks);
            let Some((svg, messages)) = render_with_graphviz(&drawn) else {
                eprintln!("skipped: Graphviz (`dot`) is not installed");
                return;
            };
            assert_eq!(messages, "", "{drawn}");
            let nodes = drawn.lines().filter(|line| is_node(line)).count();
            assert_eq!(svg.matches("class=\"node\"").count(), nodes, "{drawn}");
        }
    }
}

fn is_node(line: &str) -> bool {
    let line = line.trim_start();
    let is_name = line.starts_with(['s', 'b', 'e']) && !line.starts_with("subgraph");
    is_name && line.contains(" [label=") && !line.contains(" -> ")
}

/// Renders a drawing as SVG; returns it with the messages of Graphviz, or none if
/// Graphviz is not installed.
fn render_with_graphviz(drawn: &str) -> Option<(String, String)> {
    let mut dot = Command::new("dot")
        .arg("-Tsvg")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut input = dot.stdin.take().unwrap();
    input.write_all(drawn.as_bytes()).unwrap();
    drop(input);
    let output = dot.wait_with_output().unwrap();
    assert!(output.status.success(), "{drawn}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Some((text(output.stdout), text(output.stderr)))
}

#[test]
fn all_states_can_be_folded() {
    let definition = definition("nested");
    let marks = Marks::default().folding(&definition, |_| true);
    assert!(mermaid(&definition, &marks).contains("b0 -->"));
    assert!(dot(&definition, &marks).contains("b0 ->"));
    assert!(text(&definition, &marks).contains("→ end"));
}

#[test]
fn no_line_is_wider_than_a_terminal() {
    // Each state catches to the next: nesting far beyond the width.
    let long = "x".repeat(60);
    let states: Vec<String> = (0..200)
        .map(|n| {
            format!(
                r#""{long} {n}": {{"Type": "Task", "Resource": "r", "End": true, "Catch": [{{"ErrorEquals": ["{long}"], "Next": "{long} {}"}}]}}"#,
                n + 1
            )
        })
        .collect();
    let written = format!(
        r#"{{"StartAt": "{long} 0", "States": {{{}, "{long} 200": {{"Type": "Succeed"}}}}}}"#,
        states.join(",")
    );
    let checked = check(&written);
    let drawn = text(&checked.definition.unwrap(), &Marks::default());
    assert!(
        drawn.lines().all(|line| line.chars().count() <= 80),
        "{drawn}"
    );
    let drawn_states = drawn.lines().filter(|line| line.contains('○')).count();
    assert_eq!(drawn_states, 201);
}

/// The built-in workflows, as `ballast workflow graph` draws them.
#[test]
fn built_in_workflows() {
    for known in definitions::ALL {
        let definition = known.definition().unwrap();
        let marks = Marks::default().folding(&definition, |state| is_helper(&state.kind));
        compare(&format!("{}.txt", known.name), &text(&definition, &marks));
    }
}
