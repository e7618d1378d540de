//! Copying a slice's files to another shard's archive, and comparing.

use ballast_domain::PollId;
use ballast_domain::tenant::SliceId;

use super::Report;
use super::error::{ArchiveError, ArchiveResult};
use super::pace::Pace;
use super::place::{Archive, DRAFT_SUFFIX};
use super::reader::Reader;
use super::writer::Draft;
use crate::VoteShard;
use crate::shard::{ArchiveFile, PollRow};

/// How much is copied at once.
const PIECE_BYTES: u64 = 4 << 20;

/// Something that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which poll's file.
    pub poll: PollId,
    /// What differs, for people.
    pub what: String,
}

/// Copies the files that a shard names for a slice and another archive lacks.
/// What is there under its name was checked when it came, so whoever is
/// interrupted begins again and copies only the rest.
pub async fn copy_files(
    shard: &dyn VoteShard,
    from: &Archive,
    to: &Archive,
    slice: &SliceId,
    pace: &mut dyn Pace,
) -> ArchiveResult<Report> {
    let mut report = Report::default();
    for (poll, file) in named(shard.archives(slice).await?) {
        if is_there(to, &file, poll).await? {
            continue;
        }
        copy(from, to, &file, poll, pace).await?;
        report.polls += 1;
        report.rows += file.digest.rows;
        report.bytes += file.bytes;
    }
    Ok(report)
}

/// The files that polls' rows name.
pub(super) fn named(rows: Vec<PollRow>) -> impl Iterator<Item = (PollId, ArchiveFile)> {
    rows.into_iter().filter_map(|row| {
        let file = row.archived?.file;
        Some((row.poll.poll_id, file))
    })
}

/// Whether a file is there, by its size and its tail.
async fn is_there(archive: &Archive, file: &ArchiveFile, poll: PollId) -> ArchiveResult<bool> {
    match Reader::open(archive, file, poll).await {
        Ok(_) => Ok(true),
        Err(ArchiveError::Missing { .. } | ArchiveError::Damaged { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn copy(
    from: &Archive,
    to: &Archive,
    file: &ArchiveFile,
    poll: PollId,
    pace: &mut dyn Pace,
) -> ArchiveResult<()> {
    // A file that is damaged here is told with this side's name.
    Reader::open(from, file, poll).await?;
    let path = format!("{}{DRAFT_SUFFIX}", file.path);
    let mut draft = Draft::begin(to, &path).await?;
    let mut at = 0;
    while at < file.bytes {
        let end = file.bytes.min(at + PIECE_BYTES);
        let piece = from.piece(&file.path, at..end).await?;
        draft.write(&piece).await?;
        pace.went_on(end - at).await?;
        at = end;
    }
    draft.finish().await?;
    Reader::open_at(to, &path, file, poll)
        .await?
        .check()
        .await?;
    to.replace(&path, &file.path).await
}

/// What keeps two shards' archives of a slice from being equal: the files that
/// they name, and whether the second one has them. Nothing when they are.
pub async fn equal(
    one: &dyn VoteShard,
    two: &dyn VoteShard,
    archive: &Archive,
    slice: &SliceId,
) -> ArchiveResult<Vec<Difference>> {
    let (one, two) = (one.archives(slice).await?, two.archives(slice).await?);
    let one: std::collections::BTreeMap<_, _> = named(one).collect();
    let mut two: std::collections::BTreeMap<_, _> = named(two).collect();
    let mut differences = Vec::new();
    let mut differs = |poll, what: String| differences.push(Difference { poll, what });
    for (poll, file) in one {
        match two.remove(&poll) {
            None => differs(poll, "only the first side has archived it".to_owned()),
            Some(other) if other != file => {
                let (first, second) = (file.generation, other.generation);
                let what = format!("generation {first} on one side, {second} on the other");
                differs(poll, what);
            }
            Some(_) => match Reader::open(archive, &file, poll).await {
                Ok(_) => {}
                Err(bad @ (ArchiveError::Missing { .. } | ArchiveError::Damaged { .. })) => {
                    differs(poll, bad.to_string());
                }
                Err(error) => return Err(error),
            },
        }
    }
    for poll in two.into_keys() {
        differs(poll, "only the second side has archived it".to_owned());
    }
    Ok(differences)
}
