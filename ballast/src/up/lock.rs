//! One process per data directory.
//!
//! The lock is the operating system's and ends with the process, however it
//! ends; the pid in the file is there to be named to whoever comes second.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

/// How often another process is waited for, and how long each time: one second.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(50);

/// A data directory that is ours alone.
pub(crate) struct DataDir {
    path: PathBuf,
    /// Held, not read: dropping it unlocks.
    _file: File,
}

impl DataDir {
    /// Makes the directory if need be and locks it.
    pub(crate) fn take(directory: &Path) -> anyhow::Result<Self> {
        // For its owner only: hashes and the audit log are in it.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .with_context(|| format!("make the data directory {}", directory.display()))?;
        let path = fs::canonicalize(directory)
            .with_context(|| format!("find the data directory {}", directory.display()))?;
        if path.join(crate::backup::RESTORING).exists() {
            bail!(
                "{} is half restored: the restore did not end; empty the directory and restore again",
                path.display()
            );
        }
        let lock = path.join("ballast.lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock)
            .with_context(|| format!("open {}", lock.display()))?;
        match locked(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _ = file.read_to_string(&mut pid);
                bail!(
                    "the data directory {} is in use by process {}; stop that one, or choose another with --data-dir",
                    path.display(),
                    pid.trim()
                );
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("lock {}", lock.display()));
            }
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self { path, _file: file })
    }

    /// Where it is, absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Locks it, and waits a moment for whoever is about to end: one that was killed has
/// its locks until the system has taken everything away from it.
#[allow(
    clippy::disallowed_methods,
    reason = "nothing runs yet that would have to wait"
)]
fn locked(file: &File) -> Result<(), TryLockError> {
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
        // One that ends is waited for.
        let second = std::thread::scope(|scope| {
            let second = scope.spawn(|| DataDir::take(directory.path()).map(drop));
            drop(first);
            second.join().unwrap()
        });
        assert!(second.is_ok());
    }
}
