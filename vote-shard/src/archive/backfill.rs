//! Archives the closed polls of a slice.
//!
//! ```text
//!   for each closed poll with enough rows:
//!     rows in order ──► draft, synced ──► renamed ──► read back ──► the shard
//!     replaces its rows by the file
//! ```
//! Each poll is independent: an interrupted backfill starts over and skips
//! finished polls. An existing file is never overwritten, since a shard may
//! refer to it; the next generation is used instead.

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

/// Page size of the export.
const PAGE_BYTES: usize = 1 << 20;
/// Approximate size of a row; for a small poll this limits how much of the next
/// one is read.
const ROW_BYTES: usize = 96;
/// Number of passes: a poll that closes while its last votes are being read is
/// archived in the next pass.
const ROUNDS: usize = 3;

/// What was archived, or copied, or verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArchiveProgress {
    /// Polls.
    pub polls: u64,
    /// Their rows.
    pub rows: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

/// Archives the closed polls of an owned slice that have at least `rows_min`
/// rows in the shard, and at least one.
pub async fn backfill(
    shard: &dyn VoteShard,
    archive: &Archive,
    fenced: &FencedSlice,
    rows_min: u64,
    pace: &mut dyn ArchiveThrottle,
) -> ArchiveResult<ArchiveProgress> {
    let mut report = ArchiveProgress::default();
    let key = shard.slice_key(&fenced.slice).await?;
    for round in 1..=ROUNDS {
        let page = shard.export(&fenced.slice, &Cursor::Start, 1).await?;
        let Cursor::Snapshot { position, .. } = page.next else {
            return Err(ShardError::unavailable("the export did not start with a snapshot").into());
        };
        let work = Backfill {
            shard,
            archive,
            fenced,
            key,
            position,
        };
        let mut left = None;
        let due = list_due_polls(shard, fenced, page.changes, rows_min).await?;
        let mut all = report;
        all.polls += due.len() as u64;
        all.rows += due.iter().map(|due| due.rows).sum::<u64>();
        for poll in due {
            pace.report_progress(&report, &all);
            match work.archive(&poll, pace).await {
                Ok(file) => report.add(&file),
                // The poll has newer rows than the ones that were read.
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

/// A poll to archive.
struct DuePoll {
    poll: PollId,
    closed: Timestamp,
    rows: u64,
}

/// Lists closed polls with at least `rows_min` rows in the shard; a poll
/// without rows needs no file.
async fn list_due_polls(
    shard: &dyn VoteShard,
    fenced: &FencedSlice,
    changes: Vec<ExportedRow>,
    rows_min: u64,
) -> ArchiveResult<Vec<DuePoll>> {
    let digests = shard.digests(&fenced.slice).await?;
    // Do not count the poll's own row.
    let rows_of = |poll: PollId| {
        let own = digests.binary_search_by_key(&poll, |(id, _)| *id);
        own.map_or(0, |index| digests[index].1.rows.saturating_sub(1))
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

/// One pass.
struct Backfill<'a> {
    shard: &'a dyn VoteShard,
    archive: &'a Archive,
    fenced: &'a FencedSlice,
    key: SliceKey,
    /// The export position at its start.
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
        self.archive.rename_new(&draft, &path).await?;
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
        let archived = self.shard.archive_poll(self.fenced, due.poll, file.clone());
        match archived.await {
            Ok(_) => Ok(file),
            Err(
                other @ (ShardError::SliceState(SliceStateError::RowsDiffer)
                | ShardError::Fenced(_)),
            ) => {
                // No shard refers to it, and none will.
                self.archive.remove(&file.path).await?;
                Err(other.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Finds an unused file name.
    async fn free_name(&self, due: &DuePoll) -> ArchiveResult<(String, u32)> {
        let mut generation = 1;
        loop {
            let path = file_path(&self.fenced.slice, due.poll, due.closed, generation);
            match self.archive.bytes(&path).await {
                Err(ArchiveError::Missing { .. }) => return Ok((path, generation)),
                Err(error) => return Err(error),
                Ok(_) => generation += 1,
            }
        }
    }

    /// Copies the rows of one poll, in order.
    async fn copy_rows(
        &self,
        due: &DuePoll,
        writer: &mut ArchiveWriter,
        pace: &mut dyn ArchiveThrottle,
    ) -> ArchiveResult<()> {
        let poll = due.poll;
        // The poll itself, its rows, and one row of the next poll.
        let rows = usize::try_from(due.rows).unwrap_or(usize::MAX);
        let bytes = rows.saturating_add(2).saturating_mul(ROW_BYTES);
        let bytes = bytes.min(PAGE_BYTES);
        let before = poll.number().checked_sub(1).map(PollId::from_number);
        let mut cursor = Cursor::Snapshot {
            position: self.position,
            after: before.map(|before| (before, VoterPrint([u64::MAX; 2]))),
        };
        loop {
            let page = self.shard.export(&self.fenced.slice, &cursor, bytes);
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
