//! Load files: torn lines, retention, size limit, reading.

use super::*;
use ballast_hotspot_detector::load::{Flow, Interval, ShardSample};
use ballast_hotspot_detector::resources::Resources;

const START: i64 = 1_800_000_000_000 / (24 * HOUR_MS) * (24 * HOUR_MS);

fn sample(at_ms: i64, ms: u64, votes: f64) -> LoadSample {
    let mut shard = ShardSample::new(
        "shard-1".parse().unwrap(),
        "eu".parse().unwrap(),
        Resources::default(),
    );
    shard.flow = Flow {
        votes,
        ..Flow::default()
    };
    LoadSample {
        interval: Interval {
            start: Timestamp::from_unix_ms(START + at_ms),
            ms,
        },
        shards: vec![shard],
    }
}

fn read(files: &LoadFiles) -> Vec<LoadSample> {
    let mut samples = Vec::new();
    let ends = Timestamp::from_unix_ms(i64::MAX);
    files
        .read(Timestamp::from_unix_ms(0), ends, |sample| {
            samples.push(sample)
        })
        .unwrap();
    samples
}

fn votes(samples: &[LoadSample]) -> f64 {
    let shards = samples.iter().flat_map(|sample| &sample.shards);
    shards.map(|shard| shard.flow.votes).sum()
}

#[test]
fn reading_and_appending_survive_a_torn_last_line() {
    let place = tempfile::tempdir().unwrap();
    let files = LoadFiles::open(place.path(), 1 << 30).unwrap();
    for step in 0..3 {
        files.append(&sample(step * 10_000, 10_000, 5.0)).unwrap();
    }
    let path = place
        .path()
        .join(Chunk::containing(0, Timestamp::from_unix_ms(START)).name());
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"kind\":\"shard\",\"at\":\"2027")
        .unwrap();
    assert_eq!(read(&files).len(), 3, "a torn line is not a sample");
    drop(files);
    let files = LoadFiles::open(place.path(), 1 << 30).unwrap();
    files.append(&sample(30_000, 10_000, 5.0)).unwrap();
    let samples = read(&files);
    assert_eq!(samples.len(), 4);
    assert_eq!(votes(&samples), 20.0);
}

#[test]
fn old_load_gets_coarser_keeps_its_sums_and_is_read_once() {
    let place = tempfile::tempdir().unwrap();
    let files = LoadFiles::open(place.path(), 1 << 40).unwrap();
    let hours = 24 * 4;
    let step = 60_000;
    for at in (0..hours * HOUR_MS).step_by(step) {
        files.append(&sample(at, step as u64, 1.0)).unwrap();
    }
    let samples = read(&files);
    assert_eq!(votes(&samples), (hours * 60) as f64);
    let lengths: std::collections::BTreeSet<_> =
        samples.iter().map(|sample| sample.interval.ms).collect();
    assert!(lengths.contains(&600_000), "{lengths:?}");
    assert!(lengths.contains(&60_000), "{lengths:?}");
    assert!(
        samples
            .windows(2)
            .all(|two| { two[0].interval.end() <= two[1].interval.start })
    );
    // As if the process died before it removed the source.
    let chunk = files.chunks().unwrap()[0];
    assert_eq!(FILE_TIERS[chunk.kind].name, "tens");
    let fine = place
        .path()
        .join(format!("minutes-{}.ndjson", chunk.start_ms));
    let mut text = header(SOURCE);
    text.push_str(&lines(&sample(0, 60_000, 1.0)));
    fs::write(&fine, text).unwrap();
    assert_eq!(votes(&read(&files)), (hours * 60) as f64);
}

#[test]
fn the_oldest_files_are_removed_at_the_size_limit() {
    let place = tempfile::tempdir().unwrap();
    let files = LoadFiles::open(place.path(), 20_000).unwrap();
    for at in (0..10 * HOUR_MS).step_by(60_000) {
        files.append(&sample(at, 60_000, 1.0)).unwrap();
    }
    // The current file is never removed.
    assert!(
        files.bytes().unwrap() < 40_000,
        "{}",
        files.bytes().unwrap()
    );
    let samples = read(&files);
    assert_eq!(
        samples.last().unwrap().interval.start.unix_ms(),
        START + 10 * HOUR_MS - 60_000
    );
}

#[test]
fn a_corrupt_line_only_hides_the_samples_after_it() {
    let place = tempfile::tempdir().unwrap();
    let files = LoadFiles::open(place.path(), 1 << 30).unwrap();
    files.append(&sample(0, 10_000, 1.0)).unwrap();
    let path = place
        .path()
        .join(Chunk::containing(0, Timestamp::from_unix_ms(START)).name());
    let mut text = fs::read(&path).unwrap();
    text.extend_from_slice(b"\xff\xfe not text\n");
    fs::write(&path, text).unwrap();
    assert_eq!(read(&files).len(), 1);
}
