//! A directory of the operating system.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, DiskFile, DiskFileId};
use crate::embedded::faults::{self, Fault};

/// Bytes to free per step.
const FREED_AT_ONCE: u64 = 4 << 20;

/// A directory.
#[derive(Debug, Clone)]
pub struct RealDisk {
    directory: PathBuf,
    /// Whether files are opened read-only.
    read_only: bool,
    /// Holds the directory lock, which excludes other writers.
    _lock: Option<Arc<File>>,
}

impl RealDisk {
    /// Opens the directory, creating it if necessary, and locks it.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        // Lock the directory itself, so that another path to it conflicts too.
        // The lock ends with its last file handle, also when the process is
        // killed.
        let lock = File::open(directory)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                io::Error::other("another shard or process has the directory open")
            }
            TryLockError::Error(error) => error,
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            read_only: false,
            _lock: Some(Arc::new(lock)),
        })
    }

    /// Opens a directory read-only.
    pub fn read_only(directory: &Path) -> io::Result<Self> {
        fs::read_dir(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            read_only: true,
            _lock: None,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn file(&self, file: File) -> RealFile {
        let fault = self.path("sync-fails");
        RealFile { file, fault }
    }
}

struct RealFile {
    file: File,
    /// Path of the marker file for the fault `SyncFails`.
    fault: PathBuf,
}

impl Disk for RealDisk {
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(self.path(name))?;
        // Write zeros instead of only reserving space: later writes then change
        // no metadata, so a sync waits for data only, and a full disk shows
        // here and not in the middle of a group.
        let zeros = vec![0; 1 << 20];
        let mut offset = 0;
        while offset < bytes {
            let count = usize::try_from(bytes - offset)
                .unwrap_or(usize::MAX)
                .min(zeros.len());
            // Sync in small steps: one large sync would delay all other syncs
            // on this disk.
            let written = file
                .write_all_at(&zeros[..count], offset)
                .and_then(|()| file.sync_data());
            if let Err(error) = written {
                drop(file);
                let _ = fs::remove_file(self.path(name));
                return Err(error);
            }
            offset += count as u64;
        }
        Ok(Box::new(self.file(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(!self.read_only)
            .open(self.path(name))?;
        Ok(Box::new(self.file(file)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn remove_slowly(&self, name: &str) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.path(name))?;
        self.remove(name)?;
        // Free the space step by step: some disks stall when much space is
        // freed at once.
        let mut bytes = file.metadata()?.len();
        while bytes > FREED_AT_ONCE {
            bytes -= FREED_AT_ONCE;
            file.set_len(bytes)?;
            file.sync_all()?;
        }
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn file_id(&self, name: &str) -> io::Result<Option<DiskFileId>> {
        match fs::symlink_metadata(self.path(name)) {
            Ok(metadata) => Ok(Some(file_id(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn file_id(metadata: &Metadata) -> DiskFileId {
    DiskFileId {
        device: metadata.dev(),
        number: metadata.ino(),
    }
}

impl DiskFile for RealFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync(&mut self) -> io::Result<()> {
        if faults::is_planted(Fault::SyncFails) && self.fault.exists() {
            return Err(io::Error::other("planted fault: the sync failed"));
        }
        self.file.sync_data()
    }

    fn id(&self) -> io::Result<DiskFileId> {
        Ok(file_id(&self.file.metadata()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes with several steps, and one without any.
    #[test]
    fn a_large_file_is_removed_in_parts() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        for bytes in [0, 10, FREED_AT_ONCE, 2 * FREED_AT_ONCE + 10] {
            disk.create("rows", bytes).unwrap();
            disk.remove_slowly("rows").unwrap();
            assert_eq!(disk.list().unwrap(), Vec::<String>::new());
        }
        let gone = disk.remove_slowly("rows").unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
