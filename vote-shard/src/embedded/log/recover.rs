//! Opens a log after a crash.
//!
//! ```text
//!   drafts ──► removed            segments ──► checked, oldest to newest
//!   last segment: groups up to the durable mark │ tail after it
//!   new segment: a copy of the tail, synced ──► now it may be served
//! ```
//! The tail is copied because it may be in the page cache and not on the disk:
//! the process was killed, or a failed sync was forgotten. Syncing the old file
//! again would prove nothing.
//!
//! Segments with only obsolete groups are not read.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::format::{ALIGN, BadHeader, Frame, HEADER_BYTES, Header, VERSION, frame_bytes};
use super::frames::Frames;
use super::reader::{LogIndex, LogReader, SegmentStart};
use super::segment::{self, DRAFT_SUFFIX, SPARE_SUFFIX, Segment, file_name};
use super::{Log, LogError, LogGroup, LogOptions, failed};
use crate::embedded::disk::{Disk, DiskFile, read_all};

/// What opening found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogRecovery {
    /// The last group; 0 if there is none.
    pub last_sequence: u64,
    /// Groups that were rewritten because they may not have been durable.
    pub rewritten: u64,
    /// Bytes of an incomplete group that were cut off the end.
    pub cut_bytes: u64,
}

/// A scanned segment.
struct ScannedSegment {
    header: Header,
    /// The sequence after its last group.
    reaches: u64,
    /// In the last segment: the groups after the durable mark.
    tail: Vec<LogGroup>,
    /// The highest durable mark in it.
    durable: u64,
    cut_bytes: u64,
}

impl Log {
    /// Opens a log and passes every group after `sequence` to `replay`, in
    /// order, and only durable ones. Groups up to `sequence` may be missing;
    /// all later ones must exist.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        sequence: u64,
        mut replay: impl FnMut(u64, &[u8]),
    ) -> Result<(Self, LogRecovery), LogError> {
        remove_leftovers(&*disk)?;
        let mut found = read_segments(&*disk, sequence)?;
        for id in check_order(&mut found, sequence)? {
            let name = file_name(id);
            disk.remove(&name).map_err(failed("remove a segment"))?;
        }
        let mut recovered = LogRecovery::default();
        let (mut tail, mut mark, mut id) = (Vec::new(), 0, 0);
        if let Some(last) = found.last_mut() {
            mark = last.durable.max(last.header.first_sequence - 1);
            tail = std::mem::take(&mut last.tail);
            tail.retain(|group| group.sequence > mark);
            recovered.cut_bytes = last.cut_bytes;
            id = last.header.id;
        }
        let last_sequence = mark + tail.len() as u64;
        if last_sequence < sequence {
            return Err(missing_groups(last_sequence + 1, sequence));
        }
        let active = rewrite_tail(&*disk, &options, id + 1, mark, &tail)?;
        recovered.rewritten = tail.len() as u64;
        recovered.last_sequence = last_sequence;
        drop(tail);
        let mut segments = VecDeque::new();
        for ScannedSegment { header, .. } in &found {
            if header.first_sequence > mark {
                // The new segment contains all of it.
                let name = file_name(header.id);
                disk.remove(&name).map_err(failed("remove a segment"))?;
                continue;
            }
            segments.push_back(SegmentStart {
                id: header.id,
                first_sequence: header.first_sequence,
            });
        }
        segments.push_back(SegmentStart {
            id: active.id(),
            first_sequence: active.first_sequence(),
        });
        let index = Arc::new(LogIndex::new(segments, last_sequence));
        let reader = LogReader { disk, index };
        reader.each_after(sequence, |sequence, payload| {
            replay(sequence, payload);
            true
        })?;
        let mut log = Self {
            earlier: open_finished(&*reader.disk, &found, mark)?,
            reader,
            options,
            active,
            poisoned: false,
        };
        log.close_before(sequence);
        Ok((log, recovered))
    }
}

/// Opens the segments before the new one, which contains the groups after `mark`.
fn open_finished(
    disk: &dyn Disk,
    found: &[ScannedSegment],
    mark: u64,
) -> Result<VecDeque<Segment>, LogError> {
    let finished = found.iter().map(|segment| segment.header);
    let finished = finished.filter(|header| header.first_sequence <= mark);
    let opened = finished.map(|header| Segment::open_finished(disk, header));
    let opened: io::Result<_> = opened.collect();
    opened.map_err(failed("open a segment"))
}

/// The first group of the oldest segment; `None` if there is no segment.
pub fn first_sequence(disk: &dyn Disk) -> Result<Option<u64>, LogError> {
    let names = disk.list().map_err(failed("list segments"))?;
    let Some(name) = names.iter().find(|name| segment::id_in(name).is_some()) else {
        return Ok(None);
    };
    let file = disk.open(name).map_err(failed("open a segment"))?;
    Ok(Some(read_header(name, &*file)?.first_sequence))
}

