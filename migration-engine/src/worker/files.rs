//! The files of a move: closed polls whose rows are not the shard's own.
//!
//! ```text
//!   source's archive ──► target's archive, before the row that names the file
//!   read back there; what is damaged is brought anew
//!   gone with the slice from the side that it has left
//! ```

use ballast_domain::moving::{Moving, Phase, Route};
use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, ShardId};
use ballast_vote_shard::archive::{
    self, Archive, ArchiveError, CopyError, FullSpeed, Incoming, Pace, Report,
};
use ballast_vote_shard::shard::{Change, Order};
use ballast_vote_shard::{ShardError, VoteShard};

use super::sides::{Side, failed};
use super::{MoveError, Sides};

/// A file that is not what its shard names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadFile {
    /// Which poll's.
    pub poll: PollId,
    /// What is wrong, with the file's name.
    pub what: String,
}

impl Sides {
    fn archive(&self, shard: &ShardId) -> Result<Archive, MoveError> {
        let away = || ShardError::unavailable("no archive can be reached from here");
        let archives = self.archives.as_ref().ok_or_else(away);
        let found = archives.and_then(|archives| archives.archive(shard));
        found.map_err(failed(shard))
    }

    /// Brings the files that only the source names; what that was.
    pub async fn bring_files(
        &self,
        slice: &SliceId,
        order: &Order,
        pace: &mut dyn Pace,
    ) -> Result<Report, MoveError> {
        if self.archives.is_none() {
            return Ok(Report::default());
        }
        let (from, to) = (self.archive(&self.from.0)?, self.archive(&self.to.0)?);
        let to = self.incoming(&to, slice, order);
        let brought = archive::copy_files(&*self.from.1, &from, &to, pace).await;
        brought.map_err(|error| self.copy_failed(error))
    }

    /// Brings the files that changes name, if they are not there yet: what was
    /// archived since the others were brought.
    pub(super) async fn bring_named(
        &self,
        slice: &SliceId,
        order: &Order,
        changes: &[Change],
    ) -> Result<Report, MoveError> {
        let mut brought = Report::default();
        let named = changes.iter().filter_map(|change| match change {
            Change::Poll(row) => Some((row.poll.poll_id, &row.archived.as_ref()?.file)),
            Change::Voter(_) => None,
        });
        for (poll, file) in named {
            let (from, to) = (self.archive(&self.from.0)?, self.archive(&self.to.0)?);
            let to = self.incoming(&to, slice, order);
            let done = archive::bring(&from, &to, file, poll, &mut FullSpeed).await;
            if done.map_err(|error| self.copy_failed(error))? {
                brought.polls += 1;
                brought.rows += file.digest.rows;
                brought.bytes += file.bytes;
            }
        }
        Ok(brought)
    }

    /// Sees to it that every file which the source names is at the target, by
    /// size and checksum of its tail: once more before a cutover.
    pub async fn bring_all(
        &self,
        slice: &SliceId,
        order: &Order,
        pace: &mut dyn Pace,
    ) -> Result<(), MoveError> {
        let (id, source) = &self.from;
        for row in source.archives(slice).await.map_err(failed(id))? {
            self.bring_named(slice, order, &[Change::Poll(row)]).await?;
            let went_on = pace.went_on(0).await;
            went_on.map_err(|stopped| self.archive_failed(id, stopped.into()))?;
        }
        Ok(())
    }

    /// Brings a poll's file anew, whatever is there: it was found to be damaged.
    pub async fn mend_file(
        &self,
        slice: &SliceId,
        order: &Order,
        poll: PollId,
        pace: &mut dyn Pace,
    ) -> Result<(), MoveError> {
        let (id, source) = &self.from;
        let file = source.archive(slice, poll).await.map_err(failed(id))?;
        let Some(file) = file else {
            return Ok(());
        };
        let (from, to) = (self.archive(id)?, self.archive(&self.to.0)?);
        let to = self.incoming(&to, slice, order);
        let done = archive::bring_anew(&from, &to, &file, poll, pace).await;
        done.map_err(|error| self.copy_failed(error))
    }

    /// How many rows of a side are in files.
    pub async fn rows_in_files(
        &self,
        (id, shard): &Side,
        slice: &SliceId,
    ) -> Result<u64, MoveError> {
        let archives = shard.archives(slice).await.map_err(failed(id))?;
        let files = archives.iter().filter_map(|row| row.archived.as_ref());
        Ok(files.map(|archived| archived.file.digest.rows).sum())
    }

    /// Reads a side's files back, every row; those that are not what it names.
    pub async fn bad_files(
        &self,
        side: &Side,
        slice: &SliceId,
        pace: &mut dyn Pace,
    ) -> Result<Vec<BadFile>, MoveError> {
        if self.archives.is_none() {
            return Ok(Vec::new());
        }
        let (id, shard) = side;
        let archive = self.archive(id)?;
        let damages = archive::read_back(&**shard, &archive, slice, pace).await;
        let damages = damages.map_err(|error| self.archive_failed(id, error))?;
        let bad = damages.into_iter().map(|damage| BadFile {
            poll: damage.poll,
            what: format!("poll {}: {}", damage.poll, damage.error),
        });
        Ok(bad.collect())
    }

    /// The side whose rows are gone when a move is released: its files are to
    /// be gone before that.
    pub(super) fn left_by(&self, then: &Route, moving: &Moving) -> Option<&Side> {
        let gives_up = moving.gives_up;
        match moving.phase {
            _ if then.moving.is_some() => None,
            // What was given up is kept.
            _ if gives_up => None,
            Phase::Cleaning => Some(&self.from),
            Phase::Aborting => Some(&self.to),
            Phase::Copying | Phase::Sealing { .. } | Phase::Window => None,
        }
    }

    /// Removes the files of a slice from the side that it has left. Which polls
    /// are its own is known where it is.
    pub(super) async fn remove_files(
        &self,
        (id, shard): &Side,
        slice: &SliceId,
    ) -> Result<(), MoveError> {
        if self.archives.is_none() {
            return Ok(());
        }
        let archive = self.archive(id)?;
        let (owner, other) = if *id == self.from.0 {
            &self.to
        } else {
            &self.from
        };
        let range = other.slice_range(slice).await.map_err(failed(owner))?;
        let removed = archive::remove_files(&**shard, &archive, slice, range).await;
        removed
            .map(drop)
            .map_err(|error| self.archive_failed(id, error))
    }

    /// The archive of the source, and the source.
    pub fn source_archive(&self) -> Result<(&dyn VoteShard, Archive), MoveError> {
        Ok((&*self.from.1, self.archive(&self.from.0)?))
    }

    fn incoming<'a>(
        &'a self,
        archive: &'a Archive,
        slice: &'a SliceId,
        order: &'a Order,
    ) -> Incoming<'a> {
        Incoming {
            shard: &*self.to.1,
            archive,
            slice,
            order,
        }
    }

    fn copy_failed(&self, error: CopyError) -> MoveError {
        match error {
            CopyError::Source(error) => self.archive_failed(&self.from.0, error),
            CopyError::Target(error) => self.archive_failed(&self.to.0, error),
        }
    }

    pub(crate) fn archive_failed(&self, shard: &ShardId, error: ArchiveError) -> MoveError {
        let shard = shard.clone();
        match error {
            ArchiveError::Shard(source) => MoveError::Shard { shard, source },
            source => MoveError::Archive {
                shard,
                source: Box::new(source),
            },
        }
    }
}
