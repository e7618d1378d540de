//! Where a shard's files are: a directory, or whatever else stores objects.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path as Directory, PathBuf};
use std::sync::{Arc, PoisonError};

use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, ShardId, TenantId, Timestamp};
use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use tokio::sync::{Mutex, MutexGuard};

use super::error::{ArchiveError, ArchiveResult};
use crate::shard::{ShardError, ShardResult};

/// What a file is called before it is whole.
pub(super) const DRAFT_SUFFIX: &str = ".new";

/// The archives that can be reached from here.
pub trait ArchiveDirectory: Send + Sync + 'static {
    /// A shard's archive.
    fn archive(&self, shard: &ShardId) -> ShardResult<Archive>;
}

/// The files of one shard. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Archive {
    store: Arc<dyn ObjectStore>,
    /// Where they are, if that is a directory of this machine.
    directory: Option<PathBuf>,
    /// Whose turn it is to name or remove files.
    turn: Arc<Mutex<()>>,
}

impl Archive {
    /// The files in a store. What it has answered must be durable.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self {
            store,
            directory: None,
            turn: Arc::default(),
        }
    }

    /// The files in a directory, which is made if need be. What is written is
    /// synced, with the directories that lead to it.
    pub fn local(directory: &Directory) -> std::io::Result<Self> {
        make(directory)?;
        let store = LocalFileSystem::new_with_prefix(directory).map_err(std::io::Error::other)?;
        Ok(Self {
            store: Arc::new(store.with_fsync(true)),
            directory: Some(directory.to_owned()),
            turn: Arc::default(),
        })
    }

    /// Keeps others from naming and removing files meanwhile, in this process.
    /// Whether the slice is coming here or has left is asked within it: so
    /// whoever is late neither removes a file that has come again, nor leaves
    /// one where the slice is gone.
    pub(super) async fn lock_names(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    pub(super) fn store(&self) -> &dyn ObjectStore {
        &*self.store
    }

    pub(super) fn directory(&self) -> Option<&Directory> {
        self.directory.as_deref()
    }

    /// The size of a file.
    pub(super) async fn bytes(&self, path: &str) -> ArchiveResult<u64> {
        let head = self.store.head(&Path::from(path)).await;
        Ok(head.map_err(ArchiveError::store("look at", path))?.size)
    }

    /// A piece of a file; all of it, or an error.
    pub(super) async fn piece(&self, path: &str, range: Range<u64>) -> ArchiveResult<Bytes> {
        let wanted = range.end - range.start;
        if wanted == 0 {
            return Ok(Bytes::new());
        }
        let piece = self.store.get_range(&Path::from(path), range).await;
        let piece = piece.map_err(ArchiveError::store("read", path))?;
        match piece.len() as u64 == wanted {
            true => Ok(piece),
            false => Err(ArchiveError::damaged(path, "it is too short")),
        }
    }

    /// Gives a draft its name, unless there is a file of that name.
    pub(super) async fn name(&self, draft: &str, path: &str) -> ArchiveResult<()> {
        let (from, to) = (Path::from(draft), Path::from(path));
        let named = self.store.rename_if_not_exists(&from, &to).await;
        named.map_err(ArchiveError::store("name", path))
    }

    /// Gives a draft its name, whatever was there.
    pub(super) async fn replace(&self, draft: &str, path: &str) -> ArchiveResult<()> {
        let (from, to) = (Path::from(draft), Path::from(path));
        let named = self.store.rename(&from, &to).await;
        named.map_err(ArchiveError::store("name", path))
    }

    /// Removes a file; one that is not there is removed already.
    pub(super) async fn remove(&self, path: &str) -> ArchiveResult<()> {
        match self.store.delete(&Path::from(path)).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            removed => removed.map_err(ArchiveError::store("remove", path)),
        }
    }
}

/// Makes a directory that is there after a crash, too.
fn make(directory: &Directory) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => std::fs::File::open(parent)?.sync_all(),
        _ => std::fs::File::open(".")?.sync_all(),
    }
}

/// Where a tenant's files are.
pub(super) fn folder(tenant: &TenantId) -> String {
    tenant.to_string()
}

/// The poll that a file is about, by its name. The folders say which slice
/// wrote it; since then that may have been cut into others.
pub(super) fn poll_in_path(path: &str) -> Option<PollId> {
    let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (poll, _) = name.rsplit_once('-')?;
    poll.parse().ok()
}

/// Where a poll's file is: by the month in which it closed.
pub(super) fn file_path(
    slice: &SliceId,
    poll: PollId,
    closed: Timestamp,
    generation: u32,
) -> String {
    let day = closed.to_string();
    let month: String = day.chars().take(7).filter(char::is_ascii_digit).collect();
    format!(
        "{}/{}/{month}/{poll}-{generation}.parquet",
        folder(&slice.tenant_id),
        slice.slice
    )
}

/// The archives of this machine's shards: a directory for each.
#[derive(Debug)]
pub struct LocalArchives {
    directory: PathBuf,
    open: std::sync::Mutex<HashMap<ShardId, Archive>>,
}

impl LocalArchives {
    /// Those under a directory.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            open: std::sync::Mutex::default(),
        }
    }
}

impl ArchiveDirectory for LocalArchives {
    fn archive(&self, shard: &ShardId) -> ShardResult<Archive> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(archive) = open.get(shard) {
            return Ok(archive.clone());
        }
        make(&self.directory)
            .and_then(|()| Archive::local(&self.directory.join(shard.as_str())))
            .map(|archive| open.entry(shard.clone()).or_insert(archive).clone())
            .map_err(|error| ShardError::unavailable(format!("open the archive: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_tenant_slice_month_poll_and_generation() {
        let slice = SliceId {
            tenant_id: "acme".parse().unwrap(),
            slice: 3,
        };
        let poll = PollId::from_number(7);
        let closed = "2026-11-16T19:00:00Z".parse().unwrap();
        assert_eq!(
            file_path(&slice, poll, closed, 2),
            format!("acme/3/202611/{poll}-2.parquet")
        );
    }
}