/// The segments that may hold groups after `sequence`, oldest first.
pub fn files_after(disk: &dyn Disk, sequence: u64) -> Result<Vec<String>, LogError> {
    let mut segments = Vec::new();
    for name in disk.list().map_err(failed("list segments"))? {
        if segment::id_in(&name).is_some() {
            let file = disk.open(&name).map_err(failed("open a segment"))?;
            let header = read_header(&name, &*file)?;
            segments.push((name, header.first_sequence));
        }
    }
    let needed = |place: usize| {
        let next: Option<&(String, u64)> = segments.get(place + 1);
        next.is_none_or(|(_, first)| *first > sequence + 1)
    };
    let first = (0..segments.len()).find(|place| needed(*place));
    let names = segments.iter().skip(first.unwrap_or(0));
    Ok(names.map(|(name, _)| name.clone()).collect())
}

/// Creates a durable segment with the tail.
fn rewrite_tail(
    disk: &dyn Disk,
    options: &LogOptions,
    id: u64,
    mark: u64,
    tail: &[LogGroup],
) -> Result<Segment, LogError> {
    let needed: usize = tail
        .iter()
        .map(|group| frame_bytes(group.payload.len()))
        .sum();
    let (wanted, needed) = (options.first_segment_bytes, segment::bytes_for(needed));
    let mut draft =
        Segment::draft(disk, id, mark + 1, wanted, needed).map_err(LogError::NoSegment)?;
    for group in tail {
        draft
            .write(group.sequence, mark, &group.payload)
            .map_err(failed("rewrite the tail"))?;
    }
    draft.publish(disk).map_err(failed("make the tail durable"))
}

/// Removes drafts and spares. Obsolete segments become new spares.
fn remove_leftovers(disk: &dyn Disk) -> Result<(), LogError> {
    for name in disk.list().map_err(failed("list segments"))? {
        if name.ends_with(DRAFT_SUFFIX) || name.ends_with(SPARE_SUFFIX) {
            // It may be missing already: spares are also created outside of the
            // log's thread.
            segment::remove_if_there(disk, &name).map_err(failed("remove a draft"))?;
        }
    }
    Ok(())
}

/// Scans the segments that may hold groups after `sequence`; reads only the
/// header of the others.
fn read_segments(disk: &dyn Disk, sequence: u64) -> Result<Vec<ScannedSegment>, LogError> {
    let names = disk.list().map_err(failed("list segments"))?;
    let names: Vec<String> = names
        .into_iter()
        .filter(|name| segment::id_in(name).is_some())
        .collect();
    let mut opened = Vec::new();
    for name in names {
        let file = disk.open(&name).map_err(failed("open a segment"))?;
        let header = read_header(&name, &*file)?;
        opened.push((name, file, header));
    }
    let headers: Vec<Header> = opened.iter().map(|(.., header)| *header).collect();
    let mut found = Vec::new();
    for (place, (name, file, header)) in opened.into_iter().enumerate() {
        let next = headers.get(place + 1);
        // Ids have no gaps, and a segment is complete when the next one is
        // created. If an id is missing, something was removed: scan.
        let skipped =
            next.filter(|next| next.id == header.id + 1 && next.first_sequence <= sequence + 1);
        let next = next.map(|next| next.first_sequence);
        if let Some(skipped) = skipped {
            found.push(ScannedSegment {
                header,
                reaches: skipped.first_sequence.max(header.first_sequence),
                tail: Vec::new(),
                durable: 0,
                cut_bytes: 0,
            });
        } else {
            found.push(read_segment(&name, &*file, header, next, sequence)?);
        }
    }
    Ok(found)
}

fn corrupt(name: &str, place: u64, what: String) -> LogError {
    let segment = name.to_owned();
    LogError::Corrupt {
        segment,
        place,
        what,
    }
}

pub(super) fn read_header(name: &str, file: &dyn DiskFile) -> Result<Header, LogError> {
    let mut bytes = [0; HEADER_BYTES];
    let have = file
        .read_at(0, &mut bytes)
        .map_err(failed("read a segment"))?;
    let header = Header::decode(&bytes[..have]).map_err(|bad| match bad {
        BadHeader::Version(found) => corrupt(
            name,
            8,
            format!("format version {found}; this program supports {VERSION}"),
        ),
        BadHeader::Damaged => corrupt(name, 0, "damaged header".to_owned()),
    })?;
    if segment::id_in(name) != Some(header.id) {
        let what = format!("its header has the id {}", header.id);
        return Err(corrupt(name, 16, what));
    }
    Ok(header)
}

