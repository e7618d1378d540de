//! Properties of the records.

use ballast_domain::poll::{ItemSpec, Poll, PollOptions, PollSpec};
use ballast_domain::{PollId, TenantId};
use proptest::prelude::*;

use super::*;
use crate::shard::{ArchiveFile, ArchivedRows, MigrationId, MigrationToken};

fn time(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(ms)
}

fn slice() -> SliceId {
    SliceId {
        tenant_id: "acme".parse::<TenantId>().unwrap(),
        slice: 0,
    }
}

fn version(epoch: u64, revision: u32) -> RowVersion {
    RowVersion {
        epoch: Epoch(epoch),
        revision,
    }
}

fn examples() -> Vec<Record<'static>> {
    let poll = Poll {
        poll_id: PollId::from_number(9),
        request: RequestId(3),
        spec: PollSpec {
            title: Some("Best".to_owned()),
            items: vec![ItemSpec {
                item_name: "one".to_owned(),
                description: None,
            }],
            opening_time: None,
            expiration_time: time(9_000),
            expected_voters: None,
            options: PollOptions::default(),
        },
        created_at: time(1_000),
        closed_at: Some(time(2_000)),
    };
    vec![
        Record::Slice(SliceRecord {
            slice: slice(),
            fence: Fence::new_owner(Epoch(1)),
            key: SliceKey::from_bytes([1; 32]),
            range: HashRange::WHOLE,
        }),
        Record::Poll(
            4,
            Box::new(PollRecord {
                slice: slice(),
                row: PollRow {
                    poll,
                    version: version(1, 2),
                    carried: vec![5],
                    imports: vec![RequestId(9)],
                    archived: None,
                },
                fewer_lanes: false,
            }),
        ),
        Record::Vote(VoteRecord {
            poll: 4,
            epoch: Epoch(1),
            item: 0,
            request: RequestId(0x1122_3344_5566_7788),
            at: time(998),
            voter: "user-1",
        }),
        Record::Row(RowRecord {
            poll: 300,
            version: version(2, 3),
            items: vec![0, 700],
            requests: vec![(RequestId(1), 2), (RequestId(2), 3)],
            at: time(5_000),
            voter: RecordVoter::Erased(VoterPrint([1, 2])),
        }),
        Record::Gone(4),
        Record::Counters(
            4,
            Box::new(Counters {
                voting: 300,
                digest: Digest {
                    rows: 301,
                    sum: [1, 2, 3, u64::MAX],
                },
                lanes: vec![vec![100, 200], vec![0, 1]],
            }),
        ),
    ]
}

fn group(records: &[Record<'_>]) -> Vec<u8> {
    let mut payload = Vec::new();
    begin(&mut payload, time(1_000));
    for record in records {
        write(&mut payload, time(1_000), record);
    }
    payload
}

#[test]
fn a_group_is_read_as_it_was_written() {
    let payload = group(&examples());
    let (now, records) = read(&payload).unwrap();
    assert_eq!(now, time(1_000));
    let back: Vec<_> = records.map(Result::unwrap).collect();
    assert_eq!(back, examples());
}

#[test]
fn the_format_is_pinned() {
    // Golden bytes: a change is a change of the format.
    let payload = group(&examples());
    let golden = include_str!("../../../tests/golden/group-v1.hex");
    pinned("group-v1.hex", &payload, golden);
}

fn pinned(name: &str, payload: &[u8], golden: &str) {
    let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
        std::fs::write(format!("{golden}/{name}"), format!("{hex}\n")).unwrap();
        return;
    }
    assert_eq!(hex, golden.trim());
}

