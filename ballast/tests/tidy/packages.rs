//! The packages: their dependencies, names and lints, and which a plain build includes.

use std::collections::BTreeMap;

use crate::markdown;
use crate::repository::{self, Package, packages, read, read_toml, report};

/// The packages that each package may use. `ballast`, `sim` and `bench` may use all.
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
const MAY_USE_ALL: [&str; 3] = ["ballast", "sim", "bench"];

/// The directory in the drawing that is not a package.
const INFRA: &str = "infra";

#[test]
fn packages_use_only_allowed_packages() {
    let mut findings = Vec::new();
    for Package {
        directory, uses, ..
    } in packages()
    {
        if MAY_USE_ALL.contains(&directory.as_str()) {
            continue;
        }
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == directory) else {
            findings.push(format!(
                "{directory}/ has no allowed dependencies: draw it in ARCHITECTURE.md and add it to \
                 MAY_USE in ballast/tests/tidy/packages.rs"
            ));
            continue;
        };
        for (used, section) in uses {
            // A crate's own tests may use its own features for tests.
            let is_own = used == directory && section == "dev-dependencies";
            if !is_own && !allowed.contains(&used.as_str()) {
                findings.push(format!(
                    "{directory} must not use {used}: take it out of [{section}] in {directory}/Cargo.toml; \
                     what both need belongs in domain, as a port or a type"
                ));
            }
        }
    }
    report(findings);
}

#[test]
fn packages_are_named_after_their_directories() {
    let mut findings = Vec::new();
    for Package {
        name, directory, ..
    } in packages()
    {
        let expected = match directory.as_str() {
            "ballast" => "ballast".to_owned(),
            other => format!("ballast-{other}"),
        };
        if name != expected {
            findings.push(format!(
                "name the package in {directory}/ {expected}, not {name}"
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
        .map(|package| package.directory)
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
    for Package { directory, .. } in packages() {
        let manifest = format!("{directory}/Cargo.toml");
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
    let mut directories: Vec<_> = packages()
        .into_iter()
        .map(|package| package.directory)
        .collect();
    directories.push(INFRA.to_owned());
    let mut findings = Vec::new();
    for directory in &directories {
        if !drawn.contains_key(directory) {
            findings.push(format!(
                "{directory}/ is missing from the drawing in ARCHITECTURE.md: add its line"
            ));
        }
    }
    for directory in drawn
        .keys()
        .filter(|directory| !directories.contains(directory))
    {
        findings.push(format!(
            "ARCHITECTURE.md draws {directory}/, which is no member of the workspace: remove its line"
        ));
    }
    report(findings);
}

#[test]
fn only_empty_packages_are_marked_not_yet() {
    let mut findings = Vec::new();
    for (directory, line) in drawing() {
        match (line.contains("not yet"), first_content(&directory)) {
            (true, Some(sign)) => findings.push(format!(
                "{directory}/ is \"not yet\" in ARCHITECTURE.md but {sign}: remove the words, or take \
                 that out; such a package contains only its docs"
            )),
            (false, None) => findings.push(format!(
                "{directory}/ contains only docs: mark it \"not yet\" in ARCHITECTURE.md"
            )),
            _ => {}
        }
    }
    report(findings);
}

/// The drawing in the first fenced block of ARCHITECTURE.md: a line `directory/   what it is` for
/// each package; an indented line continues the last one.
fn drawing() -> BTreeMap<String, String> {
    let mut directories: Vec<(String, String)> = Vec::new();
    for line in markdown::first_fence(&read("ARCHITECTURE.md")) {
        let head = line.split_whitespace().next().unwrap_or_default();
        match (head.strip_suffix('/'), line.starts_with(' ')) {
            (Some(directory), false) => directories.push((directory.to_owned(), line.clone())),
            _ => {
                if let Some((_, text)) = directories.last_mut() {
                    text.push_str(&line);
                }
            }
        }
    }
    assert!(
        !directories.is_empty(),
        "the first fenced block of ARCHITECTURE.md must draw the packages: one line `directory/  what it is` each"
    );
    directories.into_iter().collect()
}

/// What a package contains beyond its docs, if anything.
fn first_content(directory: &str) -> Option<String> {
    let prefix = format!("{directory}/");
    let ours = repository::files();
    let mut held = ours.iter().filter_map(|path| path.strip_prefix(&prefix));
    let extra = held.find(|path| !["Cargo.toml", "README.md", "src/lib.rs"].contains(path));
    if let Some(path) = extra {
        return Some(format!("contains {prefix}{path}"));
    }
    let library = format!("{prefix}src/lib.rs");
    let code = ours.contains(&library).then(|| read(&library))?;
    let mut lines = code.lines().enumerate();
    let (number, _) =
        lines.find(|(_, line)| !line.trim().is_empty() && !line.starts_with("//!"))?;
    Some(format!("has an item in {library}, line {}", number + 1))
}
