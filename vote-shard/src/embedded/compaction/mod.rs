//! Checkpoints, and the compaction of the log into sorted files.
//!
//! ```text
//!   compactor   a thread: writes checkpoints, merges runs, removes old files
//!   checkpoint  the file format, and the copy of memory that is written
//!   requests    callers that ask for a checkpoint and wait for it
//! ```

pub(in crate::embedded) mod checkpoint;
pub(in crate::embedded) mod compactor;
pub(in crate::embedded) mod requests;
