//! Opening a shard's directory: the log is read, and memory is built from it.

use std::sync::Arc;

use super::core::{Core, Limits};
use super::disk::Disk;
use super::log::{self, Log, LogError};
use super::record::Unreadable;
use super::state::State;

/// What may be set of an embedded shard.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Sizes of the log's parts.
    pub log: log::Options,
    /// Voters of open polls that memory may hold; about 60 bytes each.
    pub voters_in_memory_max: u64,
    /// How long a ballot may be on its way and still be judged by the time it
    /// arrived at.
    pub allowance_ms: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            log: log::Options::default(),
            voters_in_memory_max: 100_000_000,
            allowance_ms: ballast_domain::bounds::ARRIVAL_ALLOWANCE_MS,
        }
    }
}

/// Why a shard cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its log.
    #[error(transparent)]
    Log(#[from] LogError),
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
}

impl Opener {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Reads everything.
    pub(super) fn open(&self) -> Result<Opened, OpenError> {
        let mut state = State::default();
        let mut bad = None;
        let (log, recovered) = Log::open(
            self.disk.clone(),
            self.options.log,
            0,
            |sequence, payload| {
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
        let limits = Limits {
            voters_max: self.options.voters_in_memory_max,
            allowance_ms: self.options.allowance_ms,
        };
        if recovered.rewritten > 0 || recovered.cut_bytes > 0 {
            tracing::info!(
                shard = self.name,
                groups_rewritten = recovered.rewritten,
                bytes_cut = recovered.cut_bytes,
                "the end of the log was made good"
            );
        }
        let core = Core::new(state, log.durable(), limits);
        Ok(Opened { log, core })
    }
}
