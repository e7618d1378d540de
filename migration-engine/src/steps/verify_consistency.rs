//! *VerifyConsistency*: what the target has stored, rows and files, is read back,
//! and compared with what it should be and with the source. What differs is
//! named in the move's record, and copied anew once.

use ballast_domain::PollId;
use ballast_domain::migration::Migration;
use ballast_domain::moving::Phase;
use ballast_state_machines::engine::{TaskContext, TaskError};
use ballast_vote_shard::ShardError;
use ballast_vote_shard::archive::FullSpeed;
use ballast_vote_shard::shard::{At, Cursor, Order};
use serde_json::json;

use super::paced::{Counted, Paced};
use super::told::{Told, told};
use super::wait_for_sync::copied_of;
use super::{Done, Given, Steps, alive, failed, tell};
use crate::copy::Copied;
use crate::worker::{BadFile, Digests, Job, MoveError, Sides, Worker, differing};

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
    let to = &sides.to;
    let note = format!("reading {}'s files back", to.0);
    let mut pace = Paced::heeding(steps, given, context, &sides.from, Counted::Bytes, note);
    let files = sides.bad_files(to, &job.slice, &mut pace).await;
    let files = files.map_err(|error| pace.failed(error))?;
    tell(context, 0, None, "", format!("reading {} back", to.0));
    let wrong = match alive(context, stored_wrong(&sides, &job)).await {
        Err(MoveError::Shard {
            source: ShardError::Damaged { what },
            ..
        }) => {
            let told = Told::unreadable(&what);
            return not_so(steps, &migration, &sides, &told, repairs).await;
        }
        wrong => wrong.map_err(failed)?,
    };
    let unequal = alive(context, unequal(&sides, &job, &order, &mut copied)).await;
    let unequal = unequal.map_err(failed)?;
    let mut polls: Vec<PollId> = wrong.iter().chain(&unequal).copied().collect();
    polls.sort_unstable();
    polls.dedup();
    if polls.is_empty() && files.is_empty() {
        let back = position(&sides, &job).await.map_err(failed)?;
        return Ok(json!({"consistent": true, "repairs": repairs, "back": back}));
    }
    let mut told = told(&sides.from, to, &job.slice, &polls, &wrong).await;
    told.files(&files);
    if repairs > 0 {
        return not_so(steps, &migration, &sides, &told, repairs).await;
    }
    let repair = Repair {
        sides: &sides,
        at: Worker::looked_at(&job, &seen),
        order: &order,
    };
    alive(context, repair.repair(&polls, &files)).await?;
    let count = told.count;
    let edit = move |migration: &mut Migration| migration.figures.repaired += count;
    let place = ("VerifyConsistency", &to.0);
    steps
        .found(&migration, place, &told, "copied anew", edit)
        .await?;
    Ok(json!({
        "consistent": false,
        "repaired": true,
        "repairs": repairs + 1,
        "difference": told.line(),
    }))
}

/// The target is not what it should be, and copying anew does not help.
async fn not_so(
    steps: &Steps,
    migration: &Migration,
    sides: &Sides,
    told: &Told,
    repairs: u32,
) -> Done {
    let then = match repairs {
        0 => "the move is rolled back",
        _ => "it was copied anew before: the move is rolled back",
    };
    let place = ("VerifyConsistency", &sides.to.0);
    steps.found(migration, place, told, then, |_| {}).await?;
    Ok(json!({
        "consistent": false,
        "repaired": false,
        "repairs": repairs,
        "difference": told.line(),
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
pub(super) async fn unequal(
    sides: &Sides,
    job: &Job,
    order: &Order,
    copied: &mut Copied,
) -> Result<Vec<PollId>, MoveError> {
    let before = sides.source_digests(&job.slice).await?;
    while !sides.carry(&job.slice, order, copied).await?.caught_up {}
    sides.unequal_at_rest(&job.slice, &before).await
}

fn without(mut polls: Vec<PollId>, others: &[PollId]) -> Vec<PollId> {
    polls.retain(|poll| others.binary_search(poll).is_err());
    polls
}

/// Has what differs copied anew.
struct Repair<'a> {
    sides: &'a Sides,
    /// What was looked at: should another have got farther, nothing is removed.
    at: At,
    order: &'a Order,
}

impl Repair<'_> {
    async fn repair(&self, polls: &[PollId], files: &[BadFile]) -> Result<(), TaskError> {
        let (id, target) = &self.sides.to;
        let slice = &self.at.slice;
        for poll in polls {
            let discarded = target.discard(&self.at, self.order, *poll).await;
            discarded.map_err(|source| {
                let shard = id.clone();
                failed(MoveError::Shard { shard, source })
            })?;
        }
        for file in files {
            let (order, pace) = (self.order, &mut FullSpeed);
            let mended = self.sides.mend_file(slice, order, file.poll, pace);
            mended.await.map_err(failed)?;
        }
        Ok(())
    }
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
