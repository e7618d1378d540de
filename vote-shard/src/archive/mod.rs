//! Closed polls in Parquet files, beside whichever engine keeps the rest.
//!
//! ```text
//!   closed poll ──► backfill: rows ──► draft ──► named ──► read back
//!                   ──► the shard lets the file take the rows' place
//!   reading     ──► reader: tail checked ──► group checked ──► rows
//!   a move      ──► brought, read back, removed when the slice has left
//! ```
//! A file never changes, and nothing names one before it was read back: a crash
//! leaves at worst a file that nobody names, which [`remove_unreferenced`] removes. What is
//! read is compared with checksums that go back to the shard's own row of the
//! poll, so a file that is away or damaged is an error and never a wrong
//! answer. The shards know nothing of this room: whoever reads for a client
//! has the files through [`ArchiveDirectory`].

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
