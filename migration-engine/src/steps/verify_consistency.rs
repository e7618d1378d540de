//! *VerifyConsistency*: reads back the target's stored rows and files, and compares
//! them with their digests and with the source. Differences are recorded as findings,
//! and copied again once.

use ballast_domain::migration::Migration;
use ballast_domain::moving::MigrationPhase;
use ballast_domain::{PollId, ShardId};
use ballast_state_machines::engine::{TaskContext, TaskError};
use ballast_vote_shard::ShardError;
use ballast_vote_shard::archive::Unthrottled;
use ballast_vote_shard::shard::{Cursor, FencedSlice, MigrationToken};
use serde_json::json;

use super::difference_report::{DifferenceReport, describe_differences};
use super::paced_work::{PacedWork, ProgressUnit};
use super::wait_for_sync::parse_progress;
use super::{
    MigrationSteps, StepInput, StepResult, report_progress, to_task_error, with_heartbeats,
};
use crate::copy::CopyProgress;
use crate::worker::{
    DamagedFile, LeasedMigration, MigrationError, MigrationSides, MigrationWorker, PollDigests,
    differing_polls,
};

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
    let repairs = StepInput::parse_part::<u32>(&input.verification, "repairs").unwrap_or(0);
    let phase = record.route.moving.as_ref().map(|moving| moving.phase);
    if phase != Some(MigrationPhase::Copying) {
        // The migration is already further.
        return Ok(json!({"consistent": true, "repairs": repairs}));
    }
    let token = MigrationWorker::command_token(&job, &record);
    let mut copied = parse_progress(&input.sync);
    let to = &sides.to;
    let note = format!("reading {}'s files back", to.0);
    let mut pace = PacedWork::interruptible(
        steps,
        input,
        context,
        &sides.from,
        ProgressUnit::Bytes,
        note,
    );
    let files = sides.find_damaged_files(to, &job.slice, &mut pace).await;
    let files = files.map_err(|error| pace.into_task_error(error))?;
    report_progress(context, 0, None, "", format!("reading {} back", to.0));
    let wrong = match with_heartbeats(context, find_rows_stored_wrong(&sides, &job)).await {
        Err(MigrationError::Shard {
            source: ShardError::Damaged { what },
            ..
        }) => {
            let report = DifferenceReport::unreadable(&what);
            return report_inconsistent(steps, &migration, &sides, &report, repairs).await;
        }
        wrong => wrong.map_err(to_task_error)?,
    };
    let unequal = find_unequal_polls(&sides, &job, &token, &mut copied);
    let unequal = with_heartbeats(context, unequal).await;
    let polls = merge_polls(&wrong, &unequal.map_err(to_task_error)?);
    if polls.is_empty() && files.is_empty() {
        let back = stream_back_start(&sides, &job)
            .await
            .map_err(to_task_error)?;
        return Ok(json!({"consistent": true, "repairs": repairs, "back": back}));
    }
    let mut report = describe_differences(&sides.from, to, &job.slice, &polls, &wrong).await;
    report.add_files(&files);
    if repairs > 0 {
        return report_inconsistent(steps, &migration, &sides, &report, repairs).await;
    }
    let repair = TargetRepair {
        sides: &sides,
        at: MigrationWorker::observed_slice(&job, &record),
        token: &token,
    };
    with_heartbeats(context, repair.repair(&polls, &files)).await?;
    report_repaired(steps, &migration, &to.0, &report, repairs).await
}

fn merge_polls(some: &[PollId], others: &[PollId]) -> Vec<PollId> {
    let mut polls: Vec<PollId> = some.iter().chain(others).copied().collect();
    polls.sort_unstable();
    polls.dedup();
    polls
}

/// Records that the target was wrong and is copied again.
async fn report_repaired(
    steps: &MigrationSteps,
    migration: &Migration,
    target: &ShardId,
    report: &DifferenceReport,
    repairs: u32,
) -> StepResult {
    let count = report.count;
    let edit = move |migration: &mut Migration| migration.figures.repaired += count;
    let place = ("VerifyConsistency", target);
    steps
        .record_finding(migration, place, report, "copied again", edit)
        .await?;
    Ok(json!({
        "consistent": false,
        "repaired": true,
        "repairs": repairs + 1,
        "difference": report.to_line(),
    }))
}

