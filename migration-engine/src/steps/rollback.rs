//! *Rollback*: everything is as it was. Before the point of no return the
//! source takes votes again and the target is emptied; after it, the slice is
//! brought back by a move of its own; without its owner only if that is away for
//! good and somebody accepted the loss (`give_up.rs`).

use std::time::Duration;

use ballast_domain::certificate::GivenUp;
use ballast_domain::migration::{BackHow, Finding, Migration, Stage, Status, Word};
use ballast_domain::moving::{Ended, Phase};
use ballast_state_machines::engine::{TaskContext, TaskError};
use serde_json::{Value, json};

use super::certify::ended;
use super::give_up::{Owner, blames};
use super::judge_sides::{Found, Judge};
use super::leave::{self, Last};
use super::paced::{Counted, Paced};
use super::update_tenant_routing::approach;
use super::verify_consistency::unequal;
use super::{Done, Given, REFUSED, Steps, UNAVAILABLE, alive, failed, move_id, tell};
use crate::copy::Copied;
use crate::worker::{Goal, Job, MoveError, Notes, Reached, Sides, Worker};

/// What is done when nobody can say which side is right.
pub const UNCLEAR: &str = "the slice stays: nobody can say which side is right";
/// How often the cutover back is tried before the step begins anew.
const TRIES: u32 = 5;
/// How long to rest in between.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    let id = move_id(given, context);
    let found = steps
        .moves
        .read(&id)
        .await
        .map_err(|error| TaskError::new(super::UNAVAILABLE, error.to_string()))?;
    let reason = reason(given);
    let Some(migration) = found else {
        // It never came to be.
        return Ok(json!({"reversed": false, "reason": reason}));
    };
    if let Some(end) = &migration.ended {
        let reversed = end.status == Status::Reversed;
        let reason = end.why.clone().unwrap_or(reason);
        return Ok(json!({"reversed": reversed, "reason": reason}));
    }
    let (from, to) = (&migration.from, &migration.to);
    let note = match migration.stage {
        Stage::Asked | Stage::Admitted => format!("leaving the slice on {from}, emptying {to}"),
        _ => format!("bringing the slice back to {from}"),
    };
    tell(context, 0, None, "", note.clone());
    let job = steps.job(&migration, context);
    if has_been_told_to_stay(&migration) && has_not_arrived(steps, &job).await? {
        return stay(steps, context, &migration, &job).await;
    }
    let mut notes = Notes::default();
    let owner = Owner {
        steps,
        given,
        context,
        migration: &migration,
        job: &job,
    };
    let reversed = match turn(&owner, &mut notes).await {
        Ok(Turned::Back) => true,
        Ok(Turned::Stayed) => false,
        Ok(Turned::WithoutOwner(noted)) => {
            let lost = noted.given_up.as_ref().map(GivenUp::told);
            let reason = lost.unwrap_or(reason);
            let why = Some(reason.clone());
            ended(steps, &noted, Status::Reversed, "Rollback", why).await?;
            return Ok(json!({"reversed": true, "reason": reason}));
        }
        Err(error) => match without_copy(&owner, &error).await? {
            Some(back) => back,
            None => {
                // It is tried again; meanwhile people see what it waits for.
                let mut why = format!("this to pass: {} ({note})", error.cause);
                if blames(&error, from) {
                    why.push_str("; migration complete calls the way back off");
                }
                steps.waits_for(&migration, Some(&why)).await?;
                return Err(error);
            }
        },
    };
    let pause = notes.pause.ms.map(i64::unsigned_abs);
    let proved = notes.proved.filter(|_| reversed);
    let edit = move |migration: &mut Migration| {
        migration.figures.pause_ms = migration.figures.pause_ms.max(pause);
        migration.proved_back.clone_from(&proved);
    };
    let noted = steps.note(&migration, "migration.back", edit).await?;
    let cancelled = noted.asked.back.as_ref().map(|back| back.how) == Some(BackHow::Cancel);
    let status = match (reversed, cancelled) {
        (true, _) => Status::Reversed,
        (false, true) => Status::Cancelled,
        (false, false) => Status::RolledBack,
    };
    ended(steps, &noted, status, "Rollback", Some(reason.clone())).await?;
    Ok(json!({"reversed": reversed, "reason": reason}))
}

