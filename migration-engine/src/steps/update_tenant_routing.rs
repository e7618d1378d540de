//! *UpdateTenantRouting*: the source is sealed, the rest is copied, both sides
//! are compared, and the record names the target as owner: the point of no
//! return. Before that it waits for a moment that promises a short pause, and
//! gives up for now should it last longer than it may.

use std::time::Duration;

use ballast_domain::certificate::VotesProved;
use ballast_domain::migration::{Migration, Stage, StreamedBack};
use ballast_domain::moving::Phase;
use ballast_state_machines::engine::{TaskContext, TaskError};
use serde_json::json;

use super::paced::{Counted, Paced};
use super::told::told;
use super::wait_for_sync::copied_of;
use super::{DIFFERENT, Done, FOR_RESUME, Given, Steps, UNAVAILABLE, failed, refused, tell};
use crate::copy::Copied;
use crate::worker::{Goal, Job, MoveError, Notes, Reached, Worker, differing};

/// What the commits of a cutover take, as long as the shards cannot tell.
const COMMITS_MS: i64 = 10;
/// How long it is tried to come close before the seal.
const APPROACH_MS: i64 = 5_000;
/// A round this short leaves little.
const ROUND_MS: i64 = 10;
/// The longest wait between two tries is two to the power of this, in seconds.
const PATIENCE: u32 = 5;
/// When it is asked again whether a slice that is to be left alone still is.
const HELD_SECONDS: u64 = 2;
/// How often it is looked meanwhile whether something is asked of the move.
const LOOK: Duration = Duration::from_millis(500);

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    let migration = steps.go_on(given, context).await?;
    let mut job = steps.job(&migration, context);
    let mut notes = Notes {
        copied: copied_of(&given.sync),
        ..Notes::default()
    };
    if migration.asked.paused.is_some() {
        steps.waits_for(&migration, Some(FOR_RESUME)).await?;
        return put_off(FOR_RESUME, 1, &notes.copied);
    }
    let expected = approach(steps, &job, &mut notes.copied, context).await?;
    // What has begun to be cut over is brought to its end.
    if expected.is_some()
        && let Some(why) = steps.moves.held(&migration).await.map_err(refused)?
    {
        steps.waits_for(&migration, Some(&why)).await?;
        return put_off(&why, HELD_SECONDS, &notes.copied);
    }
    if let Some(expected) = expected
        && let Some(most) = migration.terms.max_pause_ms
        && expected > most
    {
        let why = format!(
            "a quieter moment: now nobody could vote for about {expected} ms, and {most} ms are allowed"
        );
        return later(steps, (given, context), &migration, &why, &notes).await;
    }
    let seal_max = steps.moves.pace().seal_max_ms;
    let seal_max = migration
        .terms
        .max_pause_ms
        .map_or(seal_max, |most| most.min(seal_max));
    job.seal_max_ms = Some(seal_max);
    tell(context, 0, None, "", format!("sealing {}", migration.from));
    let reached = steps.worker.work(&job, Goal::CutOver, &mut notes).await;
    match reached {
        Ok(Reached::Goal) => cut_over(steps, given, (&migration, &job), notes).await,
        Ok(Reached::PutOff) => {
            let why = format!("a quieter moment: the cutover took longer than {seal_max} ms");
            later(steps, (given, context), &migration, &why, &notes).await
        }
        Ok(Reached::Over { .. } | Reached::Unknown) => Err(super::failed_over(&migration)),
        Err(error) => {
            // Nobody waits for the next try: votes are taken again meanwhile.
            if let Err(also) = steps.worker.unseal_overdue(&migration, 0).await {
                tracing::warn!(id = %migration.migration_id, error = %also, "it stays sealed for now");
            }
            Err(named(steps, &migration, &job, error).await)
        }
    }
}

