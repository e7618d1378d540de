//! What a shard keeps of a poll whose rows are in a file.

use serde::{Deserialize, Serialize};

use super::digest::Digest;

/// A file that holds all rows of a closed poll. These fields identify its
/// content: a file that differs from them is rejected as damaged.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveFile {
    /// Path within the archive of the shard that holds the slice.
    pub path: String,
    /// Generation: a rewritten file has a higher one and another path, and
    /// replaces the older file.
    pub generation: u32,
    /// Number of rows, and the sum of their hashes under the slice's key.
    pub digest: Digest,
    /// Size in bytes.
    pub bytes: u64,
    /// Size of the tail: everything after the rows.
    pub tail_bytes: u64,
    /// BLAKE3 of the tail, in hexadecimal. The tail holds the checksums of the
    /// rest.
    pub checksum: String,
}

/// An archived poll: its file, and its final counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedRows {
    /// The file with the rows.
    pub file: ArchiveFile,
    /// Voters with at least one chosen item.
    pub voting: u64,
    /// Votes per item and lane, including imported counts.
    pub lanes: Vec<Vec<u64>>,
}
