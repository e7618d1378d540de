//! Closed polls in Parquet files, for any engine.
//!
//! ```text
//!   closed poll ──► backfill: rows ──► draft ──► renamed ──► read back
//!                   ──► the shard replaces its rows by the file
//!   read        ──► tail verified ──► group verified ──► rows
//!   migration   ──► files copied, verified, and removed after the slice has left
//! ```
//! A file never changes, and no shard refers to it before it was read back: a
//! crash at worst leaves an unreferenced file, which [`remove_unreferenced`]
//! deletes. Checksums trace everything that is read back to the shard's own row
//! of the poll, so a missing or damaged file is an error and never a wrong
//! answer. Shards do not access archives: a caller that reads for a client
//! opens the files through [`ArchiveDirectory`].

mod backfill;
mod ballot;
mod copy;
mod error;
mod format;
mod reader;
mod remove;
mod store;
#[cfg(test)]
mod tests;
mod throttle;
mod verify;
mod writer;

pub use backfill::{ArchiveProgress, backfill};
pub use ballot::judge_archived_ballot;
pub use copy::{ArchiveCopyError, CopyTarget, copy_file, copy_if_missing, copy_missing_files};
pub use error::{ArchiveError, ArchiveResult};
pub use reader::{ArchiveReader, FileSummary};
pub use remove::{remove_files, remove_unreferenced};
pub use store::{Archive, ArchiveDirectory, LocalArchives};
pub use throttle::{ArchiveStopped, ArchiveThrottle, Unthrottled};
pub use verify::{ArchiveDamage, verify_checksums, verify_files};
