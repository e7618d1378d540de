//! Archiving the closed polls of a slice.
//!
//! ```text
//!   for each closed poll with enough rows:
//!     rows in order ──► draft, synced ──► named ──► read back ──► the shard
//!     lets it take the rows' place
//! ```
//! Each poll stands by itself: whoever is interrupted begins again and finds
//! what is done. A name that is taken is left alone, since somebody may name
//! that file; the next generation is taken instead.

use ballast_domain::{PollId, Timestamp};

use super::error::{ArchiveError, ArchiveResult};
use super::reader::ArchiveReader;
use super::store::{Archive, DRAFT_SUFFIX, file_path};
use super::throttle::ArchiveThrottle;
use super::writer::ArchiveWriter;
use crate::VoteShard;
use crate::shard::{
    ArchiveFile, Cursor, ExportedRow, FencedSlice, PollRow, ShardError, SliceKey, SliceStateError,
    VoterPrint,
};

/// How much is read of a shard at once.
const PAGE_BYTES: usize = 1 << 20;
/// About what a row is; a small poll is read with little of the next.
const ROW_BYTES: usize = 96;
/// How often polls are looked for: one that closes while its last votes are
/// being read is archived the next time.
const ROUNDS: usize = 3;

/// What was archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArchiveProgress {
    /// Polls.
    pub polls: u64,
    /// Their rows.
    pub rows: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// Archives the closed polls of a slice that have at least so many rows here, and
/// one at the least, as its owner.
pub async fn backfill(
    shard: &dyn VoteShard,
    archive: &Archive,
    at: &FencedSlice,
    rows_min: u64,
    pace: &mut dyn ArchiveThrottle,
) -> ArchiveResult<ArchiveProgress> {
    let mut report = ArchiveProgress::default();
    let key = shard.slice_key(&at.slice).await?;
    for round in 1..=ROUNDS {
        let page = shard.export(&at.slice, &Cursor::Start, 1).await?;
        let Cursor::Snapshot { position, .. } = page.next else {
            return Err(ShardError::unavailable("an export did not begin").into());
        };
        let work = Backfill {
            shard,
            archive,
            at,
            key,
            position,
        };
        let mut left = None;
        let due = with_rows(shard, at, page.changes, rows_min).await?;
        let mut all = report;
        all.polls += due.len() as u64;
        all.rows += due.iter().map(|due| due.rows).sum::<u64>();
        for poll in due {
            pace.report_progress(&report, &all);
            match work.archive(&poll, pace).await {
                Ok(file) => report.add(&file),
                // It has rows that are newer than what was read.
                Err(ArchiveError::Shard(
                    other @ ShardError::SliceState(SliceStateError::RowsDiffer),
                )) => {
                    left = Some(other);
                }
                Err(error) => return Err(error),
            }
        }
        match left {
            None => break,
            Some(other) if round == ROUNDS => return Err(other.into()),
            Some(_) => {}
        }
    }
    Ok(report)
}

impl ArchiveProgress {
    pub(super) fn add(&mut self, file: &ArchiveFile) {
        self.polls += 1;
        self.rows += file.digest.rows;
        self.bytes += file.bytes;
    }
}

/// A poll that is to be archived.
struct DuePoll {
    poll: PollId,
    closed: Timestamp,
    rows: u64,
}

/// Closed polls whose rows are the shard's own, if there are so many: one
/// without rows needs no file.
async fn with_rows(
    shard: &dyn VoteShard,
    at: &FencedSlice,
    changes: Vec<ExportedRow>,
    rows_min: u64,
) -> ArchiveResult<Vec<DuePoll>> {
    let digests = shard.digests(&at.slice).await?;
    // The poll's own row is one.
    let rows_of = |poll: PollId| {
        let own = digests.binary_search_by_key(&poll, |(id, _)| *id);
        own.map_or(0, |place| digests[place].1.rows.saturating_sub(1))
    };
    let due = |row: &PollRow| {
        let closed = row.poll.closed_at.filter(|_| row.archived.is_none())?;
        let poll = row.poll.poll_id;
        let rows = rows_of(poll);
        (rows >= rows_min.max(1)).then_some(DuePoll { poll, closed, rows })
    };
    let polls = changes.iter().filter_map(|change| match change {
        ExportedRow::Poll(row) => due(row),
        ExportedRow::Voter(_) => None,
    });
    Ok(polls.collect())
}

