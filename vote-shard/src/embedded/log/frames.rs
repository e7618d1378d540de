//! Iterates over a segment's groups without loading the whole segment.

use std::io;

use super::format::{ALIGN, FRAME_BYTES, Frame, HEADER_BYTES, frame_bytes};
use crate::embedded::disk::DiskFile;

/// Bytes per read.
const CHUNK: usize = 256 << 10;

pub(super) struct Frames<'a> {
    file: &'a dyn DiskFile,
    id: u64,
    /// Offset of the next group.
    place: u64,
    /// Bytes of the file from `buffered_from` on.
    buffer: Vec<u8>,
    buffered_from: u64,
}

impl<'a> Frames<'a> {
    /// Starts at the segment's first group.
    pub(super) fn new(file: &'a dyn DiskFile, id: u64) -> Self {
        let place = HEADER_BYTES.next_multiple_of(ALIGN) as u64;
        Self {
            file,
            id,
            place,
            buffer: Vec::new(),
            buffered_from: place,
        }
    }

    /// Starts at the group at offset `place`.
    pub(super) fn starting_at(file: &'a dyn DiskFile, id: u64, place: u64) -> Self {
        Self {
            place,
            buffered_from: place,
            ..Self::new(file, id)
        }
    }

    /// Offset of the next group.
    pub(super) fn place(&self) -> u64 {
        self.place
    }

    /// Returns the next group; `None` if no whole group follows.
    pub(super) fn next(&mut self) -> io::Result<Option<Frame<'_>>> {
        let head = self.bytes(FRAME_BYTES)?;
        let Some(length) = Frame::length_in(head) else {
            return Ok(None);
        };
        let id = self.id;
        // Two steps: the first borrow must end before `place` changes.
        if Frame::decode(id, self.bytes(FRAME_BYTES + length)?).is_none() {
            return Ok(None);
        }
        let start = (self.place - self.buffered_from) as usize;
        self.place += frame_bytes(length) as u64;
        Ok(Frame::decode_checked(&self.buffer[start..]))
    }

    /// Returns `count` bytes from the current offset, or fewer at the end of
    /// the file.
    fn bytes(&mut self, count: usize) -> io::Result<&[u8]> {
        let mut start = (self.place - self.buffered_from) as usize;
        if self.buffer.len() < start + count {
            self.buffer.drain(..start.min(self.buffer.len()));
            self.buffered_from = self.place;
            start = 0;
            let mut have = self.buffer.len();
            let rest = self.file.bytes()?.saturating_sub(self.place);
            let most = usize::try_from(rest).unwrap_or(usize::MAX);
            self.buffer.resize(count.max(CHUNK).min(most).max(have), 0);
            while have < self.buffer.len() {
                let from = self.buffered_from + have as u64;
                match self.file.read_at(from, &mut self.buffer[have..])? {
                    0 => break,
                    more => have += more,
                }
            }
            self.buffer.truncate(have);
        }
        let end = (start + count).min(self.buffer.len());
        Ok(&self.buffer[start.min(end)..end])
    }
}
