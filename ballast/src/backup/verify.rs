//! Verifies a backup against its manifest.

use std::path::Path;
use std::sync::Arc;

use ballast_domain::PollId;
use ballast_vote_shard::embedded::disk::{Disk, RealDisk};
use ballast_vote_shard::embedded::inspect::inspect;
use ballast_vote_shard::shard::ArchiveFile;

use super::archives;
use super::manifest::{FileCopy, Manifest, ShardCopy};

/// Reads everything; returns the problems.
pub(super) async fn verify(backup: &Path, manifest: &Manifest) -> Vec<String> {
    let mut problems = Vec::new();
    check_file(backup, &manifest.registry.file, &mut problems);
    let others = [&manifest.executions, &manifest.certificate_key];
    for file in others.into_iter().flatten() {
        check_file(backup, file, &mut problems);
    }
    for shard in &manifest.shards {
        let directory = backup.join(&shard.directory);
        let before = problems.len();
        for file in &shard.files {
            check_file(&directory, file, &mut problems);
        }
        let archive = archives::directory(backup, &shard.shard_id);
        for file in &shard.archive {
            check_file(&archive, file, &mut problems);
        }
        // Damaged files were reported; their rows would repeat it.
        if problems.len() == before && !shard.files.is_empty() {
            let named = check_rows(&directory, shard, &mut problems);
            archives::verify(backup, &shard.shard_id, &named, &mut problems).await;
        }
    }
    problems
}

fn check_file(directory: &Path, expected: &FileCopy, problems: &mut Vec<String>) {
    let path = directory.join(&expected.name);
    match FileCopy::from_file(&path, &expected.name) {
        Ok(found) if found == *expected => {}
        Ok(found) if found.bytes != expected.bytes => problems.push(format!(
            "{} has {} bytes; the manifest says {}",
            path.display(),
            found.bytes,
            expected.bytes
        )),
        Ok(_) => problems.push(format!(
            "{} does not have the checksum in the manifest",
            path.display()
        )),
        Err(error) => problems.push(format!("{error:#}")),
    }
}

/// Checks a shard's rows; returns the files of closed polls that it lists.
fn check_rows(
    directory: &Path,
    shard: &ShardCopy,
    problems: &mut Vec<String>,
) -> Vec<(PollId, ArchiveFile)> {
    let seen = RealDisk::read_only(directory).and_then(|disk| {
        let disk: Arc<dyn Disk> = Arc::new(disk);
        inspect(&disk, true)
    });
    let id = &shard.shard_id;
    match seen {
        Err(error) => {
            problems.push(format!("{id}: {error}"));
            Vec::new()
        }
        Ok(seen) => {
            let found = (
                seen.last_group,
                seen.polls,
                seen.voters,
                seen.votes,
                &seen.digest,
            );
            let expected = (
                shard.position,
                shard.polls,
                shard.voters,
                shard.votes,
                &shard.digest,
            );
            if found != expected {
                problems.push(format!(
                    "{id}: found {found:?}; the manifest says {expected:?}"
                ));
            }
            problems.extend(
                seen.problems
                    .iter()
                    .map(|problem| format!("{id}: {problem}")),
            );
            seen.archives
        }
    }
}
