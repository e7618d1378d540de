//! All file access of the embedded engine, behind one small trait.
//!
//! **Contract.** A disk is one flat directory. What was written to a file is
//! durable once [`DiskFile::sync`] has returned, if the file's name is. A name
//! is durable once [`Disk::sync_names`] has returned after it was created,
//! renamed or removed. Before that, a crash may keep or lose any part of it:
//! bytes in any order and by halves, names with or without their bytes. After
//! a failed sync nothing is known of what was written before it, and syncing
//! again proves nothing.
//!
//! [`RealDisk`] is a directory. [`SimulatedDisk`] does what the contract
//! allows at its worst.

mod real;
mod simulated;
#[cfg(test)]
pub(in crate::embedded) mod watched;

use std::io;

pub use real::RealDisk;
pub use simulated::{Crash, SimulatedDisk};

/// A flat directory of files.
pub trait Disk: Send + Sync + 'static {
    /// Makes a file of this size, filled with zeros; refused if it exists.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file that exists.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// The names of all files, in order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Renames a file, replacing one that has the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Removes a file that nobody reads, without keeping others from the disk for
    /// long if it is large.
    fn remove_slowly(&self, name: &str) -> io::Result<()> {
        self.remove(name)
    }

    /// Makes the names durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Writes bytes at a place, making the file longer if need be.
    fn write_at(&mut self, place: u64, bytes: &[u8]) -> io::Result<()>;

    /// Reads up to the end of `buffer` or of the file; says how much.
    fn read_at(&self, place: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// How long the file is.
    fn bytes(&self) -> io::Result<u64>;

    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
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
