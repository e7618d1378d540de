//! Tests of load records: reading, writing, compaction and errors.

use super::super::{Tier, compact, downsample, header, lines};
use super::*;
use crate::load::Sketch;
use crate::load::{
    Flow, IoWait, ItemName, ItemSample, KeySample, LoadHistory, SliceSample, Window,
};
use crate::resources::Resources;
use ballast_domain::poll::{ItemId, PollId};
use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, Timestamp};

const START: i64 = 1_800_000_000_000;
const GOLDEN: &str = include_str!("golden.ndjson");

fn shard(name: &str, votes: f64) -> ShardSample {
    let capacity = Resources {
        votes: 1_000.0,
        storage: 1e9,
        ..Resources::default()
    };
    let mut shard = ShardSample::new(name.parse().unwrap(), "eu".parse().unwrap(), capacity);
    shard.flow = Flow {
        votes,
        queries: 20.0,
        bytes: 4_096.0,
        errors: 1.0,
        throttles: 0.0,
    };
    shard.storage = Some(5e8);
    shard.concurrency = Some(1.5);
    shard.io_wait = Some(IoWait {
        queue: 0.1,
        fsync: 0.05,
    });
    shard.vote_latency.add_many(1.5, 90);
    shard.vote_latency.add_many(20.0, 10);
    let slice = SliceId {
        tenant_id: "acme".parse().unwrap(),
        slice: 0,
    };
    shard.slices.push(SliceSample {
        slice: slice.clone(),
        flow: Flow {
            votes,
            ..Flow::default()
        },
        storage: Some(4e8),
        concurrency: 0.5,
    });
    shard.keys.push(KeySample {
        key: "key-1".parse().unwrap(),
        tenant: "acme".parse().unwrap(),
        calls: votes,
        refused: 1.0,
    });
    let poll = PollId::from_number(7);
    let name = ItemName {
        slice,
        poll,
        item: ItemId::from_position(poll, 0),
    };
    shard.items.push(ItemSample {
        name,
        votes,
        lanes: vec![50, 51],
    });
    shard
}

fn sample(step: i64, shards: &[&str]) -> LoadSample {
    let start = Timestamp::from_unix_ms(START + step * 10_000);
    LoadSample {
        interval: Interval { start, ms: 10_000 },
        shards: shards
            .iter()
            .map(|name| shard(name, 100.0 + step as f64))
            .collect(),
    }
}

fn record(samples: &[LoadSample]) -> String {
    let body: String = samples.iter().map(lines).collect();
    header("a test") + &body
}

#[test]
fn a_written_record_reads_back_the_same() {
    let samples = [
        sample(0, &["shard-1", "shard-2"]),
        sample(1, &["shard-2"]),
        sample(5, &["shard-1"]),
    ];
    assert_eq!(read(&record(&samples)).unwrap(), samples);
}

#[test]
fn the_golden_file_is_read_and_written_as_it_is() {
    let samples = read(GOLDEN).unwrap();
    assert_eq!(samples.len(), 2);
    assert_eq!(samples[0].shards[0].slices.len(), 1);
    assert_eq!(
        record(&[sample(0, &["shard-1"]), sample(1, &["shard-1", "shard-2"])]),
        GOLDEN
    );
}

#[test]
fn a_minimal_record_is_valid() {
    let text = concat!(
        "{\"format\":\"ballast-load\",\"version\":1,\"x-host\":\"a\"}\n\n",
        "{\"kind\":\"shard\",\"at\":\"2027-01-15T08:00:00Z\",\"ms\":60000,\"shard\":\"a\",\"region\":\"eu\",",
        "\"flow\":{\"votes\":600},\"queryLatency\":{\"count\":100,\"p50\":5,\"p95\":80,\"p99\":200},\"x-note\":1}\n",
        "{\"kind\":\"x-weather\",\"sun\":true}\n",
        "{\"kind\":\"slice\",\"at\":\"2027-01-15T08:00:00Z\",\"shard\":\"a\",\"tenant\":\"t\"}\n",
    );
    let samples = read(text).unwrap();
    let shard = &samples[0].shards[0];
    let p95 = shard.query_latency.quantile(0.95).unwrap();
    assert!((p95 - 80.0).abs() < 80.0 * crate::load::latency::ERROR);
    assert_eq!(shard.storage, None);
    assert_eq!(shard.slices.len(), 1);
}

