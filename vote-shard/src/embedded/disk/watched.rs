//! A disk that tells when a file is made, opened or removed: for tests that
//! count, or panic then.

use std::io;
use std::sync::Arc;

use super::{Disk, DiskFile, SimulatedDisk};

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) enum Touch {
    Create,
    Open,
    Remove,
    RemoveSlowly,
}

/// Who is told of it, with the file's name.
pub(in crate::embedded) type OnTouch = Arc<dyn Fn(Touch, &str) + Send + Sync>;

/// A simulated disk, and who is told of its files.
pub(in crate::embedded) struct Watched(
    pub(in crate::embedded) SimulatedDisk,
    pub(in crate::embedded) OnTouch,
);

impl Disk for Watched {
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
}