/// A program without archives must not treat an archived poll's rows as lost.
#[test]
fn an_archived_poll_has_a_record_of_its_own() {
    let mut records = examples();
    let Record::Poll(_, record) = &mut records[1] else {
        panic!("unexpected examples")
    };
    record.row.archived = Some(Box::new(ArchivedRows {
        file: ArchiveFile {
            path: "acme/0/202611/file-1.parquet".to_owned(),
            generation: 1,
            digest: Digest {
                rows: 2,
                sum: [1, 2, 3, u64::MAX],
            },
            bytes: 1_000,
            tail_bytes: 100,
            checksum: "ab".to_owned(),
        },
        voting: 2,
        lanes: vec![vec![1, 1]],
    }));
    let own = [records[1].clone()];
    let payload = group(&own);
    assert_eq!(payload[9], 7, "the tag");
    assert_eq!(
        group(&examples()[1..2])[9],
        2,
        "the tag of a poll with rows"
    );
    let (_, back) = read(&payload).unwrap();
    assert_eq!(back.map(Result::unwrap).collect::<Vec<_>>(), own);
}

/// A program without recuts must not treat a part as the whole slice, nor look
/// for polls that have moved to another slice.
#[test]
fn parts_and_cuts_have_records_of_their_own() {
    let part = |slice, fence, range| SliceRecord {
        slice: SliceId {
            slice,
            ..self::slice()
        },
        fence,
        key: SliceKey::from_bytes([1; 32]),
        range,
    };
    let token = MigrationToken {
        migration_id: MigrationId("rc-1".to_owned()),
        token: 3 << 20,
    };
    let (low, high) = (
        HashRange {
            from: 0,
            to: u64::MAX / 2,
        },
        HashRange {
            from: u64::MAX / 2 + 1,
            to: u64::MAX,
        },
    );
    let sealed = Fence::new_owner(Epoch(2)).seal(Epoch(3), &token).unwrap();
    let gone = sealed.recut(Epoch(3), &token).unwrap();
    let child = Fence::new_child_owner(Epoch(3), &token);
    let records = [
        Record::Slice(part(1, child.clone(), low)),
        Record::Recut(Box::new(RecutRecord {
            parents: vec![part(0, gone, HashRange::WHOLE)],
            children: vec![part(1, child.clone(), low), part(2, child, high)],
        })),
    ];
    let payload = group(&records);
    assert_eq!(payload[9], 8, "the tag of a part");
    assert_eq!(group(&records[1..])[9], 9, "the tag of a recut");
    let (_, back) = read(&payload).unwrap();
    assert_eq!(back.map(Result::unwrap).collect::<Vec<_>>(), records);
    pinned(
        "group-v1-cuts.hex",
        &payload,
        include_str!("../../../tests/golden/group-v1-cuts.hex"),
    );
}

/// A program that only adds lanes must not continue with the counts of removed
/// lanes.
#[test]
fn a_poll_with_fewer_lanes_has_a_record_of_its_own() {
    let mut records = examples();
    let Record::Poll(_, record) = &mut records[1] else {
        panic!("unexpected examples")
    };
    record.row.poll.closed_at = None;
    record.row.poll.spec.options.lanes = 3;
    record.fewer_lanes = true;
    let own = [records[1].clone()];
    let payload = group(&own);
    assert_eq!(payload[9], 10, "the tag");
    let (_, back) = read(&payload).unwrap();
    assert_eq!(back.map(Result::unwrap).collect::<Vec<_>>(), own);
    pinned(
        "group-v1-narrowed.hex",
        &payload,
        include_str!("../../../tests/golden/group-v1-narrowed.hex"),
    );
}

#[test]
fn a_newer_group_is_refused_and_not_guessed_at() {
    let mut payload = group(&examples());
    payload[0] = 2;
    let error = read(&payload).err().unwrap().to_string();
    assert!(error.contains("format version 2"), "{error}");
}

proptest! {
    #[test]
    fn anything_can_be_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut payload = vec![VERSION];
        payload.extend(bytes);
        if let Ok((_, records)) = read(&payload) {
            for record in records.take(1_000) {
                let _ = record;
            }
        }
    }

    #[test]
    fn a_cut_group_is_an_error_or_a_shorter_one(cut in 0usize..400) {
        let payload = group(&examples());
        let cut = cut.min(payload.len());
        if let Ok((_, records)) = read(&payload[..cut]) {
            for (record, whole) in records.zip(examples()) {
                if let Ok(record) = record {
                    prop_assert_eq!(record, whole);
                }
            }
        }
    }
}
