//! The log: the source of truth of the embedded engine. A group of records is
//! written once, synced once, and only then acknowledged.
//!
//! ```text
//!   log-0000000000000007.seg    header: version, id, first sequence
//!     group 41 ┐ each with its length, its sequence, the highest sequence that was
//!     group 42 ┘ durable when it was written, and a checksum over all of that, the
//!   log-0000000000000008.seg    payload and the segment's id
//! ```
//! **Contract.** A group whose [`Log::append`] returned is there after any
//! crash: complete, in its place, once. A group that failed may or may not be.
//! A failed write or sync poisons the log: it accepts nothing until it is
//! reopened, because the content of the disk is unknown.
//!
//! Opening ([`recover`]) serves nothing that is not durable: groups after the
//! last durable mark are copied into a new segment, which is synced first. A
//! segment is created under a draft name and renamed once it is on disk, so
//! there is never half a segment; on a nearly full disk it is as small as
//! possible. An invalid tail of the last segment is cut off; anything else that
//! is invalid stops the log with a diagnosis.

mod format;
mod frames;
mod reader;
mod recover;
mod segment;
mod survey;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;

use self::reader::SegmentStart;
use self::segment::{Segment, SegmentDraft};
use super::disk::{Disk, LostName};

pub use reader::LogReader;
pub use recover::{LogRecovery, files_after, first_sequence};
pub(super) use segment::probe;
pub use survey::{SegmentSurvey, survey};

/// Sizes of the log's files.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// Size of a segment.
    pub segment_bytes: u64,
    /// Size of the segment that opening creates: small, because the next start
    /// replaces most of them.
    pub first_segment_bytes: u64,
    /// Maximum payload of a group.
    pub group_bytes_max: u32,
    /// Number of obsolete segment files to keep for reuse, which saves filling
    /// new ones with zeros.
    pub spares_max: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            first_segment_bytes: 1 << 20,
            group_bytes_max: 32 << 20,
            spares_max: 4,
        }
    }
}

/// Why a log operation failed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk failed.
    #[error("{doing}")]
    Disk {
        /// The operation.
        doing: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// No segment can be created, for example because the disk is full. Nothing
    /// has changed: a retry is safe.
    #[error("create a segment")]
    NoSegment(#[source] io::Error),
    /// An earlier write or sync failed: reopen the log.
    #[error("an earlier write failed; the log must be reopened")]
    Poisoned,
    /// The content cannot result from a crash.
    #[error("{segment}, byte {place}: {what}")]
    Corrupt {
        /// The file.
        segment: String,
        /// The offset.
        place: u64,
        /// The damage.
        what: String,
    },
    /// The segment was removed or replaced under the running shard.
    #[error(transparent)]
    LostName(#[from] LostName),
    /// A group exceeds the maximum size.
    #[error("a group of {bytes} bytes exceeds the limit of {most}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        most: u32,
    },
}

impl LogError {
    /// Whether the log is damaged. A retry does not help.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }
}

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> LogError {
    move |source| LogError::Disk { doing, source }
}

/// A log that is open for appending.
pub struct Log {
    reader: LogReader,
    options: LogOptions,
    /// Earlier segments that a restart needs. They stay open, so that they can be
    /// written again if somebody removes them.
    earlier: VecDeque<Segment>,
    /// The segment that is written to.
    active: Segment,
    poisoned: bool,
}

/// One group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogGroup {
    /// Its sequence number.
    pub sequence: u64,
    /// Its records.
    pub payload: Vec<u8>,
}

impl Log {
    /// The last durable group; 0 if there is none.
    pub fn durable(&self) -> u64 {
        self.reader.durable()
    }

    /// Returns a reader, for use while the log is written.
    pub fn reader(&self) -> LogReader {
        self.reader.clone()
    }

    /// Writes a group and waits until it is durable; returns its sequence
    /// number.
    pub fn append(&mut self, payload: &[u8]) -> Result<u64, LogError> {
        if self.poisoned {
            return Err(LogError::Poisoned);
        }
        let most = self.options.group_bytes_max;
        if payload.len() > most as usize {
            return Err(LogError::TooLarge {
                bytes: payload.len(),
                most,
            });
        }
        let durable = self.durable();
        let sequence = durable + 1;
        if !self.active.has_room_for(payload.len()) {
            self.start_segment(sequence, payload.len())?;
        }
        if let Err(source) = self.active.append(sequence, durable, payload) {
            self.poisoned = true;
            return Err(failed("write a group")(source));
        }
        // What was written to a file without a name is not there after a restart.
        if let Err(lost) = self.active.check_name(&*self.reader.disk) {
            self.poisoned = true;
            return Err(lost.into());
        }
        let (left, of) = self.active.remaining();
        self.reader.index.set_remaining(left, of);
        self.reader.index.set_durable(sequence);
        Ok(sequence)
    }

