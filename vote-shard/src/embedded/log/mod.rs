//! The log: the truth of the embedded engine. Groups of records, each group
//! written once, synced once, and acknowledged only then.
//!
//! ```text
//!   log-0000000000000007.seg    header: version, id, first sequence
//!     group 41 ┐ each with its length, its sequence, the highest sequence
//!     group 42 ┘ known durable when it was written, and a checksum over all
//!   log-0000000000000008.seg    of that, the payload and the segment's id
//! ```
//! **Contract.** A group whose [`Log::append`] returned is there after any
//! crash, whole, in its place, once. A group that failed may or may not be. A
//! failed write or sync poisons the log: it takes nothing more until it is
//! opened anew, because nobody knows what is on the disk.
//!
//! Opening ([`recover`]) serves nothing that is not durable: groups after the
//! last durable mark are copied into a new segment, which is synced first. A
//! segment comes into being under another name and gets its own by a rename
//! once it is on disk, so there is never half a segment; on a disk that is
//! nearly full it is as small as need be. Of the last segment
//! an invalid tail is cut; anything else that is invalid stops the log with a
//! diagnosis.

mod format;
mod frames;
mod reader;
mod recover;
mod segment;
mod survey;
#[cfg(test)]
mod tests;

use std::io;

use self::reader::Placed;
use self::segment::{Draft, Segment};
use super::disk::Disk;

pub use reader::Reader;
pub use recover::{Recovered, files_after, first_sequence};
pub(super) use segment::probe;
pub use survey::{Surveyed, survey};

/// How large segments are, and where reading begins.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The size of a segment that is written to.
    pub segment_bytes: u64,
    /// The size of the segment that opening makes: small, because most of
    /// them are left behind by the next start.
    pub first_segment_bytes: u64,
    /// The largest payload of one group.
    pub group_bytes_max: u32,
    /// Files of segments that are no longer needed and are kept to be written
    /// to again, which saves filling new ones with zeros.
    pub spares_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            first_segment_bytes: 1 << 20,
            group_bytes_max: 32 << 20,
            spares_max: 4,
        }
    }
}

/// Why the log cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk failed.
    #[error("{doing}")]
    Disk {
        /// What was being done.
        doing: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// There is no room for another segment, or none can be made. Nothing has
    /// changed: the same may be tried again.
    #[error("make a segment")]
    NoSegment(#[source] io::Error),
    /// A write or sync failed earlier: open the log anew.
    #[error("an earlier write failed; the log must be opened anew")]
    Poisoned,
    /// What is on the disk cannot have been written by a log that crashed.
    #[error("{segment}, byte {place}: {what}")]
    Corrupt {
        /// Which file.
        segment: String,
        /// Where in it.
        place: u64,
        /// What is wrong.
        what: String,
    },
    /// A group is larger than it may be.
    #[error("a group of {bytes} bytes is larger than {most}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The most it may be.
        most: u32,
    },
}

impl LogError {
    /// Whether what is stored is not what was written: that does not pass.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }
}

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> LogError {
    move |source| LogError::Disk { doing, source }
}

/// A log that is open for appending.
pub struct Log {
    reader: Reader,
    options: Options,
    /// The segment that is written to.
    active: Segment,
    poisoned: bool,
}

/// One group read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its place in the order of all groups.
    pub sequence: u64,
    /// What was written.
    pub payload: Vec<u8>,
}

impl Log {
    /// The last group that is durable; 0 when there is none.
    pub fn durable(&self) -> u64 {
        self.reader.durable()
    }

    /// Reads this log while it is written.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Writes a group and waits until it is durable; returns its sequence.
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
            self.roll(sequence, payload.len())?;
        }
        if let Err(source) = self.active.append(sequence, durable, payload) {
            self.poisoned = true;
            return Err(failed("write a group")(source));
        }
        let (left, of) = self.active.left();
        self.reader.directory.set_left(left, of);
        self.reader.directory.set_durable(sequence);
        Ok(sequence)
    }

    /// Goes on in a new segment. Nothing has changed when it cannot be made;
    /// when it was made and its name may be lost, the log is poisoned.
    fn roll(&mut self, first_sequence: u64, payload: usize) -> Result<(), LogError> {
        let id = self.active.id() + 1;
        let draft = self.draft(id, first_sequence, payload);
        let draft = draft.map_err(LogError::NoSegment)?;
        match draft.publish(&*self.reader.disk) {
            Ok(segment) => {
                self.reader.directory.segments().push_back(Placed {
                    id,
                    first_sequence: segment.first_sequence(),
                });
                self.active = segment;
                Ok(())
            }
            Err(source) => {
                self.poisoned = true;
                Err(failed("name a segment")(source))
            }
        }
    }

    /// A new segment, out of a spare file if there is one and the group fits.
    fn draft(&mut self, id: u64, first_sequence: u64, payload: usize) -> io::Result<Draft> {
        let disk = &*self.reader.disk;
        let (wanted, needed) = (self.options.segment_bytes, segment::bytes_for(payload));
        let mut spares = self.reader.directory.spares();
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

    /// Gives up segments that hold only groups up to `sequence`. A few of
    /// their files are kept to be written to again.
    pub fn forget_up_to(&mut self, sequence: u64) -> Result<(), LogError> {
        let disk = self.reader.disk.clone();
        let mut spares = Vec::new();
        loop {
            let mut segments = self.reader.directory.segments();
            let (Some(first), Some(next)) = (segments.front(), segments.get(1)) else {
                break;
            };
            if next.first_sequence > sequence + 1 {
                break;
            }
            let id = first.id;
            segments.pop_front();
            drop(segments);
            self.give_up(&*disk, id, &mut spares)
                .map_err(failed("remove a segment"))?;
        }
        disk.sync_names().map_err(failed("remove a segment"))?;
        // Only now: before its old name is gone for good, a file must not get
        // another segment's header.
        self.reader.directory.spares().extend(spares);
        Ok(())
    }

    fn give_up(&self, disk: &dyn Disk, id: u64, spares: &mut Vec<String>) -> io::Result<()> {
        let name = segment::name_of(id);
        let bytes = disk.open(&name)?.bytes()?;
        let kept = self.reader.directory.spares().len();
        let few = kept + spares.len() < self.options.spares_max;
        if few && bytes == self.options.segment_bytes {
            let spare = segment::spare_of(id);
            disk.rename(&name, &spare)?;
            spares.push(spare);
            return Ok(());
        }
        disk.remove(&name)
    }
}
