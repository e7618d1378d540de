//! Properties of runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_domain::Timestamp;
use ballast_domain::poll::RequestId;
use ballast_domain::tenant::Epoch;
use proptest::prelude::*;

use super::writer::RunWriter;
use super::*;
use crate::embedded::background::throttle::BackgroundThrottle;
use crate::embedded::disk::{Disk, SimulatedDisk};
use crate::embedded::record::{RecordVoter, RowRecord};
use crate::shard::{RowVersion, VoterName};

/// No votes arrive meanwhile.
static IDLE: BackgroundThrottle = BackgroundThrottle::new(false);

/// A row by its poll, voter and revision.
type Put = (PollNo, u64, u32);

fn key((poll, voter, _): Put) -> RowKey {
    RowKey {
        poll,
        voter: VoterPrint([voter.wrapping_mul(0x9e37_79b9_7f4a_7c15), voter]),
    }
}

fn bytes(put: Put) -> Vec<u8> {
    let name = format!("voter-{}", put.1);
    let record = RowRecord {
        poll: put.0,
        version: RowVersion {
            epoch: Epoch(1),
            revision: put.2,
        },
        items: (0..put.2 as u16 % 3).collect(),
        requests: vec![(RequestId(put.1), put.2)],
        at: Timestamp::from_unix_ms(1_794_821_400_123),
        voter: RecordVoter::Named(&name),
    };
    let mut bytes = Vec::new();
    row::write_row(&mut bytes, key(put), &record);
    bytes
}

/// A run of these rows; of a voter's rows the last one counts.
fn run(disk: &SimulatedDisk, id: u64, puts: &[Put]) -> Arc<Run> {
    let rows: BTreeMap<RowKey, Put> = puts.iter().map(|put| (key(*put), *put)).collect();
    let mut writer = RunWriter::create(disk, id, IDLE.start_task()).unwrap();
    for (key, put) in rows {
        writer.push(key, &bytes(put)).unwrap();
    }
    writer.finish(disk).unwrap();
    Arc::new(Run::open(disk, id).unwrap())
}

fn all(runs: &RunSet, from: RowKey) -> Vec<(RowKey, u32)> {
    let mut merged = runs.from(from, None).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = merged.next_row().unwrap() {
        rows.push((row.key, row.row.version.revision));
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn runs_are_one_sorted_whole_before_and_after_merging(
        stretches in prop::collection::vec(
            prop::collection::vec((1u32..4, 0u64..400, 1u32..1_000), 1..600),
            1..6,
        ),
        gone in 0u32..5,
        from in (1u32..4, 0u64..400, Just(0u32)),
    ) {
        let disk = SimulatedDisk::new(1);
        let runs = RunSet(
            stretches
                .iter()
                .zip(1..)
                .map(|(puts, id)| run(&disk, id, puts))
                .collect(),
        );
        let mut expected: BTreeMap<RowKey, u32> = BTreeMap::new();
        for put in stretches.iter().flatten() {
            expected.insert(key(*put), put.2);
        }
        let in_order: Vec<_> = expected.iter().map(|(key, revision)| (*key, *revision)).collect();
        prop_assert_eq!(&all(&runs, RowKey::start_of_poll(0)), &in_order);
        let rest: Vec<_> = expected.range(key(from)..).map(|(key, revision)| (*key, *revision)).collect();
        prop_assert_eq!(all(&runs, key(from)), rest);
        for put in stretches.iter().flatten().take(50) {
            let row = runs.get(key(*put)).unwrap().unwrap();
            prop_assert_eq!(row.row.version.revision, expected[&key(*put)]);
            let VoterName::Named(name) = row.voter else {
                return Err(TestCaseError::fail("a name is missing"));
            };
            prop_assert_eq!(name.as_str(), format!("voter-{}", put.1));
        }
        let nobody = RowKey { poll: 2, voter: VoterPrint([1, u64::MAX]) };
        prop_assert!(runs.get(nobody).unwrap().is_none());
        merge(&disk, &runs, 99, |poll| poll != gone, &IDLE).unwrap();
        let merged = RunSet(vec![Arc::new(Run::open(&disk, 99).unwrap())]);
        let left: Vec<_> = in_order.into_iter().filter(|(key, _)| key.poll != gone).collect();
        prop_assert_eq!(merged.0[0].rows(), left.len() as u64);
        prop_assert_eq!(all(&merged, RowKey::start_of_poll(0)), left);
    }

    #[test]
    fn a_byte_that_rots_is_noticed(place in 0usize..40_000) {
        let disk = SimulatedDisk::new(1);
        let puts: Vec<Put> = (0..1_000).map(|n| (1, n, 1)).collect();
        drop(run(&disk, 1, &puts));
        let size = disk.open(&file_name(1)).unwrap().bytes().unwrap() as usize;
        disk.flip(&file_name(1), place % size);
        let whole = walk(&disk);
        prop_assert!(whole.is_err(), "byte {place}: {whole:?}");
    }
}

/// Positions that random tests rarely hit: block headers, index and footer.
#[test]
fn a_rotten_byte_is_noticed_in_every_head() {
    let disk = SimulatedDisk::new(1);
    let puts: Vec<Put> = (0..1_000).map(|n| (1, n, 1)).collect();
    drop(run(&disk, 1, &puts));
    let size = disk.open(&file_name(1)).unwrap().bytes().unwrap() as usize;
    // The first block ends at the first row beyond 32 KiB.
    for place in (0..64)
        .chain(32 << 10..(32 << 10) + 256)
        .chain(size - 256..size)
    {
        disk.flip(&file_name(1), place);
        assert!(walk(&disk).is_err(), "byte {place}");
        disk.flip(&file_name(1), place);
    }
    assert_eq!(walk(&disk).unwrap(), 1_000);
}

/// Reads a run to its end.
fn walk(disk: &SimulatedDisk) -> Result<u32, RunError> {
    let run = Run::open(disk, 1)?;
    let mut rows = run.from(RowKey::start_of_poll(0), None)?;
    let mut count = 0;
    while rows.peek().is_some() {
        count += 1;
        rows.advance()?;
    }
    Ok(count)
}

#[test]
fn runs_stay_few_however_many_are_made() {
    let mut rows: Vec<u64> = Vec::new();
    let mut written = 0;
    for _ in 0..1_000 {
        rows.push(1_000);
        let count = count_mergeable(&rows);
        if count > 0 {
            let one: u64 = rows.drain(rows.len() - count..).sum();
            written += one;
            rows.push(one);
        }
        assert!(rows.len() < 20, "{rows:?}");
    }
    assert!(
        written < 12 * 1_000_000,
        "rows are rewritten too often: {written}"
    );
}