/// Whether somebody said that the slice shall stay: because the way back waits, or
/// after it was told that nobody can say which side is right.
fn has_been_told_to_stay(migration: &Migration) -> bool {
    if migration.asked.stay.is_some() {
        return migration.asked.back.is_none();
    }
    let told = migration.findings.iter().rfind(|one| one.then == UNCLEAR);
    let said = migration.asked.complete.as_ref();
    let is_later = |(told, said): (&Finding, &Word)| said.at > told.at;
    migration.asked.back.is_none() && told.zip(said).is_some_and(is_later)
}

/// Whether a way back has not come to its end: only then can it be called off.
/// Somebody may have said so at the very moment of its cutover.
async fn has_not_arrived(steps: &Steps, job: &Job) -> Result<bool, TaskError> {
    let back = job.move_id.back();
    let route = steps.worker.route(&job.slice).await.map_err(failed)?;
    if let Some(moving) = route.move_of(&back) {
        return Ok(!matches!(moving.phase, Phase::Window | Phase::Cleaning));
    }
    if let Some(moving) = route.move_of(&job.move_id) {
        // It was never begun.
        return Ok(matches!(moving.phase, Phase::Window | Phase::Cleaning));
    }
    // Called off already, and that was not written down yet.
    let is_off = |last: &Ended| match last.move_id == back {
        true => !last.moved,
        false => last.move_id == job.move_id && last.moved,
    };
    Ok(route.last.as_ref().is_some_and(is_off))
}

/// The way back is called off, and the move is complete.
async fn stay(steps: &Steps, context: &TaskContext, migration: &Migration, job: &Job) -> Done {
    let route = steps.worker.route(&job.slice).await.map_err(failed)?;
    let (job, goal) = match route.move_of(&job.move_id) {
        Some(_) => (job.clone(), Goal::Finished),
        None => {
            let move_id = job.move_id.back();
            let back = Job {
                move_id,
                ..job.clone()
            };
            (back, Goal::Stays)
        }
    };
    // Nobody has to wait for a copy that is not wanted any more.
    steps.worker.relax(&job).await.map_err(failed)?;
    let mut notes = Notes::default();
    let staying = steps.worker.work(&job, goal, &mut notes);
    match alive(context, staying).await.map_err(failed) {
        Ok(Reached::Over { moved, .. }) if moved == (goal == Goal::Finished) => {}
        Ok(reached) => {
            let why = format!("the way back was not called off: {reached:?}");
            return Err(TaskError::new(UNAVAILABLE, why));
        }
        Err(error) => {
            let last = Last {
                steps,
                context,
                migration,
                job: &job,
                undo: goal == Goal::Stays,
            };
            if last.without(&migration.from, &error).await?.is_none() {
                let why = leave::waits(&error);
                steps.waits_for(migration, Some(&why)).await?;
                return Err(error);
            }
        }
    }
    tracing::warn!(id = %migration.migration_id, "a way back is called off");
    let why = match migration.asked.stay {
        Some(_) => {
            "it was to be brought back, and somebody wanted it to stay; both sides were not compared again"
        }
        None => "somebody wanted it to stay, though nobody could say which side was right",
    };
    let why = Some(why.to_owned());
    ended(steps, migration, Status::Completed, "Rollback", why.clone()).await?;
    Ok(json!({"reversed": false, "reason": why}))
}

/// How a slice came to be where it was.
enum Turned {
    /// It never left, or was left alone.
    Stayed,
    /// It was brought back.
    Back,
    /// It was taken back without its owner; the move's record then.
    WithoutOwner(Box<Migration>),
}

