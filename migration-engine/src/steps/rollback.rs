//! *Rollback*: puts the slice back where it was. Before the point of no return the
//! source takes votes again and the target is emptied; after it, a reverse migration
//! brings the slice back. It goes back without its owner only if the owner is
//! permanently gone and an operator has accepted the loss (`abandon.rs`).

use std::time::Duration;

use ballast_domain::certificate::AcceptedLoss;
use ballast_domain::migration::{
    Migration, MigrationFinding, MigrationStage, MigrationStatus, OperatorRequest, ReturnKind,
};
use ballast_domain::moving::{LastMigration, MigrationPhase};
use ballast_state_machines::engine::{TaskContext, TaskError};
use serde_json::{Value, json};

use super::abandon::{UnavailableOwner, is_caused_by};
use super::certify::end_migration;
use super::judge_sides::{SideJudge, SideVerdict};
use super::leave::{self, FinalStep};
use super::paced_work::{PacedWork, ProgressUnit};
use super::update_tenant_routing::catch_up;
use super::verify_consistency::find_unequal_polls;
use super::{
    MigrationSteps, REFUSED, StepInput, StepResult, UNAVAILABLE, migration_id, report_progress,
    to_task_error, with_heartbeats,
};
use crate::copy::CopyProgress;
use crate::worker::{
    LeasedMigration, MigrationError, MigrationProgress, MigrationSides, MigrationWorker, WorkGoal,
    WorkOutcome,
};

/// What follows when it is unclear which side is right. Migration records store this
/// text and are searched for it: do not change it.
pub const UNCLEAR: &str = "the slice stays: nobody can say which side is right";
/// How often to try the reverse cutover before the task is retried as a whole.
const CUTOVER_ATTEMPTS: u32 = 5;
/// How long to wait in between.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

pub(super) async fn run(
    steps: &MigrationSteps,
    input: &StepInput,
    context: &TaskContext,
) -> StepResult {
    let id = migration_id(input, context);
    let found = steps
        .moves
        .read(&id)
        .await
        .map_err(|error| TaskError::new(super::UNAVAILABLE, error.to_string()))?;
    let reason = failure_reason(input);
    let Some(migration) = found else {
        // The migration was never claimed.
        return Ok(json!({"reversed": false, "reason": reason}));
    };
    if let Some(end) = &migration.ended {
        let reversed = end.status == MigrationStatus::Reversed;
        let reason = end.why.clone().unwrap_or(reason);
        return Ok(json!({"reversed": reversed, "reason": reason}));
    }
    let note = describe_rollback(&migration);
    report_progress(context, 0, None, "", note.clone());
    let job = steps.job(&migration, context);
    if must_stay(&migration) && can_cancel_reverse(steps, &job).await? {
        return cancel_reverse(steps, context, &migration, &job).await;
    }
    let mut progress = MigrationProgress::default();
    let owner = UnavailableOwner {
        steps,
        input,
        context,
        migration: &migration,
        job: &job,
    };
    let reversed = match roll_back(&owner, &mut progress).await {
        Ok(RollbackOutcome::Back) => true,
        Ok(RollbackOutcome::Stayed) => false,
        Ok(RollbackOutcome::WithoutOwner(updated)) => {
            let lost = updated.given_up.as_ref().map(AcceptedLoss::describe);
            let reason = lost.unwrap_or(reason);
            let why = Some(reason.clone());
            end_migration(steps, &updated, MigrationStatus::Reversed, "Rollback", why).await?;
            return Ok(json!({"reversed": true, "reason": reason}));
        }
        Err(error) => match end_without_copy(&owner, &error).await? {
            Some(back) => back,
            None => {
                // The workflow retries; meanwhile operators see the reason.
                let mut why = format!("a retry: {} ({note})", error.cause);
                if is_caused_by(&error, &migration.from) {
                    why.push_str("; migration complete cancels the reverse migration");
                }
                steps.record_waiting(&migration, Some(&why)).await?;
                return Err(error);
            }
        },
    };
    record_rollback(steps, &migration, progress, reversed, &reason).await?;
    Ok(json!({"reversed": reversed, "reason": reason}))
}

