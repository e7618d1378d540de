//! The repository as the checks see it: its root, its files, its packages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Directories that a walk excludes when there is no git.
const EXCLUDED: [&str; 5] = [".git", ".venv", "__pycache__", "ballast-data", "target"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Reads a file of the repository as text; invalid UTF-8 is replaced.
pub(crate) fn read(path: &str) -> String {
    match std::fs::read(root().join(path)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => panic!("{path} cannot be read ({error}); it belongs in the repository"),
    }
}

/// A TOML file of the repository.
pub(crate) fn read_toml(path: &str) -> toml::Table {
    match read(path).parse() {
        Ok(table) => table,
        Err(error) => panic!("{path} is not TOML: {error}"),
    }
}

/// Every file of the repository, relative to the root, with `/`: those that git tracks or would
/// track. In a source archive without git, all but build output.
pub(crate) fn files() -> BTreeSet<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others"])
        .arg("--exclude-standard")
        .current_dir(root())
        .output();
    let mut found = BTreeSet::new();
    match listed {
        Ok(listed) if listed.status.success() => found.extend(
            String::from_utf8_lossy(&listed.stdout)
                .split('\0')
                .filter(|path| root().join(path).is_file())
                .map(str::to_owned),
        ),
        _ => walk(&root(), "", &mut found),
    }
    assert!(
        found.contains("Cargo.toml"),
        "no files found in {}",
        root().display()
    );
    found
}

fn walk(directory: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.path().is_file() {
            found.insert(path);
        } else if !EXCLUDED.contains(&name.as_str()) {
            walk(&entry.path(), &format!("{path}/"), found);
        }
    }
}

/// The files with this ending.
pub(crate) fn files_ending(ending: &str) -> Vec<String> {
    let all = files().into_iter();
    all.filter(|path| path.ends_with(ending)).collect()
}

/// One package of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its directory, from the root.
    pub(crate) directory: String,
    /// The directories of the packages it uses, each with its section in `Cargo.toml`.
    pub(crate) uses: Vec<(String, String)>,
    /// Whether a plain `cargo build` at the root builds it.
    pub(crate) is_default: bool,
}

/// Every package of the workspace, as cargo sees it.
pub(crate) fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output();
    let metadata: Value = match output {
        Ok(output) if output.status.success() => {
            serde_json::from_slice(&output.stdout).unwrap_or_default()
        }
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => panic!("cargo cannot be started: {error}"),
    };
    let defaults = list(&metadata["workspace_default_members"]);
    let packages: Vec<_> = list(&metadata["packages"])
        .iter()
        .map(|package| Package {
            name: text(&package["name"]),
            directory: package_directory(Path::new(&text(&package["manifest_path"]))),
            uses: uses(package),
            is_default: defaults.contains(&package["id"]),
        })
        .collect();
    assert!(!packages.is_empty(), "cargo metadata lists no package");
    packages
}

fn uses(package: &Value) -> Vec<(String, String)> {
    let dependencies = list(&package["dependencies"]).iter();
    dependencies
        .filter_map(|dependency| {
            let directory = Path::new(dependency["path"].as_str()?).join("Cargo.toml");
            let section = match dependency["kind"].as_str() {
                Some(kind) => format!("{kind}-dependencies"),
                None => "dependencies".to_owned(),
            };
            Some((package_directory(&directory), section))
        })
        .collect()
}

fn package_directory(manifest: &Path) -> String {
    let directory = manifest.parent().unwrap_or(manifest);
    let directory = directory.strip_prefix(root()).unwrap_or(directory);
    directory.to_string_lossy().replace('\\', "/")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Fails with all findings at once, so that one run shows everything that is to do.
#[track_caller]
pub(crate) fn report(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n  {}\n", findings.join("\n  "));
}
