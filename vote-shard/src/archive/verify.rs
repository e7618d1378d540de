//! Reading back what is stored.

use ballast_domain::PollId;
use ballast_domain::tenant::SliceId;

use super::ArchiveProgress;
use super::error::{ArchiveError, ArchiveResult};
use super::reader::{ArchiveReader, FileSummary};
use super::store::Archive;
use super::throttle::ArchiveThrottle;
use crate::VoteShard;
use crate::shard::{ArchiveFile, ArchivedRows, PollRow, SliceKey};

/// A file that is not what the shard names.
#[derive(Debug)]
pub struct ArchiveDamage {
    /// Which poll's.
    pub poll: PollId,
    /// What is wrong.
    pub error: ArchiveError,
}

/// Reads every file that a shard names for a slice, whole, and compares it
/// with its checksums, its digest and the final counts.
pub async fn verify_files(
    shard: &dyn VoteShard,
    archive: &Archive,
    slice: &SliceId,
    pace: &mut dyn ArchiveThrottle,
) -> ArchiveResult<Vec<ArchiveDamage>> {
    let key = shard.slice_key(slice).await?;
    let mut damages = Vec::new();
    let rows = shard.archives(slice).await?;
    let (mut done, mut all) = (ArchiveProgress::default(), ArchiveProgress::default());
    let files = rows.iter().filter_map(|row| row.archived.as_ref());
    files.for_each(|archived| all.add(&archived.file));
    for row in rows {
        let Some(archived) = &row.archived else {
            continue;
        };
        pace.report_progress(&done, &all);
        match whole(archive, &row, archived, &key).await {
            Ok(()) => {}
            Err(error @ (ArchiveError::Missing { .. } | ArchiveError::Damaged { .. })) => {
                let poll = row.poll.poll_id;
                damages.push(ArchiveDamage { poll, error });
            }
            Err(error) => return Err(error),
        }
        pace.advance(archived.file.bytes).await?;
        done.add(&archived.file);
    }
    Ok(damages)
}

/// Compares every byte of one file with the checksums that a shard keeps; says
/// how many bytes there are.
pub async fn verify_checksums(
    archive: &Archive,
    file: &ArchiveFile,
    poll: PollId,
) -> ArchiveResult<u64> {
    ArchiveReader::open(archive, file, poll)
        .await?
        .check()
        .await
}

async fn whole(
    archive: &Archive,
    row: &PollRow,
    archived: &ArchivedRows,
    key: &SliceKey,
) -> ArchiveResult<()> {
    let reader = ArchiveReader::open(archive, &archived.file, row.poll.poll_id).await?;
    let found = reader.read_all(key).await?;
    match fits(row, archived, &found) {
        true => Ok(()),
        false => {
            let what = "its rows come to other counts than the poll has";
            Err(ArchiveError::damaged(&archived.file.path, what))
        }
    }
}

/// Whether rows and what was carried over come to the counts.
fn fits(row: &PollRow, archived: &ArchivedRows, found: &FileSummary) -> bool {
    let items = archived.lanes.iter().enumerate().all(|(item, lanes)| {
        let rows = found.counts.get(item).copied().unwrap_or(0);
        let carried = row.carried.get(item).copied().unwrap_or(0);
        rows + carried == lanes.iter().sum::<u64>()
    });
    items && found.voting == archived.voting && found.counts.len() <= archived.lanes.len()
}
