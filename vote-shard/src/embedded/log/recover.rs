//! Opening a log after whatever happened to it.
//!
//! ```text
//!   drafts ──► removed            segments ──► checked, oldest to newest
//!   last segment: groups up to the durable mark │ tail after it
//!   new segment: the tail, written anew and synced ──► now it may be served
//! ```
//! The tail is copied because it may be in the page cache and not on the disk
//! (the process was killed, or a sync failed and was forgotten). Syncing the
//! old file again would prove nothing.

use std::sync::Arc;

use super::format::{ALIGN, BadHeader, Frame, HEADER_BYTES, Header, VERSION, frame_bytes};
use super::segment::{self, DRAFT_SUFFIX, Segment};
use super::{Group, Log, LogError, Options, failed};
use crate::embedded::disk::{Disk, read_all};

/// What opening found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// The last group; 0 when there is none.
    pub last_sequence: u64,
    /// Groups that were written anew because nothing proved them durable.
    pub rewritten: u64,
    /// Bytes of a torn group that were cut off the end.
    pub cut_bytes: u64,
}

/// A segment as it was found.
struct Found {
    name: String,
    header: Header,
    groups: Vec<Group>,
    /// The highest durable mark in it.
    durable: u64,
    /// Where its valid groups end.
    end: u64,
    /// Bytes after the end that are not zero.
    cut_bytes: u64,
}

impl Log {
    /// Opens a log and hands every group after `sequence` to `replay`, in
    /// order. Nothing is handed out that is not durable. Groups up to
    /// `sequence` may have been forgotten; all after it must be there.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        sequence: u64,
        mut replay: impl FnMut(&Group),
    ) -> Result<(Self, Recovered), LogError> {
        remove_drafts(&*disk)?;
        let mut found = read_segments(&*disk)?;
        check_order(&mut found, sequence)?;
        let mut recovered = Recovered::default();
        let (mut segments, mut tail, mut mark, mut id) = (Vec::new(), Vec::new(), 0, 0);
        if let Some(last) = found.last_mut() {
            mark = last.durable.max(last.header.first_sequence - 1);
            tail = last
                .groups
                .iter()
                .filter(|group| group.sequence > mark)
                .cloned()
                .collect();
            recovered.cut_bytes = last.cut_bytes;
            id = last.header.id;
        }
        let last_sequence = mark + tail.len() as u64;
        if last_sequence < sequence {
            return Err(missing(last_sequence + 1, sequence));
        }
        let active = rewritten(&*disk, &options, id + 1, mark, &tail)?;
        recovered.rewritten = tail.len() as u64;
        recovered.last_sequence = last_sequence;
        for (place, old) in found.iter().enumerate() {
            if old.header.first_sequence > mark {
                // All of it is in the new segment.
                disk.remove(&old.name).map_err(failed("remove a segment"))?;
                continue;
            }
            // What a later segment holds was written anew there.
            let next = found
                .get(place + 1)
                .map_or(mark + 1, |next| next.header.first_sequence);
            let own = |group: &&Group| group.sequence > sequence && group.sequence < next;
            old.groups.iter().filter(own).for_each(&mut replay);
            let open = Segment::open(&*disk, old.header, old.end);
            segments.push(open.map_err(failed("open a segment"))?);
        }
        tail.iter()
            .filter(|group| group.sequence > sequence)
            .for_each(&mut replay);
        segments.push(active);
        let durable = recovered.last_sequence;
        Ok((
            Self {
                disk,
                options,
                segments,
                durable,
                poisoned: false,
            },
            recovered,
        ))
    }
}

/// A new segment that holds the tail, on disk and named.
fn rewritten(
    disk: &dyn Disk,
    options: &Options,
    id: u64,
    mark: u64,
    tail: &[Group],
) -> Result<Segment, LogError> {
    let needed: usize = tail
        .iter()
        .map(|group| frame_bytes(group.payload.len()))
        .sum();
    let bytes = options.first_segment_bytes.max(segment::bytes_for(needed));
    let mut draft = Segment::draft(disk, id, mark + 1, bytes).map_err(failed("make a segment"))?;
    for group in tail {
        draft
            .write(group, mark)
            .map_err(failed("write the tail anew"))?;
    }
    draft.publish(disk).map_err(failed("make the tail durable"))
}

fn remove_drafts(disk: &dyn Disk) -> Result<(), LogError> {
    for name in disk.list().map_err(failed("list segments"))? {
        if name.ends_with(DRAFT_SUFFIX) {
            disk.remove(&name).map_err(failed("remove a draft"))?;
        }
    }
    Ok(())
}

