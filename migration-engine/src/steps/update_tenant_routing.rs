//! *UpdateTenantRouting*: the cutover. Seals the source, copies the rest, compares
//! both sides, and makes the target the owner in the record: the point of no return.
//! First it waits until the expected write pause is short enough; if the pause then
//! takes longer than allowed, it is postponed.

use std::time::Duration;

use ballast_domain::certificate::VoteProof;
use ballast_domain::migration::{Migration, MigrationStage, StreamedBack};
use ballast_domain::moving::MigrationPhase;
use ballast_state_machines::engine::{TaskContext, TaskError};
use serde_json::json;

use super::difference_report::describe_differences;
use super::paced_work::{PacedWork, ProgressUnit};
use super::wait_for_sync::parse_progress;
use super::{
    DIFFERENT, FOR_RESUME, MigrationSteps, StepInput, StepResult, UNAVAILABLE, report_progress,
    to_store_task_error, to_task_error,
};
use crate::copy::CopyProgress;
use crate::worker::{
    LeasedMigration, MigrationError, MigrationProgress, MigrationWorker, WorkGoal, WorkOutcome,
    differing_polls,
};

/// How long the commits of a cutover take, if the shards do not report their latency.
const COMMITS_MS: i64 = 10;
/// How long to copy before the seal.
const CATCH_UP_MS: i64 = 5_000;
/// A round this short leaves little to copy.
const ROUND_MS: i64 = 10;
/// The longest wait between two attempts is two to the power of this, in seconds.
const BACKOFF_DOUBLINGS_MAX: u32 = 5;
/// When to check again whether the cutover is still on hold.
const HOLD_RETRY_SECONDS: u64 = 2;
/// How often to check for an operator's requests while waiting.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

pub(super) async fn run(
    steps: &MigrationSteps,
    input: &StepInput,
    context: &TaskContext,
) -> StepResult {
    let migration = steps.open_unless_cancelled(input, context).await?;
    let mut job = steps.job(&migration, context);
    let mut progress = MigrationProgress {
        copied: parse_progress(&input.sync),
        ..MigrationProgress::default()
    };
    if migration.asked.paused.is_some() {
        steps.record_waiting(&migration, Some(FOR_RESUME)).await?;
        return postponed_output(FOR_RESUME, 1, &progress.copied);
    }
    let expected = catch_up(steps, &job, &mut progress.copied, context).await?;
    // A cutover that has started is finished.
    if expected.is_some()
        && let Some(why) = steps
            .moves
            .cutover_hold(&migration)
            .await
            .map_err(to_store_task_error)?
    {
        steps.record_waiting(&migration, Some(&why)).await?;
        return postponed_output(&why, HOLD_RETRY_SECONDS, &progress.copied);
    }
    if let Some(expected) = expected
        && let Some(most) = migration.terms.max_pause_ms
        && expected > most
    {
        let why = format!(
            "a quieter moment: the write pause would be about {expected} ms, and {most} ms are allowed"
        );
        return postpone(steps, (input, context), &migration, &why, &progress).await;
    }
    let seal_max = steps.moves.pace().seal_max_ms;
    let seal_max = migration
        .terms
        .max_pause_ms
        .map_or(seal_max, |most| most.min(seal_max));
    job.seal_max_ms = Some(seal_max);
    report_progress(context, 0, None, "", format!("sealing {}", migration.from));
    let reached = steps
        .worker
        .work(&job, WorkGoal::CutOver, &mut progress)
        .await;
    match reached {
        Ok(WorkOutcome::GoalReached) => {
            record_cutover(steps, input, (&migration, &job), progress).await
        }
        Ok(WorkOutcome::Postponed) => {
            let why = format!("a quieter moment: the cutover took longer than {seal_max} ms");
            postpone(steps, (input, context), &migration, &why, &progress).await
        }
        Ok(WorkOutcome::Ended { .. } | WorkOutcome::Unknown) => {
            Err(super::not_active_error(&migration))
        }
        Err(error) => {
            // Take votes again until the next attempt.
            if let Err(also) = steps.worker.unseal_overdue(&migration, 0).await {
                tracing::warn!(id = %migration.migration_id, error = %also, "cannot unseal the slice yet");
            }
            Err(describe_failure(steps, &migration, &job, error).await)
        }
    }
}

