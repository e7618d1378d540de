//! Migrations as the API shows them.

use ballast_domain::migration::{Migration, MigrationStage, MigrationStatus};
use ballast_domain::moving::MigrationId;
use ballast_domain::{Result, Timestamp};
use ballast_state_machines::core::{ExecutionStatus as Running, HistoryType};
use ballast_state_machines::engine::{ExecutionDetails, TaskProgress};
use ballast_state_machines::store::HistoryQuery;
use serde::Serialize;

use super::WORKFLOW;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::workflows::{engine, no_engine, store_unavailable};

/// A migration as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationBody {
    /// The stored record.
    #[serde(flatten)]
    pub migration: Versioned<Migration>,
    /// Its status.
    pub status: MigrationStatus,
    /// The workflow state that it is in, or ended in.
    #[schema(example = "WaitForSync")]
    pub phase: String,
    /// The write pause at the cutover, in milliseconds.
    pub pause_ms: Option<u64>,
    /// Progress of the current phase.
    pub progress: MigrationProgressBody,
    /// The execution that runs it.
    #[serde(rename = "executionID")]
    pub execution_id: String,
}

/// Progress of one phase of a migration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MoveProgress)]
pub struct MigrationProgressBody {
    /// Amount done.
    pub done: u64,
    /// Total amount, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The unit of both.
    pub unit: String,
    /// What is being done, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Rate per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<u64>,
    /// Remaining time at this rate, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}

/// A migration with its current status and progress.
pub(super) async fn load_body(
    plane: &ControlPlane,
    migration: Versioned<Migration>,
) -> Result<MigrationBody> {
    let execution_id = execution_id(&migration.value);
    // Use only the record for ended migrations: old executions are deleted.
    if !migration.value.is_over()
        && let Some(why) = plane.workflow_trouble()
    {
        let mut waiting = migration;
        waiting.value.waiting_for = Some(no_engine(&why));
        return Ok(body_of_record(waiting, plane.now()));
    }
    let execution = match migration.value.is_over() {
        true => None,
        false => engine(plane)?
            .get(&execution_id)
            .await
            .map_err(store_unavailable)?,
    };
    // The record ends before its execution does. If it ended between the two
    // reads, that is no failure: read it again.
    let mut migration = match execution.as_ref().is_some_and(is_over) {
        true => {
            let id = &migration.value.migration_id.0;
            let again = typed::get::<Migration>(plane.registry(), id).await?;
            again.unwrap_or(migration)
        }
        false => migration,
    };
    let progress = progress(&migration.value, execution.as_ref(), plane.now());
    let is_silent = |found: &ExecutionDetails| found.progress.is_empty() && !is_over(found);
    if execution.as_ref().is_some_and(is_silent)
        && migration.value.waiting_for.is_none()
        && let Some(cause) = last_failure(plane, &execution_id).await?
    {
        migration.value.waiting_for = Some(format!("this to pass: {cause} (retrying)"));
    }
    let is_cancelled = |found: &ExecutionDetails| matches!(found.summary.status, Running::Aborted);
    if !migration.value.is_over() && execution.as_ref().is_some_and(is_cancelled) {
        let why =
            "another execution, which continues it within seconds: its last one was cancelled";
        migration.value.waiting_for = Some(why.to_owned());
    }
    Ok(MigrationBody {
        status: status(&migration.value, execution.as_ref()),
        phase: phase(&migration.value, execution.as_ref()),
        pause_ms: migration.value.figures.pause_ms,
        progress,
        execution_id,
        migration,
    })
}

/// The cause of the last failed attempt, if the execution is about to retry it.
async fn last_failure(plane: &ControlPlane, execution: &str) -> Result<Option<String>> {
    let query = HistoryQuery {
        after: None,
        newest_first: true,
        limit: 3,
    };
    let page = engine(plane)?.history(execution, &query).await;
    let events = page.map_err(store_unavailable)?.map(|page| page.events);
    let mut events = events.unwrap_or_default().into_iter().skip_while(|event| {
        let kind = event.kind;
        matches!(kind, HistoryType::TaskScheduled | HistoryType::TaskStarted)
    });
    let failed = events
        .next()
        .filter(|event| event.kind == HistoryType::TaskFailed);
    let cause = failed.and_then(|event| Some(event.details.get("cause")?.as_str()?.to_owned()));
    Ok(cause)
}

/// A migration that was just recorded.
pub(super) fn initial_body(value: Migration, now: Timestamp) -> MigrationBody {
    body_of_record(Versioned { value, version: 1 }, now)
}

/// A migration by its record alone.
fn body_of_record(migration: Versioned<Migration>, now: Timestamp) -> MigrationBody {
    MigrationBody {
        status: status(&migration.value, None),
        phase: phase(&migration.value, None),
        pause_ms: migration.value.figures.pause_ms,
        progress: progress(&migration.value, None, now),
        execution_id: execution_id(&migration.value),
        migration,
    }
}

/// The execution that runs a migration.
#[must_use]
pub fn execution_id(migration: &Migration) -> String {
    format!("{WORKFLOW}:{}", migration.execution())
}

fn status(migration: &Migration, execution: Option<&ExecutionDetails>) -> MigrationStatus {
    status_after(migration, execution.map(|found| found.summary.status))
}

fn status_after(migration: &Migration, execution: Option<Running>) -> MigrationStatus {
    if let Some(ended) = &migration.ended {
        return ended.status;
    }
    match execution {
        // A restore or an operator has cancelled it: another one continues.
        Some(Running::Aborted) => return MigrationStatus::Waiting,
        Some(Running::Succeeded | Running::Failed | Running::TimedOut) => {
            return MigrationStatus::Failed;
        }
        None | Some(Running::Pending | Running::Running) => {}
    }
    match migration.waiting_for.is_some() || migration.asked.paused.is_some() {
        true => MigrationStatus::Waiting,
        false => MigrationStatus::Running,
    }
}

/// Whether an execution has ended.
fn is_over(execution: &ExecutionDetails) -> bool {
    !matches!(
        execution.summary.status,
        Running::Pending | Running::Running
    )
}

fn phase(migration: &Migration, execution: Option<&ExecutionDetails>) -> String {
    if let Some(ended) = &migration.ended {
        return ended.phase.clone();
    }
    let state = execution.and_then(|found| found.summary.position.first());
    match state {
        Some(position) => step_for_state(&position.state).to_owned(),
        // No execution has picked it up yet.
        None => match migration.stage {
            MigrationStage::Asked => "DetectHotspot",
            MigrationStage::Admitted => "WaitForSync",
            MigrationStage::CutOver => "MonitorDualRead",
            MigrationStage::Cleaning | MigrationStage::Ended => "CleanupOldShard",
        }
        .to_owned(),
    }
}

/// The step that a workflow state belongs to. Choice and wait states belong to
/// the step that they follow.
#[must_use]
pub fn step_for_state(state: &str) -> &str {
    match state {
        "IsPlanReady" | "AwaitPlan" => "PlanMove",
        "IsSynced" | "AwaitSync" => "WaitForSync",
        "IsConsistent" => "VerifyConsistency",
        "IsCutOver" | "AwaitQuiet" => "UpdateTenantRouting",
        "IsWindowOver" | "AwaitWindow" => "MonitorDualRead",
        "CleanupStuck" => "CleanupOldShard",
        "HowItWentBack" | "MoveReversed" | "MoveRolledBack" | "RollbackStuck" => "Rollback",
        "MoveRefused" => "DetectHotspot",
        step => step,
    }
}

fn progress(
    migration: &Migration,
    execution: Option<&ExecutionDetails>,
    now: Timestamp,
) -> MigrationProgressBody {
    let task = execution.and_then(|found| found.progress.first());
    let window = migration.figures.cut_over_at.filter(|_| {
        let going_back = migration.asked.back.is_some();
        migration.stage == MigrationStage::CutOver && !going_back
    });
    let mut progress = match (task, window) {
        // The window is only checked now and then. Between checks no task reports
        // progress, but time passes.
        (_, Some(since)) => {
            let window = DualReadWindow {
                since,
                ms: migration.terms.window_ms,
                both: migration.terms.sync && migration.figures.alone_since.is_none(),
                ends_now: migration.asked.complete.is_some(),
            };
            window.progress_at(now)
        }
        (Some(task), None) => from_task_progress(task),
        (None, None) => MigrationProgressBody {
            done: migration.figures.rows,
            total: migration.price.as_ref().map(|price| price.rows),
            unit: "rows".to_owned(),
            // The process died, or the execution has not begun.
            note: (!migration.is_over()).then(|| "about to continue".to_owned()),
            ..MigrationProgressBody::default()
        },
    };
    // The total is an estimate: never show more than 100 %.
    progress.total = progress.total.map(|total| total.max(progress.done));
    if let Some(why) = &migration.waiting_for {
        progress.note = Some(format!("waiting for {why}"));
        if window.is_none() {
            // No work is running, so there is no rate and no remaining time.
            (progress.per_second, progress.eta_seconds) = (None, None);
        }
    }
    progress
}

/// The time after a cutover in which both copies are kept.
struct DualReadWindow {
    since: Timestamp,
    ms: u64,
    /// Whether writes need both shards' acknowledgement.
    both: bool,
    /// Whether an operator ended the window early.
    ends_now: bool,
}

impl DualReadWindow {
    /// The progress of the window.
    fn progress_at(&self, now: Timestamp) -> MigrationProgressBody {
        let gone = u64::try_from(now.unix_ms() - self.since.unix_ms()).unwrap_or(0);
        let left = match self.ends_now {
            true => 0,
            false => self.ms.saturating_sub(gone),
        };
        let seconds = |ms: u64| ms.div_ceil(1_000);
        let note = match (left, self.both) {
            (0, _) => "the window is over: both copies are compared one last time",
            (_, true) => {
                "until the window ends, votes count once both sides have them; both copies are compared"
            }
            (_, false) => "both copies are kept and compared until the window ends",
        };
        MigrationProgressBody {
            done: seconds(self.ms.saturating_sub(left)),
            total: Some(seconds(self.ms)),
            unit: "s".to_owned(),
            note: Some(note.to_owned()),
            per_second: None,
            eta_seconds: (left > 0).then(|| seconds(left)),
        }
    }
}

fn from_task_progress(task: &TaskProgress) -> MigrationProgressBody {
    let progress = &task.progress;
    let per_second = task.per_second.map(|rate| rate.round() as u64);
    let left = progress
        .total
        .map(|total| total.saturating_sub(progress.done));
    let eta_seconds = match (left, per_second) {
        (Some(left), Some(rate)) if rate > 0 => Some(left.div_ceil(rate)),
        _ => None,
    };
    MigrationProgressBody {
        done: progress.done,
        total: progress.total,
        unit: progress.unit.clone(),
        note: progress.note.clone(),
        per_second,
        eta_seconds,
    }
}

/// Parses a migration id from a request.
pub fn parse_migration_id(text: &str) -> Result<MigrationId> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > 80 || !text.chars().all(plain) {
        let detail = format!(
            "{:?} is not a migration ID",
            text.chars().take(81).collect::<String>()
        );
        return Err(ballast_domain::Error::new(
            ballast_domain::ErrorCode::MigrationNotFound,
            detail,
        ));
    }
    Ok(MigrationId(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use ballast_state_machines::core::TaskId;
    use ballast_state_machines::engine::ProgressReport;

    use super::*;

    #[test]
    fn a_copy_shows_its_rate_and_remaining_time() {
        let shown = |done, total, per_second| {
            from_task_progress(&TaskProgress {
                task: TaskId(1),
                state: "WaitForSync".to_owned(),
                begun_at_ms: 0,
                at_ms: 4_000,
                per_second,
                progress: ProgressReport {
                    done,
                    total,
                    unit: "rows".to_owned(),
                    note: Some("copying".to_owned()),
                },
            })
        };
        let copied = shown(4_000, Some(10_001), Some(999.6));
        assert_eq!(copied.per_second, Some(1_000));
        assert_eq!(copied.eta_seconds, Some(7));
        assert_eq!((copied.done, copied.total), (4_000, Some(10_001)));
        assert_eq!(shown(4_000, Some(10_000), None).eta_seconds, None);
        assert_eq!(shown(4_000, None, Some(10.0)).eta_seconds, None);
        assert_eq!(shown(4_000, Some(9_000), Some(0.2)).eta_seconds, None);
        // More rows arrived than estimated.
        assert_eq!(shown(4_000, Some(3_000), Some(10.0)).eta_seconds, Some(0));
    }

    /// A restore ends all executions, and other ones continue what they did.
    #[test]
    fn a_migration_whose_execution_was_cancelled_waits_for_the_next_one() {
        let body = serde_json::json!({
            "migrationID": "mv-1", "tenantID": "acme", "slice": 0, "fromShardID": "shard-1",
            "toShardID": "shard-2", "regions": [], "actor": {"type": "ballast", "name": "move"},
            "requestedAt": "2026-11-16T09:00:00Z", "terms": {"windowMs": 0}, "stage": "cutOver",
        });
        let migration: Migration = serde_json::from_value(body).unwrap();
        assert_eq!(
            status_after(&migration, Some(Running::Aborted)),
            MigrationStatus::Waiting
        );
        assert_eq!(
            status_after(&migration, Some(Running::Failed)),
            MigrationStatus::Failed
        );
        assert_eq!(
            status_after(&migration, Some(Running::Running)),
            MigrationStatus::Running
        );
    }

    #[test]
    fn the_window_shows_its_remaining_time() {
        let window = |both, ends_now| DualReadWindow {
            since: Timestamp::from_unix_ms(0),
            ms: 7_200_000,
            both,
            ends_now,
        };
        let at = |ms| window(false, false).progress_at(Timestamp::from_unix_ms(ms));
        let begun = at(0);
        assert_eq!((begun.done, begun.total), (0, Some(7_200)));
        assert_eq!(begun.eta_seconds, Some(7_200));
        let later = at(240_000);
        assert_eq!((later.done, later.eta_seconds), (240, Some(6_960)));
        let over = at(9_000_000);
        assert_eq!((over.done, over.eta_seconds), (7_200, None));
        assert!(over.note.unwrap().contains("one last time"));
        let now = Timestamp::from_unix_ms(1);
        assert!(
            window(true, false)
                .progress_at(now)
                .note
                .unwrap()
                .contains("both sides have them")
        );
        assert_eq!(window(true, true).progress_at(now).eta_seconds, None);
    }
}
