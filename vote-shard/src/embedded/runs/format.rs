//! The format of a run. Version 1.
//!
//! ```text
//!   header, 32 bytes      block                       footer, 48 bytes
//!     8  "BALLASTR"         4  length of its rows       8  offset of the index
//!     4  version            4  number of rows           8  entries of the index
//!     4  zero               8  checksum, seeded with    8  rows
//!     8  id                    the run's id             8  checksum of the index
//!     8  checksum           …  rows, sorted             8  checksum of the above
//!   blocks, then the index: for each block              8  "BALLASTE"
//!     4  poll, 16 voter: its first row  · 8 offset · 4 length with its header
//! ```

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::RowKey;
use crate::shard::VoterPrint;

pub(super) const MAGIC: &[u8; 8] = b"BALLASTR";
pub(super) const END_MAGIC: &[u8; 8] = b"BALLASTE";
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const FOOTER_BYTES: usize = 48;
pub(super) const BLOCK_HEAD_BYTES: usize = 16;
pub(super) const ENTRY_BYTES: usize = 32;
/// File suffix before the rename.
pub(in crate::embedded) const DRAFT_SUFFIX: &str = ".run.new";

pub(in crate::embedded) fn file_name(id: u64) -> String {
    format!("rows-{id:016}.run")
}

pub(super) fn draft_name(id: u64) -> String {
    format!("rows-{id:016}{DRAFT_SUFFIX}")
}

/// The id in a run's file name.
pub(in crate::embedded) fn id_in(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("rows-")?.strip_suffix(".run")?;
    digits.parse().ok().filter(|id| file_name(*id) == name)
}

pub(super) fn checksum(id: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, id)
}

/// A block's position, and the key of its first row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexEntry {
    pub(super) first: RowKey,
    pub(super) place: u64,
    pub(super) length: u32,
}

impl IndexEntry {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.first.poll.to_le_bytes());
        to.extend_from_slice(&self.first.voter.0[0].to_le_bytes());
        to.extend_from_slice(&self.first.voter.0[1].to_le_bytes());
        to.extend_from_slice(&self.place.to_le_bytes());
        to.extend_from_slice(&self.length.to_le_bytes());
    }

    pub(super) fn decode(bytes: &[u8; ENTRY_BYTES]) -> Self {
        Self {
            first: RowKey {
                poll: read_u32(bytes, 0),
                voter: VoterPrint([read_u64(bytes, 4), read_u64(bytes, 12)]),
            },
            place: read_u64(bytes, 20),
            length: read_u32(bytes, 28),
        }
    }
}

pub(super) fn header(id: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&id.to_le_bytes());
    let sum = checksum(id, &bytes[..24]);
    bytes[24..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// A run's footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) index_place: u64,
    pub(super) entries: u64,
    pub(super) rows: u64,
    pub(super) index_sum: u64,
}

impl Footer {
    pub(super) fn encode(&self, id: u64) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        let numbers = [self.index_place, self.entries, self.rows, self.index_sum];
        for (place, number) in numbers.into_iter().enumerate() {
            bytes[place * 8..place * 8 + 8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(id, &bytes[..32]);
        bytes[32..40].copy_from_slice(&sum.to_le_bytes());
        bytes[40..].copy_from_slice(END_MAGIC);
        bytes
    }

    pub(super) fn decode(id: u64, bytes: &[u8; FOOTER_BYTES]) -> Option<Self> {
        let whole = bytes[40..] == *END_MAGIC && read_u64(bytes, 32) == checksum(id, &bytes[..32]);
        whole.then(|| Self {
            index_place: read_u64(bytes, 0),
            entries: read_u64(bytes, 8),
            rows: read_u64(bytes, 16),
            index_sum: read_u64(bytes, 24),
        })
    }
}

pub(super) fn read_u64(bytes: &[u8], place: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[place..place + 8]);
    u64::from_le_bytes(eight)
}

pub(super) fn read_u32(bytes: &[u8], place: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[place..place + 4]);
    u32::from_le_bytes(four)
}
