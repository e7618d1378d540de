//! Admission: whether a migration may start to copy. Checks pauses, approvals,
//! maintenance windows, poll freezes and limits on concurrent copies.

use ballast_domain::migration::{
    Migration, MigrationStage, UNDERWAY, region_migrations_tally, shard_migrations_tally,
};
use ballast_domain::registry::{CommitError, Precondition, RecordKind};
use ballast_domain::{Result, Timestamp};
use ballast_migration_engine::ports::Admission;

use super::settings::MigrationSettings;
use super::{FOR_RESUME, WAIT_FOR_APPROVAL, WAIT_FOR_MAINTENANCE, get};
use crate::change::commit_failed;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Retry interval, in seconds, while a migration waits for an operator.
const RETRY_SECONDS: u64 = 1;
/// Longest retry interval, in seconds, while waiting for a maintenance window:
/// the window may change, and a cancellation must take effect soon.
const WINDOW_RETRY_SECONDS: u64 = 2;

const MINUTE_MS: i64 = 60_000;

/// Admits a migration, if nothing holds it back.
pub(super) async fn admit(plane: &ControlPlane, migration: &Migration) -> Result<Admission> {
    loop {
        let seen = get(plane, &migration.migration_id).await?;
        if seen.value.stage != MigrationStage::Asked {
            return Ok(Admission::Now(Box::new(seen.value)));
        }
        let settings = plane.settings();
        let moves = &settings.moves;
        if let Some((why, ask_again_seconds)) = wait_reason(&seen.value, moves, plane.now()) {
            return Ok(Admission::Later {
                why,
                ask_again_seconds,
            });
        }
        if let Some(why) = poll_freeze_reason(plane, &seen.value) {
            return Ok(Admission::Later {
                why,
                ask_again_seconds: RETRY_SECONDS,
            });
        }
        let mut then = seen.value.clone();
        then.stage = MigrationStage::Admitted;
        then.waiting_for = None;
        then.figures.copying_since = Some(plane.now());
        let intent = Intent::ballast("move", "a slot is free");
        let write = typed::update(seen.version, &then)?;
        let commit = intent.commit(
            "migration.admit",
            vec![write],
            concurrency_limits(&then, moves),
        );
        match plane.registry().commit(commit).await {
            Ok(_) => return Ok(Admission::Now(Box::new(then))),
            Err(CommitError::LimitReached { tally, limit }) => {
                return Ok(Admission::Later {
                    why: describe_limit(&tally, limit),
                    ask_again_seconds: RETRY_SECONDS,
                });
            }
            Err(CommitError::Conflict { .. }) => {}
            Err(other) => return Err(commit_failed(other)),
        }
    }
}

/// Prefix of the wait reason of a migration held back by its tenant's polls.
/// An operator can override the freeze by approving the migration.
pub(super) const WAIT_FOR_POLLS: &str = "the tenant's polls: ";

/// Why the calendar of polls holds a migration back, if it does. Checked before
/// the migration starts, and again before it cuts over, in case a poll came near
/// while it copied.
pub(super) fn poll_freeze_reason(plane: &ControlPlane, migration: &Migration) -> Option<String> {
    let calendar = plane.calendar()?;
    if migration.asked.approved.is_some() {
        return None;
    }
    if !calendar.has_report_from(&migration.from) {
        let from = &migration.from;
        return Some(format!(
            "{WAIT_FOR_POLLS}{from} has not reported yet which expect many voters"
        ));
    }
    let frozen = calendar.freeze_for(&migration.tenant_id, plane.now())?;
    Some(format!(
        "{WAIT_FOR_POLLS}{frozen} (ballast migration approve moves it anyway)"
    ))
}

/// Which limit a migration waits for.
fn describe_limit(tally: &str, limit: u64) -> String {
    if tally == UNDERWAY {
        return format!(
            "a window to end: the maximum of {limit} at a time (moves.windows_max) copy or keep both \
             copies"
        );
    }
    let subject = tally.split_once(':').map_or(tally, |(_, name)| name);
    let plural = if limit == 1 { "" } else { "s" };
    format!("a free slot: {subject} already runs the maximum of {limit} migration{plural}")
}

fn concurrency_limits(migration: &Migration, moves: &MigrationSettings) -> Vec<Precondition> {
    let below = |tally, most| Precondition::TallyBelow(RecordKind::Migration, tally, most);
    let shards = [&migration.from, &migration.to];
    let shards = shards.map(|shard| below(shard_migrations_tally(shard), moves.per_shard_max));
    let regions = migration.regions.iter();
    let regions =
        regions.map(|region| below(region_migrations_tally(region), moves.per_region_max));
    let underway = below(UNDERWAY.to_owned(), moves.windows_max);
    shards
        .into_iter()
        .chain(regions)
        .chain([underway])
        .collect()
}

/// What a migration waits for, and when to check again. Pure.
fn wait_reason(
    migration: &Migration,
    moves: &MigrationSettings,
    now: Timestamp,
) -> Option<(String, u64)> {
    if migration.asked.paused.is_some() {
        return Some((FOR_RESUME.to_owned(), RETRY_SECONDS));
    }
    if migration.terms.needs_approval && migration.asked.approved.is_none() {
        let why = WAIT_FOR_APPROVAL.to_owned();
        return Some((why, RETRY_SECONDS));
    }
    if migration.asked.start_now.is_some() {
        return None;
    }
    maintenance_wait(moves, now)
}

/// The maintenance window to wait for before copying, and when to check again.
pub(super) fn maintenance_wait(moves: &MigrationSettings, now: Timestamp) -> Option<(String, u64)> {
    let windows = &moves.maintenance;
    if windows.is_empty() || windows.iter().any(|window| window.is_open(now)) {
        return None;
    }
    let next = windows
        .iter()
        .min_by_key(|window| window.opens_in_seconds(now))?;
    let seconds = next.opens_in_seconds(now);
    // Round to a full minute, so that the reason stays the same between checks.
    let opens = now.unix_ms().saturating_add_unsigned(seconds * 1_000) + MINUTE_MS / 2;
    let opens = Timestamp::from_unix_ms(opens - opens.rem_euclid(MINUTE_MS));
    let why = format!("{WAIT_FOR_MAINTENANCE}{next} UTC, which opens at {opens}");
    Some((why, seconds.clamp(1, WINDOW_RETRY_SECONDS)))
}