/// Records that the target is wrong and copying again does not help.
async fn report_inconsistent(
    steps: &MigrationSteps,
    migration: &Migration,
    sides: &MigrationSides,
    report: &DifferenceReport,
    repairs: u32,
) -> StepResult {
    let then = match repairs {
        0 => "the migration is rolled back",
        _ => "it was copied again before: the migration is rolled back",
    };
    let place = ("VerifyConsistency", &sides.to.0);
    steps
        .record_finding(migration, place, report, then, |_| {})
        .await?;
    Ok(json!({
        "consistent": false,
        "repaired": false,
        "repairs": repairs,
        "difference": report.to_line(),
    }))
}

/// Returns the polls whose stored rows on the target do not match its digests. The
/// target takes no writes meanwhile.
async fn find_rows_stored_wrong(
    sides: &MigrationSides,
    job: &LeasedMigration,
) -> Result<Vec<PollId>, MigrationError> {
    let (id, target) = &sides.to;
    let shard_failed = |source: ShardError| MigrationError::Shard {
        shard: id.clone(),
        source,
    };
    let mut stored = target.scrub(&job.slice).await.map_err(shard_failed)?;
    let mut kept = target.digests(&job.slice).await.map_err(shard_failed)?;
    stored.sort_unstable_by_key(|(poll, _)| *poll);
    kept.sort_unstable_by_key(|(poll, _)| *poll);
    Ok(differing_polls(&stored, &kept))
}

/// Returns the polls that differ and have had no votes meanwhile. The others are
/// compared once the source is sealed.
pub(super) async fn find_unequal_polls(
    sides: &MigrationSides,
    job: &LeasedMigration,
    token: &MigrationToken,
    copied: &mut CopyProgress,
) -> Result<Vec<PollId>, MigrationError> {
    let before = sides.source_digests(&job.slice).await?;
    while !sides.copy_page(&job.slice, token, copied).await?.caught_up {}
    sides.unequal_at_rest(&job.slice, &before).await
}

fn exclude(mut polls: Vec<PollId>, others: &[PollId]) -> Vec<PollId> {
    polls.retain(|poll| others.binary_search(poll).is_err());
    polls
}

/// Copies again what differs.
struct TargetRepair<'a> {
    sides: &'a MigrationSides,
    /// The observed slice and epoch: a shard that knows a later epoch discards nothing.
    at: FencedSlice,
    token: &'a MigrationToken,
}

impl TargetRepair<'_> {
    async fn repair(&self, polls: &[PollId], files: &[DamagedFile]) -> Result<(), TaskError> {
        let (id, target) = &self.sides.to;
        let slice = &self.at.slice;
        for poll in polls {
            let discarded = target.discard_poll(&self.at, self.token, *poll).await;
            discarded.map_err(|source| {
                let shard = id.clone();
                to_task_error(MigrationError::Shard { shard, source })
            })?;
        }
        for file in files {
            let (token, pace) = (self.token, &mut Unthrottled);
            let mended = self.sides.replace_file(slice, token, file.poll, pace);
            mended.await.map_err(to_task_error)?;
        }
        Ok(())
    }
}

/// Returns where the target's own changes begin: the stream back starts there after
/// the cutover.
async fn stream_back_start(
    sides: &MigrationSides,
    job: &LeasedMigration,
) -> Result<CopyProgress, MigrationError> {
    let (id, target) = &sides.to;
    let page = target.export(&job.slice, &Cursor::Start, 1).await;
    let page = page.map_err(|source| MigrationError::Shard {
        shard: id.clone(),
        source,
    })?;
    let cursor = match page.next {
        Cursor::Snapshot { position, .. } => Cursor::Changes { position },
        other => other,
    };
    Ok(CopyProgress {
        cursor,
        ..CopyProgress::default()
    })
}

/// Returns the polls of a shard whose stored rows are not what was written.
pub(super) async fn find_damaged_polls(
    shard: &dyn ballast_vote_shard::VoteShard,
    job: &LeasedMigration,
) -> Result<Vec<PollId>, ShardError> {
    // Votes may arrive in between: only judge polls that had none.
    let mut before: PollDigests = shard.digests(&job.slice).await?;
    let mut stored = shard.scrub(&job.slice).await?;
    let mut after: PollDigests = shard.digests(&job.slice).await?;
    for digests in [&mut before, &mut stored, &mut after] {
        digests.sort_unstable_by_key(|(poll, _)| *poll);
    }
    let in_motion = differing_polls(&before, &after);
    Ok(exclude(differing_polls(&stored, &after), &in_motion))
}

// Nothing to undo: a repair only copies again.
