//! A planted fault for process tests: corrupts rows without the shard's knowledge. Built only with
//! the feature `faults`, and active only if the environment has `BALLAST_ROWS_ROT`.
//!
//! A file `rot` with `TENANT SLICE POLL VOTER` in a shard's directory corrupts that voter's row as
//! soon as it exists; then the file is removed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, VoterId};
use ballast_vote_shard::embedded::EmbeddedShard;

use super::shards::LocalShards;

const LOOK: Duration = Duration::from_millis(5);
const FILE: &str = "rot";

/// Corrupts rows until it is dropped.
pub(crate) async fn watch(shards: Arc<LocalShards>) {
    if std::env::var_os("BALLAST_ROWS_ROT").is_none() {
        return;
    }
    loop {
        for (directory, shard) in shards.open_here() {
            let file = directory.join(FILE);
            if let Some(row) = read_target(&file)
                && corrupt_row(&shard, &row).await
            {
                let _ = std::fs::remove_file(&file);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn read_target(file: &Path) -> Option<(SliceId, PollId, VoterId)> {
    let text = std::fs::read_to_string(file).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let [tenant, slice, poll, voter] = words[..] else {
        return None;
    };
    let slice = SliceId {
        tenant_id: tenant.parse().ok()?,
        slice: slice.parse().ok()?,
    };
    Some((slice, poll.parse().ok()?, VoterId::new(voter).ok()?))
}

async fn corrupt_row(
    shard: &EmbeddedShard,
    (slice, poll, voter): &(SliceId, PollId, VoterId),
) -> bool {
    shard.corrupt_row(slice, *poll, voter).await.is_ok()
}
