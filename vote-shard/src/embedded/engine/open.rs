//! Opens a shard's directory.
//!
//! ```text
//!   newest whole checkpoint ──► memory without rows
//!   its runs ──► the rows of open polls
//!   log after the checkpoint's position ──► the rest
//! ```

use std::ops::RangeInclusive;
use std::sync::Arc;

use ballast_domain::bounds::POLLS_PER_SLICE_MAX;

use crate::embedded::compaction::checkpoint::{self, CheckpointError};
use crate::embedded::core::{Core, Limits};
use crate::embedded::disk::Disk;
use crate::embedded::engine::store::{ShardStore, StoreBase};
use crate::embedded::log::{self, Log, LogError};
use crate::embedded::record::{PollNo, RecordError};
use crate::embedded::runs::{self, RowKey, Run, RunError, RunSet};
use crate::embedded::state::EngineState;

/// Options of an embedded shard.
#[derive(Debug, Clone, Copy)]
pub struct ShardOptions {
    /// Sizes of the log's files.
    pub log: log::LogOptions,
    /// Capacity for voters of open polls in memory; 38 to 76 bytes each.
    pub voters_in_memory_max: u64,
    /// Maximum age of a ballot that is still judged by its arrival time.
    pub allowance_ms: i64,
    /// Growth of the log that triggers a checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes of the log to keep at least, for exports that follow its changes.
    pub feed_bytes: u64,
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self {
            log: log::LogOptions::default(),
            voters_in_memory_max: 100_000_000,
            allowance_ms: ballast_domain::bounds::ARRIVAL_ALLOWANCE_MS,
            checkpoint_bytes: 64 << 20,
            feed_bytes: 512 << 20,
        }
    }
}

/// Why a shard cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ShardOpenError {
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A thread could not be started.
    #[error("start a thread of the shard")]
    Thread(#[source] std::io::Error),
    /// A record of the log.
    #[error("cannot apply log group {sequence}")]
    Record {
        /// The group.
        sequence: u64,
        /// The cause.
        #[source]
        source: RecordError,
    },
    /// The files contradict each other.
    #[error("the runs contradict the checkpoint: {0}")]
    Misfit(String),
}

/// Opens a shard, and reopens it after a disk failure.
pub(in crate::embedded) struct ShardOpener {
    pub(in crate::embedded) disk: Arc<dyn Disk>,
    pub(in crate::embedded) options: ShardOptions,
    pub(in crate::embedded) name: String,
}

/// The parts of an opened shard.
pub(in crate::embedded) struct OpenedShard {
    pub(in crate::embedded) log: Log,
    pub(in crate::embedded) core: Core,
    pub(in crate::embedded) store: Arc<ShardStore>,
    /// Bytes in the log after the last checkpoint.
    pub(in crate::embedded) log_bytes: u64,
}

/// Free bytes that a failed shard requires before it reopens.
const REOPEN_FREE_BYTES: u64 = 1 << 20;

/// Memory and runs as of a checkpoint.
struct CheckpointBase {
    state: EngineState,
    store: StoreBase,
}

impl ShardOpener {
    pub(in crate::embedded) fn name(&self) -> &str {
        &self.name
    }

    /// Reopens a shard whose disk failed. Opening ends by creating a segment,
    /// so on a full or read-only disk all the reading would be wasted: probe
    /// first.
    pub(in crate::embedded) fn reopen(&self) -> Result<OpenedShard, ShardOpenError> {
        let bytes = REOPEN_FREE_BYTES.min(self.options.log.segment_bytes);
        log::probe(&*self.disk, bytes)?;
        self.open()
    }

    /// Reads the directory.
    pub(in crate::embedded) fn open(&self) -> Result<OpenedShard, ShardOpenError> {
        self.remove_drafts()?;
        let CheckpointBase {
            mut state,
            store: base,
        } = self.load_base()?;
        let (mut bad, mut log_bytes) = (None, 0);
        let (log, recovered) = Log::open(
            self.disk.clone(),
            self.options.log,
            base.flushed,
            |sequence, payload| {
                log_bytes += payload.len() as u64;
                if bad.is_none()
                    && let Err(source) = state.replay(sequence, payload)
                {
                    bad = Some(ShardOpenError::Record { sequence, source });
                }
            },
        )?;
        if let Some(bad) = bad {
            return Err(bad);
        }
        if recovered.rewritten > 0 || recovered.cut_bytes > 0 {
            tracing::info!(
                shard = self.name,
                groups_rewritten = recovered.rewritten,
                bytes_cut = recovered.cut_bytes,
                "repaired the end of the log"
            );
        }
        let limits = Limits {
            voters_max: self.options.voters_in_memory_max,
            polls_max: POLLS_PER_SLICE_MAX,
            allowance_ms: self.options.allowance_ms,
        };
        let core = Core::new(state, log.durable(), limits);
        let store = ShardStore::new(self.disk.clone(), log.reader(), base);
        Ok(OpenedShard {
            log,
            core,
            store: Arc::new(store),
            log_bytes,
        })
    }

