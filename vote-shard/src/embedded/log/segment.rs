//! One file of the log.

use std::io;

use super::LogError;
use super::format::{ALIGN, Frame, HEADER_BYTES, Header, frame_bytes};
use crate::embedded::disk::{Disk, DiskFile};

const PREFIX: &str = "log-";
const SUFFIX: &str = ".seg";
/// What a segment is called before it is on disk.
pub(super) const DRAFT_SUFFIX: &str = ".seg.new";
/// A file that was a segment and may become another: its room is known to be
/// there. What is in it belongs to another id, so no group in it is valid.
pub(super) const SPARE_SUFFIX: &str = ".seg.old";

/// The segment that is written to.
pub(super) struct Segment {
    header: Header,
    file: Box<dyn DiskFile>,
    /// Where the next group goes.
    end: u64,
    bytes: u64,
}

/// A segment that is on disk and has no name yet.
pub(super) struct Draft(Segment);

/// How large a segment must be for one group of this payload.
pub(super) fn bytes_for(payload: usize) -> u64 {
    (HEADER_BYTES.next_multiple_of(ALIGN) + frame_bytes(payload)) as u64
}

pub(super) fn name_of(id: u64) -> String {
    format!("{PREFIX}{id:016}{SUFFIX}")
}

pub(super) fn spare_of(id: u64) -> String {
    format!("{PREFIX}{id:016}{SPARE_SUFFIX}")
}

/// A spare that never was a segment, made while this one was written to.
pub(super) fn fresh_spare_of(id: u64) -> String {
    format!("{PREFIX}{id:016}.next{SPARE_SUFFIX}")
}

fn draft_of(id: u64) -> String {
    format!("{PREFIX}{id:016}{DRAFT_SUFFIX}")
}

/// The id in a segment's name.
pub(super) fn id_in(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    digits.parse().ok().filter(|id| name_of(*id) == name)
}

impl Segment {
    /// Makes a segment that is not yet seen, of the size that is wanted; on a
    /// disk that is nearly full a smaller one, as long as it has the bytes
    /// that are needed.
    pub(super) fn draft(
        disk: &dyn Disk,
        id: u64,
        first_sequence: u64,
        wanted: u64,
        needed: u64,
    ) -> io::Result<Draft> {
        let name = draft_of(id);
        let mut bytes = wanted.max(needed);
        loop {
            remove_if_there(disk, &name)?;
            match disk.create(&name, bytes) {
                Err(error) if is_full(&error) && bytes > needed => {
                    bytes = (bytes / 2).max(needed);
                }
                made => return Self::begun(made?, id, first_sequence),
            }
        }
    }

    /// Makes a segment that is not yet seen out of a file that was one. When
    /// that fails the file is still there under its name.
    pub(super) fn draft_from(
        disk: &dyn Disk,
        spare: &str,
        id: u64,
        first_sequence: u64,
    ) -> io::Result<Draft> {
        let draft = Self::begun(disk.open(spare)?, id, first_sequence)?;
        disk.rename(spare, &draft_of(id))?;
        Ok(draft)
    }

    fn begun(mut file: Box<dyn DiskFile>, id: u64, first_sequence: u64) -> io::Result<Draft> {
        let header = Header { id, first_sequence };
        file.write_at(0, &header.encode())?;
        let bytes = file.bytes()?;
        let end = HEADER_BYTES.next_multiple_of(ALIGN) as u64;
        Ok(Draft(Self {
            header,
            file,
            end,
            bytes,
        }))
    }

    pub(super) fn id(&self) -> u64 {
        self.header.id
    }

    pub(super) fn first_sequence(&self) -> u64 {
        self.header.first_sequence
    }

    /// How much of it is left, and how large it is.
    pub(super) fn left(&self) -> (u64, u64) {
        (self.bytes.saturating_sub(self.end), self.bytes)
    }

    pub(super) fn has_room_for(&self, payload: usize) -> bool {
        self.end + frame_bytes(payload) as u64 <= self.bytes
    }

    /// Writes a group and syncs it.
    pub(super) fn append(&mut self, sequence: u64, durable: u64, payload: &[u8]) -> io::Result<()> {
        self.write(sequence, durable, payload)?;
        self.file.sync()
    }

    fn write(&mut self, sequence: u64, durable: u64, payload: &[u8]) -> io::Result<()> {
        let frame = Frame {
            sequence,
            durable,
            payload,
        }
        .encode(self.header.id);
        self.file.write_at(self.end, &frame)?;
        self.end += frame.len() as u64;
        Ok(())
    }
}

/// Whether a segment of this size could be made.
pub(in crate::embedded) fn probe(disk: &dyn Disk, bytes: u64) -> Result<(), LogError> {
    let draft = Segment::draft(disk, 0, 0, 0, bytes.max(bytes_for(0)));
    let tried = draft.and_then(|_| disk.remove(&draft_of(0)));
    tried.map_err(LogError::NoSegment)
}

/// Whether there was no room; a smaller file may find some.
fn is_full(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::StorageFull || kind == io::ErrorKind::QuotaExceeded
}

pub(super) fn remove_if_there(disk: &dyn Disk, name: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Draft {
    /// Adds a group before the segment is seen.
    pub(super) fn write(&mut self, sequence: u64, durable: u64, payload: &[u8]) -> io::Result<()> {
        self.0.write(sequence, durable, payload)
    }

    /// Syncs the segment and gives it its name, durably.
    pub(super) fn publish(mut self, disk: &dyn Disk) -> io::Result<Segment> {
        let id = self.0.header.id;
        self.0.file.sync()?;
        disk.rename(&draft_of(id), &name_of(id))?;
        disk.sync_names()?;
        Ok(self.0)
    }
}