/// Has the slice be where it was: with everything if that is possible, without
/// its owner only if it is not, and somebody accepted it.
async fn turn(owner: &Owner<'_>, notes: &mut Notes) -> Result<Turned, TaskError> {
    let left = |noted| Turned::WithoutOwner(Box::new(noted));
    if owner.is_lost().await?
        && let Some(noted) = owner.leave().await?
    {
        return Ok(left(noted));
    }
    let turned = turn_whole(owner, notes).await;
    let error = match turned {
        Ok(true) => return Ok(Turned::Back),
        Ok(false) => return Ok(Turned::Stayed),
        Err(error) => error,
    };
    if owner.is_to_blame(&error)
        && let Some(noted) = owner.leave().await?
    {
        return Ok(left(noted));
    }
    Err(error)
}

/// Ends it without the copy on its target, if that is away and nobody needs what it
/// has; whether the slice had been brought back.
async fn without_copy(owner: &Owner<'_>, error: &TaskError) -> Result<Option<bool>, TaskError> {
    let last = Last {
        steps: owner.steps,
        context: owner.context,
        migration: owner.migration,
        job: owner.job,
        undo: true,
    };
    let left = last.without(&owner.migration.to, error).await?;
    Ok(left.filter(|(_, it)| it.undone).map(|(_, it)| it.back))
}

/// The same with everything that its owner has; whether it had to be brought
/// back.
async fn turn_whole(owner: &Owner<'_>, notes: &mut Notes) -> Result<bool, TaskError> {
    let Owner {
        steps,
        given,
        context,
        migration,
        job,
    } = owner;
    let turning = steps.worker.work(job, Goal::Turned, notes);
    match alive(context, turning).await.map_err(failed)? {
        Reached::Goal => {
            way_back(steps, given, context, migration, job, notes).await?;
            Ok(true)
        }
        Reached::Over { moved, back } => Ok(moved && back),
        Reached::Unknown | Reached::PutOff => Ok(false),
    }
}

/// Brings the slice back: copies while the owner takes votes, mends what
/// differs, and only then seals.
async fn way_back(
    steps: &Steps,
    given: &Given,
    context: &TaskContext,
    migration: &Migration,
    job: &Job,
    notes: &mut Notes,
) -> Result<(), TaskError> {
    let job = Job {
        move_id: job.move_id.back(),
        seal_max_ms: Some(steps.moves.pace().seal_max_ms),
        ..job.clone()
    };
    // What was streamed back is there already.
    notes.copied = Given::part(&given.dual_read, "back").unwrap_or_default();
    for tried in 0..TRIES {
        let mend = Mend {
            steps,
            context,
            migration,
            job: &job,
        };
        mend.mend(tried == 0, &mut notes.copied).await?;
        approach(steps, &job, &mut notes.copied, context).await?;
        let (owner, copy) = in_files(steps, &job).await.map_err(failed)?;
        let reached = steps.worker.work(&job, Goal::Undone, notes).await;
        match reached {
            Ok(Reached::PutOff) => tokio::time::sleep(PAUSE).await,
            Ok(Reached::Over { moved: true, .. }) => {
                if let Some(proved) = &mut notes.proved {
                    proved.acknowledged += owner;
                    proved.present += copy;
                }
                return Ok(());
            }
            Ok(other) => {
                let why = format!("it did not end as it should have: {other:?}");
                return Err(TaskError::new(REFUSED, why));
            }
            Err(error) => {
                // Nobody waits for the next try: votes are taken meanwhile.
                if let Err(also) = steps.worker.unseal_overdue(migration, 0).await {
                    let id = &migration.migration_id;
                    tracing::warn!(%id, error = %also, "it stays sealed for now");
                }
                return Err(failed(error));
            }
        }
    }
    Err(TaskError::new(
        UNAVAILABLE,
        "it is never quiet enough to bring it back",
    ))
}

