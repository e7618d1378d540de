//! Reads durable groups while others are written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::frames::Frames;
use super::segment::{file_name, fresh_spare_name, remove_if_there};
use super::{LogError, LogGroup, failed};
use crate::embedded::disk::Disk;

/// A segment's id and its first group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentStart {
    pub(super) id: u64,
    pub(super) first_sequence: u64,
}

/// What the writer and its readers share.
#[derive(Debug, Default)]
pub(super) struct LogIndex {
    /// Oldest first.
    segments: Mutex<VecDeque<SegmentStart>>,
    durable: AtomicU64,
    /// Positions where readers stopped, the latest at the end: a follower
    /// continues there instead of scanning a segment of many MiB.
    bookmarks: Mutex<VecDeque<Bookmark>>,
    /// Spare files of segment size.
    spares: Mutex<Vec<String>>,
    /// Free bytes and size of the segment that is written to.
    left: AtomicU64,
    active_bytes: AtomicU64,
}

/// The next segment's file is created when this fraction of the current one is
/// used.
const SPARE_AFTER: u64 = 4;

/// Number of readers to keep positions for.
const BOOKMARKS_MAX: usize = 64;

/// The offset of a group that exists or comes next.
#[derive(Debug, Clone, Copy)]
struct Bookmark {
    segment: u64,
    sequence: u64,
    place: u64,
}

impl LogIndex {
    pub(super) fn new(segments: VecDeque<SegmentStart>, durable: u64) -> Self {
        Self {
            segments: Mutex::new(segments),
            durable: durable.into(),
            bookmarks: Mutex::default(),
            spares: Mutex::default(),
            left: u64::MAX.into(),
            active_bytes: 0.into(),
        }
    }

    pub(super) fn spares(&self) -> MutexGuard<'_, Vec<String>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the free bytes of the segment that is written to.
    pub(super) fn set_remaining(&self, left: u64, of: u64) {
        self.active_bytes.store(of, Ordering::Relaxed);
        self.left.store(left, Ordering::Relaxed);
    }

    fn bookmarks(&self) -> MutexGuard<'_, VecDeque<Bookmark>> {
        self.bookmarks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The closest known position in a segment, at or before a group.
    fn bookmark(&self, segment: u64, sequence: u64) -> Option<Bookmark> {
        let bookmarks = self.bookmarks();
        let before = |mark: &&Bookmark| mark.segment == segment && mark.sequence <= sequence;
        let before = bookmarks.iter().filter(before);
        before.max_by_key(|mark| mark.sequence).copied()
    }

    fn remember(&self, mark: Bookmark) {
        let mut bookmarks = self.bookmarks();
        let same = |old: &Bookmark| old.segment == mark.segment && old.sequence == mark.sequence;
        bookmarks.retain(|old| !same(old));
        if bookmarks.len() >= BOOKMARKS_MAX {
            bookmarks.pop_front();
        }
        bookmarks.push_back(mark);
    }

    pub(super) fn segments(&self) -> MutexGuard<'_, VecDeque<SegmentStart>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(super) fn set_durable(&self, sequence: u64) {
        self.durable.store(sequence, Ordering::Release);
    }
}

/// Reads a log. Cheap to clone.
#[derive(Clone)]
pub struct LogReader {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) index: Arc<LogIndex>,
}

impl LogReader {
    /// The last durable group; 0 if there is none.
    pub fn durable(&self) -> u64 {
        self.index.durable()
    }

    /// The oldest readable group.
    pub fn oldest(&self) -> u64 {
        let segments = self.index.segments();
        segments.front().map_or(1, |first| first.first_sequence)
    }

