//! Closed polls in Parquet files, beside whichever engine keeps the rest.
//!
//! ```text
//!   closed poll ──► backfill: rows ──► draft ──► named ──► read back
//!                   ──► the shard lets the file take the rows' place
//!   reading     ──► reader: tail checked ──► group checked ──► rows
//!   a move      ──► brought, read back, removed when the slice has left
//! ```
//! A file never changes, and nothing names one before it was read back: a crash
//! leaves at worst a file that nobody names, which [`sweep`] removes. What is
//! read is compared with checksums that go back to the shard's own row of the
//! poll, so a file that is away or damaged is an error and never a wrong
//! answer. The shards know nothing of this room: whoever reads for a client
//! has the files through [`Archives`].

mod backfill;
mod copy;
mod error;
mod format;
mod late;
mod pace;
mod place;
mod read_back;
mod reader;
mod remove;
#[cfg(test)]
mod tests;
mod writer;

pub use backfill::{Report, backfill};
pub use copy::{CopyError, Incoming, bring, bring_anew, copy_files};
pub use error::{ArchiveError, ArchiveResult};
pub use late::judge;
pub use pace::{FullSpeed, Pace, Stopped};
pub use place::{Archive, Archives, LocalArchives};
pub use read_back::{Damage, check, read_back};
pub use reader::{Found, Reader};
pub use remove::{remove_files, sweep};
