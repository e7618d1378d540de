//! *VerifyConsistency*: what the target has stored is read back, and compared
//! with what it should be and with the source. What differs is named, and
//! copied anew once.

use ballast_domain::PollId;
use ballast_domain::migration::Migration;
use ballast_domain::moving::Phase;
use ballast_state_machines::engine::{TaskContext, TaskError};
use ballast_vote_shard::ShardError;
use ballast_vote_shard::shard::{Cursor, Order};
use serde_json::json;

use super::difference::{self, Difference};
use super::wait_for_sync::copied_of;
use super::{Done, Given, Steps, failed, tell};
use crate::copy::Copied;
use crate::worker::{Digests, Job, MoveError, Sides, Worker, differing};

/// Polls whose differing rows are named; of more, their number.
const NAMED_MAX: usize = 5;

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    let migration = steps.go_on(given, context).await?;
    let job = steps.job(&migration, context);
    let found = steps.worker.sides_of(&job).await.map_err(failed)?;
    let Some((seen, sides)) = found else {
        return Err(super::failed_over(&migration));
    };
    let repairs = Given::part::<u32>(&given.verification, "repairs").unwrap_or(0);
    let phase = seen.route.moving.as_ref().map(|moving| moving.phase);
    if phase != Some(Phase::Copying) {
        // It is farther than this.
        return Ok(json!({"consistent": true, "repairs": repairs}));
    }
    let order = Worker::order(&job, &seen);
    let mut copied = copied_of(&given.sync);
    tell(context, 0, None, "", format!("reading {} back", sides.to.0));
    let wrong = stored_wrong(&sides, &job).await.map_err(failed)?;
    let unequal = unequal(&sides, &job, &order, &mut copied).await;
    let unequal = unequal.map_err(failed)?;
    let mut polls: Vec<PollId> = wrong.iter().chain(&unequal).copied().collect();
    polls.sort_unstable();
    polls.dedup();
    if polls.is_empty() {
        let back = position(&sides, &job).await.map_err(failed)?;
        return Ok(json!({"consistent": true, "repairs": repairs, "back": back}));
    }
    let told = told(&sides, &job, &polls, &wrong).await.map_err(failed)?;
    tracing::warn!(id = %migration.migration_id, differences = told, "the copy differs");
    if repairs > 0 {
        return Ok(json!({
            "consistent": false,
            "repaired": false,
            "repairs": repairs,
            "difference": told,
        }));
    }
    repair(steps, &migration, &sides, &job, &order, &polls).await?;
    Ok(json!({
        "consistent": false,
        "repaired": true,
        "repairs": repairs + 1,
        "difference": told,
    }))
}

/// Polls of which the target has stored something else than it was given.
/// Nobody writes to it meanwhile.
async fn stored_wrong(sides: &Sides, job: &Job) -> Result<Vec<PollId>, MoveError> {
    let (id, target) = &sides.to;
    let shard_failed = |source: ShardError| MoveError::Shard {
        shard: id.clone(),
        source,
    };
    let mut stored = target.scrub(&job.slice).await.map_err(shard_failed)?;
    let mut kept = target.digests(&job.slice).await.map_err(shard_failed)?;
    stored.sort_unstable_by_key(|(poll, _)| *poll);
    kept.sort_unstable_by_key(|(poll, _)| *poll);
    Ok(differing(&stored, &kept))
}

/// Polls that differ although nobody voted in them meanwhile. Those in which
/// somebody did are compared once the source is sealed.
async fn unequal(
    sides: &Sides,
    job: &Job,
    order: &Order,
    copied: &mut Copied,
) -> Result<Vec<PollId>, MoveError> {
    let (before, _) = sides.digests(&job.slice).await?;
    while !sides.carry(&job.slice, order, copied).await?.caught_up {}
    let (source, target) = sides.digests(&job.slice).await?;
    let in_motion = differing(&before, &source);
    Ok(without(differing(&source, &target), &in_motion))
}

pub(super) fn without(mut polls: Vec<PollId>, others: &[PollId]) -> Vec<PollId> {
    polls.retain(|poll| others.binary_search(poll).is_err());
    polls
}

/// What differs, in words.
pub(super) async fn told(
    sides: &Sides,
    job: &Job,
    polls: &[PollId],
    stored_wrong: &[PollId],
) -> Result<String, MoveError> {
    let mut words = Vec::new();
    for poll in polls.iter().take(NAMED_MAX) {
        let (from, to) = (&sides.from, &sides.to);
        let found = difference::of(&*from.1, &*to.1, &job.slice, *poll).await;
        words.push(match found {
            Ok(Difference { count: 0, .. }) if stored_wrong.contains(poll) => {
                format!(
                    "poll {poll}: what {} has stored is not what it was given",
                    to.0
                )
            }
            Ok(difference) => difference.told(),
            Err(error) => format!("poll {poll}: its rows cannot be read: {error}"),
        });
    }
    let more = polls.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        words.push(format!("{more} more polls"));
    }
    Ok(words.join("; "))
}

/// Has polls copied anew.
async fn repair(
    steps: &Steps,
    migration: &Migration,
    sides: &Sides,
    job: &Job,
    order: &Order,
    polls: &[PollId],
) -> Result<(), TaskError> {
    for poll in polls {
        let discarded = sides.to.1.discard(&job.slice, order, *poll).await;
        discarded.map_err(|source| {
            failed(MoveError::Shard {
                shard: sides.to.0.clone(),
                source,
            })
        })?;
    }
    let repaired = polls.len() as u64;
    let edit = move |migration: &mut Migration| migration.figures.repaired += repaired;
    steps.note(migration, "migration.repair", edit).await?;
    Ok(())
}

/// Where the target's own changes begin: what is written there after the
/// cutover streams back from here.
async fn position(sides: &Sides, job: &Job) -> Result<Copied, MoveError> {
    let (id, target) = &sides.to;
    let page = target.export(&job.slice, &Cursor::Start, 1).await;
    let page = page.map_err(|source| MoveError::Shard {
        shard: id.clone(),
        source,
    })?;
    let cursor = match page.next {
        Cursor::Snapshot { position, .. } => Cursor::Changes { position },
        other => other,
    };
    Ok(Copied {
        cursor,
        ..Copied::default()
    })
}

/// The polls of a shard whose stored rows are not what was written.
pub(super) async fn damaged(
    shard: &dyn ballast_vote_shard::VoteShard,
    job: &Job,
) -> Result<Vec<PollId>, ShardError> {
    // Votes may come in between: what is quiet is judged.
    let mut before: Digests = shard.digests(&job.slice).await?;
    let mut stored = shard.scrub(&job.slice).await?;
    let mut after: Digests = shard.digests(&job.slice).await?;
    for digests in [&mut before, &mut stored, &mut after] {
        digests.sort_unstable_by_key(|(poll, _)| *poll);
    }
    let in_motion = differing(&before, &after);
    Ok(without(differing(&stored, &after), &in_motion))
}

// Nothing to undo: a repair only copies anew.