/// Converts a worker's error for the workflow. If the copy differs, records a finding
/// with the rows.
async fn describe_failure(
    steps: &MigrationSteps,
    migration: &Migration,
    job: &LeasedMigration,
    error: MigrationError,
) -> TaskError {
    let found = match &error {
        MigrationError::Different { .. } => steps.worker.active_sides(job).await,
        _ => return to_task_error(error),
    };
    let Ok(Some((_, sides))) = found else {
        return to_task_error(error);
    };
    let Ok((source, target)) = sides.digests(&job.slice).await else {
        return to_task_error(error);
    };
    let polls = differing_polls(&source, &target);
    let report = describe_differences(&sides.from, &sides.to, &job.slice, &polls, &[]).await;
    let place = ("UpdateTenantRouting", &sides.to.0);
    let then = "the migration is rolled back";
    if let Err(also) = steps
        .record_finding(migration, place, &report, then, |_| {})
        .await
    {
        return also;
    }
    TaskError::new(DIFFERENT, format!("{error}: {}", report.to_line()))
}

/// Copies until little is left, and returns the expected write pause in milliseconds;
/// `None` if the migration is already further.
pub(super) async fn catch_up(
    steps: &MigrationSteps,
    job: &LeasedMigration,
    copied: &mut CopyProgress,
    context: &TaskContext,
) -> Result<Option<u64>, TaskError> {
    let Some((record, sides)) = steps
        .worker
        .active_sides(job)
        .await
        .map_err(to_task_error)?
    else {
        return Ok(None);
    };
    let phase = record.route.moving.as_ref().map(|moving| moving.phase);
    if phase != Some(MigrationPhase::Copying) {
        return Ok(None);
    }
    let token = MigrationWorker::command_token(job, &record);
    let note = format!("checking the files on {}", sides.to.0);
    let mut pace =
        PacedWork::uninterruptible(steps, context, &sides.from, ProgressUnit::Bytes, note);
    let there = sides.ensure_all_files(&job.slice, &token, &mut pace).await;
    there.map_err(|error| pace.into_task_error(error))?;
    let until = steps.now_ms() + CATCH_UP_MS;
    report_progress(
        context,
        copied.rows,
        None,
        "rows",
        "copying the last changes",
    );
    let round = loop {
        let began = steps.now_ms();
        while !sides
            .copy_page(&job.slice, &token, copied)
            .await
            .map_err(to_task_error)?
            .caught_up
        {
            let note = "copying the last changes";
            report_progress(context, copied.rows, None, "rows", note);
        }
        let now = steps.now_ms();
        if now - began <= ROUND_MS || now >= until {
            break now - began;
        }
    };
    let began = steps.now_ms();
    // What is compared now need not be compared during the write pause.
    sides.compare(&job.slice).await.map_err(to_task_error)?;
    let compared = steps.now_ms() - began;
    let commits = commits_ms(sides.from.1.commit_micros(), sides.to.1.commit_micros());
    let expected = (round + compared + commits).max(0);
    check_lease(context.lease_left_ms(), steps.moves.pace().seal_max_ms)?;
    Ok(Some(expected.unsigned_abs()))
}

/// Refuses to seal if the worker's lease could expire before the seal ends (INV-22):
/// the execution store, or this process, was unavailable. The task is retried, or
/// another worker takes over.
fn check_lease(lease_left_ms: i64, seal_max_ms: u64) -> Result<(), TaskError> {
    if i64::try_from(seal_max_ms).is_ok_and(|most| lease_left_ms >= most) {
        return Ok(());
    }
    let left = lease_left_ms.max(0);
    let why = format!(
        "not sealing: this worker's lease expires in {left} ms, and a seal may last \
         {seal_max_ms} ms"
    );
    Err(TaskError::new(UNAVAILABLE, why))
}

/// Estimates how long the seal, the record and the target's fence take to become
/// durable, in milliseconds, from the shards' current commit latencies. The record
/// counts as slow as the slower shard.
fn commits_ms(from_micros: Option<u64>, to_micros: Option<u64>) -> i64 {
    from_micros.zip(to_micros).map_or(COMMITS_MS, |(from, to)| {
        let micros = from + to + from.max(to);
        i64::try_from(micros.div_ceil(1_000)).unwrap_or(COMMITS_MS)
    })
}

/// Postpones the cutover: waits with exponential backoff, unless the migration is
/// cancelled or paused meanwhile.
async fn postpone(
    steps: &MigrationSteps,
    (input, context): (&StepInput, &TaskContext),
    migration: &Migration,
    why: &str,
    progress: &MigrationProgress,
) -> StepResult {
    let pause = progress.pause.ms.map(i64::unsigned_abs);
    let waiting = why.to_owned();
    let edit = move |migration: &mut Migration| {
        migration.figures.put_off += 1;
        migration.figures.pause_ms = migration.figures.pause_ms.max(pause);
        migration.waiting_for = Some(waiting.clone());
    };
    let updated = steps
        .update_record(migration, "migration.putOff", edit)
        .await?;
    let doublings = updated
        .figures
        .put_off
        .saturating_sub(1)
        .min(BACKOFF_DOUBLINGS_MAX);
    let until = steps.now_ms() + (1_000 << doublings);
    while steps.now_ms() < until && !context.is_cancelled() {
        context.keep_alive();
        tokio::select! {
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = context.cancelled() => {}
        }
        let migration = steps.open_unless_cancelled(input, context).await?;
        if migration.asked.paused.is_some() {
            break;
        }
    }
    postponed_output(why, 0, &progress.copied)
}

