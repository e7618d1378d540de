//! What is shown of moves.

use ballast_domain::migration::{Migration, Stage, Status};
use ballast_domain::moving::MoveId;
use ballast_domain::{Result, Timestamp};
use ballast_state_machines::core::{HistoryType, Status as Running};
use ballast_state_machines::engine::{Description, TaskProgress};
use ballast_state_machines::store::HistoryQuery;
use serde::Serialize;

use super::WORKFLOW;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};
use crate::workflows::{away, engine};

/// A move as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationBody {
    /// What is kept of it.
    #[serde(flatten)]
    pub migration: Versioned<Migration>,
    /// How it stands.
    pub status: Status,
    /// The state of the workflow that it is in, or ended in.
    #[schema(example = "WaitForSync")]
    pub phase: String,
    /// How long nobody could vote at the cutover, in milliseconds.
    pub pause_ms: Option<u64>,
    /// How far the present phase is.
    pub progress: MoveProgress,
    /// The execution that does it.
    #[serde(rename = "executionID")]
    pub execution_id: String,
}

/// How far a phase of a move is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MoveProgress {
    /// How much is done.
    pub done: u64,
    /// How much there is, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// What is counted.
    pub unit: String,
    /// What is being done, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How much is done per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<u64>,
    /// How long the rest takes at this rate, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}

