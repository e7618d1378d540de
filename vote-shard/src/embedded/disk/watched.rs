//! A disk that reports when files are created, opened or removed, for tests
//! that count these or panic.

use std::io;
use std::sync::Arc;

use super::{Disk, DiskFile, DiskFileId, SimulatedDisk};

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) enum Touch {
    Create,
    Open,
    Remove,
    RemoveSlowly,
}

/// Called with each operation and the file's name.
pub(in crate::embedded) type OnTouch = Arc<dyn Fn(Touch, &str) + Send + Sync>;

/// A simulated disk with a callback.
pub(in crate::embedded) struct WatchedDisk(
    pub(in crate::embedded) SimulatedDisk,
    pub(in crate::embedded) OnTouch,
);

impl Disk for WatchedDisk {
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        (self.1)(Touch::Create, name);
        self.0.create(name, bytes)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        (self.1)(Touch::Open, name);
        self.0.open(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        (self.1)(Touch::Remove, name);
        self.0.remove(name)
    }

    fn remove_slowly(&self, name: &str) -> io::Result<()> {
        (self.1)(Touch::RemoveSlowly, name);
        self.0.remove_slowly(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
    }

    fn file_id(&self, name: &str) -> io::Result<Option<DiskFileId>> {
        self.0.file_id(name)
    }
}