/// What a failure means to the workflow; of a copy that differs, with the rows.
async fn named(steps: &Steps, migration: &Migration, job: &Job, error: MoveError) -> TaskError {
    let found = match &error {
        MoveError::Different { .. } => steps.worker.sides_of(job).await,
        _ => return failed(error),
    };
    let Ok(Some((_, sides))) = found else {
        return failed(error);
    };
    let Ok((source, target)) = sides.digests(&job.slice).await else {
        return failed(error);
    };
    let polls = differing(&source, &target);
    let told = told(&sides.from, &sides.to, &job.slice, &polls, &[]).await;
    let place = ("UpdateTenantRouting", &sides.to.0);
    let then = "the move is rolled back";
    if let Err(also) = steps.found(migration, place, &told, then, |_| {}).await {
        return also;
    }
    TaskError::new(DIFFERENT, format!("{error}: {}", told.line()))
}

/// Copies until little is left; how long the pause would be, in milliseconds.
/// Nothing if the move is farther than that.
pub(super) async fn approach(
    steps: &Steps,
    job: &Job,
    copied: &mut Copied,
    context: &TaskContext,
) -> Result<Option<u64>, TaskError> {
    let Some((seen, sides)) = steps.worker.sides_of(job).await.map_err(failed)? else {
        return Ok(None);
    };
    let phase = seen.route.moving.as_ref().map(|moving| moving.phase);
    if phase != Some(Phase::Copying) {
        return Ok(None);
    }
    let order = Worker::order(job, &seen);
    let note = format!("looking for every file on {}", sides.to.0);
    let mut pace = Paced::steady(steps, context, &sides.from, Counted::Bytes, note);
    let there = sides.bring_all(&job.slice, &order, &mut pace).await;
    there.map_err(|error| pace.failed(error))?;
    let until = steps.now_ms() + APPROACH_MS;
    tell(
        context,
        copied.rows,
        None,
        "rows",
        "copying the last changes",
    );
    let round = loop {
        let began = steps.now_ms();
        while !sides
            .carry(&job.slice, &order, copied)
            .await
            .map_err(failed)?
            .caught_up
        {
            let note = "copying the last changes";
            tell(context, copied.rows, None, "rows", note);
        }
        let now = steps.now_ms();
        if now - began <= ROUND_MS || now >= until {
            break now - began;
        }
    };
    let began = steps.now_ms();
    // What is compared now need not be in the pause.
    sides.compare(&job.slice).await.map_err(failed)?;
    let compared = steps.now_ms() - began;
    let commits = commits_ms(sides.from.1.commit_micros(), sides.to.1.commit_micros());
    let expected = (round + compared + commits).max(0);
    long_enough(context.lease_left_ms(), steps.moves.pace().seal_max_ms)?;
    Ok(Some(expected.unsigned_abs()))
}

/// Nobody seals who may be taken for dead before the seal is over: the store of
/// executions is away, or this process was (INV-22). It passes, or another goes on.
fn long_enough(lease_left_ms: i64, seal_max_ms: u64) -> Result<(), TaskError> {
    if i64::try_from(seal_max_ms).is_ok_and(|most| lease_left_ms >= most) {
        return Ok(());
    }
    let left = lease_left_ms.max(0);
    let why = format!(
        "nothing is sealed for now: this worker's lease lasts {left} ms, and a seal may last \
         {seal_max_ms} ms"
    );
    Err(TaskError::new(UNAVAILABLE, why))
}

/// How long the seal, the record and the target's fence take to be durable, in
/// milliseconds: as both shards find their disks right now, and the record's is
/// taken for the slower one.
fn commits_ms(from_micros: Option<u64>, to_micros: Option<u64>) -> i64 {
    from_micros.zip(to_micros).map_or(COMMITS_MS, |(from, to)| {
        let micros = from + to + from.max(to);
        i64::try_from(micros.div_ceil(1_000)).unwrap_or(COMMITS_MS)
    })
}

