//! One process per data directory.
//!
//! The lock is the operating system's and ends with the process, however it
//! ends; the pid in the file is there to be named to whoever comes second.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

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
        match file.try_lock() {
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
        drop(first);
        assert!(DataDir::take(directory.path()).is_ok());
    }
}
