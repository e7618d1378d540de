//! Copies a slice's files to another shard's archive.
//!
//! ```text
//!   known to the source, not to the target ──► does the file exist, whole?
//!     └─ no ──► draft ──► all checksums ──► renamed, if the migration may still import
//! ```
//! A file is copied before the row that refers to it, so a shard's files always
//! exist. An interrupted copy starts over and skips existing files.

use std::collections::BTreeSet;

use ballast_domain::PollId;
use ballast_domain::tenant::SliceId;

use super::ArchiveProgress;
use super::error::{ArchiveError, ArchiveResult};
use super::reader::ArchiveReader;
use super::store::{Archive, DRAFT_SUFFIX};
use super::throttle::ArchiveThrottle;
use super::writer::FileDraft;
use crate::VoteShard;
use crate::shard::{ArchiveFile, MigrationToken, PollRow, ShardError, SliceStateError};

/// Bytes per step.
const PIECE_BYTES: u64 = 4 << 20;

/// The destination of a slice's files.
#[derive(Clone, Copy)]
pub struct CopyTarget<'a> {
    /// The importing shard.
    pub shard: &'a dyn VoteShard,
    /// Its archive.
    pub archive: &'a Archive,
    /// The slice.
    pub slice: &'a SliceId,
    /// The migration and its worker's token.
    pub token: &'a MigrationToken,
}

/// Which side of a copy failed.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveCopyError {
    /// The source.
    #[error(transparent)]
    Source(ArchiveError),
    /// The target.
    #[error(transparent)]
    Target(ArchiveError),
}

impl CopyTarget<'_> {
    /// Checks that the shard still imports the slice for this worker. Call it
    /// under [`Archive::lock_names`].
    async fn admits(&self) -> ArchiveResult<()> {
        let fence = self.shard.fence(self.slice).await?;
        let fence = fence.ok_or(ShardError::SliceState(SliceStateError::UnknownSlice))?;
        let admitted = fence.may_import(self.token);
        Ok(admitted.map_err(ShardError::SliceState)?)
    }

    /// Whether the file exists, by its size and tail.
    async fn has_file(&self, file: &ArchiveFile, poll: PollId) -> ArchiveResult<bool> {
        let _names = self.archive.lock_names().await;
        match ArchiveReader::open(self.archive, file, poll).await {
            Ok(_) => Ok(true),
            Err(ArchiveError::Missing { .. } | ArchiveError::Damaged { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Copies the files that the source refers to and the target does not.
pub async fn copy_missing_files(
    shard: &dyn VoteShard,
    from: &Archive,
    to: &CopyTarget<'_>,
    pace: &mut dyn ArchiveThrottle,
) -> Result<ArchiveProgress, ArchiveCopyError> {
    let there = to.shard.archives(to.slice).await;
    let there = there.map_err(|error| ArchiveCopyError::Target(error.into()))?;
    let there: BTreeSet<String> = referenced_files(there).map(|(_, file)| file.path).collect();
    let here = shard.archives(to.slice).await;
    let here = here.map_err(|error| ArchiveCopyError::Source(error.into()))?;
    let missing: Vec<_> = referenced_files(here)
        .filter(|(_, file)| !there.contains(&file.path))
        .collect();
    let mut all = ArchiveProgress::default();
    missing.iter().for_each(|(_, file)| all.add(file));
    let (mut done, mut copied) = (ArchiveProgress::default(), ArchiveProgress::default());
    pace.report_progress(&done, &all);
    for (poll, file) in missing {
        if copy_if_missing(from, to, &file, poll, pace).await? {
            copied.add(&file);
        }
        done.add(&file);
        pace.report_progress(&done, &all);
    }
    Ok(copied)
}

/// The files that these rows refer to.
pub(super) fn referenced_files(rows: Vec<PollRow>) -> impl Iterator<Item = (PollId, ArchiveFile)> {
    rows.into_iter().filter_map(|row| {
        let file = row.archived?.file;
        Some((row.poll.poll_id, file))
    })
}

/// Copies one file unless it exists; returns whether it was copied.
pub async fn copy_if_missing(
    from: &Archive,
    to: &CopyTarget<'_>,
    file: &ArchiveFile,
    poll: PollId,
    pace: &mut dyn ArchiveThrottle,
) -> Result<bool, ArchiveCopyError> {
    if to
        .has_file(file, poll)
        .await
        .map_err(ArchiveCopyError::Target)?
    {
        return Ok(false);
    }
    copy_file(from, to, file, poll, pace).await?;
    Ok(true)
}

/// Copies one file, and replaces an existing one.
pub async fn copy_file(
    from: &Archive,
    to: &CopyTarget<'_>,
    file: &ArchiveFile,
    poll: PollId,
    pace: &mut dyn ArchiveThrottle,
) -> Result<(), ArchiveCopyError> {
    let draft = format!("{}{DRAFT_SUFFIX}", file.path);
    copy(from, to.archive, file, poll, &draft, pace).await?;
    let arrived = async {
        let arrived = ArchiveReader::open_at(to.archive, &draft, file, poll).await?;
        arrived.check().await
    };
    if let Err(bad) = arrived.await {
        // Find out which side is damaged: check the source first.
        let there = async { ArchiveReader::open(from, file, poll).await?.check().await };
        there.await.map_err(ArchiveCopyError::Source)?;
        return Err(ArchiveCopyError::Target(bad));
    }
    let _names = to.archive.lock_names().await;
    if let Err(late) = to.admits().await {
        let removed = to.archive.remove(&draft).await;
        return Err(ArchiveCopyError::Target(removed.err().unwrap_or(late)));
    }
    let replaced = to.archive.rename_over(&draft, &file.path).await;
    replaced.map_err(ArchiveCopyError::Target)
}

/// Copies a file's bytes to a draft.
async fn copy(
    from: &Archive,
    to: &Archive,
    file: &ArchiveFile,
    poll: PollId,
    draft: &str,
    pace: &mut dyn ArchiveThrottle,
) -> Result<(), ArchiveCopyError> {
    let reader = ArchiveReader::open(from, file, poll).await;
    reader.map_err(ArchiveCopyError::Source)?;
    let writing = FileDraft::begin(to, draft).await;
    let mut writing = writing.map_err(ArchiveCopyError::Target)?;
    let mut at = 0;
    while at < file.bytes {
        let end = file.bytes.min(at + PIECE_BYTES);
        let piece = from.read_range(&file.path, at..end).await;
        let piece = piece.map_err(ArchiveCopyError::Source)?;
        writing
            .write(&piece)
            .await
            .map_err(ArchiveCopyError::Target)?;
        if let Err(stopped) = pace.advance(end - at).await {
            writing.abort().await;
            return Err(ArchiveCopyError::Target(stopped.into()));
        }
        at = end;
    }
    writing.finish().await.map_err(ArchiveCopyError::Target)
}