/// Records the end of a rollback: with everything that the owner had.
async fn record_rollback(
    steps: &MigrationSteps,
    migration: &Migration,
    progress: MigrationProgress,
    reversed: bool,
    reason: &str,
) -> Result<(), TaskError> {
    let pause = progress.pause.ms.map(i64::unsigned_abs);
    let proved = progress.proved.filter(|_| reversed);
    let edit = move |migration: &mut Migration| {
        migration.figures.pause_ms = migration.figures.pause_ms.max(pause);
        migration.proved_back.clone_from(&proved);
    };
    let updated = steps
        .update_record(migration, "migration.back", edit)
        .await?;
    let cancelled = updated.asked.back.as_ref().map(|back| back.how) == Some(ReturnKind::Cancel);
    let status = match (reversed, cancelled) {
        (true, _) => MigrationStatus::Reversed,
        (false, true) => MigrationStatus::Cancelled,
        (false, false) => MigrationStatus::RolledBack,
    };
    let why = Some(reason.to_owned());
    end_migration(steps, &updated, status, "Rollback", why).await?;
    Ok(())
}

fn describe_rollback(migration: &Migration) -> String {
    let (from, to) = (&migration.from, &migration.to);
    match migration.stage {
        MigrationStage::Asked | MigrationStage::Admitted => {
            format!("keeping the slice on {from}, emptying {to}")
        }
        _ => format!("bringing the slice back to {from}"),
    }
}

/// Whether an operator wants the slice to stay: because the reverse migration waits, or
/// after the finding that it is unclear which side is right.
fn must_stay(migration: &Migration) -> bool {
    if migration.asked.stay.is_some() {
        return migration.asked.back.is_none();
    }
    let report = migration.findings.iter().rfind(|one| one.then == UNCLEAR);
    let said = migration.asked.complete.as_ref();
    let is_later = |(report, said): (&MigrationFinding, &OperatorRequest)| said.at > report.at;
    migration.asked.back.is_none() && report.zip(said).is_some_and(is_later)
}

/// Whether the reverse migration can still be cancelled, which is until its cutover. The
/// operator may have asked at the moment of the cutover.
async fn can_cancel_reverse(
    steps: &MigrationSteps,
    job: &LeasedMigration,
) -> Result<bool, TaskError> {
    let back = job.migration_id.way_back();
    let route = steps
        .worker
        .read_route(&job.slice)
        .await
        .map_err(to_task_error)?;
    if let Some(moving) = route.active_migration(&back) {
        return Ok(!matches!(
            moving.phase,
            MigrationPhase::Window | MigrationPhase::Cleaning
        ));
    }
    if let Some(moving) = route.active_migration(&job.migration_id) {
        // The reverse migration never started.
        return Ok(matches!(
            moving.phase,
            MigrationPhase::Window | MigrationPhase::Cleaning
        ));
    }
    // It was cancelled already, and that was not recorded yet.
    let is_off = |last: &LastMigration| match last.migration_id == back {
        true => !last.moved,
        false => last.migration_id == job.migration_id && last.moved,
    };
    Ok(route.last.as_ref().is_some_and(is_off))
}

