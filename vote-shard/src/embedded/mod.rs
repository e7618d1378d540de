//! The embedded engine: one directory per shard, nothing to install.
//!
//! ```text
//!   engine/      the shard: opening, the `VoteShard` trait, state shared by its threads
//!   core/        decides under one lock: fence, rules, records
//!   state/       memory, derived from the log
//!   log/         the source of truth: checksummed groups     record/  their content
//!   runs/        sorted files of voters' rows
//!   compaction/  checkpoints, merging runs, removing old files; a thread
//!   background/  the thread that writes the log, spare segments, the throttle
//!   export/      pages of rows and changes for a migration or a backup
//!   disk/        all file access, with a simulated disk for tests
//!   inspect      reads a closed shard's directory without changing it
//!   faults       bugs that tests plant
//! ```

mod background;
mod compaction;
mod core;
pub mod disk;
mod engine;
mod export;
mod faults;
pub mod inspect;
pub mod log;
mod record;
mod runs;
mod state;
#[cfg(test)]
mod tests;

pub use engine::EmbeddedShard;
pub use engine::open::{ShardOpenError, ShardOptions};
pub use engine::stepped::{CompactorOutcome, CompactorSteps, LogStepOutcome, LogSteps};
#[cfg(feature = "faults")]
pub use faults::plant_named as plant;
pub use record::RecordError;
