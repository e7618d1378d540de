//! What a shard keeps of a poll whose rows are in a file.

use serde::{Deserialize, Serialize};

use super::digest::Digest;

/// A file that holds all rows of a closed poll. What it says here is enough to
/// know the file again: nothing that reads otherwise is taken for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveFile {
    /// Where it is, within the archive of whichever shard holds the slice.
    pub path: String,
    /// Which writing of the file it is: a later one has a higher number and
    /// another path, and takes its place.
    pub generation: u32,
    /// Its rows: how many, and the sum of their hashes under the slice's key.
    pub digest: Digest,
    /// Its size.
    pub bytes: u64,
    /// The size of its tail: all that comes after the rows.
    pub tail_bytes: u64,
    /// BLAKE3 of the tail, in hexadecimal. The tail has the checksums of the
    /// rest.
    pub checksum: String,
}

/// A poll whose rows are in a file: the file, and how the counts stand for
/// ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Archived {
    /// Where the rows are.
    pub file: ArchiveFile,
    /// Voters whose row holds at least one item.
    pub voting: u64,
    /// For each item the votes in each lane, with those that were carried
    /// over.
    pub lanes: Vec<Vec<u64>>,
}
