//! Encoding and decoding round-trips, and detects every damaged byte.

use std::sync::Arc;

use ballast_domain::poll::RequestId;
use ballast_domain::tenant::Epoch;
use ballast_domain::{PollId, Timestamp, VoterId};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use proptest::prelude::*;

use super::world::FaultyStore;
use crate::archive::format::Encoder;
use crate::archive::writer::ArchiveWriter;
use crate::archive::{ArchiveError, ArchiveReader};
use crate::shard::{ArchiveFile, RowVersion, SliceKey, VoterName, VoterPrint, VoterRow};

pub(super) const KEY: SliceKey = SliceKey::from_bytes([7; 32]);

pub(super) fn poll() -> PollId {
    PollId::from_number(5)
}

/// The row's fingerprint.
pub(super) fn print(row: &VoterRow) -> VoterPrint {
    match &row.voter {
        VoterName::Named(name) => KEY.voter_print(name.as_str()),
        VoterName::Erased(print) => *print,
    }
}

pub(super) fn row(name: &str, items: &[u16], revision: u32) -> VoterRow {
    VoterRow {
        poll: poll(),
        voter: VoterName::Named(VoterId::new(name).unwrap()),
        items: items.to_vec(),
        version: RowVersion {
            epoch: Epoch(3),
            revision,
        },
        requests: (1..=revision.min(4))
            .map(|n| (RequestId(u64::MAX - u64::from(n)), n))
            .collect(),
        voted_at: Timestamp::from_unix_ms(1_794_821_400_000 + i64::from(revision)),
    }
}

/// Sorts rows by fingerprint, each voter once.
pub(super) fn in_order(mut rows: Vec<VoterRow>) -> Vec<VoterRow> {
    rows.sort_by_key(print);
    rows.dedup_by_key(|row| print(row));
    rows
}

/// Encodes rows in groups of `per_group`.
pub(super) fn encoded(rows: &[VoterRow], per_group: usize) -> (Vec<u8>, ArchiveFile) {
    let mut encoder = Encoder::new(poll(), KEY).unwrap();
    let mut bytes = Vec::new();
    for group in rows.chunks(per_group) {
        bytes.extend(encoder.group(group).unwrap());
    }
    let (tail, encoded) = encoder.finish().unwrap();
    bytes.extend(tail);
    let file = ArchiveFile {
        path: "acme/0/202611/file-1.parquet".to_owned(),
        generation: 1,
        digest: encoded.digest,
        bytes: encoded.bytes,
        tail_bytes: encoded.tail_bytes,
        checksum: encoded.checksum,
    };
    assert_eq!(file.bytes, bytes.len() as u64);
    (bytes, file)
}

async fn stored(bytes: Vec<u8>, file: &ArchiveFile) -> Arc<FaultyStore> {
    let store = Arc::new(FaultyStore::default());
    let path = Path::from(file.path.as_str());
    store.memory.put(&path, bytes.into()).await.unwrap();
    store
}

/// Reads all rows, page by page.
pub(super) async fn read(reader: &ArchiveReader) -> Result<Vec<VoterRow>, ArchiveError> {
    let (mut rows, mut after) = (Vec::new(), None);
    while let Some((last, more)) = reader.rows_after(after, &KEY).await? {
        rows.extend(more);
        after = Some(last);
    }
    Ok(rows)
}

fn any_row() -> impl Strategy<Value = VoterRow> {
    let requests = prop::collection::vec((any::<u64>(), any::<u32>()), 0..5);
    let voter = prop_oneof![
        4 => "[a-zA-Z0-9ß€🗳._-]{1,40}".prop_map(|name| VoterName::Named(VoterId::new(&name).unwrap())),
        1 => any::<[u64; 2]>().prop_map(|print| VoterName::Erased(VoterPrint(print))),
    ];
    let items = prop::collection::vec(any::<u16>(), 0..6);
    (
        voter,
        items,
        any::<u64>(),
        any::<u32>(),
        requests,
        any::<i64>(),
    )
        .prop_map(|(voter, items, epoch, revision, requests, ms)| VoterRow {
            poll: poll(),
            voter,
            items,
            version: RowVersion {
                epoch: Epoch(epoch),
                revision,
            },
            requests: requests
                .into_iter()
                .map(|(id, revision)| (RequestId(id), revision))
                .collect(),
            voted_at: Timestamp::from_unix_ms(ms),
        })
}