/// One round.
struct Backfill<'a> {
    shard: &'a dyn VoteShard,
    archive: &'a Archive,
    at: &'a FencedSlice,
    key: SliceKey,
    /// What was there when it began.
    position: u64,
}

impl Backfill<'_> {
    async fn archive(
        &self,
        due: &DuePoll,
        pace: &mut dyn ArchiveThrottle,
    ) -> ArchiveResult<ArchiveFile> {
        let (path, generation) = self.free_name(due).await?;
        let draft = format!("{path}{DRAFT_SUFFIX}");
        let mut writer = ArchiveWriter::begin(self.archive, &draft, due.poll, self.key).await?;
        if let Err(error) = self.copy_rows(due, &mut writer, pace).await {
            writer.abort().await;
            return Err(error);
        }
        let encoded = writer.finish().await?;
        self.archive.name(&draft, &path).await?;
        let file = ArchiveFile {
            path,
            generation,
            digest: encoded.digest,
            bytes: encoded.bytes,
            tail_bytes: encoded.tail_bytes,
            checksum: encoded.checksum,
        };
        let reader = ArchiveReader::open(self.archive, &file, due.poll).await?;
        reader.read_all(&self.key).await?;
        pace.advance(file.bytes).await?;
        let archived = self.shard.archive_poll(self.at, due.poll, file.clone());
        match archived.await {
            Ok(_) => Ok(file),
            Err(
                other @ (ShardError::SliceState(SliceStateError::RowsDiffer)
                | ShardError::Fenced(_)),
            ) => {
                // Nobody names it, and nobody will.
                self.archive.remove(&file.path).await?;
                Err(other.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A name that no file has.
    async fn free_name(&self, due: &DuePoll) -> ArchiveResult<(String, u32)> {
        let mut generation = 1;
        loop {
            let path = file_path(&self.at.slice, due.poll, due.closed, generation);
            match self.archive.bytes(&path).await {
                Err(ArchiveError::Missing { .. }) => return Ok((path, generation)),
                Err(error) => return Err(error),
                Ok(_) => generation += 1,
            }
        }
    }

    /// Reads the rows of one poll in their order.
    async fn copy_rows(
        &self,
        due: &DuePoll,
        writer: &mut ArchiveWriter,
        pace: &mut dyn ArchiveThrottle,
    ) -> ArchiveResult<()> {
        let poll = due.poll;
        // The poll itself, its rows, and one of the next.
        let rows = usize::try_from(due.rows).unwrap_or(usize::MAX);
        let bytes = rows.saturating_add(2).saturating_mul(ROW_BYTES);
        let bytes = bytes.min(PAGE_BYTES);
        let before = poll.number().checked_sub(1).map(PollId::from_number);
        let mut cursor = Cursor::Snapshot {
            position: self.position,
            after: before.map(|before| (before, VoterPrint([u64::MAX; 2]))),
        };
        loop {
            let page = self.shard.export(&self.at.slice, &cursor, bytes);
            let page = page.await?;
            let read = (page.changes.len() * ROW_BYTES) as u64;
            let mut beyond = !matches!(page.next, Cursor::Snapshot { .. });
            for change in page.changes {
                match change {
                    ExportedRow::Voter(row) if row.poll == poll => writer.push(row).await?,
                    ExportedRow::Voter(row) => beyond |= row.poll > poll,
                    ExportedRow::Poll(row) => beyond |= row.poll.poll_id > poll,
                }
            }
            pace.advance(read).await?;
            if beyond {
                return Ok(());
            }
            cursor = page.next;
        }
    }
}
