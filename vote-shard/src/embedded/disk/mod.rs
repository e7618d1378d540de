//! All file access of the embedded engine, behind one small trait.
//!
//! **Contract.** A disk is one flat directory. Written bytes are durable once
//! [`DiskFile::sync`] has returned, provided that the file's name is. A name is
//! durable once [`Disk::sync_names`] has returned after it was created, renamed
//! or removed. Before that, a crash may keep or lose any part: bytes in any
//! order and in fragments, names with or without their bytes. After a failed
//! sync the state of earlier writes is unknown, and another sync proves
//! nothing.
//!
//! [`RealDisk`] is a directory. [`SimulatedDisk`] is as bad as the contract
//! allows.

mod file_name;
mod real;
mod simulated;
#[cfg(test)]
pub(in crate::embedded) mod watched;

use std::io;

pub use file_name::LostName;
pub(in crate::embedded) use file_name::{NamedFile, check_name, restore_name};
pub use real::RealDisk;
pub use simulated::{Crash, SimulatedDisk};

/// Identifies a file of a disk, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFileId {
    device: u64,
    number: u64,
}

/// A flat directory of files.
pub trait Disk: Send + Sync + 'static {
    /// Creates a file of this size, filled with zeros; fails if it exists.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Lists all files, sorted by name.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Renames a file, replacing a file with the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Removes a file that has no readers, without monopolising the disk if the
    /// file is large.
    fn remove_slowly(&self, name: &str) -> io::Result<()> {
        self.remove(name)
    }

    /// Makes names durable.
    fn sync_names(&self) -> io::Result<()>;

    /// Returns the file that has this name; `None` if there is none.
    fn file_id(&self, name: &str) -> io::Result<Option<DiskFileId>>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Writes bytes at an offset, and extends the file if necessary.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads up to the end of `buffer` or of the file; returns the number of
    /// bytes.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// The file's size.
    fn bytes(&self) -> io::Result<u64>;

    /// Makes written bytes durable.
    fn sync(&mut self) -> io::Result<()>;

    /// Identifies the file, also when its name was removed.
    fn id(&self) -> io::Result<DiskFileId>;
}

/// Reads a whole file.
pub fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let bytes = usize::try_from(file.bytes()?).map_err(io::Error::other)?;
    let mut all = vec![0; bytes];
    let mut have = 0;
    while have < all.len() {
        match file.read_at(have as u64, &mut all[have..])? {
            0 => break,
            more => have += more,
        }
    }
    all.truncate(have);
    Ok(all)
}