fn postponed_output(why: &str, ask_again_seconds: u64, copied: &CopyProgress) -> StepResult {
    Ok(json!({
        "committed": false,
        "askAgainSeconds": ask_again_seconds,
        "waitingFor": why,
        "copied": copied,
    }))
}

/// Records the cutover in the migration's record.
async fn record_cutover(
    steps: &MigrationSteps,
    input: &StepInput,
    (migration, job): (&Migration, &LeasedMigration),
    progress: MigrationProgress,
) -> StepResult {
    let mut proved = match progress.proved {
        Some(proved) => Some(proved),
        None => prove_afterwards(steps, migration, job)
            .await
            .map_err(to_task_error)?,
    };
    if let Some(proved) = &mut proved {
        add_file_rows(steps, job, proved)
            .await
            .map_err(to_task_error)?;
    }
    let now = steps.clock.now();
    let (rows, bytes) = (progress.copied.rows, progress.copied.bytes);
    let pause = progress.pause.ms.map(i64::unsigned_abs);
    let back: CopyProgress = StepInput::parse_part(&input.verification, "back").unwrap_or_default();
    // What the target imported before the cutover came from the source.
    let streamed_back = back.position().map(|position| StreamedBack {
        position,
        before: migration.requested_at,
    });
    let edit = move |migration: &mut Migration| {
        let figures = &mut migration.figures;
        if figures.cut_over_at.is_none() {
            figures.streamed_back = streamed_back;
        }
        figures.cut_over_at.get_or_insert(now);
        // Workers that crashed may have copied rows without counting them.
        let present = proved.as_ref().map_or(0, |proved| proved.present);
        figures.rows = figures.rows.max(rows).max(present);
        figures.bytes = figures.bytes.max(bytes);
        figures.pause_ms = figures.pause_ms.max(pause);
        if migration.proved.is_none() {
            migration.proved.clone_from(&proved);
        }
        if matches!(
            migration.stage,
            MigrationStage::Asked | MigrationStage::Admitted
        ) {
            migration.stage = MigrationStage::CutOver;
        }
        migration.waiting_for = None;
    };
    let updated = steps
        .update_record(migration, "migration.cutOver", edit)
        .await?;
    Ok(json!({"committed": true, "pauseMs": updated.figures.pause_ms}))
}

/// Computes the proof after the cutover, if the worker that had it crashed. The record
/// names the target only after both sides were equal, and the source has not changed
/// since.
async fn prove_afterwards(
    steps: &MigrationSteps,
    migration: &Migration,
    job: &LeasedMigration,
) -> Result<Option<VoteProof>, MigrationError> {
    if migration.proved.is_some() || migration.stage == MigrationStage::CutOver {
        return Ok(None);
    }
    let Some((record, sides)) = steps.worker.active_sides(job).await? else {
        return Ok(None);
    };
    let mut compared = sides.compare(&job.slice).await?;
    compared.target = compared.source;
    Ok(Some(compared.to_votes_proved(record.route.epoch)))
}

/// Adds the votes in files to the proof. This is done after the write pause: nothing
/// was archived since the seal.
async fn add_file_rows(
    steps: &MigrationSteps,
    job: &LeasedMigration,
    proved: &mut VoteProof,
) -> Result<(), MigrationError> {
    if let Some((_, sides)) = steps.worker.active_sides(job).await? {
        proved.acknowledged += sides.rows_in_files(&sides.from, &job.slice).await?;
        proved.present += sides.rows_in_files(&sides.to, &job.slice).await?;
    }
    Ok(())
}

// Undone by Rollback: before the point of no return, by aborting in the record, at a
// newer epoch, so that the source takes votes again; after it, by a reverse migration.

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_a_few_milliseconds_can_be_promised_by_fast_disks() {
        assert_eq!(commits_ms(Some(700), Some(1_200)), 4);
        assert_eq!(commits_ms(Some(0), Some(0)), 0);
        assert_eq!(commits_ms(None, Some(700)), COMMITS_MS);
    }
}
