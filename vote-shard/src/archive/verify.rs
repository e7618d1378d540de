//! Verifies stored files.

use ballast_domain::PollId;
use ballast_domain::tenant::SliceId;

use super::ArchiveProgress;
use super::error::{ArchiveError, ArchiveResult};
use super::reader::{ArchiveReader, FileSummary};
use super::store::Archive;
use super::throttle::ArchiveThrottle;
use crate::VoteShard;
use crate::shard::{ArchiveFile, ArchivedRows, PollRow, SliceKey};

/// A damaged or missing file.
#[derive(Debug)]
pub struct ArchiveDamage {
    /// The poll.
    pub poll: PollId,
    /// The damage.
    pub error: ArchiveError,
}

/// Reads every file of a slice completely, and compares it with its checksums,
/// its digest and the poll's final counts.
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
        match verify_file(archive, &row, archived, &key).await {
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

/// Compares every byte of a file with the checksums that the shard keeps;
/// returns the number of bytes.
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

async fn verify_file(
    archive: &Archive,
    row: &PollRow,
    archived: &ArchivedRows,
    key: &SliceKey,
) -> ArchiveResult<()> {
    let reader = ArchiveReader::open(archive, &archived.file, row.poll.poll_id).await?;
    let found = reader.read_all(key).await?;
    match counts_match(row, archived, &found) {
        true => Ok(()),
        false => {
            let what = "its rows do not add up to the poll's counts";
            Err(ArchiveError::damaged(&archived.file.path, what))
        }
    }
}

/// Whether rows and imported counts add up to the final counts.
fn counts_match(row: &PollRow, archived: &ArchivedRows, found: &FileSummary) -> bool {
    let items = archived.lanes.iter().enumerate().all(|(item, lanes)| {
        let rows = found.counts.get(item).copied().unwrap_or(0);
        let carried = row.carried.get(item).copied().unwrap_or(0);
        rows + carried == lanes.iter().sum::<u64>()
    });
    items && found.voting == archived.voting && found.counts.len() <= archived.lanes.len()
}