fn read_segment(
    name: &str,
    file: &dyn DiskFile,
    header: Header,
    next: Option<u64>,
    needed_after: u64,
) -> Result<ScannedSegment, LogError> {
    let mut frames = Frames::new(file, header.id);
    let (mut sequence, mut durable) = (header.first_sequence, 0);
    let mut tail: Vec<LogGroup> = Vec::new();
    loop {
        let place = frames.place();
        let Some(frame) = frames.next().map_err(failed("read a segment"))? else {
            break;
        };
        if frame.sequence != sequence {
            let what = format!("found group {} instead of {sequence}", frame.sequence);
            return Err(corrupt(name, place, what));
        }
        durable = durable.max(frame.durable);
        if next.is_none() {
            // Each group's mark covers earlier groups, so the tail stays short.
            tail.retain(|group| group.sequence > durable);
            tail.push(LogGroup {
                sequence,
                payload: frame.payload.to_vec(),
            });
        }
        sequence += 1;
    }
    let end = frames.place();
    let mut found = ScannedSegment {
        header,
        reaches: sequence,
        tail,
        durable,
        cut_bytes: 0,
    };
    // The next segment was created with knowledge of this one's end; and
    // obsolete groups may be missing.
    if next.is_some_and(|next| next <= sequence || next <= needed_after + 1) {
        return Ok(found);
    }
    match inspect_rest(file, header.id, end).map_err(failed("read a segment"))? {
        SegmentRest::Whole(later) => {
            let what = format!("damaged here, but the later group {later} is whole");
            Err(corrupt(name, end, what))
        }
        _ if next.is_some() => {
            let what = format!("group {sequence} is damaged, and is not the last one");
            Err(corrupt(name, end, what))
        }
        SegmentRest::Torn(bytes) => {
            found.cut_bytes = bytes;
            Ok(found)
        }
        SegmentRest::Nothing => Ok(found),
    }
}

/// What follows the last whole group of a segment.
pub(super) enum SegmentRest {
    /// No data of this segment.
    Nothing,
    /// An incomplete group of so many bytes.
    Torn(u64),
    /// A whole group with this sequence.
    Whole(u64),
}

/// Inspects the bytes after the last whole group.
pub(super) fn inspect_rest(file: &dyn DiskFile, id: u64, end: u64) -> std::io::Result<SegmentRest> {
    let all = read_all(file)?;
    let rest = all.get(end as usize..).unwrap_or_default();
    Ok(match find_valid_group(id, rest) {
        Some(later) => SegmentRest::Whole(later),
        None => match torn_bytes(id, rest) {
            0 => SegmentRest::Nothing,
            bytes => SegmentRest::Torn(bytes),
        },
    })
}

/// Size of an incomplete group. Old content of a reused file does not count.
fn torn_bytes(id: u64, rest: &[u8]) -> u64 {
    let written = rest.iter().rposition(|byte| *byte != 0);
    match (written, Frame::length_in(rest)) {
        (None, _) => 0,
        (Some(last), Some(_)) => last as u64 + 1,
        (Some(last), None) if id == 1 => last as u64 + 1,
        (Some(_), None) => 0,
    }
}

/// The first whole group in bytes that should contain none. An unacknowledged
/// group is never followed by another, since each waits for the one before.
fn find_valid_group(id: u64, bytes: &[u8]) -> Option<u64> {
    (0..bytes.len())
        .step_by(ALIGN)
        .find_map(|place| Frame::decode(id, &bytes[place..]))
        .map(|(frame, _)| frame.sequence)
}

/// Drops segments before an allowed gap and returns their ids; fails on any
/// other gap.
///
/// Removing segments is not atomic: after a crash some of the removed ones may
/// be back. Groups up to `sequence` are obsolete, so a gap among them is fine;
/// after that, every segment must start where the one before it ends, or
/// earlier.
fn check_order(found: &mut Vec<ScannedSegment>, sequence: u64) -> Result<Vec<u64>, LogError> {
    let mut start = 0;
    for place in 1..found.len() {
        let (old, new) = (&found[place - 1], &found[place]);
        let (first, reaches) = (new.header.first_sequence, old.reaches);
        if first > reaches && first <= sequence + 1 {
            start = place;
        } else if first > reaches || first < old.header.first_sequence {
            let what = format!(
                "it starts with group {first}, but {} ends before group {reaches}",
                file_name(old.header.id)
            );
            return Err(corrupt(&file_name(new.header.id), 24, what));
        }
    }
    let litter = found.drain(..start).map(|found| found.header.id).collect();
    let first = found.first().map_or(1, |found| found.header.first_sequence);
    if first > sequence + 1 {
        return Err(missing_groups(sequence + 1, first - 1));
    }
    Ok(litter)
}

fn missing_groups(first: u64, last: u64) -> LogError {
    LogError::Corrupt {
        segment: "the log".to_owned(),
        place: 0,
        what: format!("groups {first} to {last} are missing"),
    }
}
