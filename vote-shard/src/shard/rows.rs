//! Rows that are exported and imported: polls and voters' rows, with versions.

use ballast_domain::poll::{Poll, RequestId};
use ballast_domain::tenant::Epoch;
use ballast_domain::{PollId, Timestamp, VoterId};
use serde::{Deserialize, Serialize};

use super::archived::ArchivedRows;
use super::digest::VoterPrint;

/// Orders two copies of a row. The owner assigns it; copies keep it unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RowVersion {
    /// The epoch of the write.
    pub epoch: Epoch,
    /// The number of changes.
    pub revision: u32,
}

/// One exported row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExportedRow {
    /// A new or changed poll.
    Poll(PollRow),
    /// A voter's row.
    Voter(VoterRow),
}

/// A poll with its version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollRow {
    /// The poll.
    pub poll: Poll,
    /// Its version.
    pub version: RowVersion,
    /// Imported votes per item, without voters. The counts include them.
    pub carried: Vec<u64>,
    /// The requests that imported them, to detect repetitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<RequestId>,
    /// The archive file, if the voters' rows are not in the shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<Box<ArchivedRows>>,
}

/// A voter's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterRow {
    /// The poll.
    pub poll: PollId,
    /// The voter.
    pub voter: VoterName,
    /// Indexes of the chosen items, ascending; empty if all were withdrawn.
    pub items: Vec<u16>,
    /// The row's version.
    pub version: RowVersion,
    /// The latest requests that changed the row, with the revision that each
    /// made.
    pub requests: Vec<(RequestId, u32)>,
    /// When it was last changed.
    pub voted_at: Timestamp,
}

/// The voter of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VoterName {
    /// A voter by name.
    Named(VoterId),
    /// An erased name: the fingerprint still prevents a second vote.
    Erased(VoterPrint),
}

/// The position of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cursor {
    /// The start.
    Start,
    /// In the snapshot.
    Snapshot {
        /// The log position where the changes start.
        position: u64,
        /// The last exported row.
        after: Option<(PollId, VoterPrint)>,
    },
    /// In the changes.
    Changes {
        /// The last exported position.
        position: u64,
    },
}

/// A page of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportPage {
    /// The rows.
    pub changes: Vec<ExportedRow>,
    /// Where to continue.
    pub next: Cursor,
    /// Whether the export has reached the last durable change.
    pub caught_up: bool,
}
