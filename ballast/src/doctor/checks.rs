//! One function for each part of a data directory. All of them only read.

use std::fs::{File, TryLockError};
use std::path::Path;

use ballast_control_plane::registry::sqlite::{RegistrySummary, summarize};
use ballast_sqlite_store::open_to_check;
use serde::Serialize;

use crate::backup::RESTORING;
use crate::up::{
    EXECUTIONS, REGISTRY, ShardIdentity, has_log, list_shards, read_format, running_process,
};

const REPLACE_REGISTRY: &str = "put the registry back, or restore a backup into an empty directory \
                                (ballast restore BACKUP DATA_DIR)";
const REPLACE_SHARD: &str = "bring the directory back, or restore a backup";

/// What was found of one part of a data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    /// The part.
    pub(super) subject: String,
    /// `ok` or `problem`.
    pub(super) level: FindingLevel,
    /// What was found.
    pub(super) found: String,
    /// What to do about a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// Whether something must be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum FindingLevel {
    Ok,
    Problem,
}

impl Finding {
    fn ok(subject: &str, found: impl Into<String>) -> Self {
        Self {
            subject: subject.to_owned(),
            level: FindingLevel::Ok,
            found: found.into(),
            next: None,
        }
    }

    fn problem(subject: &str, found: impl Into<String>, next: &str) -> Self {
        Self {
            level: FindingLevel::Problem,
            next: Some(next.to_owned()),
            ..Self::ok(subject, found)
        }
    }

    /// Whether something must be done.
    pub(super) fn is_problem(&self) -> bool {
        self.level == FindingLevel::Problem
    }
}

/// Checks everything.
pub(super) async fn check_all(data_dir: &Path) -> Vec<Finding> {
    let mut findings = vec![check_directory(data_dir)];
    if findings.iter().any(Finding::is_problem) {
        return findings;
    }
    findings.push(check_format(data_dir));
    let (finding, summary) = check_registry(data_dir).await;
    findings.push(finding);
    match &summary {
        Some(summary) => findings.extend(check_shards(data_dir, summary)),
        None => findings.extend(list_shards(data_dir).iter().map(|id| orphaned(id))),
    }
    findings.push(check_executions(data_dir).await);
    findings
}

fn check_directory(data_dir: &Path) -> Finding {
    let subject = "data directory";
    let opened = match File::open(data_dir) {
        Ok(opened) => opened,
        Err(error) => {
            let found = format!("cannot be opened: {error}");
            return Finding::problem(subject, found, "name another one with --data-dir");
        }
    };
    if data_dir.join(RESTORING).exists() {
        let next = "empty the directory and restore again";
        return Finding::problem(subject, "a restore did not finish", next);
    }
    match opened.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Finding::ok(subject, format!("in use by {}", running_process(data_dir)))
        }
        _ => Finding::ok(subject, "not in use"),
    }
}

fn check_format(data_dir: &Path) -> Finding {
    let subject = "format";
    match read_format(data_dir) {
        Ok(format) => Finding::ok(subject, format!("{format}")),
        Err(error) => {
            let next = "use the program that wrote the data, or a newer one";
            Finding::problem(subject, format!("{error:#}"), next)
        }
    }
}

async fn check_registry(data_dir: &Path) -> (Finding, Option<RegistrySummary>) {
    let path = data_dir.join(REGISTRY);
    let shards = list_shards(data_dir);
    if !path.exists() {
        let finding = match shards.is_empty() {
            true => Finding::ok(REGISTRY, "not there: `ballast up` creates it"),
            false => Finding::problem(REGISTRY, "missing", REPLACE_REGISTRY),
        };
        return (finding, None);
    }
    match summarize(&path).await {
        Err(error) => {
            let finding = Finding::problem(REGISTRY, error.to_string(), REPLACE_REGISTRY);
            (finding, None)
        }
        Ok(summary) if summary.shards.is_empty() && !shards.is_empty() => {
            let finding = Finding::problem(REGISTRY, "empty", REPLACE_REGISTRY);
            (finding, Some(summary))
        }
        Ok(summary) => {
            let id = summary.id.as_ref().map(ToString::to_string);
            let found = format!(
                "tenants {}, shards {}, identity {}",
                summary.tenants,
                summary.shards.len(),
                id.as_deref().unwrap_or("none: an earlier version wrote it")
            );
            (Finding::ok(REGISTRY, found), Some(summary))
        }
    }
}