#[test]
fn errors_name_their_line() {
    let head = "{\"format\":\"ballast-load\",\"version\":1}\n";
    let line = |more: &str| {
        format!(
            "{head}{{\"kind\":\"shard\",\"at\":\"2027-01-15T08:00:00Z\",\"ms\":1000,\"shard\":\"a\",\"region\":\"eu\"{more}}}\n"
        )
    };
    let good = line("");
    let later =
        "{\"kind\":\"slice\",\"at\":\"2027-01-15T08:00:00Z\",\"shard\":\"b\",\"tenant\":\"t\"}";
    let cases = [
        String::new(),
        "{\"format\":\"ballast-load\",\"version\":2}".to_owned(),
        "{\"format\":\"csv\",\"version\":1}".to_owned(),
        format!("{head}not json"),
        format!("{head}{{\"kind\":\"shards\"}}"),
        line(",\"votse\":3"),
        line(",\"flow\":{\"votes\":-1}"),
        line(",\"ioWait\":{\"queue\":80,\"fsync\":0}"),
        line(",\"measuredMs\":2000"),
        line(",\"voteLatency\":{\"p50\":3}"),
        line(",\"voteLatency\":{\"count\":3,\"p50\":30,\"p95\":20,\"p99\":40}"),
        line(",\"voteLatency\":{\"buckets\":[[100000,1]]}"),
        format!("{good}{later}"),
        format!("{good}{}", good.lines().last().unwrap()),
        format!(
            "{good}{}",
            good.lines()
                .last()
                .unwrap()
                .replace("08:00:00", "07:59:59.5")
        ),
        format!("{head}{}", "x".repeat(LINE_BYTES_MAX + 1)),
    ];
    let mut said = String::new();
    for case in cases {
        said.push_str(&format!("{}\n", read(&case).unwrap_err()));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn coarser_steps_keep_the_sums_and_the_rates() {
    // The second shard is measured only half of the time.
    let samples: Vec<_> = (0..12)
        .map(|step| {
            sample(
                step,
                if step % 2 == 0 {
                    &["shard-1", "shard-2"]
                } else {
                    &["shard-1"]
                },
            )
        })
        .collect();
    let votes = |samples: &[LoadSample], name: &str| -> f64 {
        let shards = samples.iter().flat_map(|sample| &sample.shards);
        shards
            .filter(|shard| shard.shard.as_str() == name)
            .map(|shard| shard.flow.votes)
            .sum()
    };
    let coarse = downsample(samples.clone(), 60_000);
    assert_eq!(coarse.len(), 2);
    for name in ["shard-1", "shard-2"] {
        assert!((votes(&coarse, name) - votes(&samples, name)).abs() < 1e-9);
    }
    assert_eq!(coarse[0].shards[1].measured_ms, Some(30_000));
    assert_eq!(coarse[0].shards[0].measured_ms, None);
    assert_eq!(coarse[0].shards[0].vote_latency.count(), 600);
    assert!((coarse[0].shards[0].slices[0].concurrency - 0.5).abs() < 1e-9);
    assert_eq!(downsample(coarse.clone(), 60_000), coarse);
    // Votes a second are the same in both.
    let rate = |samples: Vec<LoadSample>| {
        let mut history = LoadHistory::default();
        samples
            .into_iter()
            .for_each(|sample| history.add_sample(sample).unwrap());
        let name: ShardId = "shard-2".parse().unwrap();
        history
            .view(history.shard(&name).unwrap(), Window::Short)
            .unwrap()
            .used
            .votes
    };
    assert!((rate(coarse) - rate(samples[6..].to_vec())).abs() < 1e-6);
}

#[test]
fn old_load_is_compacted_and_then_dropped() {
    let tiers = [
        Tier {
            step_ms: 10_000,
            keep_ms: 60_000,
        },
        Tier {
            step_ms: 60_000,
            keep_ms: 600_000,
        },
    ];
    let mut kept: Vec<LoadSample> = Vec::new();
    for step in 0..180 {
        kept.push(sample(step, &["shard-1"]));
        let now = kept.last().unwrap().interval.end();
        kept = compact(kept, now, &tiers);
        assert_eq!(compact(kept.clone(), now, &tiers), kept, "twice is once");
        let text = record(&kept);
        assert_eq!(
            read(&text).unwrap(),
            kept,
            "a compacted record is still a valid record"
        );
    }
    assert!(kept.len() <= 12 + 11, "{}", kept.len());
    assert_eq!(kept.last().unwrap().interval.ms, 10_000);
    assert_eq!(kept[0].interval.ms, 60_000);
}

#[test]
fn an_empty_sketch_is_left_out() {
    let mut one = sample(0, &["shard-1"]);
    one.shards[0].vote_latency = Sketch::default();
    assert!(!lines(&one).contains("voteLatency"));
}

#[test]
fn duplicates_are_rejected_and_the_line_is_named_once() {
    let golden = include_str!("golden.ndjson");
    for kind in ["slice", "key", "item"] {
        let mut lines: Vec<_> = golden.lines().collect();
        let is_of = |line: &&str| line.contains(&format!("\"kind\":\"{kind}\""));
        let at = lines.iter().position(is_of).unwrap();
        lines.insert(at + 1, lines[at]);
        let bad = read(&lines.join("\n")).unwrap_err();
        assert_eq!(bad.line, at as u64 + 2, "{bad}");
        assert!(bad.why.contains("duplicate"), "{bad}");
    }
    let broken = format!("{}\n{{\"kind\":", golden.lines().next().unwrap());
    let said = read(&broken).unwrap_err().to_string();
    assert_eq!(said.matches("line").count(), 1, "{said}");
    assert!(said.starts_with("line 2: "), "{said}");
}