proptest! {
    #[test]
    fn rows_are_read_as_they_were_written(
        rows in prop::collection::vec(any_row(), 0..60),
        per_group in 1usize..40,
    ) {
        let rows = in_order(rows);
        let (bytes, file) = encoded(&rows, per_group);
        prop_assert_eq!(file.digest.rows, rows.len() as u64);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = stored(bytes, &file).await;
            let reader = ArchiveReader::open(&store.archive(), &file, poll()).await.unwrap();
            prop_assert_eq!(&read(&reader).await.unwrap(), &rows);
            let found = reader.read_all(&KEY).await.unwrap();
            prop_assert_eq!(found.digest, file.digest);
            for row in rows.iter().take(5) {
                let one = reader.find(print(row), &KEY).await.unwrap();
                prop_assert_eq!(one.as_ref(), Some(row));
            }
            let nobody = KEY.voter_print("nobody at all");
            prop_assert_eq!(reader.find(nobody, &KEY).await.unwrap(), None);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn every_changed_byte_is_noticed_and_no_wrong_row_is_read() {
    let rows = in_order((0..9).map(|n| row(&format!("v{n}"), &[n % 3], 1)).collect());
    let (bytes, file) = encoded(&rows, 4);
    for place in 0..bytes.len() {
        let mut rotten = bytes.clone();
        rotten[place] ^= 1 << (place % 8);
        let store = stored(rotten, &file).await;
        let whole = async {
            let reader = ArchiveReader::open(&store.archive(), &file, poll()).await?;
            // Readable rows are correct.
            for row in &rows {
                match reader.find(print(row), &KEY).await {
                    Ok(found) => assert_eq!(found.as_ref(), Some(row), "byte {place}"),
                    Err(ArchiveError::Damaged { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            reader.check().await?;
            reader.read_all(&KEY).await
        };
        match whole.await {
            Err(ArchiveError::Damaged { path, .. }) => assert_eq!(path, file.path),
            other => panic!("byte {place} was changed: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_file_that_is_short_away_or_another_poll_s_is_named() {
    let (bytes, file) = encoded(&in_order(vec![row("a", &[1], 1), row("b", &[2], 1)]), 9);
    let store = stored(bytes[..bytes.len() - 1].to_vec(), &file).await;
    let short = ArchiveReader::open(&store.archive(), &file, poll())
        .await
        .err();
    assert!(matches!(short, Some(ArchiveError::Damaged { .. })));
    let store = Arc::new(FaultyStore::default());
    let away = ArchiveReader::open(&store.archive(), &file, poll())
        .await
        .err();
    assert!(matches!(away, Some(ArchiveError::Missing { .. })));
    let store = stored(bytes, &file).await;
    let other = PollId::from_number(6);
    let other = ArchiveReader::open(&store.archive(), &file, other)
        .await
        .err();
    assert!(other.unwrap().to_string().contains("another poll"));
    let reader = ArchiveReader::open(&store.archive(), &file, poll())
        .await
        .unwrap();
    let key = SliceKey::from_bytes([8; 32]);
    assert!(reader.read_all(&key).await.is_err(), "another slice's key");
}

#[test]
fn rows_out_of_order_are_not_written() {
    let mut rows = in_order(vec![row("a", &[1], 1), row("b", &[2], 1)]);
    rows.reverse();
    let mut encoder = Encoder::new(poll(), KEY).unwrap();
    assert!(encoder.group(&rows).is_err());
    let mut encoder = Encoder::new(poll(), KEY).unwrap();
    assert!(encoder.group(&[rows[0].clone(), rows[0].clone()]).is_err());
}

/// A poll of 100,000 voters is written and read in parts.
#[tokio::test]
async fn a_large_poll_is_never_whole_in_memory() {
    let rows = (0..100_000).map(|n| row(&format!("voter-{n:06}"), &[n as u16 % 4], 1));
    let rows = in_order(rows.collect());
    let store = Arc::new(FaultyStore::default());
    let archive = store.archive();
    let mut writer = ArchiveWriter::begin(&archive, "large", poll(), KEY)
        .await
        .unwrap();
    for row in rows.clone() {
        writer.push(row).await.unwrap();
    }
    let encoded = writer.finish().await.unwrap();
    let file = ArchiveFile {
        path: "large".to_owned(),
        generation: 1,
        digest: encoded.digest,
        bytes: encoded.bytes,
        tail_bytes: encoded.tail_bytes,
        checksum: encoded.checksum,
    };
    // Parts of 5 MB plus one group, whatever the size of the poll.
    assert!(store.largest() < 7 << 20, "{}", store.largest());
    let store = store.again();
    let reader = ArchiveReader::open(&store.archive(), &file, poll())
        .await
        .unwrap();
    let (mut read, mut after) = (0, None);
    while let Some((last, more)) = reader.rows_after(after, &KEY).await.unwrap() {
        assert!(more.len() <= 16_384);
        assert_eq!(more, rows[read..read + more.len()]);
        read += more.len();
        after = Some(last);
    }
    assert_eq!(read, rows.len());
    assert!(store.largest() < file.bytes / 5, "{}", store.largest());
    // Reading one voter reads one group, not the file.
    let one = reader.find(print(&rows[77_777]), &KEY).await.unwrap();
    assert_eq!(one.as_ref(), Some(&rows[77_777]));
}
