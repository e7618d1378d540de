//! One file of the log.

use std::io;

use super::format::{ALIGN, Frame, HEADER_BYTES, Header, frame_bytes};
use super::{Group, LogError, failed};
use crate::embedded::disk::{Disk, DiskFile, read_all};

const PREFIX: &str = "log-";
const SUFFIX: &str = ".seg";
/// What a segment is called before it is on disk.
pub(super) const DRAFT_SUFFIX: &str = ".seg.new";

/// A segment that is open.
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

fn name_of(id: u64) -> String {
    format!("{PREFIX}{id:016}{SUFFIX}")
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
    /// Makes a segment that is not yet seen.
    pub(super) fn draft(
        disk: &dyn Disk,
        id: u64,
        first_sequence: u64,
        bytes: u64,
    ) -> io::Result<Draft> {
        let name = draft_of(id);
        match disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let header = Header { id, first_sequence };
        let mut file = disk.create(&name, bytes)?;
        file.write_at(0, &header.encode())?;
        let end = HEADER_BYTES.next_multiple_of(ALIGN) as u64;
        Ok(Draft(Self {
            header,
            file,
            end,
            bytes,
        }))
    }

    /// Opens a segment; its end is where `end` says.
    pub(super) fn open(disk: &dyn Disk, header: Header, end: u64) -> io::Result<Self> {
        let file = disk.open(&name_of(header.id))?;
        let bytes = file.bytes()?;
        Ok(Self {
            header,
            file,
            end,
            bytes,
        })
    }

    pub(super) fn id(&self) -> u64 {
        self.header.id
    }

    pub(super) fn name(&self) -> String {
        name_of(self.header.id)
    }

    pub(super) fn first_sequence(&self) -> u64 {
        self.header.first_sequence
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

    /// The groups that were written here, in order.
    pub(super) fn groups(&self) -> impl Iterator<Item = Result<Group, LogError>> {
        let read = read_all(&*self.file).map_err(failed("read a segment"));
        let (id, end) = (
            self.header.id,
            usize::try_from(self.end).unwrap_or(usize::MAX),
        );
        let mut place = HEADER_BYTES.next_multiple_of(ALIGN);
        let (mut bytes, mut error) = match read {
            Ok(bytes) => (bytes, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        bytes.truncate(end);
        std::iter::from_fn(move || {
            if let Some(error) = error.take() {
                return Some(Err(error));
            }
            let (frame, length) = Frame::decode(id, bytes.get(place..)?)?;
            place += length;
            Some(Ok(Group {
                sequence: frame.sequence,
                payload: frame.payload.to_vec(),
            }))
        })
    }
}

impl Draft {
    /// Adds a group before the segment is seen.
    pub(super) fn write(&mut self, group: &Group, durable: u64) -> io::Result<()> {
        self.0.write(group.sequence, durable, &group.payload)
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
