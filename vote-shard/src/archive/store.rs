//! Archive storage: a directory, or any other object store.

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

/// File suffix before the rename.
pub(super) const DRAFT_SUFFIX: &str = ".new";

/// The archives that this process can reach.
pub trait ArchiveDirectory: Send + Sync + 'static {
    /// Returns a shard's archive.
    fn archive(&self, shard: &ShardId) -> ShardResult<Archive>;
}

/// The files of one shard. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Archive {
    store: Arc<dyn ObjectStore>,
    /// The directory, if local.
    directory: Option<PathBuf>,
    /// Held while naming or removing files.
    turn: Arc<Mutex<()>>,
}

impl Archive {
    /// Wraps an object store, whose acknowledged writes must be durable.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self {
            store,
            directory: None,
            turn: Arc::default(),
        }
    }

    /// Opens a local directory, creating it if necessary. Syncs all writes and
    /// the directories above.
    pub fn local(directory: &Directory) -> std::io::Result<Self> {
        create_directory(directory)?;
        let store = LocalFileSystem::new_with_prefix(directory).map_err(std::io::Error::other)?;
        Ok(Self {
            store: Arc::new(store.with_fsync(true)),
            directory: Some(directory.to_owned()),
            turn: Arc::default(),
        })
    }

    /// Locks naming and removing files in this process. Callers check under
    /// this lock whether the slice is arriving or has left: so a late worker
    /// neither removes a file that has come back, nor leaves one behind.
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

    /// Reads a range of a file; all of it, or an error.
    pub(super) async fn read_range(&self, path: &str, range: Range<u64>) -> ArchiveResult<Bytes> {
        let wanted = range.end - range.start;
        if wanted == 0 {
            return Ok(Bytes::new());
        }
        let piece = self.store.get_range(&Path::from(path), range).await;
        let piece = piece.map_err(ArchiveError::store("read", path))?;
        match piece.len() as u64 == wanted {
            true => Ok(piece),
            false => Err(ArchiveError::damaged(path, "too short")),
        }
    }

    /// Renames a draft, unless the name is taken.
    pub(super) async fn rename_new(&self, draft: &str, path: &str) -> ArchiveResult<()> {
        let (from, to) = (Path::from(draft), Path::from(path));
        let named = self.store.rename_if_not_exists(&from, &to).await;
        named.map_err(ArchiveError::store("name", path))
    }

    /// Renames a draft, replacing an existing file.
    pub(super) async fn rename_over(&self, draft: &str, path: &str) -> ArchiveResult<()> {
        let (from, to) = (Path::from(draft), Path::from(path));
        let named = self.store.rename(&from, &to).await;
        named.map_err(ArchiveError::store("name", path))
    }

    /// Removes a file; succeeds if it is missing.
    pub(super) async fn remove(&self, path: &str) -> ArchiveResult<()> {
        match self.store.delete(&Path::from(path)).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            removed => removed.map_err(ArchiveError::store("remove", path)),
        }
    }
}

/// Creates a directory durably.
fn create_directory(directory: &Directory) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => std::fs::File::open(parent)?.sync_all(),
        _ => std::fs::File::open(".")?.sync_all(),
    }
}

/// A tenant's folder.
pub(super) fn folder(tenant: &TenantId) -> String {
    tenant.to_string()
}

/// The poll in a file's name. The folders name the slice that wrote the file;
/// since then that slice may have been split.
pub(super) fn poll_in_path(path: &str) -> Option<PollId> {
    let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (poll, _) = name.rsplit_once('-')?;
    poll.parse().ok()
}

/// The path of a poll's file, by the month in which it closed.
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

/// The archives of this machine's shards: one directory each.
#[derive(Debug)]
pub struct LocalArchives {
    directory: PathBuf,
    open: std::sync::Mutex<HashMap<ShardId, Archive>>,
}

impl LocalArchives {
    /// The archives under a directory.
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
        create_directory(&self.directory)
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
