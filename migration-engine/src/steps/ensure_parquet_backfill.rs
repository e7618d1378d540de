//! *EnsureParquetBackfill*: archives the slice's closed polls on the source, so that
//! they are copied as files.
//!
//! Each poll is a file of its own, so a crash only loses the file that was being
//! written. Polls that close later are copied as rows.

use ballast_domain::Timestamp;
use ballast_domain::moving::MigrationPhase;
use ballast_state_machines::engine::TaskContext;
use ballast_vote_shard::FencedSlice;
use ballast_vote_shard::archive::{ArchiveError, backfill, remove_unreferenced};
use serde_json::json;

use super::paced_work::{PacedWork, ProgressUnit};
use super::{MigrationSteps, StepInput, StepResult, to_task_error};
use crate::faults;

/// A file that no row refers to after this time was left by a crash.
const LITTER_MS: i64 = 60 * 60 * 1_000;

pub(super) async fn run(
    steps: &MigrationSteps,
    input: &StepInput,
    context: &TaskContext,
) -> StepResult {
    let migration = steps.open_unless_cancelled(input, context).await?;
    let job = steps.job(&migration, context);
    let active = steps
        .worker
        .active_sides(&job)
        .await
        .map_err(to_task_error)?;
    let Some((record, sides)) = active else {
        return Err(super::not_active_error(&migration));
    };
    let phase = record.route.moving.as_ref().map(|moving| moving.phase);
    let (from, source) = &sides.from;
    let held = source.fence(&job.slice).await;
    let held = held.map_err(|error| to_task_error(sides.archive_error(from, error.into())))?;
    if phase != Some(MigrationPhase::Copying) || held.is_none() {
        // The migration is already further, or the slice was never written to.
        return Ok(json!({"polls": 0}));
    }
    let at = FencedSlice {
        slice: job.slice.clone(),
        epoch: record.route.epoch,
    };
    let (source, archive) = sides.source_archive().map_err(to_task_error)?;
    let note = format!("archiving the closed polls on {from}");
    let rows_min = steps.moves.pace().archive_rows_min;
    let mut pace = PacedWork::interruptible(
        steps,
        input,
        context,
        &sides.from,
        ProgressUnit::Polls,
        note,
    );
    let work = async {
        // Remove files that a crash has left.
        let litter = Timestamp::from_unix_ms(steps.now_ms() - LITTER_MS);
        remove_unreferenced(source, &archive, &at, litter).await?;
        let done = backfill(source, &archive, &at, rows_min, &mut pace).await?;
        Ok::<_, ArchiveError>(done)
    };
    let done = work.await;
    let done = done.map_err(|error| pace.into_task_error(sides.archive_error(from, error)))?;
    faults::crash_point("archived", "polls");
    Ok(json!({"polls": done.polls, "rows": done.rows, "bytes": done.bytes}))
}

// Not undone: archived polls stay archived, on either side.
