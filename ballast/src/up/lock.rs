//! One process per data directory.
//!
//! The lock is on the directory itself, which cannot be removed without its data; a file in it
//! could be. The operating system's lock ends with the process in every case. The pid in the file
//! `ballast.lock` is for the error message of a second process.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

/// Holds the pid of the process that has the directory locked.
const LOCK_FILE: &str = "ballast.lock";
/// Retries while another process ends, and the delay between them: one second in total.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(50);

/// A data directory locked by this process.
pub(crate) struct DataDir {
    path: PathBuf,
    /// Held, not read: dropping them unlocks. Earlier versions locked only the file.
    _locks: [File; 2],
}

impl DataDir {
    /// Creates the directory if necessary and locks it.
    pub(crate) fn take(directory: &Path) -> anyhow::Result<Self> {
        // Only its owner may read it: it holds hashes and the audit log.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .with_context(|| format!("make the data directory {}", directory.display()))?;
        let path = fs::canonicalize(directory)
            .with_context(|| format!("find the data directory {}", directory.display()))?;
        if path.join(crate::backup::RESTORING).exists() {
            bail!(
                "{} is incomplete: a restore did not finish; empty the directory and restore again",
                path.display()
            );
        }
        let directory = File::open(&path).with_context(|| format!("open {}", path.display()))?;
        lock(&directory, &path)?;
        let name = path.join(LOCK_FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&name)
            .with_context(|| format!("open {}", name.display()))?;
        lock(&file, &path)?;
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self {
            path,
            _locks: [directory, file],
        })
    }

    /// Its absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Names the process that has a directory locked.
pub(crate) fn running_process(directory: &Path) -> String {
    let pid = fs::read_to_string(directory.join(LOCK_FILE)).unwrap_or_default();
    match pid.trim() {
        "" => "another process".to_owned(),
        pid => format!("process {pid}"),
    }
}

/// Locks the directory or the file in it; names the process that has it locked.
fn lock(file: &File, directory: &Path) -> anyhow::Result<()> {
    match lock_with_retries(file) {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            bail!(
                "the data directory {} is in use by {}; stop that process, or choose another \
                 directory with --data-dir",
                directory.display(),
                running_process(directory)
            );
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("lock {}", directory.display()))
        }
    }
}

/// Locks the file, with retries: a killed process keeps its locks until the system has cleaned it
/// up.
#[allow(clippy::disallowed_methods, reason = "no other task runs yet")]
fn lock_with_retries(file: &File) -> Result<(), TryLockError> {
    for _ in 0..TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN),
            other => return other,
        }
    }
    file.try_lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is() {
        let directory = tempfile::tempdir().unwrap();
        let first = DataDir::take(directory.path()).unwrap();
        let error = DataDir::take(directory.path()).err().unwrap().to_string();
        assert!(
            error.contains(&format!("process {}", std::process::id())),
            "{error}"
        );
        // Removing the file does not unlock the directory.
        std::fs::remove_file(directory.path().join("ballast.lock")).unwrap();
        let error = DataDir::take(directory.path()).err().unwrap().to_string();
        assert!(error.contains("in use by another process"), "{error}");
        // One that ends is waited for.
        let second = std::thread::scope(|scope| {
            let second = scope.spawn(|| DataDir::take(directory.path()).map(drop));
            drop(first);
            second.join().unwrap()
        });
        assert!(second.is_ok());
    }
}