/// It is not now: waits, unless somebody asks something of the move meanwhile.
async fn later(
    steps: &Steps,
    (given, context): (&Given, &TaskContext),
    migration: &Migration,
    why: &str,
    notes: &Notes,
) -> Done {
    let pause = notes.pause.ms.map(i64::unsigned_abs);
    let waiting = why.to_owned();
    let edit = move |migration: &mut Migration| {
        migration.figures.put_off += 1;
        migration.figures.pause_ms = migration.figures.pause_ms.max(pause);
        migration.waiting_for = Some(waiting.clone());
    };
    let noted = steps.note(migration, "migration.putOff", edit).await?;
    let doublings = noted.figures.put_off.saturating_sub(1).min(PATIENCE);
    let until = steps.now_ms() + (1_000 << doublings);
    while steps.now_ms() < until && !context.is_cancelled() {
        context.alive();
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = context.cancelled() => {}
        }
        let migration = steps.go_on(given, context).await?;
        if migration.asked.paused.is_some() {
            break;
        }
    }
    put_off(why, 0, &notes.copied)
}

fn put_off(why: &str, ask_again_seconds: u64, copied: &Copied) -> Done {
    Ok(json!({
        "committed": false,
        "askAgainSeconds": ask_again_seconds,
        "waitingFor": why,
        "copied": copied,
    }))
}

/// The target owns the slice: that is written down.
async fn cut_over(
    steps: &Steps,
    given: &Given,
    (migration, job): (&Migration, &Job),
    notes: Notes,
) -> Done {
    let mut proved = match notes.proved {
        Some(proved) => Some(proved),
        None => afterwards(steps, migration, job).await.map_err(failed)?,
    };
    if let Some(proved) = &mut proved {
        with_files(steps, job, proved).await.map_err(failed)?;
    }
    let now = steps.clock.now();
    let (rows, bytes) = (notes.copied.rows, notes.copied.bytes);
    let pause = notes.pause.ms.map(i64::unsigned_abs);
    let back: Copied = Given::part(&given.verification, "back").unwrap_or_default();
    // What the target took before it was the owner came from the source.
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
        // What is there was carried, also by those who died before they could count it.
        let present = proved.as_ref().map_or(0, |proved| proved.present);
        figures.rows = figures.rows.max(rows).max(present);
        figures.bytes = figures.bytes.max(bytes);
        figures.pause_ms = figures.pause_ms.max(pause);
        if migration.proved.is_none() {
            migration.proved.clone_from(&proved);
        }
        if matches!(migration.stage, Stage::Asked | Stage::Admitted) {
            migration.stage = Stage::CutOver;
        }
        migration.waiting_for = None;
    };
    let noted = steps.note(migration, "migration.cutOver", edit).await?;
    Ok(json!({"committed": true, "pauseMs": noted.figures.pause_ms}))
}

/// What was proved, if whoever proved it died before writing it down. The
/// record names the target only after both sides were equal, and the source has
/// not changed since.
async fn afterwards(
    steps: &Steps,
    migration: &Migration,
    job: &Job,
) -> Result<Option<VotesProved>, MoveError> {
    if migration.proved.is_some() || migration.stage == Stage::CutOver {
        return Ok(None);
    }
    let Some((seen, sides)) = steps.worker.sides_of(job).await? else {
        return Ok(None);
    };
    let mut compared = sides.compare(&job.slice).await?;
    compared.target = compared.source;
    Ok(Some(compared.proved(seen.route.epoch)))
}

/// Adds the votes that are in files. Nobody waits for it: what was archived when
/// the source was sealed is so now.
async fn with_files(steps: &Steps, job: &Job, proved: &mut VotesProved) -> Result<(), MoveError> {
    if let Some((_, sides)) = steps.worker.sides_of(job).await? {
        proved.acknowledged += sides.rows_in_files(&sides.from, &job.slice).await?;
        proved.present += sides.rows_in_files(&sides.to, &job.slice).await?;
    }
    Ok(())
}

// Undone by Rollback: before the point of no return the record is taken back at
// a newer epoch and the source takes votes again; after it the slice is brought
// back by a move of its own.

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
