//! The documents: mentioned paths exist, and decisions have the same form.

use crate::markdown::{anchors, mentions};
use crate::paths::{Claim, Tree};
use crate::repository::{files, read, report};

/// The changelog may mention old paths.
const CHANGELOG: &str = "CHANGELOG.md";

/// The sections of every decision, in this order.
const DECISION: [&str; 4] = [
    "## Context",
    "## Decision",
    "## Failure modes",
    "## Rejected alternatives",
];

#[test]
fn documents_mention_only_existing_paths() {
    let ours = files();
    let documents: Vec<_> = ours
        .iter()
        .filter(|path| path.ends_with(".md") && *path != CHANGELOG)
        .cloned()
        .collect();
    let tree = Tree::new(ours);
    let mut findings = Vec::new();
    for document in documents {
        for (line, mention) in mentions(&read(&document)) {
            let Some(claim) = tree.claim(&document, &mention) else {
                continue;
            };
            if let Some(fault) = fault(&tree, &claim) {
                findings.push(format!("{document}:{line}: {fault}"));
            }
        }
    }
    report(findings);
}

fn fault(tree: &Tree, claim: &Claim) -> Option<String> {
    match claim {
        Claim::Name(name) if !tree.has_name(name) => Some(format!(
            "no file is called {name}: correct the name, or write its path from the root"
        )),
        Claim::Path(path, _) if !tree.has_path(path) => Some(format!(
            "there is no {path}: correct the path (code spans start at the root, links at their \
             document)"
        )),
        Claim::Path(path, Some(anchor)) if path.ends_with(".md") => {
            let known = anchors(&read(path));
            (!known.contains(anchor)).then(|| {
                format!(
                    "{path} has no heading #{anchor}: it has {}",
                    known.join(", ")
                )
            })
        }
        _ => None,
    }
}

#[test]
fn decisions_have_the_same_sections_and_are_listed() {
    let index = read("docs/adr/README.md");
    let mut findings = Vec::new();
    for path in files() {
        let Some(name) = path.strip_prefix("docs/adr/") else {
            continue;
        };
        if name == "README.md" {
            continue;
        }
        if !index.contains(&format!("]({name})")) {
            findings.push(format!("{path}: list it in docs/adr/README.md"));
        }
        let text = read(&path);
        if !text.lines().any(|line| line.starts_with("Date: 20")) {
            findings.push(format!("{path}: add a line `Date: YYYY-MM-DD`"));
        }
        let headings: Vec<_> = text
            .lines()
            .filter(|line| DECISION.contains(line))
            .collect();
        if headings != DECISION {
            findings.push(format!(
                "{path}: give it the sections {} in this order, once each",
                DECISION.join(", ")
            ));
        }
    }
    report(findings);
}
