//! Whose turn it is: a pause, an approval, a maintenance window, and limits on
//! how many moves copy at the same time.

use ballast_domain::migration::{Migration, Stage, moves_in, moves_on};
use ballast_domain::registry::{CommitError, Expect, Kind};
use ballast_domain::{Result, Timestamp};
use ballast_migration_engine::ports::Admission;

use super::settings::MoveSettings;
use super::{FOR_RESUME, get};
use crate::change::commit_failed;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Whoever waits for people asks again after so many seconds.
const ASK_AGAIN: u64 = 1;
/// A maintenance window is waited for no longer at a time: it may be moved, and
/// whoever cancels does not wait long.
const ASK_AGAIN_WINDOW: u64 = 2;

const MINUTE_MS: i64 = 60_000;

/// Gives a move its turn, if it is.
pub(super) async fn admit(plane: &ControlPlane, migration: &Migration) -> Result<Admission> {
    loop {
        let seen = get(plane, &migration.migration_id).await?;
        if seen.value.stage != Stage::Asked {
            return Ok(Admission::Now(Box::new(seen.value)));
        }
        let settings = plane.settings();
        let moves = &settings.moves;
        if let Some((why, ask_again_seconds)) = not_yet(&seen.value, moves, plane.now()) {
            return Ok(Admission::Later {
                why,
                ask_again_seconds,
            });
        }
        if let Some(why) = frozen(plane, &seen.value) {
            return Ok(Admission::Later {
                why,
                ask_again_seconds: ASK_AGAIN,
            });
        }
        let mut then = seen.value.clone();
        then.stage = Stage::Admitted;
        then.waiting_for = None;
        then.figures.copying_since = Some(plane.now());
        let intent = Intent::ballast("move", "its turn has come");
        let write = typed::update(seen.version, &then)?;
        let commit = intent.commit("migration.admit", vec![write], room(&then, moves));
        match plane.registry().commit(commit).await {
            Ok(_) => return Ok(Admission::Now(Box::new(then))),
            Err(CommitError::LimitReached { tally, limit }) => {
                return Ok(Admission::Later {
                    why: format!(
                        "a turn: as many moves copy on {} as may ({limit})",
                        place(&tally)
                    ),
                    ask_again_seconds: ASK_AGAIN,
                });
            }
            Err(CommitError::Conflict { .. }) => {}
            Err(other) => return Err(commit_failed(other)),
        }
    }
}

/// A move that waits for its tenant's polls. Somebody may say that it is made
/// all the same.
pub(super) const FOR_POLLS: &str = "the tenant's polls: ";

/// Whether the calendar of polls keeps a move waiting: before it begins, and
/// before it cuts over if a poll came near while it copied.
pub(super) fn frozen(plane: &ControlPlane, migration: &Migration) -> Option<String> {
    let calendar = plane.calendar()?;
    if migration.asked.approved.is_some() {
        return None;
    }
    if !calendar.knows(&migration.from) {
        let from = &migration.from;
        return Some(format!(
            "{FOR_POLLS}{from} has not told yet which expect many voters"
        ));
    }
    let frozen = calendar.frozen(&migration.tenant_id, plane.now())?;
    Some(format!(
        "{FOR_POLLS}{frozen} (ballast migration approve moves it all the same)"
    ))
}

fn place(tally: &str) -> &str {
    tally.split_once(':').map_or(tally, |(_, name)| name)
}

fn room(migration: &Migration, moves: &MoveSettings) -> Vec<Expect> {
    let below = |tally, most| Expect::TallyBelow(Kind::Migration, tally, most);
    let shards = [&migration.from, &migration.to];
    let shards = shards.map(|shard| below(moves_on(shard), moves.per_shard_max));
    let regions = migration.regions.iter();
    let regions = regions.map(|region| below(moves_in(region), moves.per_region_max));
    shards.into_iter().chain(regions).collect()
}

/// What a move has to wait for, and when to ask again: pure.
fn not_yet(migration: &Migration, moves: &MoveSettings, now: Timestamp) -> Option<(String, u64)> {
    if migration.asked.paused.is_some() {
        return Some((FOR_RESUME.to_owned(), ASK_AGAIN));
    }
    if migration.terms.needs_approval && migration.asked.approved.is_none() {
        let why = "somebody to approve it (ballast migration approve)".to_owned();
        return Some((why, ASK_AGAIN));
    }
    for_maintenance(moves, now)
}

/// The maintenance window that whatever begins now has to wait for, and when to ask
/// again.
pub(super) fn for_maintenance(moves: &MoveSettings, now: Timestamp) -> Option<(String, u64)> {
    let windows = &moves.maintenance;
    if windows.is_empty() || windows.iter().any(|window| window.is_open(now)) {
        return None;
    }
    let next = windows
        .iter()
        .min_by_key(|window| window.opens_in_seconds(now))?;
    let seconds = next.opens_in_seconds(now);
    // At a full minute: what is told is the same each time.
    let opens = now.unix_ms().saturating_add_unsigned(seconds * 1_000) + MINUTE_MS / 2;
    let opens = Timestamp::from_unix_ms(opens - opens.rem_euclid(MINUTE_MS));
    let why = format!("the maintenance window {next} UTC, which opens at {opens}");
    Some((why, seconds.clamp(1, ASK_AGAIN_WINDOW)))
}
