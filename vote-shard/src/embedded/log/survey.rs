//! Inspects segments without changing anything, for operators with a damaged
//! disk.

use super::frames::Frames;
use super::recover::{SegmentRest, inspect_rest, read_header};
use super::segment;
use crate::embedded::disk::Disk;

/// The content of one log file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentSurvey {
    /// The file.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its first group.
    pub first_sequence: u64,
    /// Number of whole groups.
    pub groups: u64,
    /// Offset of their end.
    pub end: u64,
    /// A problem.
    pub problem: Option<String>,
    /// A harmless irregularity.
    pub remark: Option<String>,
}

/// Inspects every segment, oldest first, and passes each whole group that no
/// later segment repeats to `each`.
pub fn survey(
    disk: &dyn Disk,
    mut each: impl FnMut(u64, &[u8]),
) -> std::io::Result<Vec<SegmentSurvey>> {
    let names = disk.list()?;
    let names: Vec<_> = names
        .iter()
        .filter(|name| segment::id_in(name).is_some())
        .collect();
    let mut found: Vec<SegmentSurvey> = Vec::new();
    for name in &names {
        found.push(survey_segment(disk, name));
    }
    check_ends(&mut found);
    for place in 0..found.len() {
        let end = found
            .get(place + 1)
            .map_or(u64::MAX, |next| next.first_sequence);
        let Some(id) = segment::id_in(&found[place].name) else {
            continue;
        };
        let file = disk.open(&found[place].name)?;
        let mut frames = Frames::new(&*file, id);
        while let Ok(Some(frame)) = frames.next() {
            if frame.sequence >= end {
                break;
            }
            each(frame.sequence, frame.payload);
        }
    }
    Ok(found)
}

fn survey_segment(disk: &dyn Disk, name: &str) -> SegmentSurvey {
    let mut seen = SegmentSurvey {
        name: name.to_owned(),
        bytes: 0,
        first_sequence: 0,
        groups: 0,
        end: 0,
        problem: None,
        remark: None,
    };
    let file = match disk.open(name) {
        Ok(file) => file,
        Err(error) => {
            seen.problem = Some(error.to_string());
            return seen;
        }
    };
    seen.bytes = file.bytes().unwrap_or(0);
    let header = match read_header(name, &*file) {
        Ok(header) => header,
        Err(error) => {
            seen.problem = Some(error.to_string());
            return seen;
        }
    };
    seen.first_sequence = header.first_sequence;
    let mut frames = Frames::new(&*file, header.id);
    loop {
        match frames.next() {
            Ok(Some(frame)) if frame.sequence == header.first_sequence + seen.groups => {
                seen.groups += 1;
            }
            Ok(Some(frame)) => {
                seen.problem = Some(format!("group {} is out of order", frame.sequence));
                break;
            }
            Ok(None) => break,
            Err(error) => {
                seen.problem = Some(error.to_string());
                break;
            }
        }
    }
    seen.end = frames.place();
    match inspect_rest(&*file, header.id, seen.end) {
        Ok(SegmentRest::Nothing) => {}
        Ok(SegmentRest::Torn(bytes)) => {
            seen.remark = Some(format!("{bytes} bytes of an incomplete group"));
        }
        Ok(SegmentRest::Whole(later)) => {
            let what = format!(
                "damaged at byte {}, but the later group {later} is whole",
                seen.end
            );
            seen.problem = Some(what);
        }
        Err(error) => seen.problem = Some(error.to_string()),
    }
    seen
}

/// Every segment must reach the next one.
fn check_ends(found: &mut [SegmentSurvey]) {
    for place in 1..found.len() {
        let next = found[place].first_sequence;
        let old = &mut found[place - 1];
        let reaches = old.first_sequence + old.groups;
        if next > reaches && old.problem.is_none() {
            let what = format!("groups {reaches} to {} are missing after it", next - 1);
            old.problem = Some(what);
        } else if next <= reaches {
            // The next segment has a copy of what follows.
            old.remark = None;
        }
    }
}
