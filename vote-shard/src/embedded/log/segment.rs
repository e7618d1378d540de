//! One file of the log.

use std::io;

use super::LogError;
use super::format::{ALIGN, Frame, HEADER_BYTES, Header, frame_bytes};
use crate::embedded::disk::{self, Disk, DiskFile, DiskFileId, LostName};

const PREFIX: &str = "log-";
const SUFFIX: &str = ".seg";
/// File suffix before the rename.
pub(super) const DRAFT_SUFFIX: &str = ".seg.new";
/// File suffix of a spare: a file of segment size, so that reusing it needs no
/// free space. Its content belongs to another id, so no group in it is valid.
pub(super) const SPARE_SUFFIX: &str = ".seg.old";

/// An open segment.
pub(super) struct Segment {
    header: Header,
    file: Box<dyn DiskFile>,
    file_id: DiskFileId,
    /// Offset of the next group.
    end: u64,
    bytes: u64,
}

/// A segment under its draft name.
pub(super) struct SegmentDraft(Segment);

/// The size of a segment that fits one group of this payload.
pub(super) fn bytes_for(payload: usize) -> u64 {
    (HEADER_BYTES.next_multiple_of(ALIGN) + frame_bytes(payload)) as u64
}

pub(super) fn file_name(id: u64) -> String {
    format!("{PREFIX}{id:016}{SUFFIX}")
}

pub(super) fn spare_name(id: u64) -> String {
    format!("{PREFIX}{id:016}{SPARE_SUFFIX}")
}

/// The name of a new spare, created while the segment `id` was written.
pub(super) fn fresh_spare_name(id: u64) -> String {
    format!("{PREFIX}{id:016}.next{SPARE_SUFFIX}")
}

fn draft_name(id: u64) -> String {
    format!("{PREFIX}{id:016}{DRAFT_SUFFIX}")
}

/// The id in a segment's file name.
pub(super) fn id_in(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    digits.parse().ok().filter(|id| file_name(*id) == name)
}

impl Segment {
    /// Creates a draft of the wanted size; on a nearly full disk a smaller one,
    /// of at least the needed size.
    pub(super) fn draft(
        disk: &dyn Disk,
        id: u64,
        first_sequence: u64,
        wanted: u64,
        needed: u64,
    ) -> io::Result<SegmentDraft> {
        let name = draft_name(id);
        let mut bytes = wanted.max(needed);
        loop {
            remove_if_there(disk, &name)?;
            match disk.create(&name, bytes) {
                Err(error) if is_full(&error) && bytes > needed => {
                    bytes = (bytes / 2).max(needed);
                }
                made => return Self::init_draft(made?, id, first_sequence),
            }
        }
    }

    /// Creates a draft from a spare file. On failure the spare keeps its name.
    pub(super) fn draft_from(
        disk: &dyn Disk,
        spare: &str,
        id: u64,
        first_sequence: u64,
    ) -> io::Result<SegmentDraft> {
        let draft = Self::init_draft(disk.open(spare)?, id, first_sequence)?;
        disk.rename(spare, &draft_name(id))?;
        Ok(draft)
    }

    fn init_draft(
        mut file: Box<dyn DiskFile>,
        id: u64,
        first_sequence: u64,
    ) -> io::Result<SegmentDraft> {
        let header = Header { id, first_sequence };
        file.write_at(0, &header.encode())?;
        let end = HEADER_BYTES.next_multiple_of(ALIGN) as u64;
        Ok(SegmentDraft(Self {
            header,
            file_id: file.id()?,
            bytes: file.bytes()?,
            file,
            end,
        }))
    }

    /// Opens a segment that is no longer written to.
    pub(super) fn open_finished(disk: &dyn Disk, header: Header) -> io::Result<Self> {
        let file = disk.open(&file_name(header.id))?;
        let bytes = file.bytes()?;
        Ok(Self {
            header,
            file_id: file.id()?,
            file,
            end: bytes,
            bytes,
        })
    }

    /// Checks that its name leads to it.
    pub(super) fn check_name(&self, disk: &dyn Disk) -> Result<(), LostName> {
        disk::check_name(disk, &file_name(self.id()), self.file_id)
    }

    /// Writes it again if it was removed.
    pub(super) fn restore(&self, disk: &dyn Disk) -> Result<(), LostName> {
        disk::restore_name(disk, &file_name(self.id()), self.file_id, &*self.file)
    }

    pub(super) fn id(&self) -> u64 {
        self.header.id
    }

    pub(super) fn first_sequence(&self) -> u64 {
        self.header.first_sequence
    }

    /// Its free bytes and its size.
    pub(super) fn remaining(&self) -> (u64, u64) {
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

/// Checks whether a segment of this size can be created.
pub(in crate::embedded) fn probe(disk: &dyn Disk, bytes: u64) -> Result<(), LogError> {
    let draft = Segment::draft(disk, 0, 0, 0, bytes.max(bytes_for(0)));
    let tried = draft.and_then(|_| disk.remove(&draft_name(0)));
    tried.map_err(LogError::NoSegment)
}

/// Whether the disk is full; a smaller file may fit.
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

impl SegmentDraft {
    /// Adds a group to the draft.
    pub(super) fn write(&mut self, sequence: u64, durable: u64, payload: &[u8]) -> io::Result<()> {
        self.0.write(sequence, durable, payload)
    }

    /// Syncs the segment and renames it durably.
    pub(super) fn publish(mut self, disk: &dyn Disk) -> io::Result<Segment> {
        let id = self.0.header.id;
        self.0.file.sync()?;
        disk.rename(&draft_name(id), &file_name(id))?;
        disk.sync_names()?;
        Ok(self.0)
    }
}