/// How many votes are in files, on the side that is left and on the other.
async fn in_files(steps: &Steps, job: &Job) -> Result<(u64, u64), MoveError> {
    let Some((_, sides)) = steps.worker.sides_of(job).await? else {
        return Ok((0, 0));
    };
    let from = sides.rows_in_files(&sides.from, &job.slice).await?;
    Ok((from, sides.rows_in_files(&sides.to, &job.slice).await?))
}

/// The shard that a slice goes back to is made right first.
struct Mend<'a> {
    steps: &'a Steps,
    context: &'a TaskContext,
    migration: &'a Migration,
    job: &'a Job,
}

impl Mend<'_> {
    /// Has copied anew what differs there although nobody votes in it, and, when
    /// everything is to be read back, what is stored wrong. If that cannot be
    /// made right from here, the slice does not go back.
    async fn mend(&self, whole: bool, copied: &mut Copied) -> Result<(), TaskError> {
        let (steps, job, context) = (self.steps, self.job, self.context);
        let Some((seen, sides)) = steps.worker.sides_of(job).await.map_err(failed)? else {
            return Ok(());
        };
        let phase = seen.route.moving.as_ref().map(|moving| moving.phase);
        if phase != Some(Phase::Copying) {
            return Ok(());
        }
        let order = Worker::order(job, &seen);
        let differing = alive(context, unequal(&sides, job, &order, copied)).await;
        let differing = differing.map_err(failed)?;
        if !whole && differing.is_empty() {
            return Ok(());
        }
        let note = format!("reading {} back before the slice returns", sides.to.0);
        let mut pace = Paced::steady(steps, context, &sides.from, Counted::Bytes, note);
        let sealed = self.migration.proved.as_ref();
        let judge = Judge {
            worker: &steps.worker,
            job,
            sides: &sides,
            order: &order,
            at: Worker::looked_at(job, &seen),
            sealed: sealed.map(|proved| proved.source_digest.as_str()),
        };
        let found = alive(context, judge.judge(&differing, copied, &mut pace)).await;
        let found = found.map_err(|error| pace.failed(error))?;
        self.heed(&found, &sides).await
    }

    async fn heed(&self, found: &Found, sides: &Sides) -> Result<(), TaskError> {
        let (owner, copy) = (&sides.from.0, &sides.to.0);
        match found {
            // That is why it goes back, and was told.
            Found::Nothing | Found::Owner(_) => Ok(()),
            Found::Copy(told) => {
                let place = ("Rollback", copy);
                let then = "copied anew before the slice returns";
                let anew = |migration: &mut Migration| migration.figures.streamed_back = None;
                let found = self.steps.found(self.migration, place, told, then, anew);
                found.await.map(drop)
            }
            Found::Unclear(told) => {
                let place = ("Rollback", owner);
                // It was told, and is so still.
                let known = self
                    .migration
                    .findings
                    .iter()
                    .rfind(|one| one.then == UNCLEAR);
                if known.is_none_or(|known| known.what != told.line()) {
                    let then = UNCLEAR;
                    let found = self.steps.found(self.migration, place, told, then, |_| {});
                    found.await?;
                }
                let why = format!(
                    "nobody can say whether {owner} or {copy} is right: {}; to complete the \
                     move calls the way back off and keeps what {owner} has",
                    told.line()
                );
                Err(TaskError::new(UNAVAILABLE, why))
            }
        }
    }
}

/// Why it goes back, as the steps before said.
fn reason(given: &Given) -> String {
    let text = |value: &Value, name: &str| Given::part::<String>(value, name);
    text(&given.error, "Cause")
        .or_else(|| text(&given.dual_read, "reason"))
        .or_else(|| {
            let told = text(&given.verification, "difference")?;
            Some(format!("the copy differs: {told}"))
        })
        .unwrap_or_else(|| "it was called off".to_owned())
}
