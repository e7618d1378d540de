//! The physical limit: bytes appended to a preallocated file, and synced call by call. No
//! checksum, no logic.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use async_trait::async_trait;

use super::engine::VOTE_BYTES;
use super::rounds::Contender;
use super::work::{Took, Work};
use crate::stopwatch::{Stopwatch, cpu_time};

/// A file of the size of a segment of the engine's log, written again and again.
const FILE_BYTES: u64 = 64 << 20;

pub(super) struct Log {
    file: File,
    end: u64,
}

impl Log {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        let zeros = vec![0; 1 << 20];
        for place in (0..FILE_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, place)?;
        }
        file.sync_all()?;
        Ok(Self { file, end: 0 })
    }

    fn append(&mut self, groups: usize, bytes: usize) -> anyhow::Result<()> {
        let group = vec![0x5a; bytes];
        for _ in 0..groups {
            if self.end + bytes as u64 > FILE_BYTES {
                self.end = 0;
            }
            self.file.write_all_at(&group, self.end)?;
            self.file.sync_data()?;
            self.end += bytes as u64;
        }
        Ok(())
    }
}

#[async_trait]
impl Contender for Log {
    async fn cast(&mut self, work: &Work) -> anyhow::Result<Took> {
        let (watch, before) = (Stopwatch::start(), cpu_time());
        let batch = work.shape.batch;
        self.append(work.votes / batch, batch * VOTE_BYTES)?;
        Ok(Took {
            wall: watch.elapsed(),
            cpu: cpu_time().saturating_sub(before),
        })
    }

    async fn counted(&mut self) -> anyhow::Result<Option<u64>> {
        Ok(None)
    }
}
