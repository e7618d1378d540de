//! The files of an open shard. Replaced when the log is reopened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::embedded::disk::{Disk, LostName, NamedFile};
use crate::embedded::export::tail::TailCache;
use crate::embedded::log::LogReader;
use crate::embedded::runs::RunSet;

/// What a checkpoint covers.
#[derive(Default)]
pub(in crate::embedded) struct StoreBase {
    /// The rows.
    pub(in crate::embedded) runs: RunSet,
    /// The last group in them.
    pub(in crate::embedded) flushed: u64,
    /// The checkpoint; none before the first one.
    pub(in crate::embedded) checkpoint: Option<NamedFile>,
}

/// The files of an open shard. Replaced when the log is reopened.
pub(in crate::embedded) struct ShardStore {
    pub(in crate::embedded) disk: Arc<dyn Disk>,
    pub(in crate::embedded) log: LogReader,
    runs: RwLock<RunSet>,
    /// The runs contain the groups up to this one.
    flushed: AtomicU64,
    /// The checkpoint that says so; none before the first one.
    checkpoint: RwLock<Option<NamedFile>>,
    /// Rows of the log that exports read in addition to the runs.
    pub(in crate::embedded) tails: TailCache,
}

impl ShardStore {
    pub(in crate::embedded) fn new(disk: Arc<dyn Disk>, log: LogReader, base: StoreBase) -> Self {
        Self {
            disk,
            log,
            runs: RwLock::new(base.runs),
            flushed: base.flushed.into(),
            checkpoint: RwLock::new(base.checkpoint),
            tails: TailCache::default(),
        }
    }

    /// Checks that the checkpoint and its runs have their names. The caller holds
    /// the file lock: otherwise they may just be replaced.
    pub(in crate::embedded) fn check_names(&self) -> Result<(), LostName> {
        let runs = self.runs();
        runs.0
            .iter()
            .try_for_each(|run| run.check_name(&*self.disk))?;
        self.with_checkpoint(|file| file.check(&*self.disk))
    }

    /// Writes the checkpoint and its runs again where they were removed. The caller
    /// holds the file lock.
    pub(in crate::embedded) fn restore_removed(&self) -> Result<(), LostName> {
        let runs = self.runs();
        runs.0.iter().try_for_each(|run| run.restore(&*self.disk))?;
        self.with_checkpoint(|file| file.restore(&*self.disk))
    }

    fn with_checkpoint(
        &self,
        act: impl FnOnce(&NamedFile) -> Result<(), LostName>,
    ) -> Result<(), LostName> {
        let file = self
            .checkpoint
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        file.as_ref().map_or(Ok(()), act)
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
    pub(in crate::embedded) fn replace(&self, base: StoreBase) {
        *self.runs.write().unwrap_or_else(PoisonError::into_inner) = base.runs;
        *self
            .checkpoint
            .write()
            .unwrap_or_else(PoisonError::into_inner) = base.checkpoint;
        self.flushed.store(base.flushed, Ordering::Release);
        self.tails.clear();
    }
}
