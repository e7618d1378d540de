//! Leaves a log as a power cut could: after the last group, a part of another one that was never
//! acknowledged. It repeats the last group's votes, so that an engine that accepts it counts them
//! twice.
//!
//! It knows the format (`vote-shard/src/embedded/log/format.rs`, version 1): the log must cut off
//! such a tail.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::random::SeededRandom;

const HEADER: usize = 40;
const FRAME: usize = 40;
const SECTOR: usize = 512;

/// Tears the tail of a shard's last segment; returns whether there was a group to repeat and room
/// for it.
pub fn tail(shard: &Path, random: &mut SeededRandom) -> bool {
    let entries = fs::read_dir(shard).unwrap();
    let segments = entries.map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> = segments
        .filter(|path| path.extension().is_some_and(|ending| ending == "seg"))
        .collect();
    segments.sort();
    let Some(last) = segments.last() else {
        return false;
    };
    let bytes = fs::read(last).unwrap();
    let Some((group, end)) = last_group(&bytes) else {
        return false;
    };
    let torn = torn(group, random);
    if end + torn.len() > bytes.len() {
        return false;
    }
    let file = OpenOptions::new().write(true).open(last).unwrap();
    file.write_all_at(&torn, end as u64).unwrap();
    true
}

/// The last group of a segment, and its end.
fn last_group(segment: &[u8]) -> Option<(&[u8], usize)> {
    let (mut place, mut found) = (HEADER, None);
    while let Some(head) = segment.get(place..place + FRAME)
        && head[..4] == *b"BGRP"
    {
        let payload = u32::from_le_bytes(head[4..8].try_into().unwrap()) as usize;
        let end = (place + FRAME + payload).next_multiple_of(8);
        found = Some((segment.get(place..end)?, end));
        place = end;
    }
    found
}

/// A partial copy of a group, with the next sequence number.
fn torn(group: &[u8], random: &mut SeededRandom) -> Vec<u8> {
    let mut torn = group.to_vec();
    let sequence = u64::from_le_bytes(group[8..16].try_into().unwrap());
    torn[8..16].copy_from_slice(&(sequence + 1).to_le_bytes());
    torn[16..24].copy_from_slice(&sequence.to_le_bytes());
    match random.below(3) {
        // Complete but for the checksum.
        0 => {}
        // Sectors are missing.
        1 => {
            for (number, sector) in torn.chunks_mut(SECTOR).enumerate().skip(1) {
                if number == 1 || random.one_in(2) {
                    sector.fill(0);
                }
            }
        }
        // Cut off somewhere.
        _ => {
            let end = random.between(FRAME, torn.len() - 1);
            torn[end..].fill(0);
        }
    }
    torn
}
