//! Removing files: those that nobody names, and those of a slice that left.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path as Directory;

use ballast_domain::Timestamp;
use ballast_domain::tenant::SliceId;
use futures::TryStreamExt as _;
use object_store::path::Path;

use super::copy::named;
use super::error::{ArchiveError, ArchiveResult};
use super::place::{Archive, folder};
use crate::VoteShard;
use crate::shard::{At, Holding, ShardError, Unfit};

/// Removes the files of a slice that its owner does not name and that are older
/// than `before`: what an interrupted backfill left. Younger ones may be about
/// to be named. Says how many were removed.
pub async fn sweep(
    shard: &dyn VoteShard,
    archive: &Archive,
    at: &At,
    before: Timestamp,
) -> ArchiveResult<u64> {
    // Listed first: what is named later is not among them, or is named by now.
    let there = list(archive, &at.slice).await?;
    shard.serves(at).await?;
    let named: BTreeSet<String> = named(shard.archives(&at.slice).await?)
        .map(|(_, file)| file.path)
        .collect();
    let mut removed = 0;
    for (path, written) in there {
        if written < before && !named.contains(&path) {
            archive.remove(&path).await?;
            removed += 1;
        }
    }
    if let Some(directory) = archive.directory() {
        let folder = folder(&at.slice);
        let leftovers = remove_leftovers(&directory.join(&folder), before);
        removed += leftovers.map_err(local("sweep", &folder))?;
    }
    Ok(removed)
}

/// Removes all files of a slice that has left the shard for good. That is asked
/// before each of them: a slice that comes again meanwhile keeps what it finds.
pub async fn remove_files(
    shard: &dyn VoteShard,
    archive: &Archive,
    slice: &SliceId,
) -> ArchiveResult<u64> {
    let mut removed = 0;
    for (path, _) in list(archive, slice).await? {
        let _turn = archive.turn().await;
        has_left(shard, slice).await?;
        archive.remove(&path).await?;
        removed += 1;
    }
    if let Some(directory) = archive.directory() {
        let _turn = archive.turn().await;
        has_left(shard, slice).await?;
        let folder = folder(slice);
        match std::fs::remove_dir_all(directory.join(&folder)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(local("remove", &folder)(error));
            }
            _ => {}
        }
    }
    Ok(removed)
}

/// Whether a shard holds nothing of a slice, and never will by what was begun.
async fn has_left(shard: &dyn VoteShard, slice: &SliceId) -> ArchiveResult<()> {
    match shard.fence(slice).await? {
        Some(fence) if fence.holding != Holding::Gone => {
            let (holding, epoch) = (fence.holding, fence.epoch);
            Err(ShardError::Unfit(Unfit::State { holding, epoch }).into())
        }
        _ => Ok(()),
    }
}

/// A slice's files, drafts among them, and when each was written.
async fn list(archive: &Archive, slice: &SliceId) -> ArchiveResult<Vec<(String, Timestamp)>> {
    let folder = folder(slice);
    let files = archive.store().list(Some(&Path::from(folder.as_str())));
    let files = files.map_ok(|file| {
        let written = Timestamp::from_unix_ms(file.last_modified.timestamp_millis());
        (file.location.to_string(), written)
    });
    let files: Result<Vec<_>, _> = files.try_collect().await;
    files.map_err(ArchiveError::store("list", &folder))
}

fn local(doing: &'static str, path: &str) -> impl FnOnce(std::io::Error) -> ArchiveError {
    let path = path.to_owned();
    move |error| ArchiveError::Store {
        doing,
        path,
        source: object_store::Error::Generic {
            store: "directory",
            source: error.into(),
        },
    }
}

/// Half-written files of a directory, which the store does not list: their
/// names end in `#` and a number.
fn remove_leftovers(folder: &Directory, before: Timestamp) -> std::io::Result<u64> {
    let mut removed = 0;
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            removed += remove_leftovers(&entry.path(), before)?;
            continue;
        }
        let name = entry.file_name();
        let half_written = name.to_str().and_then(|name| name.rsplit_once('#'));
        let is_number = |end: &str| end.bytes().all(|byte| byte.is_ascii_digit());
        let written = entry.metadata()?.modified()?;
        let age = written.duration_since(std::time::UNIX_EPOCH);
        let written = age.map_or(0, |age| age.as_millis() as i64);
        if half_written.is_some_and(|(_, end)| is_number(end)) && written < before.unix_ms() {
            std::fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}