fn check_shards(data_dir: &Path, registry: &RegistrySummary) -> Vec<Finding> {
    let known = registry.shards.iter();
    let mut findings: Vec<_> = known
        .map(|(id, url)| match url.strip_prefix("file:") {
            Some(directory) => check_shard(id, &data_dir.join(directory), data_dir, registry),
            None => Finding::ok(id, format!("is at {url}")),
        })
        .collect();
    let listed = |name: &String| {
        let place = data_dir.join("shards").join(name);
        let mut urls = registry.shards.iter().map(|(_, url)| url);
        urls.any(|url| {
            url.strip_prefix("file:").map(|url| data_dir.join(url)) == Some(place.clone())
        })
    };
    let others = list_shards(data_dir)
        .into_iter()
        .filter(|name| !listed(name));
    findings.extend(others.map(|id| orphaned(&id)));
    findings
}

fn check_shard(id: &str, directory: &Path, data_dir: &Path, registry: &RegistrySummary) -> Finding {
    if !has_log(directory) {
        return match data_dir.join("opened-shards").join(id).exists() {
            true => {
                let found = format!("its files are missing from {}", directory.display());
                Finding::problem(id, found, REPLACE_SHARD)
            }
            false => Finding::ok(id, "new: it has no files yet"),
        };
    }
    match ShardIdentity::read(directory) {
        Err(error) => Finding::problem(id, error.to_string(), REPLACE_SHARD),
        Ok(None) => Finding::ok(id, "files are there, written by an earlier version"),
        Ok(Some(found)) => {
            let is_ours = registry.id.as_ref() == Some(&found.registry_id);
            match is_ours && found.shard_id.as_str() == id {
                true => Finding::ok(id, "files are there"),
                false => {
                    let what = format!(
                        "{} has the files of {} of the registry {}",
                        directory.display(),
                        found.shard_id,
                        found.registry_id
                    );
                    Finding::problem(id, what, "put the right registry or the right files back")
                }
            }
        }
    }
}

/// A shard that the registry does not name.
fn orphaned(id: &str) -> Finding {
    let found = "has files, and the registry does not name it";
    let next = "if its shard was removed from the fleet, the directory can be deleted; otherwise \
                put the right registry back";
    Finding::problem(&format!("shards/{id}"), found, next)
}

async fn check_executions(data_dir: &Path) -> Finding {
    let path = data_dir.join(EXECUTIONS);
    if !path.exists() {
        return Finding::ok(EXECUTIONS, "not there: `ballast up` creates it");
    }
    match open_to_check(&path).await {
        Ok(_) => Finding::ok(EXECUTIONS, "readable"),
        Err(error) => {
            let next = "move it away: votes do not need it, and running migrations are started \
                        again from the registry; other executions are lost with it";
            Finding::problem(EXECUTIONS, error.to_string(), next)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn problems(findings: &[Finding]) -> Vec<&str> {
        let problems = findings.iter().filter(|finding| finding.is_problem());
        problems.map(|finding| finding.subject.as_str()).collect()
    }

    #[tokio::test]
    async fn missing_parts_are_named_with_a_way_out() {
        let place = tempfile::tempdir().unwrap();
        let data_dir = place.path();
        assert!(problems(&check_all(data_dir).await).is_empty());
        let missing = check_all(&data_dir.join("none")).await;
        assert_eq!(problems(&missing), ["data directory"]);
        fs::create_dir_all(data_dir.join("shards/shard-1")).unwrap();
        fs::write(data_dir.join("shards/shard-1/log-0000000000000001.seg"), "").unwrap();
        let without = check_all(data_dir).await;
        assert_eq!(problems(&without), ["registry.db", "shards/shard-1"]);
        assert!(
            without
                .iter()
                .filter(|it| it.is_problem())
                .all(|it| it.next.is_some())
        );
        fs::write(data_dir.join(EXECUTIONS), "damaged").unwrap();
        let damaged = check_all(data_dir).await;
        assert!(problems(&damaged).contains(&EXECUTIONS), "{damaged:?}");
    }
}
