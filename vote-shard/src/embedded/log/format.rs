//! The format: a segment's header and a group's frame. Version 1.
//!
//! ```text
//!   segment header, 40 bytes          group frame, 40 bytes + payload
//!     8  "BALLASTL"                     4  "BGRP"
//!     4  version                        4  payload length
//!     4  zero                           8  sequence
//!     8  segment id                     8  durable: the highest durable sequence
//!     8  first sequence                    when this was written
//!     8  checksum of the above          8  zero
//!                                       8  checksum of the above and the payload,
//!                                          seeded with the segment's id
//! ```
//! Numbers are little-endian; frames start at multiples of 8.

use crate::embedded::faults::{self, Fault};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

const SEGMENT_MAGIC: &[u8; 8] = b"BALLASTL";
const GROUP_MAGIC: &[u8; 4] = b"BGRP";
/// The version that this program reads and writes.
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 40;
pub(super) const FRAME_BYTES: usize = 40;
/// Alignment of frames.
pub(super) const ALIGN: usize = 8;
const HEADER_SEED: u64 = 0x6261_6c6c_6173_7421;

/// A segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: u64,
    pub(super) first_sequence: u64,
}

/// Why a segment's header cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadHeader {
    /// A newer program wrote it.
    Version(u32),
    /// It is damaged.
    Damaged,
}

impl Header {
    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_sequence.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[..32], HEADER_SEED);
        bytes[32..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let bytes = bytes.get(..HEADER_BYTES).ok_or(BadHeader::Damaged)?;
        let sum = xxh3_64_with_seed(&bytes[..32], HEADER_SEED);
        if bytes[..8] != *SEGMENT_MAGIC || read_u64(bytes, 32) != sum {
            return Err(BadHeader::Damaged);
        }
        match read_u32(bytes, 8) {
            VERSION => Ok(Self {
                id: read_u64(bytes, 16),
                first_sequence: read_u64(bytes, 24),
            }),
            other => Err(BadHeader::Version(other)),
        }
    }
}

/// A group in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) sequence: u64,
    pub(super) durable: u64,
    pub(super) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Encodes this group for the segment `id`.
    pub(super) fn encode(&self, id: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(frame_bytes(self.payload.len()));
        bytes.extend_from_slice(GROUP_MAGIC);
        bytes.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.durable.to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        let sum = checksum(id, &bytes, self.payload);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(self.payload);
        bytes.resize(frame_bytes(self.payload.len()), 0);
        bytes
    }

    /// The payload length of the group that these bytes seem to start with.
    pub(super) fn length_in(head: &[u8]) -> Option<usize> {
        let head = head.get(..FRAME_BYTES)?;
        (head[..4] == *GROUP_MAGIC).then(|| read_u32(head, 4) as usize)
    }

    /// Decodes a group whose checksum has been verified.
    pub(super) fn decode_checked(bytes: &'a [u8]) -> Option<Self> {
        let length = Self::length_in(bytes)?;
        Some(Self {
            sequence: read_u64(bytes, 8),
            durable: read_u64(bytes, 16),
            payload: bytes.get(FRAME_BYTES..FRAME_BYTES + length)?,
        })
    }

    /// Decodes the group at the start of these bytes of the segment `id`, and
    /// returns its length; `None` if there is no whole group.
    pub(super) fn decode(id: u64, bytes: &'a [u8]) -> Option<(Self, usize)> {
        let head = bytes.get(..FRAME_BYTES)?;
        let frame = Self::decode_checked(bytes)?;
        let fits = read_u64(head, 32) == checksum(id, &head[..32], frame.payload);
        if !fits && !faults::is_planted(Fault::TornAccepted) {
            return None;
        }
        let length = frame_bytes(frame.payload.len());
        Some((frame, length.min(bytes.len())))
    }
}

/// The size of a group with this payload.
pub(super) fn frame_bytes(payload: usize) -> usize {
    (FRAME_BYTES + payload).next_multiple_of(ALIGN)
}

fn checksum(id: u64, head: &[u8], payload: &[u8]) -> u64 {
    let mut hash = Xxh3::with_seed(id);
    hash.update(head);
    hash.update(payload);
    hash.digest()
}

fn read_u64(bytes: &[u8], place: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[place..place + 8]);
    u64::from_le_bytes(eight)
}

fn read_u32(bytes: &[u8], place: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[place..place + 4]);
    u32::from_le_bytes(four)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_format_is_pinned() {
        // Golden bytes: a change is a change of the format, and needs a new
        // version.
        let header = Header {
            id: 7,
            first_sequence: 42,
        };
        assert_eq!(
            hex(&header.encode()),
            "42414c4c4153544c010000000000000007000000000000002a00000000000000d48781746663daa4"
        );
        let frame = Frame {
            sequence: 42,
            durable: 41,
            payload: b"vote",
        };
        assert_eq!(
            hex(&frame.encode(7)),
            "42475250040000002a0000000000000029000000000000000000000000000000d5ebc49b85bfca4c766f746500000000"
        );
        assert_eq!(Header::decode(&header.encode()), Ok(header));
        assert_eq!(Frame::decode(7, &frame.encode(7)), Some((frame, 48)));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let frame = Frame {
            sequence: 1,
            durable: 0,
            payload: b"payload",
        };
        let good = frame.encode(3);
        for place in 0..FRAME_BYTES + 7 {
            let mut bad = good.clone();
            bad[place] ^= 1;
            assert_eq!(Frame::decode(3, &bad), None, "byte {place}");
        }
        assert_eq!(Frame::decode(4, &good), None, "a group of another segment");
        let header = Header {
            id: 1,
            first_sequence: 1,
        }
        .encode();
        for place in (0..HEADER_BYTES).filter(|place| !(12..16).contains(place)) {
            let mut bad = header;
            bad[place] ^= 1;
            assert!(Header::decode(&bad).is_err(), "byte {place}");
        }
    }
}
