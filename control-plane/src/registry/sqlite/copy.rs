//! A consistent copy of a registry's file, also while another process writes
//! to it.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ballast_domain::registry::{StoreError, StoreResult};
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use super::BUSY_WAIT;

/// Copies the registry at `from` to the file `to`, which must not exist. The
/// copy is one moment of it, compacted.
pub async fn copy_to(from: &Path, to: &Path) -> StoreResult<()> {
    if !is_read_only(from) {
        return compacted(from, to).await;
    }
    // SQLite writes beside a file even to read it. Here nobody can write, so
    // the files as they are make one moment.
    let staged = Staged::of(from, to)
        .map_err(|source| StoreError::new("copy the registry's files", source))?;
    compacted(&staged.0, to).await
}

async fn compacted(from: &Path, to: &Path) -> StoreResult<()> {
    let failed = |source| StoreError::new("copy the registry", source);
    let options = SqliteConnectOptions::new()
        .filename(from)
        .create_if_missing(false)
        .busy_timeout(BUSY_WAIT);
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

/// The registry's files beside where the copy will be; removed when dropped.
struct Staged(PathBuf);

impl Staged {
    fn of(from: &Path, to: &Path) -> std::io::Result<Self> {
        let staged = Self(with(to, ".staged"));
        std::fs::copy(from, &staged.0)?;
        let log = with(from, "-wal");
        if log.exists() {
            std::fs::copy(log, with(&staged.0, "-wal"))?;
        }
        Ok(staged)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(with(&self.0, suffix));
        }
    }
}

/// A path with more at its end.
fn with(path: &Path, suffix: &str) -> PathBuf {
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

    /// What a disk that cannot be written shows: files that nobody closed.
    #[tokio::test]
    async fn files_that_were_not_closed_are_copied_with_what_is_in_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.db");
        let clock = Arc::new(ManualClock::new());
        let store = SqliteRegistry::open(&path, clock.clone()).await.unwrap();
        seed_fleet(&store).await;
        assert!(with(&path, "-wal").metadata().unwrap().len() > 0);
        let to = directory.path().join("copy.db");
        let staged = Staged::of(&path, &to).unwrap();
        compacted(&staged.0, &to).await.unwrap();
        drop(staged);
        let revision = store.revision().await.unwrap();
        store.close().await;
        let copy = SqliteRegistry::open(&to, clock).await.unwrap();
        assert_eq!(copy.revision().await.unwrap(), revision);
        copy.close().await;
        let names = std::fs::read_dir(directory.path()).unwrap();
        assert_eq!(names.count(), 2, "nothing else is left");
    }
}
