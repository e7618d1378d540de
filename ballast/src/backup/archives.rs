//! The files of closed polls in a backup. They never change, so they are copied once the copy of
//! the shard lists which are needed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;
use ballast_domain::{PollId, ShardId};
use ballast_vote_shard::archive::{Archive, verify_checksums};
use ballast_vote_shard::shard::ArchiveFile;

use super::manifest::FileCopy;
use crate::up::ARCHIVE;

/// The directory of a shard's archive files, in a backup or in a data directory.
pub(super) fn directory(home: &Path, shard: &ShardId) -> PathBuf {
    home.join(ARCHIVE).join(shard.as_str())
}

/// Copies the files that a shard lists, and verifies each copy.
pub(super) async fn copy(
    data_dir: &Path,
    backup: &Path,
    shard: &ShardId,
    named: &[(PollId, ArchiveFile)],
) -> anyhow::Result<Vec<FileCopy>> {
    let (from, to) = (directory(data_dir, shard), directory(backup, shard));
    let mut copies = Vec::new();
    for (poll, file) in named {
        copy_one(&from.join(&file.path), &to.join(&file.path))?;
        let archive = Archive::local(&to)?;
        verify_checksums(&archive, file, *poll).await?;
        copies.push(FileCopy::from_file(&to.join(&file.path), &file.path)?);
    }
    Ok(copies)
}

/// Restores the files of a backup.
pub(super) fn restore(
    backup: &Path,
    data_dir: &Path,
    shard: &ShardId,
    files: &[FileCopy],
) -> anyhow::Result<()> {
    let (from, to) = (directory(backup, shard), directory(data_dir, shard));
    for file in files {
        copy_one(&from.join(&file.name), &to.join(&file.name))?;
    }
    Ok(())
}

fn copy_one(from: &Path, to: &Path) -> anyhow::Result<()> {
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder)?;
    fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
    File::open(to)?.sync_all()?;
    // Sync every parent up to the backup itself: any of them may be new.
    for directory in folder.ancestors().take(5) {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// Checks the files that a shard lists against its checksums; collects problems.
pub(super) async fn verify(
    backup: &Path,
    shard: &ShardId,
    named: &[(PollId, ArchiveFile)],
    problems: &mut Vec<String>,
) {
    let directory = directory(backup, shard);
    for (poll, file) in named {
        let checked = match directory.exists() {
            true => match Archive::local(&directory) {
                Ok(archive) => verify_checksums(&archive, file, *poll).await.map(drop),
                Err(error) => {
                    problems.push(format!("{}: {error}", directory.display()));
                    return;
                }
            },
            false => {
                problems.push(format!("{} is missing", directory.display()));
                return;
            }
        };
        if let Err(error) = checked {
            problems.push(format!("{shard}: {error}"));
        }
    }
}
