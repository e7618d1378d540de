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
use super::pace::Pace;
use super::place::{Archive, DRAFT_SUFFIX, path_of};
use super::reader::Reader;
use super::writer::Writer;
use crate::VoteShard;
use crate::shard::{
    ArchiveFile, At, Change, Cursor, PollRow, ShardError, SliceKey, Unfit, VoterPrint,
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
pub struct Report {
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
    at: &At,
    rows_min: u64,
    pace: &mut dyn Pace,
) -> ArchiveResult<Report> {
    let mut report = Report::default();
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
            pace.so_far(&report, &all);
            match work.archive(&poll, pace).await {
                Ok(file) => report.add(&file),
                // It has rows that are newer than what was read.
                Err(ArchiveError::Shard(other @ ShardError::Unfit(Unfit::OtherRows))) => {
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

impl Report {
    pub(super) fn add(&mut self, file: &ArchiveFile) {
        self.polls += 1;
        self.rows += file.digest.rows;
        self.bytes += file.bytes;
    }
}

/// A poll that is to be archived.
struct Due {
    poll: PollId,
    closed: Timestamp,
    rows: u64,
}

/// Closed polls whose rows are the shard's own, if there are so many: one
/// without rows needs no file.
async fn with_rows(
    shard: &dyn VoteShard,
    at: &At,
    changes: Vec<Change>,
    rows_min: u64,
) -> ArchiveResult<Vec<Due>> {
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
        (rows >= rows_min.max(1)).then_some(Due { poll, closed, rows })
    };
    let polls = changes.iter().filter_map(|change| match change {
        Change::Poll(row) => due(row),
        Change::Voter(_) => None,
    });
    Ok(polls.collect())
}

/// One round.
struct Backfill<'a> {
    shard: &'a dyn VoteShard,
    archive: &'a Archive,
    at: &'a At,
    key: SliceKey,
    /// What was there when it began.
    position: u64,
}

impl Backfill<'_> {
    async fn archive(&self, due: &Due, pace: &mut dyn Pace) -> ArchiveResult<ArchiveFile> {
        let (path, generation) = self.free_name(due).await?;
        let draft = format!("{path}{DRAFT_SUFFIX}");
        let mut writer = Writer::begin(self.archive, &draft, due.poll, self.key).await?;
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
        let reader = Reader::open(self.archive, &file, due.poll).await?;
        reader.read_all(&self.key).await?;
        pace.went_on(file.bytes).await?;
        let archived = self.shard.archive_poll(self.at, due.poll, file.clone());
        match archived.await {
            Ok(_) => Ok(file),
            Err(other @ (ShardError::Unfit(Unfit::OtherRows) | ShardError::Fenced(_))) => {
                // Nobody names it, and nobody will.
                self.archive.remove(&file.path).await?;
                Err(other.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A name that no file has.
    async fn free_name(&self, due: &Due) -> ArchiveResult<(String, u32)> {
        let mut generation = 1;
        loop {
            let path = path_of(&self.at.slice, due.poll, due.closed, generation);
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
        due: &Due,
        writer: &mut Writer,
        pace: &mut dyn Pace,
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
                    Change::Voter(row) if row.poll == poll => writer.push(row).await?,
                    Change::Voter(row) => beyond |= row.poll > poll,
                    Change::Poll(row) => beyond |= row.poll.poll_id > poll,
                }
            }
            pace.went_on(read).await?;
            if beyond {
                return Ok(());
            }
            cursor = page.next;
        }
    }
}