/// Cancels the reverse migration, and completes the migration.
async fn cancel_reverse(
    steps: &MigrationSteps,
    context: &TaskContext,
    migration: &Migration,
    job: &LeasedMigration,
) -> StepResult {
    let route = steps
        .worker
        .read_route(&job.slice)
        .await
        .map_err(to_task_error)?;
    let (job, goal) = match route.active_migration(&job.migration_id) {
        Some(_) => (job.clone(), WorkGoal::Finished),
        None => {
            let migration_id = job.migration_id.way_back();
            let back = LeasedMigration {
                migration_id,
                ..job.clone()
            };
            (back, WorkGoal::ReverseCancelled)
        }
    };
    // Do not make votes wait for a copy that is about to be removed.
    steps
        .worker
        .stop_synchronous_acks(&job)
        .await
        .map_err(to_task_error)?;
    let mut progress = MigrationProgress::default();
    let staying = steps.worker.work(&job, goal, &mut progress);
    match with_heartbeats(context, staying)
        .await
        .map_err(to_task_error)
    {
        Ok(WorkOutcome::Ended { moved, .. }) if moved == (goal == WorkGoal::Finished) => {}
        Ok(reached) => {
            let why = format!("the reverse migration was not cancelled: {reached:?}");
            return Err(TaskError::new(UNAVAILABLE, why));
        }
        Err(error) => {
            let last = FinalStep {
                steps,
                context,
                migration,
                job: &job,
                undo: goal == WorkGoal::ReverseCancelled,
            };
            if last
                .end_without_copy(&migration.from, &error)
                .await?
                .is_none()
            {
                let why = leave::describe_wait(&error);
                steps.record_waiting(migration, Some(&why)).await?;
                return Err(error);
            }
        }
    }
    tracing::warn!(id = %migration.migration_id, "reverse migration cancelled");
    record_kept(steps, migration).await
}

/// Records the end of a migration whose reverse migration was cancelled.
async fn record_kept(steps: &MigrationSteps, migration: &Migration) -> StepResult {
    let why = match migration.asked.stay {
        Some(_) => {
            "an operator cancelled the reverse migration; both sides were not compared again"
        }
        None => "an operator kept the slice, although it was unclear which side was right",
    };
    let why = Some(why.to_owned());
    let status = MigrationStatus::Completed;
    end_migration(steps, migration, status, "Rollback", why.clone()).await?;
    Ok(json!({"reversed": false, "reason": why}))
}

/// How a rollback ended.
enum RollbackOutcome {
    /// The slice never left its source.
    Stayed,
    /// A reverse migration brought it back.
    Back,
    /// It was taken back without its owner; contains the migration's record.
    WithoutOwner(Box<Migration>),
}

/// Rolls back: with everything if possible, and without the owner only if it is not
/// possible and an operator accepted the loss.
async fn roll_back(
    owner: &UnavailableOwner<'_>,
    progress: &mut MigrationProgress,
) -> Result<RollbackOutcome, TaskError> {
    let left = |updated| RollbackOutcome::WithoutOwner(Box::new(updated));
    if owner.must_be_abandoned().await?
        && let Some(updated) = owner.abandon().await?
    {
        return Ok(left(updated));
    }
    let result = reverse_with_owner(owner, progress).await;
    let error = match result {
        Ok(true) => return Ok(RollbackOutcome::Back),
        Ok(false) => return Ok(RollbackOutcome::Stayed),
        Err(error) => error,
    };
    if owner.caused_failure(&error)
        && let Some(updated) = owner.abandon().await?
    {
        return Ok(left(updated));
    }
    Err(error)
}

/// Ends the migration without removing the copy on its unreachable target, if that is
/// all that is left to do. Returns whether a reverse migration had brought the slice
/// back.
async fn end_without_copy(
    owner: &UnavailableOwner<'_>,
    error: &TaskError,
) -> Result<Option<bool>, TaskError> {
    let last = FinalStep {
        steps: owner.steps,
        context: owner.context,
        migration: owner.migration,
        job: owner.job,
        undo: true,
    };
    let left = last.end_without_copy(&owner.migration.to, error).await?;
    Ok(left.filter(|(_, it)| it.undone).map(|(_, it)| it.back))
}