    fn remove_drafts(&self) -> Result<(), ShardOpenError> {
        let failed = |source| CheckpointError::Disk {
            doing: "remove drafts",
            source,
        };
        for name in self.disk.list().map_err(failed)? {
            if name.ends_with(runs::DRAFT_SUFFIX) || name.ends_with(checkpoint::DRAFT_SUFFIX) {
                self.disk.remove(&name).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Loads the newest whole checkpoint.
    fn load_base(&self) -> Result<CheckpointBase, ShardOpenError> {
        let mut first_trouble = None;
        for position in checkpoint::list(&*self.disk)? {
            match self.load_checkpoint(position) {
                Ok(base) => return Ok(base),
                Err(error) if is_damage(&error) => {
                    tracing::error!(shard = self.name, %error, "skipping a damaged checkpoint");
                    first_trouble.get_or_insert(error);
                }
                Err(other) => return Err(other),
            }
        }
        match first_trouble {
            // Without a checkpoint the whole log is needed; opening it fails if
            // part is missing.
            Some(error) if !self.log_is_whole()? => Err(error),
            _ => Ok(CheckpointBase {
                state: EngineState::default(),
                store: StoreBase::default(),
            }),
        }
    }

    fn log_is_whole(&self) -> Result<bool, ShardOpenError> {
        Ok(log::first_sequence(&*self.disk)? == Some(1))
    }

    fn load_checkpoint(&self, position: u64) -> Result<CheckpointBase, ShardOpenError> {
        let (head, payload) = checkpoint::read(&*self.disk, position)?;
        let sequence = head.position;
        let mut state = checkpoint::restore(&head, &payload)
            .map_err(|source| ShardOpenError::Record { sequence, source })?;
        let mut runs = RunSet::default();
        for id in head.runs {
            runs.0.push(Arc::new(Run::open(&*self.disk, id)?));
        }
        load_rows(&mut state, &runs)?;
        Ok(CheckpointBase {
            state,
            store: StoreBase {
                runs,
                flushed: position,
                checkpoint: Some(checkpoint::open(&*self.disk, position)?),
            },
        })
    }
}

/// Whether the checkpoint is damaged, so that an older one may work.
fn is_damage(error: &ShardOpenError) -> bool {
    match error {
        ShardOpenError::Checkpoint(CheckpointError::Corrupt { .. })
        | ShardOpenError::Misfit(_)
        | ShardOpenError::Run(RunError::Corrupt { .. }) => true,
        ShardOpenError::Run(RunError::Disk(source)) => {
            source.kind() == std::io::ErrorKind::NotFound
        }
        _ => false,
    }
}

/// Loads the rows of open polls into memory. Newer runs come later, so their
/// rows replace older ones.
pub(in crate::embedded) fn load_rows(
    state: &mut EngineState,
    runs: &RunSet,
) -> Result<(), ShardOpenError> {
    state.evict(u64::MAX);
    let mut there: Vec<PollNo> = state.polls.keys().copied().collect();
    there.sort_unstable();
    // Skip damaged blocks that cover no live polls.
    let all_gone = |polls: RangeInclusive<PollNo>| {
        let next = there.partition_point(|poll| poll < polls.start());
        there.get(next).is_none_or(|poll| poll > polls.end())
    };
    for run in &runs.0 {
        let mut rows = run.from(RowKey::start_of_poll(0), Some(&all_gone))?;
        while let Some((key, _)) = rows.peek() {
            if state.polls.get(&key.poll).is_some_and(|poll| !poll.cold)
                && let Some((key, row)) = rows.row()?
            {
                state.load_row(key, row);
            }
            rows.advance()?;
        }
    }
    for poll in state.polls.values() {
        let (rows, expected) = (poll.voters.len() as u64, poll.digest.rows);
        if !poll.cold && rows != expected {
            let id = poll.poll.poll_id;
            let what = format!("{id} has {rows} rows instead of {expected}");
            return Err(ShardOpenError::Misfit(what));
        }
    }
    Ok(())
}
