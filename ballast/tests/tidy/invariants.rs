//! The invariants: every mentioned number is on the page, and every test on the page exists.

use std::collections::BTreeSet;

use crate::repository::{files, files_ending, read, report};

const PAGE: &str = "docs/invariants.md";

/// The numbers after each `INV-` of a text.
fn invariant_numbers(text: &str) -> impl Iterator<Item = u32> + '_ {
    let after = text.split(concat!("IN", "V-")).skip(1);
    after.filter_map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

fn headings(page: &str) -> Vec<u32> {
    let headings = page.lines().filter(|line| line.starts_with("### "));
    headings.flat_map(invariant_numbers).collect()
}

#[test]
fn invariants_are_numbered_in_their_order() {
    let found = headings(&read(PAGE));
    let order: Vec<u32> = (1..).take(found.len()).collect();
    assert_eq!(
        found, order,
        "{PAGE}: headings must be numbered consecutively"
    );
}

#[test]
fn mentioned_invariants_are_on_the_page() {
    let known: BTreeSet<u32> = headings(&read(PAGE)).into_iter().collect();
    let mut findings = Vec::new();
    for path in files_ending(".rs").into_iter().chain(files_ending(".md")) {
        for number in invariant_numbers(&read(&path)) {
            if !known.contains(&number) {
                findings.push(format!("{path}: number {number} is not on {PAGE}: add it"));
            }
        }
    }
    report(findings);
}

#[test]
fn every_invariant_names_an_existing_test() {
    let (page, ours) = (read(PAGE), files());
    let mut findings = Vec::new();
    for part in page.split("\n### ").skip(1) {
        let title = part.lines().next().unwrap_or_default();
        let spans = part.split('`').skip(1).step_by(2);
        let tests: Vec<_> = spans.filter_map(|span| span.split_once("::")).collect();
        if tests.is_empty() && !part.contains("**Not yet**") {
            findings.push(format!(
                "{title}: name the test that proves it, or write **Not yet**"
            ));
        }
        for (path, test) in tests {
            let is_there = ours.contains(path) && {
                let text = read(path);
                let forms = [format!("fn {test}("), format!("fn {test}<")];
                forms.iter().any(|form| text.contains(form.as_str()))
            };
            if !is_there {
                findings.push(format!("{title}: there is no {path}::{test}"));
            }
        }
    }
    report(findings);
}