/// Rolls back with everything that the owner has, and returns whether that took a
/// reverse migration.
async fn reverse_with_owner(
    owner: &UnavailableOwner<'_>,
    progress: &mut MigrationProgress,
) -> Result<bool, TaskError> {
    let UnavailableOwner {
        steps,
        input,
        context,
        migration,
        job,
    } = owner;
    let turning = steps.worker.work(job, WorkGoal::ReverseStarted, progress);
    match with_heartbeats(context, turning)
        .await
        .map_err(to_task_error)?
    {
        WorkOutcome::GoalReached => {
            run_reverse(steps, input, context, migration, job, progress).await?;
            Ok(true)
        }
        WorkOutcome::Ended { moved, back } => Ok(moved && back),
        WorkOutcome::Unknown | WorkOutcome::Postponed => Ok(false),
    }
}

/// Runs the reverse migration: copies while the owner takes votes, repairs what
/// differs, and only then seals.
async fn run_reverse(
    steps: &MigrationSteps,
    input: &StepInput,
    context: &TaskContext,
    migration: &Migration,
    job: &LeasedMigration,
    progress: &mut MigrationProgress,
) -> Result<(), TaskError> {
    let job = LeasedMigration {
        migration_id: job.migration_id.way_back(),
        seal_max_ms: Some(steps.moves.pace().seal_max_ms),
        ..job.clone()
    };
    // Start from where the stream back was.
    progress.copied = StepInput::parse_part(&input.dual_read, "back").unwrap_or_default();
    for attempt in 0..CUTOVER_ATTEMPTS {
        let repair = RepairBeforeReturn {
            steps,
            context,
            migration,
            job: &job,
        };
        repair.repair(attempt == 0, &mut progress.copied).await?;
        catch_up(steps, &job, &mut progress.copied, context).await?;
        let (owner, copy) = count_in_files(steps, &job).await.map_err(to_task_error)?;
        let reached = steps
            .worker
            .work(&job, WorkGoal::RolledBack, progress)
            .await;
        match reached {
            Ok(WorkOutcome::Postponed) => tokio::time::sleep(RETRY_INTERVAL).await,
            Ok(WorkOutcome::Ended { moved: true, .. }) => {
                if let Some(proved) = &mut progress.proved {
                    proved.acknowledged += owner;
                    proved.present += copy;
                }
                return Ok(());
            }
            Ok(other) => {
                let why = format!("the migration ended in an unexpected way: {other:?}");
                return Err(TaskError::new(REFUSED, why));
            }
            Err(error) => {
                // Take votes again until the next attempt.
                if let Err(also) = steps.worker.unseal_overdue(migration, 0).await {
                    let id = &migration.migration_id;
                    tracing::warn!(%id, error = %also, "cannot unseal the slice yet");
                }
                return Err(to_task_error(error));
            }
        }
    }
    Err(TaskError::new(
        UNAVAILABLE,
        "every attempt to cut over to the source took too long",
    ))
}

/// Counts the votes in files on the source and on the target.
async fn count_in_files(
    steps: &MigrationSteps,
    job: &LeasedMigration,
) -> Result<(u64, u64), MigrationError> {
    let Some((_, sides)) = steps.worker.active_sides(job).await? else {
        return Ok((0, 0));
    };
    let from = sides.rows_in_files(&sides.from, &job.slice).await?;
    Ok((from, sides.rows_in_files(&sides.to, &job.slice).await?))
}

/// Repairs the shard that a slice returns to.
struct RepairBeforeReturn<'a> {
    steps: &'a MigrationSteps,
    context: &'a TaskContext,
    migration: &'a Migration,
    job: &'a LeasedMigration,
}

