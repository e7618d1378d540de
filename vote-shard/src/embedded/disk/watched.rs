//! A disk that tells when a file is made: for tests that count files, or
//! panic when there is one.

use std::io;
use std::sync::Arc;

use super::{Disk, DiskFile, SimulatedDisk};

/// What is done when a file is made, with its name.
pub(in crate::embedded) type OnCreate = Arc<dyn Fn(&str) + Send + Sync>;

/// A simulated disk and what is done when a file is made on it.
pub(in crate::embedded) struct Watched(
    pub(in crate::embedded) SimulatedDisk,
    pub(in crate::embedded) OnCreate,
);

impl Disk for Watched {
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        (self.1)(name);
        self.0.create(name, bytes)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.0.open(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
    }
}
