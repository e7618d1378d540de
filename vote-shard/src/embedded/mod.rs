//! The embedded engine: one directory per shard, nothing to install.
//!
//! ```text
//!   engine     the shard, opened and closed         calls    what others ask of it
//!   core/      decides: fence, rules, records; under one lock
//!   state/     what is known, derived from the log
//!   committer  a thread: one group, one sync, then the answers
//!   keeper     a thread: checkpoints, merging, removing what is not needed
//!   stepped    both without threads, step by step, for simulations
//!   log/       the truth: checksummed groups        record/  what is in them
//!   runs/      sorted files of rows                 checkpoint  all the rest
//!   export     rows and changes handed out          tail     rows in no run yet
//!   disk/      all file access
//! ```

mod aside;
mod calls;
mod checkpoint;
mod committer;
#[cfg(test)]
mod conformance_tests;
mod core;
#[cfg(test)]
mod damage_tests;
pub mod disk;
mod engine;
mod export;
#[cfg(test)]
mod export_tests;
mod faults;
#[cfg(test)]
mod group_tests;
pub mod inspect;
#[cfg(test)]
mod interrupted_tests;
mod keeper;
mod keeping;
#[cfg(test)]
mod ledger_tests;
pub mod log;
mod manners;
mod open;
#[cfg(test)]
mod panic_tests;
mod published;
mod record;
mod room;
mod runs;
mod shared;
mod state;
mod stepped;
mod store;
mod tail;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trouble_tests;

pub use engine::EmbeddedShard;
#[cfg(feature = "faults")]
pub use faults::plant_named as plant;
pub use open::{OpenError, Options};
pub use record::Unreadable;
pub use stepped::{KeepSteps, Kept, LogSteps, Written};
