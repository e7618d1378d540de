//! Removes unreferenced files, and the files of a slice that has left.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path as Directory;

use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, TenantId, Timestamp};
use futures::TryStreamExt as _;
use object_store::path::Path;

use super::copy::referenced_files;
use super::error::{ArchiveError, ArchiveResult};
use super::store::{Archive, folder, poll_in_path};
use crate::VoteShard;
use crate::shard::{FencedSlice, Holding, ShardError, SliceStateError};

/// Removes the files of a slice that its owner does not refer to and that are
/// older than `before`: leftovers of interrupted backfills. Younger files may
/// be in use soon. Returns the number of removed files.
pub async fn remove_unreferenced(
    shard: &dyn VoteShard,
    archive: &Archive,
    fenced: &FencedSlice,
    before: Timestamp,
) -> ArchiveResult<u64> {
    let range = shard.slice_range(&fenced.slice).await?;
    // List the files first: a file that is referenced later is not in the list,
    // or is referenced when the names are read.
    let there = list(archive, &fenced.slice.tenant_id, range).await?;
    shard.serves(fenced).await?;
    let named: BTreeSet<String> = referenced_files(shard.archives(&fenced.slice).await?)
        .map(|(_, file)| file.path)
        .collect();
    let mut removed = 0;
    for found in there {
        if found.written < before && !named.contains(&found.path) {
            archive.remove(&found.path).await?;
            removed += 1;
        }
    }
    let folder = folder(&fenced.slice.tenant_id);
    removed += remove_half_written(archive, &folder, |_, written| written < before)?;
    Ok(removed)
}

/// Removes the files of a slice with this range after it has left the shard.
/// Checks this before each file: a slice that returns meanwhile keeps its
/// files, and so do slices that were cut from it.
pub async fn remove_files(
    shard: &dyn VoteShard,
    archive: &Archive,
    slice: &SliceId,
    range: HashRange,
) -> ArchiveResult<u64> {
    let tenant = &slice.tenant_id;
    let mut removed = 0;
    for found in list(archive, tenant, range).await? {
        let _names = archive.lock_names().await;
        check_has_left(shard, slice).await?;
        let named = shard.find_archive(tenant, found.poll).await?;
        if named.is_none_or(|file| file.path != found.path) {
            archive.remove(&found.path).await?;
            removed += 1;
        }
    }
    let _names = archive.lock_names().await;
    check_has_left(shard, slice).await?;
    let of_slice = |poll: Option<PollId>, _| poll.is_some_and(|poll| range.contains(poll));
    remove_half_written(archive, &folder(tenant), of_slice)?;
    Ok(removed)
}

/// Checks that a shard holds nothing of a slice.
async fn check_has_left(shard: &dyn VoteShard, slice: &SliceId) -> ArchiveResult<()> {
    match shard.fence(slice).await? {
        Some(fence) if fence.holding != Holding::Gone => {
            let (holding, epoch) = (fence.holding, fence.epoch);
            Err(ShardError::SliceState(SliceStateError::WrongHolding { holding, epoch }).into())
        }
        _ => Ok(()),
    }
}

/// A stored file.
struct ListedFile {
    path: String,
    poll: PollId,
    written: Timestamp,
}

/// Lists the files of a tenant's polls in a range, including drafts.
async fn list(
    archive: &Archive,
    tenant: &TenantId,
    range: HashRange,
) -> ArchiveResult<Vec<ListedFile>> {
    let folder = folder(tenant);
    let files = archive.store().list(Some(&Path::from(folder.as_str())));
    let files: Result<Vec<_>, _> = files.try_collect().await;
    let files = files.map_err(ArchiveError::store("list", &folder))?;
    let files = files.into_iter().filter_map(|file| {
        let path = file.location.to_string();
        Some(ListedFile {
            poll: poll_in_path(&path).filter(|poll| range.contains(*poll))?,
            path,
            written: Timestamp::from_unix_ms(file.last_modified.timestamp_millis()),
        })
    });
    Ok(files.collect())
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

/// Removes half-written files of a local directory, which the store does not
/// list, and empty folders; returns the number of files.
fn remove_half_written(
    archive: &Archive,
    folder: &str,
    is_litter: impl Fn(Option<PollId>, Timestamp) -> bool,
) -> ArchiveResult<u64> {
    let Some(directory) = archive.directory() else {
        return Ok(0);
    };
    let removed = remove_half_written_in(&directory.join(folder), &is_litter);
    removed.map_err(local("tidy", folder))
}

/// The names of half-written files end in `#` and a number.
fn remove_half_written_in(
    folder: &Directory,
    is_litter: &impl Fn(Option<PollId>, Timestamp) -> bool,
) -> std::io::Result<u64> {
    let mut removed = 0;
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            removed += remove_half_written_in(&entry.path(), is_litter)?;
            continue;
        }
        let name = entry.file_name();
        let half_written = name.to_str().and_then(|name| name.rsplit_once('#'));
        let is_number = |end: &str| end.bytes().all(|byte| byte.is_ascii_digit());
        let Some((whole, _)) = half_written.filter(|(_, end)| is_number(end)) else {
            continue;
        };
        let written = entry.metadata()?.modified()?;
        let age = written.duration_since(std::time::UNIX_EPOCH);
        let written = Timestamp::from_unix_ms(age.map_or(0, |age| age.as_millis() as i64));
        if is_litter(poll_in_path(whole), written) {
            std::fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    match std::fs::remove_dir(folder) {
        Err(error)
            if !matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Err(error)
        }
        _ => Ok(removed),
    }
}
