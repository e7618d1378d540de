//! *EnsureParquetBackfill*: the closed polls of the slice are archived where it
//! is, so that they are copied as files.
//!
//! Each poll stands by itself, so a crash costs the one that was being written.
//! What closes later travels as rows.

use ballast_domain::Timestamp;
use ballast_domain::moving::Phase;
use ballast_state_machines::engine::TaskContext;
use ballast_vote_shard::At;
use ballast_vote_shard::archive::{ArchiveError, backfill, sweep};
use serde_json::json;

use super::paced::{Counted, Paced};
use super::{Done, Given, Steps, failed};
use crate::faults;

/// What nobody has named after so long, nobody will.
const LITTER_MS: i64 = 60 * 60 * 1_000;

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    let migration = steps.go_on(given, context).await?;
    let job = steps.job(&migration, context);
    let found = steps.worker.sides_of(&job).await.map_err(failed)?;
    let Some((seen, sides)) = found else {
        return Err(super::failed_over(&migration));
    };
    let phase = seen.route.moving.as_ref().map(|moving| moving.phase);
    let (from, source) = &sides.from;
    let held = source.fence(&job.slice).await;
    let held = held.map_err(|error| failed(sides.archive_failed(from, error.into())))?;
    if phase != Some(Phase::Copying) || held.is_none() {
        // It is farther than this, or nobody has voted yet.
        return Ok(json!({"polls": 0}));
    }
    let at = At {
        slice: job.slice.clone(),
        epoch: seen.route.epoch,
    };
    let (source, archive) = sides.source_archive().map_err(failed)?;
    let note = format!("archiving the closed polls on {from}");
    let rows_min = steps.moves.pace().archive_rows_min;
    let mut pace = Paced::heeding(steps, given, context, &sides.from, Counted::Polls, note);
    let work = async {
        // What a crash has left of an earlier one.
        let litter = Timestamp::from_unix_ms(steps.now_ms() - LITTER_MS);
        sweep(source, &archive, &at, litter).await?;
        let done = backfill(source, &archive, &at, rows_min, &mut pace).await?;
        Ok::<_, ArchiveError>(done)
    };
    let done = work.await;
    let done = done.map_err(|error| pace.failed(sides.archive_failed(from, error)))?;
    faults::point("archived", "polls");
    Ok(json!({"polls": done.polls, "rows": done.rows, "bytes": done.bytes}))
}

// Not undone: what is archived stays archived, on whichever side.