impl RepairBeforeReturn<'_> {
    /// Copies again the polls that differ without votes meanwhile and, with
    /// `read_back`, those whose stored rows are damaged. Fails if it is unclear which
    /// side is right: then the slice does not go back.
    async fn repair(&self, read_back: bool, copied: &mut CopyProgress) -> Result<(), TaskError> {
        let (steps, job, context) = (self.steps, self.job, self.context);
        let Some((record, sides)) = steps
            .worker
            .active_sides(job)
            .await
            .map_err(to_task_error)?
        else {
            return Ok(());
        };
        let phase = record.route.moving.as_ref().map(|moving| moving.phase);
        if phase != Some(MigrationPhase::Copying) {
            return Ok(());
        }
        let token = MigrationWorker::command_token(job, &record);
        let differing =
            with_heartbeats(context, find_unequal_polls(&sides, job, &token, copied)).await;
        let differing = differing.map_err(to_task_error)?;
        if !read_back && differing.is_empty() {
            return Ok(());
        }
        let note = format!("reading {} back before the slice returns", sides.to.0);
        let mut pace =
            PacedWork::uninterruptible(steps, context, &sides.from, ProgressUnit::Bytes, note);
        let sealed = self.migration.proved.as_ref();
        let judge = SideJudge {
            worker: &steps.worker,
            job,
            sides: &sides,
            token: &token,
            at: MigrationWorker::observed_slice(job, &record),
            sealed: sealed.map(|proved| proved.source_digest.as_str()),
        };
        let found = with_heartbeats(context, judge.judge(&differing, copied, &mut pace)).await;
        let found = found.map_err(|error| pace.into_task_error(error))?;
        self.act_on_verdict(&found, &sides).await
    }

    async fn act_on_verdict(
        &self,
        found: &SideVerdict,
        sides: &MigrationSides,
    ) -> Result<(), TaskError> {
        let (owner, copy) = (&sides.from.0, &sides.to.0);
        match found {
            // A wrong owner is why the slice goes back; the finding is recorded.
            SideVerdict::NothingWrong | SideVerdict::OwnerWrong(_) => Ok(()),
            SideVerdict::CopyRepaired(report) => {
                let place = ("Rollback", copy);
                let then = "copied again before the slice returns";
                let anew = |migration: &mut Migration| migration.figures.streamed_back = None;
                let found = self
                    .steps
                    .record_finding(self.migration, place, report, then, anew);
                found.await.map(drop)
            }
            SideVerdict::Unclear(report) => {
                let place = ("Rollback", owner);
                // The same finding is recorded already.
                let known = self
                    .migration
                    .findings
                    .iter()
                    .rfind(|one| one.then == UNCLEAR);
                if known.is_none_or(|known| known.what != report.to_line()) {
                    let then = UNCLEAR;
                    let found =
                        self.steps
                            .record_finding(self.migration, place, report, then, |_| {});
                    found.await?;
                }
                let why = format!(
                    "it is unclear whether {owner} or {copy} is right: {}; completing the \
                     migration cancels the reverse migration and keeps what {owner} has",
                    report.to_line()
                );
                Err(TaskError::new(UNAVAILABLE, why))
            }
        }
    }
}

/// Returns why the migration is rolled back, from the earlier tasks' outputs.
fn failure_reason(input: &StepInput) -> String {
    let text = |value: &Value, name: &str| StepInput::parse_part::<String>(value, name);
    text(&input.error, "Cause")
        .or_else(|| text(&input.dual_read, "reason"))
        .or_else(|| {
            let report = text(&input.verification, "difference")?;
            Some(format!("the copy differs: {report}"))
        })
        .unwrap_or_else(|| "cancelled".to_owned())
}

#[cfg(test)]
mod tests {
    use super::UNCLEAR;
    use crate::steps::monitor_dual_read;

    /// A migration that waits for an operator would no longer be recognized after an upgrade.
    #[test]
    fn texts_that_records_are_searched_for_stay_the_same() {
        assert_eq!(
            UNCLEAR,
            "the slice stays: nobody can say which side is right"
        );
        assert_eq!(
            monitor_dual_read::UNCLEAR,
            "both sides are kept until somebody has looked"
        );
    }
}