    /// The last group that is not in the newest `bytes` of the log's files.
    pub fn last_unneeded(&self, bytes: u64) -> Result<u64, LogError> {
        let segments: Vec<SegmentStart> = self.index.segments().iter().copied().collect();
        let (mut kept_bytes, mut oldest_kept) = (0, None);
        for segment in segments.iter().rev() {
            // The newest segment is in use, and always stays.
            if let Some(first) = oldest_kept
                && kept_bytes >= bytes
            {
                return Ok(first - 1);
            }
            let file = self.disk.open(&file_name(segment.id));
            kept_bytes += file
                .and_then(|file| file.bytes())
                .map_err(failed("read the size of a segment"))?;
            oldest_kept = Some(segment.first_sequence);
        }
        Ok(0)
    }

    /// Returns the last segment's id if it is time to create the next one's
    /// file, so that the writer does not have to wait for it.
    pub fn needs_spare(&self) -> Option<u64> {
        let index = &*self.index;
        let left = index.left.load(Ordering::Relaxed);
        let of = index.active_bytes.load(Ordering::Relaxed);
        let is_time = left < of - of / SPARE_AFTER && index.spares().is_empty();
        let last = index.segments().back().map(|last| last.id);
        last.filter(|_| is_time)
    }

    /// Creates a spare file. If the log is reopened meanwhile, that removes it
    /// with all other spares.
    pub fn make_spare(&self, last: u64, bytes: u64) -> Result<(), LogError> {
        let name = fresh_spare_name(last);
        let made = remove_if_there(&*self.disk, &name)
            .and_then(|()| self.disk.create(&name, bytes))
            .and_then(|mut file| file.sync());
        if let Err(error) = made {
            let _ = remove_if_there(&*self.disk, &name);
            return Err(LogError::NoSegment(error));
        }
        self.index.spares().push(name);
        Ok(())
    }

    /// Passes the groups after `sequence` to `each`, oldest first, until it
    /// returns `false`.
    pub fn each_after(
        &self,
        sequence: u64,
        mut each: impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), LogError> {
        let durable = self.durable();
        let segments: Vec<SegmentStart> = self.index.segments().iter().copied().collect();
        for (place, segment) in segments.iter().enumerate() {
            // A later segment has its own copy of these groups.
            let end = segments
                .get(place + 1)
                .map_or(durable + 1, |next| next.first_sequence)
                .min(durable + 1);
            if end <= sequence + 1 {
                continue;
            }
            let file = self
                .disk
                .open(&file_name(segment.id))
                .map_err(failed("open a segment"))?;
            let (mut frames, mut next) = match self.index.bookmark(segment.id, sequence + 1) {
                Some(mark) => (
                    Frames::starting_at(&*file, segment.id, mark.place),
                    mark.sequence,
                ),
                None => (Frames::new(&*file, segment.id), segment.first_sequence),
            };
            // Offset of the group `next`.
            let mut place = frames.place();
            let mut goes_on = true;
            while goes_on
                && let Some(frame) = frames.next().map_err(failed("read a segment"))?
                && frame.sequence < end
            {
                next = frame.sequence + 1;
                goes_on = frame.sequence <= sequence || each(frame.sequence, frame.payload);
                place = frames.place();
            }
            self.index.remember(Bookmark {
                segment: segment.id,
                sequence: next,
                place,
            });
            if !goes_on {
                return Ok(());
            }
            if next < end {
                return Err(LogError::Corrupt {
                    segment: file_name(segment.id),
                    place: frames.place(),
                    what: format!("group {next} is damaged"),
                });
            }
        }
        Ok(())
    }

    /// Returns groups after `sequence`, oldest first, until their payloads
    /// exceed `bytes_max`; at least one if there is any.
    pub fn read(&self, sequence: u64, bytes_max: usize) -> Result<Vec<LogGroup>, LogError> {
        let (mut groups, mut bytes) = (Vec::new(), 0);
        self.each_after(sequence, |sequence, payload| {
            bytes += payload.len();
            groups.push(LogGroup {
                sequence,
                payload: payload.to_vec(),
            });
            bytes <= bytes_max
        })?;
        Ok(groups)
    }
}
