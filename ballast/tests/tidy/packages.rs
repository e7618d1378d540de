//! The rooms: what may use what, and which of them are built.

use std::collections::BTreeMap;

use crate::markdown;
use crate::repository::{self, Package, packages, read, read_toml, report};

/// Which rooms a room may use. `ballast`, `sim` and `bench` see all.
const MAY_USE: [(&str, &[&str]); 11] = [
    ("domain", &[]),
    ("sqlite-store", &[]),
    ("web", &["domain"]),
    ("vote-shard", &["domain"]),
    ("state-machines", &["domain", "sqlite-store"]),
    ("hotspot-detector", &["domain"]),
    ("router", &["domain", "web", "vote-shard"]),
    (
        "cli",
        &[
            "domain",
            "vote-shard",
            "state-machines",
            "migration-engine",
            "hotspot-detector",
            "control-plane",
        ],
    ),
    (
        "migration-engine",
        &["domain", "vote-shard", "state-machines"],
    ),
    (
        "control-plane",
        &[
            "domain",
            "web",
            "vote-shard",
            "sqlite-store",
            "state-machines",
            "migration-engine",
            "hotspot-detector",
        ],
    ),
    (
        "console",
        &[
            "domain",
            "web",
            "vote-shard",
            "state-machines",
            "control-plane",
        ],
    ),
];
const SEE_ALL: [&str; 3] = ["ballast", "sim", "bench"];

/// The room that is no package.
const INFRA: &str = "infra";

#[test]
fn packages_use_only_allowed_packages() {
    let mut findings = Vec::new();
    for Package { room, uses, .. } in packages() {
        if SEE_ALL.contains(&room.as_str()) {
            continue;
        }
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == room) else {
            findings.push(format!(
                "{room}/ is a room without arrows: draw it in ARCHITECTURE.md and add it to \
                 MAY_USE in ballast/tests/tidy/packages.rs"
            ));
            continue;
        };
        for (used, section) in uses {
            if !allowed.contains(&used.as_str()) {
                findings.push(format!(
                    "{room} must not use {used}: take it out of [{section}] in {room}/Cargo.toml; \
                     what both need is a port or a type in domain"
                ));
            }
        }
    }
    report(findings);
}

#[test]
fn packages_are_named_after_their_directories() {
    let mut findings = Vec::new();
    for Package { name, room, .. } in packages() {
        let expected = match room.as_str() {
            "ballast" => "ballast".to_owned(),
            other => format!("ballast-{other}"),
        };
        if name != expected {
            findings.push(format!(
                "call the package in {room}/ {expected}, not {name}"
            ));
        }
    }
    report(findings);
}

#[test]
fn a_plain_build_builds_only_the_product() {
    let defaults: Vec<_> = packages()
        .into_iter()
        .filter(|package| package.is_default)
        .map(|package| package.room)
        .collect();
    assert_eq!(
        defaults,
        ["ballast"],
        "default-members in Cargo.toml must be [\"ballast\"] alone"
    );
}

#[test]
fn every_package_inherits_the_workspace_lints() {
    let mut findings = Vec::new();
    for Package { room, .. } in packages() {
        let manifest = format!("{room}/Cargo.toml");
        let lints = read_toml(&manifest);
        let shared = lints.get("lints").and_then(|lints| lints.get("workspace"));
        if shared.and_then(toml::Value::as_bool) != Some(true) {
            findings.push(format!("add `[lints] workspace = true` to {manifest}"));
        }
    }
    report(findings);
}

#[test]
fn unsafe_code_is_forbidden() {
    let manifest = read_toml("Cargo.toml");
    let level = ["workspace", "lints", "rust", "unsafe_code"]
        .iter()
        .try_fold(&toml::Value::Table(manifest.clone()), |at, key| at.get(key))
        .and_then(toml::Value::as_str)
        .map(str::to_owned);
    assert_eq!(
        level.as_deref(),
        Some("forbid"),
        "set unsafe_code = \"forbid\" under [workspace.lints.rust] in Cargo.toml"
    );
}

#[test]
fn every_package_is_in_the_drawing() {
    let drawn = drawing();
    let mut rooms: Vec<_> = packages().into_iter().map(|package| package.room).collect();
    rooms.push(INFRA.to_owned());
    let mut findings = Vec::new();
    for room in &rooms {
        if !drawn.contains_key(room) {
            findings.push(format!(
                "{room}/ is missing from the house drawn in ARCHITECTURE.md: add its line"
            ));
        }
    }
    for room in drawn.keys().filter(|room| !rooms.contains(room)) {
        findings.push(format!(
            "ARCHITECTURE.md draws {room}/, which is no member of the workspace: remove its line"
        ));
    }
    report(findings);
}

#[test]
fn only_empty_packages_are_marked_not_yet() {
    let mut findings = Vec::new();
    for (room, line) in drawing() {
        match (line.contains("not yet"), first_sign_of_life(&room)) {
            (true, Some(sign)) => findings.push(format!(
                "{room}/ is \"not yet\" in ARCHITECTURE.md but {sign}: strike the words, or take \
                 that out; a room that is not yet holds its docs and nothing else"
            )),
            (false, None) => findings.push(format!(
                "{room}/ holds nothing but docs: call it \"not yet\" in ARCHITECTURE.md"
            )),
            _ => {}
        }
    }
    report(findings);
}

/// The house as ARCHITECTURE.md draws it, in its first fenced block: a line
/// `room/   what it is` for each room; an indented line continues the last.
fn drawing() -> BTreeMap<String, String> {
    let mut rooms: Vec<(String, String)> = Vec::new();
    for line in markdown::first_fence(&read("ARCHITECTURE.md")) {
        let head = line.split_whitespace().next().unwrap_or_default();
        match (head.strip_suffix('/'), line.starts_with(' ')) {
            (Some(room), false) => rooms.push((room.to_owned(), line.clone())),
            _ => {
                if let Some((_, text)) = rooms.last_mut() {
                    text.push_str(&line);
                }
            }
        }
    }
    assert!(
        !rooms.is_empty(),
        "the first fenced block of ARCHITECTURE.md draws the house: one line `room/  what it is` each"
    );
    rooms.into_iter().collect()
}

/// What a room holds beyond its docs, if anything.
fn first_sign_of_life(room: &str) -> Option<String> {
    let prefix = format!("{room}/");
    let ours = repository::files();
    let mut held = ours.iter().filter_map(|path| path.strip_prefix(&prefix));
    let extra = held.find(|path| !["Cargo.toml", "README.md", "src/lib.rs"].contains(path));
    if let Some(path) = extra {
        return Some(format!("holds {prefix}{path}"));
    }
    let library = format!("{prefix}src/lib.rs");
    let code = ours.contains(&library).then(|| read(&library))?;
    let mut lines = code.lines().enumerate();
    let (number, _) =
        lines.find(|(_, line)| !line.trim().is_empty() && !line.starts_with("//!"))?;
    Some(format!("has an item in {library}, line {}", number + 1))
}
