//! The files of a migration: the archives of closed polls, whose rows are not in
//! the shard itself.
//!
//! ```text
//!   copied from the source's archive to the target's, before the row that names the file
//!   read back on the target; damaged files are copied again
//!   removed with the slice from the side that it leaves
//! ```

use ballast_domain::moving::{ActiveMigration, MigrationPhase, SliceRoute};
use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, ShardId};
use ballast_vote_shard::archive::{
    self, Archive, ArchiveCopyError, ArchiveError, ArchiveProgress, ArchiveThrottle, CopyTarget,
    Unthrottled,
};
use ballast_vote_shard::shard::{ExportedRow, MigrationToken};
use ballast_vote_shard::{ShardError, VoteShard};

use super::sides::{MigrationSide, shard_error};
use super::{MigrationError, MigrationSides};

/// A file that does not match its shard's record of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedFile {
    /// The poll.
    pub poll: PollId,
    /// What is wrong, with the file's name.
    pub problem: String,
}

impl MigrationSides {
    fn archive(&self, shard: &ShardId) -> Result<Archive, MigrationError> {
        let away = || ShardError::unavailable("no archive can be reached from here");
        let archives = self.archives.as_ref().ok_or_else(away);
        let found = archives.and_then(|archives| archives.archive(shard));
        found.map_err(shard_error(shard))
    }

    /// Copies the files that only the source knows.
    pub async fn copy_files(
        &self,
        slice: &SliceId,
        token: &MigrationToken,
        pace: &mut dyn ArchiveThrottle,
    ) -> Result<ArchiveProgress, MigrationError> {
        if self.archives.is_none() {
            return Ok(ArchiveProgress::default());
        }
        let (from, to) = (self.archive(&self.from.0)?, self.archive(&self.to.0)?);
        let to = self.copy_destination(&to, slice, token);
        let copied = archive::copy_missing_files(&*self.from.1, &from, &to, pace).await;
        copied.map_err(|error| self.copy_error(error))
    }

    /// Copies the files that these changes refer to, unless the target has them:
    /// polls can be archived while a copy is running.
    pub(super) async fn copy_named_files(
        &self,
        slice: &SliceId,
        token: &MigrationToken,
        changes: &[ExportedRow],
    ) -> Result<ArchiveProgress, MigrationError> {
        let mut copied = ArchiveProgress::default();
        let referenced = changes.iter().filter_map(|change| match change {
            ExportedRow::Poll(row) => Some((row.poll.poll_id, &row.archived.as_ref()?.file)),
            ExportedRow::Voter(_) => None,
        });
        for (poll, file) in referenced {
            let (from, to) = (self.archive(&self.from.0)?, self.archive(&self.to.0)?);
            let to = self.copy_destination(&to, slice, token);
            let done = archive::copy_if_missing(&from, &to, file, poll, &mut Unthrottled).await;
            if done.map_err(|error| self.copy_error(error))? {
                copied.polls += 1;
                copied.rows += file.digest.rows;
                copied.bytes += file.bytes;
            }
        }
        Ok(copied)
    }

    /// Makes sure that the target has every file that the source knows, by size and
    /// checksum of its tail. Runs once more before a cutover.
    pub async fn ensure_all_files(
        &self,
        slice: &SliceId,
        token: &MigrationToken,
        pace: &mut dyn ArchiveThrottle,
    ) -> Result<(), MigrationError> {
        let (id, source) = &self.from;
        for row in source.archives(slice).await.map_err(shard_error(id))? {
            self.copy_named_files(slice, token, &[ExportedRow::Poll(row)])
                .await?;
            let went_on = pace.advance(0).await;
            went_on.map_err(|stopped| self.archive_error(id, stopped.into()))?;
        }
        Ok(())
    }

    /// Copies a poll's file again and replaces the target's, which is damaged.
    pub async fn replace_file(
        &self,
        slice: &SliceId,
        token: &MigrationToken,
        poll: PollId,
        pace: &mut dyn ArchiveThrottle,
    ) -> Result<(), MigrationError> {
        let (id, source) = &self.from;
        let file = source.archive(slice, poll).await.map_err(shard_error(id))?;
        let Some(file) = file else {
            return Ok(());
        };
        let (from, to) = (self.archive(id)?, self.archive(&self.to.0)?);
        let to = self.copy_destination(&to, slice, token);
        let done = archive::copy_file(&from, &to, &file, poll, pace).await;
        done.map_err(|error| self.copy_error(error))
    }

