//! The sources: module docs, one clippy.toml, no paths of a single machine.

use crate::repository::{files, files_ending, read, report};

/// Paths that exist on one machine only. (Written in two halves, so that this file does not contain
/// them.)
const LOCAL_PATHS: [&str; 3] = [
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
                "{path}: start with `//!`: what the module is, and what it is not"
            ));
        }
    }
    report(findings);
}

#[test]
fn there_is_one_clippy_configuration() {
    let mut findings = Vec::new();
    let all = files();
    if !all.contains("clippy.toml") {
        findings.push(
            "clippy.toml is missing from the root: it forbids reading the clock directly"
                .to_owned(),
        );
    }
    for path in &all {
        let name = path.rsplit('/').next().unwrap_or(path);
        if path != "clippy.toml" && ["clippy.toml", ".clippy.toml"].contains(&name) {
            findings.push(format!(
                "{path} silently replaces the root's: remove it, and move its contents into clippy.toml"
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
            for place in LOCAL_PATHS.iter().filter(|place| line.contains(**place)) {
                findings.push(format!(
                    "{path}:{}: remove {place:?}: readers do not have it",
                    number + 1
                ));
            }
        }
    }
    report(findings);
}
