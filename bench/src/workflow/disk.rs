//! The physical limit: 4 KiB written to a file and synced, call by call.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::stopwatch::{Samples, Stopwatch};

/// The least that SQLite writes.
const PAGE: [u8; 4_096] = [0x5a; 4_096];
/// The preallocated size of the file.
const ROOM: u64 = 1_024;

/// Two ways to sync a page.
pub(super) struct Disk {
    file: File,
    pages: u64,
    /// At the end of a file, which grows.
    pub(super) growing: Samples,
    /// In a preallocated file, like SQLite's log after its first round.
    pub(super) in_place: Samples,
}

impl Disk {
    /// Creates a preallocated file.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).open(path)?;
        for page in 0..ROOM {
            file.write_all_at(&PAGE, page * PAGE.len() as u64)?;
        }
        file.sync_all()?;
        Ok(Self {
            file,
            pages: ROOM,
            growing: Samples::new(),
            in_place: Samples::new(),
        })
    }

    /// Writes and syncs this often in each way.
    pub(super) fn sync(&mut self, calls: usize) -> anyhow::Result<()> {
        for call in 0..calls as u64 {
            let taken = self.page(call % ROOM)?;
            self.in_place.add(taken);
        }
        for _ in 0..calls {
            let taken = self.page(self.pages)?;
            self.growing.add(taken);
            self.pages += 1;
        }
        Ok(())
    }

    fn page(&self, page: u64) -> anyhow::Result<std::time::Duration> {
        let watch = Stopwatch::start();
        self.file.write_all_at(&PAGE, page * PAGE.len() as u64)?;
        self.file.sync_data()?;
        Ok(watch.elapsed())
    }
}