fn read_segments(disk: &dyn Disk) -> Result<Vec<Found>, LogError> {
    let names = disk.list().map_err(failed("list segments"))?;
    let names: Vec<String> = names
        .into_iter()
        .filter(|name| segment::id_in(name).is_some())
        .collect();
    let last = names.last().cloned();
    names
        .into_iter()
        .map(|name| {
            let is_last = Some(&name) == last.as_ref();
            read_segment(disk, name, is_last)
        })
        .collect()
}

fn read_segment(disk: &dyn Disk, name: String, is_last: bool) -> Result<Found, LogError> {
    let file = disk.open(&name).map_err(failed("open a segment"))?;
    let bytes = read_all(&*file).map_err(failed("read a segment"))?;
    let corrupt = |place: usize, what: String| LogError::Corrupt {
        segment: name.clone(),
        place: place as u64,
        what,
    };
    let header = Header::decode(&bytes).map_err(|bad| match bad {
        BadHeader::Version(found) => corrupt(
            8,
            format!("it has format {found}; this program knows {VERSION}"),
        ),
        BadHeader::Damaged => corrupt(0, "its header is damaged".to_owned()),
    })?;
    if segment::id_in(&name) != Some(header.id) {
        return Err(corrupt(16, format!("it says it is segment {}", header.id)));
    }
    let (mut groups, mut durable) = (Vec::new(), 0);
    let mut place = HEADER_BYTES.next_multiple_of(ALIGN);
    while let Some((frame, length)) = bytes
        .get(place..)
        .and_then(|rest| Frame::decode(header.id, rest))
    {
        let expected = header.first_sequence + groups.len() as u64;
        if frame.sequence != expected {
            return Err(corrupt(
                place,
                format!("group {} is where {expected} belongs", frame.sequence),
            ));
        }
        durable = durable.max(frame.durable);
        groups.push(Group {
            sequence: frame.sequence,
            payload: frame.payload.to_vec(),
        });
        place += length;
    }
    let rest = bytes.get(place..).unwrap_or_default();
    if let Some(later) = valid_group_in(header.id, rest) {
        let what = format!("it is damaged here, but group {later} after it is whole");
        return Err(corrupt(place, what));
    }
    let cut_bytes = rest
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last as u64 + 1);
    if cut_bytes > 0 && !is_last {
        return Err(corrupt(
            place,
            "it is damaged at its end, and it is not the last".to_owned(),
        ));
    }
    Ok(Found {
        name,
        header,
        groups,
        durable,
        end: place as u64,
        cut_bytes,
    })
}

/// The first whole group in bytes that should hold none. One that was not
/// acknowledged is followed by nothing, since each waits for the one before.
fn valid_group_in(id: u64, bytes: &[u8]) -> Option<u64> {
    (0..bytes.len())
        .step_by(ALIGN)
        .find_map(|place| Frame::decode(id, &bytes[place..]))
        .map(|(frame, _)| frame.sequence)
}

/// Drops what lies before a gap, and refuses a gap that is not allowed.
///
/// Removing segments is not atomic: after a crash some of those that were to
/// go may be back. Groups up to `sequence` are not needed any more, so a gap
/// among them is none; after it every segment begins, at the latest, where
/// the one before it ends.
fn check_order(found: &mut Vec<Found>, sequence: u64) -> Result<(), LogError> {
    let mut start = 0;
    for place in 1..found.len() {
        let (old, new) = (&found[place - 1], &found[place]);
        let first = new.header.first_sequence;
        let reaches = old.header.first_sequence + old.groups.len() as u64;
        if first > reaches && first <= sequence + 1 {
            start = place;
        } else if first > reaches || first < old.header.first_sequence {
            let what = format!(
                "it begins with group {first}, but {} ends before group {reaches}",
                old.name
            );
            let segment = new.name.clone();
            return Err(LogError::Corrupt {
                segment,
                place: 24,
                what,
            });
        }
    }
    found.drain(..start);
    let first = found.first().map_or(1, |found| found.header.first_sequence);
    if first > sequence + 1 {
        return Err(missing(sequence + 1, first - 1));
    }
    Ok(())
}

fn missing(first: u64, last: u64) -> LogError {
    LogError::Corrupt {
        segment: "the log".to_owned(),
        place: 0,
        what: format!("groups {first} to {last} are missing"),
    }
}
