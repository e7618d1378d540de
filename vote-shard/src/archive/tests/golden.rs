//! A file of format version 1 must stay readable.

use std::sync::Arc;

use ballast_domain::Timestamp;
use object_store::ObjectStoreExt as _;
use object_store::path::Path;

use super::files::{KEY, encoded, in_order, poll, read, row};
use super::world::FaultyStore;
use crate::archive::ArchiveReader;
use crate::shard::{ArchiveFile, VoterName, VoterPrint, VoterRow};

const GOLDEN: &[u8] = include_bytes!("../../../tests/golden/archive-v1.parquet");
const GOLDEN_FILE: &str = include_str!("../../../tests/golden/archive-v1.json");

fn rows() -> Vec<VoterRow> {
    let mut erased = row("nobody", &[], 7);
    erased.voter = VoterName::Erased(VoterPrint([u64::MAX, 1]));
    erased.voted_at = Timestamp::from_unix_ms(-1);
    in_order(vec![
        row("user-1", &[3], 1),
        row("Zoë", &[0, 2, 700], 2),
        row("🗳", &[1], 9),
        erased,
    ])
}

/// If this fails because the Parquet library writes different bytes, the format
/// is unchanged: keep the golden file, and pin the new bytes in addition. If
/// the file cannot be read, the format has changed, and old archives are lost.
#[tokio::test]
async fn the_format_is_pinned() {
    let (bytes, file) = encoded(&rows(), 3);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/archive-v1");
        std::fs::write(format!("{place}.parquet"), &bytes).unwrap();
        let json = serde_json::to_string_pretty(&file).unwrap();
        std::fs::write(format!("{place}.json"), json + "\n").unwrap();
        return;
    }
    let golden: ArchiveFile = serde_json::from_str(GOLDEN_FILE).unwrap();
    let store = Arc::new(FaultyStore::default());
    let path = Path::from(golden.path.as_str());
    store.memory.put(&path, GOLDEN.into()).await.unwrap();
    let reader = ArchiveReader::open(&store.archive(), &golden, poll())
        .await
        .unwrap();
    assert_eq!(read(&reader).await.unwrap(), rows());
    assert_eq!(reader.read_all(&KEY).await.unwrap().voting, 3);
    assert_eq!(file, golden);
    assert_eq!(bytes, GOLDEN);
}
