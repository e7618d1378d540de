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
//! once it is on disk, so there is never half a segment. Of the last segment
//! an invalid tail is cut; anything else that is invalid stops the log with a
//! diagnosis.

mod format;
mod recover;
mod segment;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use self::segment::Segment;
use super::disk::Disk;

pub use recover::Recovered;

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
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            first_segment_bytes: 1 << 20,
            group_bytes_max: 32 << 20,
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

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> LogError {
    move |source| LogError::Disk { doing, source }
}

/// A log that is open for appending.
pub struct Log {
    disk: Arc<dyn Disk>,
    options: Options,
    /// All segments, oldest first; the last one is written to.
    segments: Vec<Segment>,
    /// The last group that is durable.
    durable: u64,
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
        self.durable
    }

    /// The oldest group that can still be read.
    pub fn oldest(&self) -> u64 {
        self.segments.first().map_or(1, Segment::first_sequence)
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
        let sequence = self.durable + 1;
        if !self.active().has_room_for(payload.len()) {
            self.roll(sequence, payload.len())?;
        }
        let durable = self.durable;
        let written = self.active().append(sequence, durable, payload);
        if let Err(source) = written {
            self.poisoned = true;
            return Err(failed("write a group")(source));
        }
        self.durable = sequence;
        Ok(sequence)
    }

    fn active(&mut self) -> &mut Segment {
        // Opening made one, and only whole segments before it are removed.
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    /// Goes on in a new segment. Nothing has changed when it cannot be made;
    /// when it was made and its name may be lost, the log is poisoned.
    fn roll(&mut self, first_sequence: u64, payload: usize) -> Result<(), LogError> {
        let id = self.active().id() + 1;
        let bytes = self.options.segment_bytes.max(segment::bytes_for(payload));
        let draft = Segment::draft(&*self.disk, id, first_sequence, bytes)
            .map_err(failed("make a segment"))?;
        match draft.publish(&*self.disk) {
            Ok(segment) => {
                self.segments.push(segment);
                Ok(())
            }
            Err(source) => {
                self.poisoned = true;
                Err(failed("name a segment")(source))
            }
        }
    }

    /// Groups after `sequence`, oldest first, until their payloads exceed
    /// `bytes_max`; at least one where there is one.
    pub fn read(&self, sequence: u64, bytes_max: usize) -> Result<Vec<Group>, LogError> {
        let mut groups = Vec::new();
        let mut bytes = 0;
        for (place, segment) in self.segments.iter().enumerate() {
            let end = self
                .segments
                .get(place + 1)
                .map_or(self.durable + 1, Segment::first_sequence);
            if end <= sequence + 1 {
                continue;
            }
            for group in segment.groups() {
                let group = group?;
                if group.sequence >= end || bytes > bytes_max {
                    break;
                }
                if group.sequence > sequence {
                    bytes += group.payload.len();
                    groups.push(group);
                }
            }
            if bytes > bytes_max {
                break;
            }
        }
        Ok(groups)
    }

    /// Removes segments that hold only groups up to `sequence`.
    pub fn forget_up_to(&mut self, sequence: u64) -> Result<(), LogError> {
        while self.segments.len() > 1 && self.segments[1].first_sequence() <= sequence + 1 {
            self.disk
                .remove(&self.segments[0].name())
                .map_err(failed("remove a segment"))?;
            self.segments.remove(0);
        }
        self.disk.sync_names().map_err(failed("remove a segment"))
    }
}
