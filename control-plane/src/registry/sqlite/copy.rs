//! A consistent copy of a registry's file, even while another process writes to it.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ballast_domain::registry::{RegistryError, RegistryResult};
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

/// How long the copy waits for another process's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Copies the registry at `from` to the file `to`, which must not exist. The copy is
/// a compacted snapshot.
pub async fn copy_to(from: &Path, to: &Path) -> RegistryResult<()> {
    if !is_read_only(from) {
        return copy_compacted(from, to).await;
    }
    // SQLite creates files next to the database even to read it. On a read-only
    // filesystem nothing changes, so copying the files gives a consistent snapshot.
    let staged = StagedFiles::copy(from, to)
        .map_err(|source| RegistryError::new("copy the registry's files", source))?;
    copy_compacted(&staged.0, to).await
}

async fn copy_compacted(from: &Path, to: &Path) -> RegistryResult<()> {
    let failed = |source| RegistryError::new("copy the registry", source);
    let options = SqliteConnectOptions::new()
        .filename(from)
        .create_if_missing(false)
        .busy_timeout(BUSY_TIMEOUT);
    let mut connection = SqliteConnection::connect_with(&options)
        .await
        .map_err(failed)?;
    let path = to.to_string_lossy().into_owned();
    sqlx::query("VACUUM INTO ?")
        .bind(path)
        .execute(&mut connection)
        .await
        .map_err(failed)?;
    connection.close().await.map_err(failed)
}

fn is_read_only(file: &Path) -> bool {
    let opened = OpenOptions::new().append(true).open(file);
    opened.is_err_and(|error| error.kind() == ErrorKind::ReadOnlyFilesystem)
}

/// Copies of the registry's files next to the target; removed when dropped.
struct StagedFiles(PathBuf);

impl StagedFiles {
    fn copy(from: &Path, to: &Path) -> std::io::Result<Self> {
        let staged = Self(with_suffix(to, ".staged"));
        std::fs::copy(from, &staged.0)?;
        let log = with_suffix(from, "-wal");
        if log.exists() {
            std::fs::copy(log, with_suffix(&staged.0, "-wal"))?;
        }
        Ok(staged)
    }
}

impl Drop for StagedFiles {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(with_suffix(&self.0, suffix));
        }
    }
}

/// Appends a suffix to a path.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut longer = path.as_os_str().to_owned();
    longer.push(suffix);
    longer.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ballast_domain::registry::Registry;

    use super::super::SqliteRegistry;
    use super::*;
    use crate::registry::conformance::seed_fleet;
    use crate::testing::ManualClock;

    /// A read-only disk may contain files of a registry that was not closed.
    #[tokio::test]
    async fn unclosed_files_are_copied_with_their_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.db");
        let clock = Arc::new(ManualClock::new());
        let store = SqliteRegistry::open(&path, clock.clone()).await.unwrap();
        seed_fleet(&store).await;
        assert!(with_suffix(&path, "-wal").metadata().unwrap().len() > 0);
        let to = directory.path().join("copy.db");
        let staged = StagedFiles::copy(&path, &to).unwrap();
        copy_compacted(&staged.0, &to).await.unwrap();
        drop(staged);
        let revision = store.revision().await.unwrap();
        let id = store.id().clone();
        store.close().await;
        let copy = SqliteRegistry::open(&to, clock).await.unwrap();
        assert_eq!(copy.revision().await.unwrap(), revision);
        assert_eq!(*copy.id(), id, "a copy is the same registry");
        copy.close().await;
        let names = std::fs::read_dir(directory.path()).unwrap();
        assert_eq!(names.count(), 2, "no other files remain");
    }
}