/// A move with how it stands now.
pub(super) async fn shown(
    plane: &ControlPlane,
    migration: Versioned<Migration>,
) -> Result<MigrationBody> {
    let execution_id = execution_id(&migration.value);
    // What is over is told from its record: executions are forgotten.
    let execution = match migration.value.is_over() {
        true => None,
        false => engine(plane)?.get(&execution_id).await.map_err(away)?,
    };
    // Its end is written before its execution's: it may have come between the
    // two readings, and is no failure.
    let mut migration = match execution.as_ref().is_some_and(is_over) {
        true => {
            let id = &migration.value.migration_id.0;
            let again = typed::get::<Migration>(plane.registry(), id).await?;
            again.unwrap_or(migration)
        }
        false => migration,
    };
    let progress = progress(&migration.value, execution.as_ref(), plane.now());
    let is_silent = |found: &Description| found.progress.is_empty() && !is_over(found);
    if execution.as_ref().is_some_and(is_silent)
        && migration.value.waiting_for.is_none()
        && let Some(cause) = failed_with(plane, &execution_id).await?
    {
        migration.value.waiting_for = Some(format!("this to pass: {cause} (it is tried again)"));
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

/// What a step failed with that will be tried again, if that is how it stands.
async fn failed_with(plane: &ControlPlane, execution: &str) -> Result<Option<String>> {
    let query = HistoryQuery {
        after: None,
        newest_first: true,
        limit: 3,
    };
    let page = engine(plane)?.history(execution, &query).await;
    let events = page.map_err(away)?.map(|page| page.events);
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

/// A move as it stands when it is written down.
pub(super) fn at_first(migration: Migration, now: Timestamp) -> MigrationBody {
    MigrationBody {
        status: status(&migration, None),
        phase: phase(&migration, None),
        pause_ms: None,
        progress: progress(&migration, None, now),
        execution_id: execution_id(&migration),
        migration: Versioned {
            value: migration,
            version: 1,
        },
    }
}

/// The execution that does a move.
#[must_use]
pub fn execution_id(migration: &Migration) -> String {
    format!("{WORKFLOW}:{}", migration.execution())
}

fn status(migration: &Migration, execution: Option<&Description>) -> Status {
    if let Some(ended) = &migration.ended {
        return ended.status;
    }
    if execution.is_some_and(is_over) {
        return Status::Failed;
    }
    match migration.waiting_for.is_some() || migration.asked.paused.is_some() {
        true => Status::Waiting,
        false => Status::Running,
    }
}

/// Whether an execution has ended.
fn is_over(execution: &Description) -> bool {
    !matches!(
        execution.summary.status,
        Running::Pending | Running::Running
    )
}

fn phase(migration: &Migration, execution: Option<&Description>) -> String {
    if let Some(ended) = &migration.ended {
        return ended.phase.clone();
    }
    let state = execution.and_then(|found| found.summary.position.first());
    match state {
        Some(position) => step_of(&position.state).to_owned(),
        // It has not been taken up yet.
        None => match migration.stage {
            Stage::Asked => "DetectHotspot",
            Stage::Admitted => "WaitForSync",
            Stage::CutOver => "MonitorDualRead",
            Stage::Cleaning | Stage::Ended => "CleanupOldShard",
        }
        .to_owned(),
    }
}

/// The step that a state belongs to: choices and waits are part of the step
/// that they follow.
#[must_use]
pub fn step_of(state: &str) -> &str {
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
    execution: Option<&Description>,
    now: Timestamp,
) -> MoveProgress {
    let told = execution.and_then(|found| found.progress.first());
    let window = migration.figures.cut_over_at.filter(|_| {
        let going_back = migration.asked.back.is_some();
        migration.stage == Stage::CutOver && !going_back
    });
    let mut progress = match (told, window) {
        // The window is looked at now and then: between two looks nobody works
        // on it, and it goes on.
        (_, Some(since)) => {
            let window = Window {
                since,
                ms: migration.terms.window_ms,
                both: migration.terms.sync && migration.figures.alone_since.is_none(),
                ends_now: migration.asked.complete.is_some(),
            };
            window.at(now)
        }
        (Some(told), None) => told_of(told),
        (None, None) => MoveProgress {
            done: migration.figures.rows,
            total: migration.price.as_ref().map(|price| price.rows),
            unit: "rows".to_owned(),
            // Of a process that died, or of one that has not begun.
            note: (!migration.is_over()).then(|| "about to go on".to_owned()),
            ..MoveProgress::default()
        },
    };
    // What was expected is an estimate: nothing is more than all of it.
    progress.total = progress.total.map(|total| total.max(progress.done));
    if let Some(why) = &migration.waiting_for {
        progress.note = Some(format!("waiting for {why}"));
        if window.is_none() {
            // Nobody works on it: how long that takes cannot be told.
            (progress.per_second, progress.eta_seconds) = (None, None);
        }
    }
    progress
}

/// The time after a cutover in which both sides are kept.
struct Window {
    since: Timestamp,
    ms: u64,
    /// Whether both acknowledge.
    both: bool,
    /// Whether somebody does not want to wait for its end.
    ends_now: bool,
}

impl Window {
    /// How much of it is over.
    fn at(&self, now: Timestamp) -> MoveProgress {
        let gone = u64::try_from(now.unix_ms() - self.since.unix_ms()).unwrap_or(0);
        let left = match self.ends_now {
            true => 0,
            false => self.ms.saturating_sub(gone),
        };
        let seconds = |ms: u64| ms.div_ceil(1_000);
        let note = match (left, self.both) {
            (0, _) => "the window is over: both sides are compared a last time",
            (_, true) => {
                "votes count when both sides have them, until the window is over; both are compared"
            }
            (_, false) => "both sides are kept until the window is over, and compared",
        };
        MoveProgress {
            done: seconds(self.ms.saturating_sub(left)),
            total: Some(seconds(self.ms)),
            unit: "s".to_owned(),
            note: Some(note.to_owned()),
            per_second: None,
            eta_seconds: (left > 0).then(|| seconds(left)),
        }
    }
}

fn told_of(told: &TaskProgress) -> MoveProgress {
    let progress = &told.progress;
    let per_second = told.per_second.map(|rate| rate.round() as u64);
    let left = progress
        .total
        .map(|total| total.saturating_sub(progress.done));
    let eta_seconds = match (left, per_second) {
        (Some(left), Some(rate)) if rate > 0 => Some(left.div_ceil(rate)),
        _ => None,
    };
    MoveProgress {
        done: progress.done,
        total: progress.total,
        unit: progress.unit.clone(),
        note: progress.note.clone(),
        per_second,
        eta_seconds,
    }
}

/// A move's name as a caller gives it.
pub fn move_id(text: &str) -> Result<MoveId> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > 80 || !text.chars().all(plain) {
        let detail = format!(
            "{:?} is no name of a move",
            text.chars().take(81).collect::<String>()
        );
        return Err(ballast_domain::Error::new(
            ballast_domain::ErrorCode::MigrationNotFound,
            detail,
        ));
    }
    Ok(MoveId(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use ballast_state_machines::core::TaskId;
    use ballast_state_machines::engine::Progress;

    use super::*;

    #[test]
    fn a_copy_tells_its_pace_and_how_long_it_still_takes() {
        let told = |done, total, per_second| {
            told_of(&TaskProgress {
                task: TaskId(1),
                state: "WaitForSync".to_owned(),
                begun_at_ms: 0,
                at_ms: 4_000,
                per_second,
                progress: Progress {
                    done,
                    total,
                    unit: "rows".to_owned(),
                    note: Some("copying".to_owned()),
                },
            })
        };
        let copied = told(4_000, Some(10_001), Some(999.6));
        assert_eq!(copied.per_second, Some(1_000));
        assert_eq!(copied.eta_seconds, Some(7));
        assert_eq!((copied.done, copied.total), (4_000, Some(10_001)));
        assert_eq!(told(4_000, Some(10_000), None).eta_seconds, None);
        assert_eq!(told(4_000, None, Some(10.0)).eta_seconds, None);
        assert_eq!(told(4_000, Some(9_000), Some(0.2)).eta_seconds, None);
        // More came than was expected.
        assert_eq!(told(4_000, Some(3_000), Some(10.0)).eta_seconds, Some(0));
    }

    #[test]
    fn the_window_tells_how_long_it_still_takes() {
        let window = |both, ends_now| Window {
            since: Timestamp::from_unix_ms(0),
            ms: 7_200_000,
            both,
            ends_now,
        };
        let at = |ms| window(false, false).at(Timestamp::from_unix_ms(ms));
        let begun = at(0);
        assert_eq!((begun.done, begun.total), (0, Some(7_200)));
        assert_eq!(begun.eta_seconds, Some(7_200));
        let later = at(240_000);
        assert_eq!((later.done, later.eta_seconds), (240, Some(6_960)));
        let over = at(9_000_000);
        assert_eq!((over.done, over.eta_seconds), (7_200, None));
        assert!(over.note.unwrap().contains("a last time"));
        let now = Timestamp::from_unix_ms(1);
        assert!(
            window(true, false)
                .at(now)
                .note
                .unwrap()
                .contains("both sides have them")
        );
        assert_eq!(window(true, true).at(now).eta_seconds, None);
    }
}
