//! Properties of the log on the worst of disks.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::embedded::disk::{Crash, RealDisk, SimulatedDisk};

const SMALL: LogOptions = LogOptions {
    segment_bytes: 2_048,
    first_segment_bytes: 512,
    group_bytes_max: 1_500,
    spares_max: 2,
};

fn open(disk: &SimulatedDisk) -> Result<(Log, Vec<LogGroup>), LogError> {
    open_after(disk, 0)
}

fn open_after(disk: &SimulatedDisk, sequence: u64) -> Result<(Log, Vec<LogGroup>), LogError> {
    let mut groups = Vec::new();
    let (log, _) = Log::open(
        Arc::new(disk.clone()),
        SMALL,
        sequence,
        |sequence, payload| {
            groups.push(LogGroup {
                sequence,
                payload: payload.to_vec(),
            })
        },
    )?;
    Ok((log, groups))
}

/// A payload that identifies its group.
fn payload(n: u64, bytes: usize) -> Vec<u8> {
    let mut payload = n.to_le_bytes().to_vec();
    payload.resize(bytes.max(8), n as u8);
    payload
}

#[derive(Debug, Clone)]
enum LogStep {
    Append(usize),
    FailSync(u32),
    Room(u64),
    Forget(u64),
    Spare,
    Crash(Crash),
}