    /// Continues in a new segment. If it cannot be created, nothing has
    /// changed; if it was created but its name may be lost, the log is
    /// poisoned.
    fn start_segment(&mut self, first_sequence: u64, payload: usize) -> Result<(), LogError> {
        let id = self.active.id() + 1;
        let draft = self.draft(id, first_sequence, payload);
        let draft = draft.map_err(LogError::NoSegment)?;
        match draft.publish(&*self.reader.disk) {
            Ok(segment) => {
                self.reader.index.segments().push_back(SegmentStart {
                    id,
                    first_sequence: segment.first_sequence(),
                });
                let finished = std::mem::replace(&mut self.active, segment);
                self.earlier.push_back(finished);
                Ok(())
            }
            Err(source) => {
                self.poisoned = true;
                Err(failed("rename a segment")(source))
            }
        }
    }

    /// Closes the files of segments that a restart does not need, because a
    /// checkpoint has everything up to `position`.
    pub(super) fn close_before(&mut self, position: u64) {
        let starts = |segment: &Segment| segment.first_sequence() <= position + 1;
        while self.earlier.get(1).map_or(starts(&self.active), starts)
            && self.earlier.pop_front().is_some()
        {}
    }

    /// Checks that the segments which a restart needs have their names.
    pub(super) fn check_names(&self) -> Result<(), LostName> {
        let mut segments = self.earlier.iter().chain([&self.active]);
        segments.try_for_each(|segment| segment.check_name(&*self.reader.disk))
    }

    /// Writes removed segments again.
    pub(super) fn restore_removed(&self) -> Result<(), LostName> {
        let mut segments = self.earlier.iter().chain([&self.active]);
        segments.try_for_each(|segment| segment.restore(&*self.reader.disk))
    }

    /// Creates a segment, from a spare file if there is one and the group fits.
    fn draft(&mut self, id: u64, first_sequence: u64, payload: usize) -> io::Result<SegmentDraft> {
        let disk = &*self.reader.disk;
        let (wanted, needed) = (self.options.segment_bytes, segment::bytes_for(payload));
        let mut spares = self.reader.index.spares();
        if needed <= wanted
            && let Some(spare) = spares.last()
        {
            let draft = Segment::draft_from(disk, spare, id, first_sequence)?;
            spares.pop();
            return Ok(draft);
        }
        drop(spares);
        Segment::draft(disk, id, first_sequence, wanted, needed)
    }

    /// Removes segments that hold only groups up to `sequence`, and keeps a few
    /// of their files for reuse.
    pub fn forget_up_to(&mut self, sequence: u64) -> Result<(), LogError> {
        let disk = self.reader.disk.clone();
        let mut spares = Vec::new();
        loop {
            let mut segments = self.reader.index.segments();
            let (Some(first), Some(next)) = (segments.front(), segments.get(1)) else {
                break;
            };
            if next.first_sequence > sequence + 1 {
                break;
            }
            let id = first.id;
            segments.pop_front();
            drop(segments);
            self.retire_segment(&*disk, id, &mut spares)
                .map_err(failed("remove a segment"))?;
        }
        disk.sync_names().map_err(failed("remove a segment"))?;
        // Only now: a file must not get another segment's header while its old
        // name can come back after a crash.
        self.reader.index.spares().extend(spares);
        Ok(())
    }

    fn retire_segment(&self, disk: &dyn Disk, id: u64, spares: &mut Vec<String>) -> io::Result<()> {
        let name = segment::file_name(id);
        let bytes = disk.open(&name)?.bytes()?;
        let spare_count = self.reader.index.spares().len();
        let needs_more = spare_count + spares.len() < self.options.spares_max;
        if needs_more && bytes == self.options.segment_bytes {
            let spare = segment::spare_name(id);
            disk.rename(&name, &spare)?;
            spares.push(spare);
            return Ok(());
        }
        disk.remove(&name)
    }
}
