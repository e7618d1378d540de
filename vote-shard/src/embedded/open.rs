//! Opening a shard's directory.
//!
//! ```text
//!   newest checkpoint that is whole ──► memory without rows
//!   its runs ──► the rows of polls that are open
//!   log after the checkpoint's position ──► the rest
//! ```

use std::ops::RangeInclusive;
use std::sync::Arc;

use ballast_domain::bounds::POLLS_PER_SLICE_MAX;

use super::checkpoint::{self, CheckpointError};
use super::core::{Core, Limits};
use super::disk::Disk;
use super::log::{self, Log, LogError};
use super::record::{PollNo, Unreadable};
use super::runs::{self, Key, Run, RunError, RunSet};
use super::state::State;
use super::store::Store;

/// What may be set of an embedded shard.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Sizes of the log's parts.
    pub log: log::Options,
    /// Voters of open polls that memory may hold; 38 to 76 bytes each.
    pub voters_in_memory_max: u64,
    /// How long a ballot may be on its way and still be judged by the time it
    /// arrived at.
    pub allowance_ms: i64,
    /// A checkpoint is made when the log has grown by so much.
    pub checkpoint_bytes: u64,
    /// So much of the log is kept at least for those who follow its changes.
    pub feed_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            log: log::Options::default(),
            voters_in_memory_max: 100_000_000,
            allowance_ms: ballast_domain::bounds::ARRIVAL_ALLOWANCE_MS,
            checkpoint_bytes: 64 << 20,
            feed_bytes: 512 << 20,
        }
    }
}

/// Why a shard cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Its checkpoints.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Its sorted rows.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The thread that writes it.
    #[error("start the thread that writes the log")]
    Thread(#[source] std::io::Error),
    /// A record of it.
    #[error("group {sequence}")]
    Record {
        /// Which group.
        sequence: u64,
        /// What is wrong.
        #[source]
        source: Unreadable,
    },
    /// What is on disk contradicts itself.
    #[error("the sorted rows do not fit the checkpoint: {0}")]
    Misfit(String),
}

/// Opens a shard, also again after its disk failed.
pub(super) struct Opener {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: Options,
    pub(super) name: String,
}

/// A shard that was opened.
pub(super) struct Opened {
    pub(super) log: Log,
    pub(super) core: Core,
    pub(super) store: Arc<Store>,
    /// Bytes in the log that are in no checkpoint.
    pub(super) log_bytes: u64,
}

/// What a disk must have room for before a shard that failed goes on.
const ROOM_TO_GO_ON: u64 = 1 << 20;

/// Memory and runs as of a position.
struct Base {
    state: State,
    runs: RunSet,
    position: u64,
}

impl Opener {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Opens a shard whose disk failed. Opening ends with a new segment, so
    /// everything would be read in vain on a disk that takes nothing, or so
    /// little that it is full again at once.
    pub(super) fn open_again(&self) -> Result<Opened, OpenError> {
        let room = ROOM_TO_GO_ON.min(self.options.log.segment_bytes);
        log::probe(&*self.disk, room)?;
        self.open()
    }

    /// Reads everything.
    pub(super) fn open(&self) -> Result<Opened, OpenError> {
        self.remove_drafts()?;
        let Base {
            mut state,
            runs,
            position,
        } = self.base()?;
        let (mut bad, mut log_bytes) = (None, 0);
        let (log, recovered) = Log::open(
            self.disk.clone(),
            self.options.log,
            position,
            |sequence, payload| {
                log_bytes += payload.len() as u64;
                if bad.is_none()
                    && let Err(source) = state.replay(sequence, payload)
                {
                    bad = Some(OpenError::Record { sequence, source });
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
                "the end of the log was made good"
            );
        }
        let limits = Limits {
            voters_max: self.options.voters_in_memory_max,
            polls_max: POLLS_PER_SLICE_MAX,
            allowance_ms: self.options.allowance_ms,
        };
        let core = Core::new(state, log.durable(), limits);
        let store = Store::new(self.disk.clone(), log.reader(), runs, position);
        Ok(Opened {
            log,
            core,
            store: Arc::new(store),
            log_bytes,
        })
    }

    fn remove_drafts(&self) -> Result<(), OpenError> {
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

    /// What the newest checkpoint that is whole says.
    fn base(&self) -> Result<Base, OpenError> {
        let mut first_trouble = None;
        for position in checkpoint::list(&*self.disk)? {
            match self.at_checkpoint(position) {
                Ok(base) => return Ok(base),
                Err(error) if is_damage(&error) => {
                    tracing::error!(shard = self.name, %error, "a checkpoint cannot be used");
                    first_trouble.get_or_insert(error);
                }
                Err(other) => return Err(other),
            }
        }
        match first_trouble {
            // The whole log may still be there; opening it says so if not.
            Some(error) if !self.log_is_whole()? => Err(error),
            _ => Ok(Base {
                state: State::default(),
                runs: RunSet::default(),
                position: 0,
            }),
        }
    }

    fn log_is_whole(&self) -> Result<bool, OpenError> {
        Ok(log::first_sequence(&*self.disk)? == Some(1))
    }

    fn at_checkpoint(&self, position: u64) -> Result<Base, OpenError> {
        let (head, payload) = checkpoint::read(&*self.disk, position)?;
        let sequence = head.position;
        let mut state = checkpoint::restore(&head, &payload)
            .map_err(|source| OpenError::Record { sequence, source })?;
        let mut runs = RunSet::default();
        for id in head.runs {
            runs.0.push(Arc::new(Run::open(&*self.disk, id)?));
        }
        load_rows(&mut state, &runs)?;
        Ok(Base {
            state,
            runs,
            position,
        })
    }
}

/// Whether a checkpoint cannot be used, and an older one may be.
fn is_damage(error: &OpenError) -> bool {
    match error {
        OpenError::Checkpoint(CheckpointError::Corrupt { .. })
        | OpenError::Misfit(_)
        | OpenError::Run(RunError::Corrupt { .. }) => true,
        OpenError::Run(RunError::Disk(source)) => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Puts the rows of open polls into memory. Newer runs come later, so their
/// rows take the place of older ones.
pub(super) fn load_rows(state: &mut State, runs: &RunSet) -> Result<(), OpenError> {
    state.evict(u64::MAX);
    let mut there: Vec<PollNo> = state.polls.keys().copied().collect();
    there.sort_unstable();
    // What is damaged and can hold nobody's rows any more is in nobody's way.
    let all_gone = |polls: RangeInclusive<PollNo>| {
        let next = there.partition_point(|poll| poll < polls.start());
        there.get(next).is_none_or(|poll| poll > polls.end())
    };
    for run in &runs.0 {
        let mut rows = run.from(Key::first_of(0), Some(&all_gone))?;
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
            let what = format!("{id} has {rows} rows, and should have {expected}");
            return Err(OpenError::Misfit(what));
        }
    }
    Ok(())
}
