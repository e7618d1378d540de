//! What is exported and imported: polls and voters' rows, each with its
//! version.

use ballast_domain::poll::{Poll, RequestId};
use ballast_domain::tenant::Epoch;
use ballast_domain::{PollId, Timestamp, VoterId};
use serde::{Deserialize, Serialize};

use super::archived::Archived;
use super::digest::VoterPrint;

/// Which of two copies of a row is newer. Given by the owner, copied verbatim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// The epoch it was written at.
    pub epoch: Epoch,
    /// How often it was changed.
    pub revision: u32,
}

/// One thing that is copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A poll came into being or was changed.
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
    pub version: Version,
    /// Votes that were taken over as sums, without voters, per item: they are
    /// part of the counts.
    pub carried: Vec<u64>,
    /// The requests that brought them: a repetition brings nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<RequestId>,
    /// Where its voters' rows are, when they are not rows of the shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<Box<Archived>>,
}

/// A voter's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterRow {
    /// The poll.
    pub poll: PollId,
    /// Who.
    pub voter: VoterName,
    /// Places of the chosen items, in rising order; empty when all were
    /// withdrawn.
    pub items: Vec<u16>,
    /// The row's version.
    pub version: Version,
    /// The last requests that changed it, with the revision each one made.
    pub requests: Vec<(RequestId, u32)>,
    /// When it was changed last.
    pub voted_at: Timestamp,
}

/// Whose row it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VoterName {
    /// A voter by name.
    Named(VoterId),
    /// One whose name was erased: what is left keeps them from voting twice.
    Erased(VoterPrint),
}

/// Where an export goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cursor {
    /// At the beginning.
    Start,
    /// Within what was there when it began.
    Snapshot {
        /// Where the changes to follow begin.
        position: u64,
        /// The last row that was handed out.
        after: Option<(PollId, VoterPrint)>,
    },
    /// Within the changes.
    Changes {
        /// The last position that was handed out.
        position: u64,
    },
}

/// A page of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// What is on it.
    pub changes: Vec<Change>,
    /// Where to go on.
    pub next: Cursor,
    /// Whether everything durable so far has been handed out.
    pub caught_up: bool,
}
