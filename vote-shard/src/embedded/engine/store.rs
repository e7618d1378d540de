//! The files of an open shard. Replaced when the log is reopened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::embedded::disk::Disk;
use crate::embedded::export::tail::TailCache;
use crate::embedded::log::LogReader;
use crate::embedded::runs::RunSet;

/// The files of an open shard. Replaced when the log is reopened.
pub(in crate::embedded) struct ShardStore {
    pub(in crate::embedded) disk: Arc<dyn Disk>,
    pub(in crate::embedded) log: LogReader,
    runs: RwLock<RunSet>,
    /// The runs contain the groups up to this one.
    flushed: AtomicU64,
    /// Rows of the log that exports read in addition to the runs.
    pub(in crate::embedded) tails: TailCache,
}

impl ShardStore {
    pub(in crate::embedded) fn new(
        disk: Arc<dyn Disk>,
        log: LogReader,
        runs: RunSet,
        flushed: u64,
    ) -> Self {
        Self {
            disk,
            log,
            runs: RwLock::new(runs),
            flushed: flushed.into(),
            tails: TailCache::default(),
        }
    }

    pub(in crate::embedded) fn runs(&self) -> RunSet {
        self.runs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Bytes on disk.
    pub(in crate::embedded) fn disk_bytes(&self) -> u64 {
        let names = self.disk.list().unwrap_or_default();
        let files = names.iter().filter_map(|name| self.disk.open(name).ok());
        files.filter_map(|file| file.bytes().ok()).sum()
    }

    pub(in crate::embedded) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// Replaces the runs, which now cover the log up to `flushed`. The runs are
    /// stored first: a reader that sees the position finds at least that much
    /// in the runs.
    pub(in crate::embedded) fn replace(&self, runs: RunSet, flushed: u64) {
        *self.runs.write().unwrap_or_else(PoisonError::into_inner) = runs;
        self.flushed.store(flushed, Ordering::Release);
        self.tails.clear();
    }
}
