//! Detects that an open file was removed or replaced. SQLite would go on
//! writing into the unlinked file, and the writes would be lost at the next
//! start.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A path and the file that it led to when it was opened.
#[derive(Debug, Clone)]
pub struct FileIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// Reads the identity of the file that the path leads to now.
    pub fn read(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(Self {
            path: path.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    /// Fails when the path no longer leads to the same file.
    pub fn check(&self) -> io::Result<()> {
        let now = Self::read(&self.path)?;
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

#[cfg(test)]
mod tests {
    use super::FileIdentity;

    #[test]
    fn a_replaced_or_removed_file_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        std::fs::write(&path, "first").unwrap();
        let identity = FileIdentity::read(&path).unwrap();
        identity.check().unwrap();

        let other = directory.path().join("b.db");
        std::fs::write(&other, "second").unwrap();
        std::fs::rename(&other, &path).unwrap();
        let replaced = identity.check().unwrap_err().to_string();
        assert!(replaced.contains("was replaced"), "{replaced}");

        std::fs::remove_file(&path).unwrap();
        identity.check().unwrap_err();
    }
}
