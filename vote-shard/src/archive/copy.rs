//! Bringing a slice's files to another shard's archive.
//!
//! ```text
//!   named by the source, not by the target ──► is it there, whole?
//!     └─ no ──► draft ──► every checksum ──► named, if the move still may
//! ```
//! A file comes before the row that names it, so what a shard names is there.
//! Whoever is interrupted begins again and brings only the rest.

use std::collections::BTreeSet;

use ballast_domain::PollId;
use ballast_domain::tenant::SliceId;

use super::Report;
use super::error::{ArchiveError, ArchiveResult};
use super::pace::Pace;
use super::place::{Archive, DRAFT_SUFFIX};
use super::reader::Reader;
use super::writer::Draft;
use crate::VoteShard;
use crate::shard::{ArchiveFile, Order, PollRow, ShardError, Unfit};

/// How much is copied at once.
const PIECE_BYTES: u64 = 4 << 20;

/// Where a slice's files are brought to, and on whose behalf.
#[derive(Clone, Copy)]
pub struct Incoming<'a> {
    /// The shard that takes the slice in.
    pub shard: &'a dyn VoteShard,
    /// Its files.
    pub archive: &'a Archive,
    /// The slice.
    pub slice: &'a SliceId,
    /// The move, and its worker.
    pub order: &'a Order,
}

/// Which side of a copy failed.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The one that is copied from.
    #[error(transparent)]
    Source(ArchiveError),
    /// The one that is copied to.
    #[error(transparent)]
    Target(ArchiveError),
}

impl Incoming<'_> {
    /// Whether the shard still takes the slice in for this worker. Asked while
    /// nobody else names or removes files: see [`Archive::turn`].
    async fn admits(&self) -> ArchiveResult<()> {
        let fence = self.shard.fence(self.slice).await?;
        let fence = fence.ok_or(ShardError::Unfit(Unfit::Unknown))?;
        let admitted = fence.may_import(self.order);
        Ok(admitted.map_err(ShardError::Unfit)?)
    }

    /// Whether a file is there, by its size and its tail.
    async fn has(&self, file: &ArchiveFile, poll: PollId) -> ArchiveResult<bool> {
        let _turn = self.archive.turn().await;
        match Reader::open(self.archive, file, poll).await {
            Ok(_) => Ok(true),
            Err(ArchiveError::Missing { .. } | ArchiveError::Damaged { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Brings the files that a shard names for a slice and the other does not.
pub async fn copy_files(
    shard: &dyn VoteShard,
    from: &Archive,
    to: &Incoming<'_>,
    pace: &mut dyn Pace,
) -> Result<Report, CopyError> {
    let there = to.shard.archives(to.slice).await;
    let there = there.map_err(|error| CopyError::Target(error.into()))?;
    let there: BTreeSet<String> = named(there).map(|(_, file)| file.path).collect();
    let here = shard.archives(to.slice).await;
    let here = here.map_err(|error| CopyError::Source(error.into()))?;
    let missing: Vec<_> = named(here)
        .filter(|(_, file)| !there.contains(&file.path))
        .collect();
    let mut all = Report::default();
    missing.iter().for_each(|(_, file)| all.add(file));
    let (mut done, mut brought) = (Report::default(), Report::default());
    pace.so_far(&done, &all);
    for (poll, file) in missing {
        if bring(from, to, &file, poll, pace).await? {
            brought.add(&file);
        }
        done.add(&file);
        pace.so_far(&done, &all);
    }
    Ok(brought)
}

/// The files that polls' rows name.
pub(super) fn named(rows: Vec<PollRow>) -> impl Iterator<Item = (PollId, ArchiveFile)> {
    rows.into_iter().filter_map(|row| {
        let file = row.archived?.file;
        Some((row.poll.poll_id, file))
    })
}

/// Brings one file, unless it is there; whether it had to.
pub async fn bring(
    from: &Archive,
    to: &Incoming<'_>,
    file: &ArchiveFile,
    poll: PollId,
    pace: &mut dyn Pace,
) -> Result<bool, CopyError> {
    if to.has(file, poll).await.map_err(CopyError::Target)? {
        return Ok(false);
    }
    bring_anew(from, to, file, poll, pace).await?;
    Ok(true)
}

/// Brings one file, whatever is there under its name.
pub async fn bring_anew(
    from: &Archive,
    to: &Incoming<'_>,
    file: &ArchiveFile,
    poll: PollId,
    pace: &mut dyn Pace,
) -> Result<(), CopyError> {
    let draft = format!("{}{DRAFT_SUFFIX}", file.path);
    copy(from, to.archive, file, poll, &draft, pace).await?;
    let arrived = async {
        let arrived = Reader::open_at(to.archive, &draft, file, poll).await?;
        arrived.check().await
    };
    if let Err(bad) = arrived.await {
        // What was read there, or what was written here: the first is told.
        let there = async { Reader::open(from, file, poll).await?.check().await };
        there.await.map_err(CopyError::Source)?;
        return Err(CopyError::Target(bad));
    }
    let _turn = to.archive.turn().await;
    if let Err(late) = to.admits().await {
        let removed = to.archive.remove(&draft).await;
        return Err(CopyError::Target(removed.err().unwrap_or(late)));
    }
    let replaced = to.archive.replace(&draft, &file.path).await;
    replaced.map_err(CopyError::Target)
}

/// Copies a file's bytes to a draft.
async fn copy(
    from: &Archive,
    to: &Archive,
    file: &ArchiveFile,
    poll: PollId,
    draft: &str,
    pace: &mut dyn Pace,
) -> Result<(), CopyError> {
    let reader = Reader::open(from, file, poll).await;
    reader.map_err(CopyError::Source)?;
    let writing = Draft::begin(to, draft).await;
    let mut writing = writing.map_err(CopyError::Target)?;
    let mut at = 0;
    while at < file.bytes {
        let end = file.bytes.min(at + PIECE_BYTES);
        let piece = from.piece(&file.path, at..end).await;
        let piece = piece.map_err(CopyError::Source)?;
        writing.write(&piece).await.map_err(CopyError::Target)?;
        if let Err(stopped) = pace.went_on(end - at).await {
            writing.abort().await;
            return Err(CopyError::Target(stopped.into()));
        }
        at = end;
    }
    writing.finish().await.map_err(CopyError::Target)
}