fn steps() -> impl Strategy<Value = Vec<LogStep>> {
    let crash = prop::sample::select(vec![
        Crash::Killed,
        Crash::PowerLost,
        Crash::PowerLostInTheMiddle,
        Crash::PowerLostInTheMiddle,
    ]);
    let step = prop_oneof![
        12 => (0usize..1_500).prop_map(LogStep::Append),
        1 => (1u32..4).prop_map(LogStep::FailSync),
        1 => (0u64..4_000).prop_map(LogStep::Room),
        1 => (0u64..8).prop_map(LogStep::Forget),
        2 => Just(LogStep::Spare),
        4 => crash.prop_map(LogStep::Crash),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever is appended, fails, is removed or crashes: every group that was
    /// acknowledged and not removed is there, in order, once; other groups
    /// follow them directly.
    #[test]
    fn nothing_acknowledged_is_lost(seed in any::<u64>(), steps in steps()) {
        let disk = SimulatedDisk::new(seed);
        let (mut log, _) = open(&disk).unwrap();
        // The groups appended by the current log or surviving into it, by
        // sequence, and the last acknowledged one.
        let mut written: Vec<Vec<u8>> = Vec::new();
        let mut acknowledged = 0;
        let mut forgotten = 0;
        let mut counter = 0;
        for step in steps {
            match step {
                LogStep::Append(bytes) => {
                    counter += 1;
                    let payload = payload(counter, bytes);
                    let outcome = log.append(&payload);
                    if !matches!(outcome, Err(LogError::Poisoned)) {
                        written.truncate(acknowledged as usize);
                        written.push(payload);
                    }
                    if let Ok(sequence) = outcome {
                        prop_assert_eq!(sequence, acknowledged + 1);
                        acknowledged = sequence;
                    }
                }
                LogStep::FailSync(n) => disk.fail_sync(n),
                LogStep::Room(bytes) => disk.set_free_bytes(Some(bytes)),
                LogStep::Forget(back) => {
                    let up_to = acknowledged.saturating_sub(back);
                    let _ = log.forget_up_to(up_to);
                    forgotten = forgotten.max(up_to);
                }
                LogStep::Spare => {
                    let reader = log.reader();
                    if let Some(last) = reader.needs_spare() {
                        let _ = reader.make_spare(last, SMALL.segment_bytes);
                    }
                }
                LogStep::Crash(crash) => {
                    drop(log);
                    disk.crash(crash);
                    disk.set_free_bytes(None);
                    // Retry a sync failure while opening, as the engine does.
                    let (reopened, groups) = match open_after(&disk, forgotten) {
                        Ok(opened) => opened,
                        Err(LogError::Disk { .. } | LogError::NoSegment(_)) => open_after(&disk, forgotten).unwrap(),
                        Err(other) => panic!("{other}"),
                    };
                    let last = groups.last().map_or(reopened.durable(), |group| group.sequence);
                    prop_assert_eq!(last, reopened.durable());
                    prop_assert!(last >= acknowledged, "{} of {} groups", last, acknowledged);
                    prop_assert!(last <= written.len() as u64);
                    let first = groups.first().map_or(last + 1, |group| group.sequence);
                    prop_assert_eq!(first, forgotten + 1);
                    for (place, group) in groups.iter().enumerate() {
                        prop_assert_eq!(group.sequence, first + place as u64);
                        prop_assert_eq!(&group.payload, &written[group.sequence as usize - 1]);
                    }
                    // What is served now counts as acknowledged: it must
                    // survive every later crash.
                    written.truncate(last as usize);
                    acknowledged = last;
                    log = reopened;
                }
            }
        }
        let reader = log.reader();
        let read = reader.read(reader.oldest() - 1, usize::MAX).unwrap();
        prop_assert_eq!(read.len() as u64, log.durable() + 1 - reader.oldest());
        for group in read {
            prop_assert_eq!(&group.payload, &written[group.sequence as usize - 1]);
        }
    }

    /// Damage in the middle is reported, never skipped; in the last group it
    /// can look like a group that was never acknowledged.
    #[test]
    fn damage_in_the_middle_stops_the_log(place in 0usize..4_000) {
        let disk = SimulatedDisk::new(7);
        let (mut log, _) = open(&disk).unwrap();
        for n in 1..=12 {
            log.append(&payload(n, 200)).unwrap();
        }
        drop(log);
        let names = disk.list().unwrap();
        let before = open(&disk).unwrap().1.len();
        prop_assert_eq!(before, 12);
        let disk = SimulatedDisk::new(7);
        let (mut log, _) = open(&disk).unwrap();
        for n in 1..=12 {
            log.append(&payload(n, 200)).unwrap();
        }
        drop(log);
        disk.flip(&names[0], place % 2_048);
        match open(&disk) {
            Ok((_, groups)) => prop_assert!(groups.len() >= 11, "{} groups are left", groups.len()),
            Err(LogError::Corrupt { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_failed_sync_poisons_the_log_until_it_is_reopened() {
    let disk = SimulatedDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    log.append(b"one").unwrap();
    disk.fail_sync(1);
    assert!(matches!(log.append(b"two"), Err(LogError::Disk { .. })));
    assert!(matches!(log.append(b"three"), Err(LogError::Poisoned)));
    assert_eq!(log.durable(), 1);
    drop(log);
    // The group is still visible, but would be lost after a power failure. So
    // opening rewrites it.
    let (log, groups) = open(&disk).unwrap();
    assert_eq!(groups.len(), 2);
    drop(log);
    disk.crash(Crash::PowerLost);
    assert_eq!(open(&disk).unwrap().1, groups);
}

#[test]
fn a_full_disk_refuses_a_group_and_takes_the_next_when_there_is_room() {
    let disk = SimulatedDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    log.append(&payload(1, 300)).unwrap();
    disk.set_free_bytes(Some(100));
    for _ in 0..3 {
        let full = log.append(&payload(2, 1_400));
        assert!(matches!(full, Err(LogError::NoSegment(_))), "{full:?}");
    }
    disk.set_free_bytes(None);
    assert_eq!(log.append(&payload(2, 1_400)).unwrap(), 2);
    drop(log);
    disk.crash(Crash::PowerLost);
    assert_eq!(open(&disk).unwrap().1.len(), 2);
}

/// The sizes of the segments, oldest first.
fn sizes(disk: &SimulatedDisk) -> Vec<u64> {
    let names = disk.list().unwrap();
    let segments = names.iter().filter(|name| name.ends_with(".seg"));
    segments
        .map(|name| disk.open(name).unwrap().bytes().unwrap())
        .collect()
}

#[test]
fn a_nearly_full_disk_gets_segments_as_small_as_need_be() {
    let disk = SimulatedDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    log.append(&payload(1, 300)).unwrap();
    // Not enough for a segment of 2,048 bytes.
    disk.set_free_bytes(Some(1_500));
    for n in 2..=4 {
        assert_eq!(log.append(&payload(n, 300)).unwrap(), n);
    }
    let needed = segment::bytes_for(300);
    assert_eq!(sizes(&disk), [512, 1_024, needed]);
    let full = log.append(&payload(5, 300));
    assert!(matches!(full, Err(LogError::NoSegment(_))), "{full:?}");
    // A start on such a disk needs little space, too.
    drop(log);
    disk.crash(Crash::PowerLost);
    disk.set_free_bytes(Some(500));
    let (mut log, groups) = open(&disk).unwrap();
    assert_eq!(groups.len(), 4);
    disk.set_free_bytes(None);
    for n in 5..=9 {
        assert_eq!(log.append(&payload(n, 300)).unwrap(), n);
    }
    assert_eq!(sizes(&disk).last(), Some(&2_048), "full size again");
    drop(log);
    disk.crash(Crash::PowerLost);
    assert_eq!(open(&disk).unwrap().1.len(), 9);
}

#[test]
fn the_next_segment_is_made_before_it_is_needed() {
    let disk = SimulatedDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    let reader = log.reader();
    assert_eq!(reader.needs_spare(), None, "enough space is left");
    log.append(&payload(1, 300)).unwrap();
    let last = reader.needs_spare().unwrap();
    reader.make_spare(last, SMALL.segment_bytes).unwrap();
    assert_eq!(reader.needs_spare(), None, "there is a spare");
    // There is no space for another.
    disk.set_free_bytes(Some(0));
    for n in 2..=4 {
        assert_eq!(log.append(&payload(n, 300)).unwrap(), n);
    }
    assert_eq!(sizes(&disk), [512, 2_048]);
    let full = reader.make_spare(reader.needs_spare().unwrap(), SMALL.segment_bytes);
    assert!(matches!(full, Err(LogError::NoSegment(_))), "{full:?}");
    assert_eq!(disk.list().unwrap().len(), 2, "the failed file is removed");
    drop(log);
    disk.crash(Crash::PowerLost);
    disk.set_free_bytes(None);
    assert_eq!(open(&disk).unwrap().1.len(), 4);
}

#[test]
fn a_group_that_is_too_large_changes_nothing() {
    let disk = SimulatedDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    let error = log.append(&[0; 1_501]).unwrap_err();
    assert!(matches!(
        error,
        LogError::TooLarge {
            bytes: 1_501,
            most: 1_500
        }
    ));
    assert_eq!(log.append(b"fits").unwrap(), 1);
}

#[test]
fn starting_again_and_again_leaves_no_litter() {
    let disk = SimulatedDisk::new(1);
    for _ in 0..20 {
        drop(open(&disk).unwrap());
    }
    assert_eq!(disk.list().unwrap().len(), 1);
}

#[test]
fn it_works_in_a_real_directory() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory.path()).unwrap());
    for round in 0..3u64 {
        let mut seen = Vec::new();
        let (mut log, recovered) =
            Log::open(disk.clone(), LogOptions::default(), 0, |sequence, _| {
                seen.push(sequence)
            })
            .unwrap();
        assert_eq!(recovered.last_sequence, round * 5);
        assert_eq!(seen, (1..=round * 5).collect::<Vec<_>>());
        for n in 1..=5 {
            log.append(&payload(round * 5 + n, 10_000)).unwrap();
        }
        let read = log.reader().read(round * 5, usize::MAX).unwrap();
        assert_eq!(read.len(), 5);
        assert_eq!(log.reader().read(0, 1).unwrap().len(), 1, "at least one");
    }
}

/// A follower continues where any reader stopped: at the right position, across
/// segments, and while more is written.
#[test]
fn followers_continue_where_others_stopped() {
    let disk = SimulatedDisk::new(9);
    let (mut log, _) = open(&disk).unwrap();
    let reader = log.reader();
    let mut seen = [0; 3];
    for n in 1..=60 {
        log.append(&payload(n, 40 * (n as usize % 7))).unwrap();
        // One reader follows closely, one in steps, one always starts over.
        for (place, every) in [1, 7, 13].into_iter().enumerate() {
            if n % every != 0 {
                continue;
            }
            let groups = reader.read(seen[place], 300).unwrap();
            let numbers: Vec<u64> = groups.iter().map(|group| group.sequence).collect();
            let expected: Vec<u64> = (seen[place] + 1..).take(numbers.len()).collect();
            assert_eq!(numbers, expected);
            assert!(!numbers.is_empty() || seen[place] == reader.durable());
            for group in &groups {
                let own = payload(group.sequence, 40 * (group.sequence as usize % 7));
                assert_eq!(group.payload, own);
            }
            seen[place] = match place {
                2 => 0,
                _ => numbers.last().copied().unwrap_or(seen[place]),
            };
        }
        assert_eq!(seen[0], n);
    }
    assert_eq!(reader.read(0, usize::MAX).unwrap().len(), 60);
}