    /// Counts the rows of a side that are in files.
    pub async fn rows_in_files(
        &self,
        (id, shard): &MigrationSide,
        slice: &SliceId,
    ) -> Result<u64, MigrationError> {
        let archives = shard.archives(slice).await.map_err(shard_error(id))?;
        let files = archives.iter().filter_map(|row| row.archived.as_ref());
        Ok(files.map(|archived| archived.file.digest.rows).sum())
    }

    /// Reads back every row of a side's files, and returns the damaged ones.
    pub async fn find_damaged_files(
        &self,
        side: &MigrationSide,
        slice: &SliceId,
        pace: &mut dyn ArchiveThrottle,
    ) -> Result<Vec<DamagedFile>, MigrationError> {
        if self.archives.is_none() {
            return Ok(Vec::new());
        }
        let (id, shard) = side;
        let archive = self.archive(id)?;
        let damages = archive::verify_files(&**shard, &archive, slice, pace).await;
        let damages = damages.map_err(|error| self.archive_error(id, error))?;
        let bad = damages.into_iter().map(|damage| DamagedFile {
            poll: damage.poll,
            problem: format!("poll {}: {}", damage.poll, damage.error),
        });
        Ok(bad.collect())
    }

    /// Returns the side whose files have to be removed before the record `then`, which
    /// ends the migration, is written.
    pub(super) fn side_to_empty(
        &self,
        then: &SliceRoute,
        moving: &ActiveMigration,
    ) -> Option<&MigrationSide> {
        let gives_up = moving.gives_up;
        match moving.phase {
            _ if then.moving.is_some() => None,
            // An abandoned copy is kept.
            _ if gives_up => None,
            MigrationPhase::Cleaning => Some(&self.from),
            MigrationPhase::Aborting => Some(&self.to),
            MigrationPhase::Copying | MigrationPhase::Sealing { .. } | MigrationPhase::Window => {
                None
            }
        }
    }

    /// Removes the files of a slice from the side that it has left. The other side
    /// knows which polls belong to the slice.
    pub(super) async fn remove_files(
        &self,
        (id, shard): &MigrationSide,
        slice: &SliceId,
    ) -> Result<(), MigrationError> {
        if self.archives.is_none() {
            return Ok(());
        }
        let archive = self.archive(id)?;
        let (owner, other) = if *id == self.from.0 {
            &self.to
        } else {
            &self.from
        };
        let range = other.slice_range(slice).await.map_err(shard_error(owner))?;
        let removed = archive::remove_files(&**shard, &archive, slice, range).await;
        removed
            .map(drop)
            .map_err(|error| self.archive_error(id, error))
    }

    /// Returns the source and its archive.
    pub fn source_archive(&self) -> Result<(&dyn VoteShard, Archive), MigrationError> {
        Ok((&*self.from.1, self.archive(&self.from.0)?))
    }

    fn copy_destination<'a>(
        &'a self,
        archive: &'a Archive,
        slice: &'a SliceId,
        token: &'a MigrationToken,
    ) -> CopyTarget<'a> {
        CopyTarget {
            shard: &*self.to.1,
            archive,
            slice,
            token,
        }
    }

    fn copy_error(&self, error: ArchiveCopyError) -> MigrationError {
        match error {
            ArchiveCopyError::Source(error) => self.archive_error(&self.from.0, error),
            ArchiveCopyError::Target(error) => self.archive_error(&self.to.0, error),
        }
    }

    pub(crate) fn archive_error(&self, shard: &ShardId, error: ArchiveError) -> MigrationError {
        let shard = shard.clone();
        match error {
            ArchiveError::Shard(source) => MigrationError::Shard { shard, source },
            source => MigrationError::Archive {
                shard,
                source: Box::new(source),
            },
        }
    }
}
