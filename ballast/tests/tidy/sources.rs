//! The sources: docs at every door, no file that swallows the house, no
//! second clippy.toml, no path that is true on one machine only.

use crate::repository::{files, files_ending, read, report};

/// Places that exist on one machine and not on the reader's. (Written in two
/// halves, so that this file does not name them either.)
const ELSEWHERE: [&str; 3] = [
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
    concat!("../sh", "ared"),
];

#[test]
fn every_module_starts_with_docs() {
    let mut findings = Vec::new();
    for path in files_ending(".rs") {
        if path.contains("/src/") && !read(&path).starts_with("//!") {
            findings.push(format!(
                "{path}: begin with `//!`: what the module is, and what it is not"
            ));
        }
    }
    report(findings);
}

#[test]
fn there_is_one_clippy_configuration() {
    let mut findings = Vec::new();
    let ours = files();
    if !ours.contains("clippy.toml") {
        findings.push("clippy.toml is gone from the root: it bans the direct clock".to_owned());
    }
    for path in &ours {
        let name = path.rsplit('/').next().unwrap_or(path);
        if path != "clippy.toml" && ["clippy.toml", ".clippy.toml"].contains(&name) {
            findings.push(format!(
                "{path} silently replaces the root's: remove it, put what it says into clippy.toml"
            ));
        }
    }
    report(findings);
}

#[test]
fn no_file_mentions_a_machines_own_paths() {
    let mut findings = Vec::new();
    for path in files() {
        let text = read(&path);
        for (number, line) in text.lines().enumerate() {
            for place in ELSEWHERE.iter().filter(|place| line.contains(**place)) {
                findings.push(format!(
                    "{path}:{}: take out {place:?}: the reader does not have it",
                    number + 1
                ));
            }
        }
    }
    report(findings);
}
