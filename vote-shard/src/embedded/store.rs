//! What is on disk beside memory: the log's reader, the runs, and up to where
//! they say the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::disk::Disk;
use super::log::Reader;
use super::runs::RunSet;
use super::tail::Tails;

/// The files of an open shard. It is replaced when the log is opened anew.
pub(super) struct Store {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) log: Reader,
    runs: RwLock<RunSet>,
    /// Groups up to this one are in the runs.
    flushed: AtomicU64,
    /// What exports read beside the runs.
    pub(super) tails: Tails,
}

impl Store {
    pub(super) fn new(disk: Arc<dyn Disk>, log: Reader, runs: RunSet, flushed: u64) -> Self {
        Self {
            disk,
            log,
            runs: RwLock::new(runs),
            flushed: flushed.into(),
            tails: Tails::default(),
        }
    }

    pub(super) fn runs(&self) -> RunSet {
        self.runs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How much room the shard takes.
    pub(super) fn disk_bytes(&self) -> u64 {
        let names = self.disk.list().unwrap_or_default();
        let files = names.iter().filter_map(|name| self.disk.open(name).ok());
        files.filter_map(|file| file.bytes().ok()).sum()
    }

    pub(super) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// Other runs hold the rows now, up to this group. First the runs: whoever
    /// reads the position finds at least that in them.
    pub(super) fn replace(&self, runs: RunSet, flushed: u64) {
        *self.runs.write().unwrap_or_else(PoisonError::into_inner) = runs;
        self.flushed.store(flushed, Ordering::Release);
        self.tails.forget();
    }
}
