//! What drawings look like. The expected ones are files beside the
//! definitions; `BALLAST_UPDATE_DRAWINGS=1 cargo test` writes them anew.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeSet;
use std::path::Path;

use ballast_state_machines::definitions::{self, is_helper};
use ballast_state_machines::language::draw::{Marks, dot, mermaid, text};
use ballast_state_machines::language::model::Kind;
use ballast_state_machines::language::{Definition, check};

fn definition(name: &str) -> Definition {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drawings");
    let written = std::fs::read_to_string(path.join(format!("{name}.json"))).unwrap();
    Definition::parse(&written).unwrap()
}

/// Compares a drawing with the file that holds what it should be.
fn compare(file: &str, drawn: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/drawings")
        .join(file);
    if std::env::var_os("BALLAST_UPDATE_DRAWINGS").is_some() {
        std::fs::write(&path, drawn).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(drawn, expected, "{file} is drawn otherwise");
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
        folded: BTreeSet::new(),
    };
    compare("poll.mmd", &mermaid(&definition, &marks));
    compare("poll.dot", &dot(&definition, &marks));
    compare("poll.txt", &text(&definition, &marks));
}

#[test]
fn helper_states_are_folded() {
    let definition = definition("poll");
    let helper = |kind: &Kind| matches!(kind, Kind::Choice(_) | Kind::Wait(_) | Kind::Fail(_));
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
fn machines_within_machines_and_names_with_anything_in_them() {
    let definition = definition("nested");
    let marks = Marks {
        current: names(&["Größe\nmessen"]),
        ..Marks::default()
    };
    compare("nested.mmd", &mermaid(&definition, &marks));
    compare("nested.dot", &dot(&definition, &marks));
    compare("nested.txt", &text(&definition, &marks));
}

#[test]
fn all_states_may_be_folded() {
    let definition = definition("nested");
    let marks = Marks::default().folding(&definition, |_| true);
    assert!(mermaid(&definition, &marks).contains("b0 -->"));
    assert!(dot(&definition, &marks).contains("b0 ->"));
    assert!(text(&definition, &marks).contains("→ end"));
}

#[test]
fn no_line_is_wider_than_a_terminal() {
    // Each state fails into the next: ways within ways, far beyond what fits.
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

/// The workflows that come with Ballast, as `ballast workflow graph` draws them.
#[test]
fn the_workflows_of_ballast() {
    for known in definitions::ALL {
        let definition = known.definition().unwrap();
        let marks = Marks::default().folding(&definition, |state| is_helper(&state.kind));
        compare(&format!("{}.txt", known.name), &text(&definition, &marks));
    }
}
