//! Whether a store's file is still the one that was opened: an open file
//! can be removed or replaced behind its back, and goes on taking writes that
//! nobody will ever read.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file and what it was when it was opened.
#[derive(Debug, Clone)]
pub(super) struct FileId {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file as it is now.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = std::fs::metadata(path)?;
        Ok(Self {
            path: path.to_owned(),
            device: found.dev(),
            inode: found.ino(),
        })
    }

    /// Refuses when the path no longer leads to the same file.
    pub(super) fn check(&self) -> io::Result<()> {
        let now = Self::of(&self.path)?;
        if (now.device, now.inode) == (self.device, self.inode) {
            Ok(())
        } else {
            let path = self.path.display();
            Err(io::Error::other(format!(
                "{path} was replaced while it was open"
            )))
        }
    }
}
