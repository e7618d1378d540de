//! Reads groups back while others are written. Only durable ones.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::frames::Frames;
use super::segment::{fresh_spare_of, name_of, remove_if_there};
use super::{Group, LogError, failed};
use crate::embedded::disk::Disk;

/// A segment's place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) id: u64,
    pub(super) first_sequence: u64,
}

/// What the writer and its readers share.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// Oldest first.
    segments: Mutex<VecDeque<Placed>>,
    durable: AtomicU64,
    /// Where readers stopped, the latest last: who follows the log goes on from
    /// there, instead of walking through a segment of many MiB to find it.
    bookmarks: Mutex<VecDeque<Bookmark>>,
    /// Files that were segments, or are as large as one, and may become one.
    spares: Mutex<Vec<String>>,
    /// How much of the segment that is written to is left, in bytes, and how
    /// large it is.
    left: AtomicU64,
    active_bytes: AtomicU64,
}

/// The next segment's file is made when this part of the last one is used.
const SPARE_AFTER: u64 = 4;

/// Readers that are expected to go on where they stopped.
const BOOKMARKS_MAX: usize = 64;

/// Where a group begins, or will.
#[derive(Debug, Clone, Copy)]
struct Bookmark {
    segment: u64,
    sequence: u64,
    place: u64,
}

impl Directory {
    pub(super) fn new(segments: VecDeque<Placed>, durable: u64) -> Self {
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

    /// So much of the segment that is written to is left.
    pub(super) fn set_left(&self, left: u64, of: u64) {
        self.active_bytes.store(of, Ordering::Relaxed);
        self.left.store(left, Ordering::Relaxed);
    }

    fn bookmarks(&self) -> MutexGuard<'_, VecDeque<Bookmark>> {
        self.bookmarks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The closest place in a segment that is known, at or before a group.
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

    pub(super) fn segments(&self) -> MutexGuard<'_, VecDeque<Placed>> {
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
pub struct Reader {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: Arc<Directory>,
}

impl Reader {
    /// The last group that is durable; 0 when there is none.
    pub fn durable(&self) -> u64 {
        self.directory.durable()
    }

    /// The oldest group that can still be read.
    pub fn oldest(&self) -> u64 {
        let segments = self.directory.segments();
        segments.front().map_or(1, |first| first.first_sequence)
    }

    /// The last group that is not among the newest `bytes` of the log's files.
    pub fn unneeded_but_for(&self, bytes: u64) -> Result<u64, LogError> {
        let segments: Vec<Placed> = self.directory.segments().iter().copied().collect();
        let (mut kept, mut oldest_kept) = (0, None);
        for segment in segments.iter().rev() {
            // The newest is written to, and always kept.
            if let Some(first) = oldest_kept
                && kept >= bytes
            {
                return Ok(first - 1);
            }
            let file = self.disk.open(&name_of(segment.id));
            kept += file
                .and_then(|file| file.bytes())
                .map_err(failed("look at a segment"))?;
            oldest_kept = Some(segment.first_sequence);
        }
        Ok(0)
    }

    /// Whether it is time to make the file of the next segment, because whoever
    /// writes should not have to wait for that: the last one's id, if so.
    pub fn wants_spare(&self) -> Option<u64> {
        let directory = &*self.directory;
        let left = directory.left.load(Ordering::Relaxed);
        let of = directory.active_bytes.load(Ordering::Relaxed);
        let is_time = left < of - of / SPARE_AFTER && directory.spares().is_empty();
        let last = directory.segments().back().map(|last| last.id);
        last.filter(|_| is_time)
    }

    /// Makes a file that may become a segment. Should the log be opened anew
    /// meanwhile, it is removed with all others of its kind.
    pub fn make_spare(&self, last: u64, bytes: u64) -> Result<(), LogError> {
        let name = fresh_spare_of(last);
        let made = remove_if_there(&*self.disk, &name)
            .and_then(|()| self.disk.create(&name, bytes))
            .and_then(|mut file| file.sync());
        if let Err(error) = made {
            let _ = remove_if_there(&*self.disk, &name);
            return Err(LogError::NoSegment(error));
        }
        self.directory.spares().push(name);
        Ok(())
    }

    /// Hands the groups after `sequence` to `each`, oldest first, until it
    /// says to stop.
    pub fn each_after(
        &self,
        sequence: u64,
        mut each: impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), LogError> {
        let durable = self.durable();
        let segments: Vec<Placed> = self.directory.segments().iter().copied().collect();
        for (place, segment) in segments.iter().enumerate() {
            // What a later segment holds was written anew there.
            let end = segments
                .get(place + 1)
                .map_or(durable + 1, |next| next.first_sequence)
                .min(durable + 1);
            if end <= sequence + 1 {
                continue;
            }
            let file = self
                .disk
                .open(&name_of(segment.id))
                .map_err(failed("open a segment"))?;
            let (mut frames, mut next) = match self.directory.bookmark(segment.id, sequence + 1) {
                Some(mark) => (Frames::at(&*file, segment.id, mark.place), mark.sequence),
                None => (Frames::new(&*file, segment.id), segment.first_sequence),
            };
            // Where the group `next` begins.
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
            self.directory.remember(Bookmark {
                segment: segment.id,
                sequence: next,
                place,
            });
            if !goes_on {
                return Ok(());
            }
            if next < end {
                return Err(LogError::Corrupt {
                    segment: name_of(segment.id),
                    place: frames.place(),
                    what: format!("group {next} is damaged"),
                });
            }
        }
        Ok(())
    }

    /// Groups after `sequence`, oldest first, until their payloads exceed
    /// `bytes_max`; at least one where there is one.
    pub fn read(&self, sequence: u64, bytes_max: usize) -> Result<Vec<Group>, LogError> {
        let (mut groups, mut bytes) = (Vec::new(), 0);
        self.each_after(sequence, |sequence, payload| {
            bytes += payload.len();
            groups.push(Group {
                sequence,
                payload: payload.to_vec(),
            });
            bytes <= bytes_max
        })?;
        Ok(groups)
    }
}
