//! *MonitorDualRead*: what is written to the target streams back to the source,
//! both are compared, and it is judged whether the window may end, has to go on,
//! or the slice has to go back.

use ballast_domain::PollId;
use ballast_domain::migration::{Migration, Stage};
use ballast_domain::moving::Phase;
use ballast_state_machines::engine::{TaskContext, TaskError};
use ballast_vote_shard::ShardError;
use ballast_vote_shard::shard::Order;
use serde_json::{Value, json};

use super::verify_consistency::{damaged, told, without};
use super::{Done, Given, Steps, alive, failed, tell};
use crate::budget::Strikes;
use crate::copy::Copied;
use crate::worker::{Job, MoveError, Sides, Worker, differing};

/// One run streams back for so long at the most.
const RUN_MS: i64 = 5_000;
/// Both sides are compared at least so often, in seconds.
const ASK_AGAIN_MAX: u64 = 5;

/// What was found by comparing.
enum Found {
    /// Both are as they should be.
    Nothing,
    /// The target has stored something else than was written: back.
    Target(String),
    /// The source's copy was not right, and was copied anew.
    Source(String),
}

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    let migration = steps.open(given, context).await?;
    let job = steps.job(&migration, context);
    let mut back: Copied = Given::part(&given.dual_read, "back").unwrap_or_default();
    let route = steps.worker.route(&job.slice).await.map_err(failed)?;
    match route.move_of(&job.move_id).map(|moving| moving.phase) {
        Some(Phase::Window) => {}
        Some(Phase::Cleaning) => return said("over", 0, &back, None),
        // It is on its way back, or over.
        _ if migration.stage == Stage::Cleaning => return said("over", 0, &back, None),
        _ => return said("reverse", 0, &back, Some("it went back".to_owned())),
    }
    if let Some(wish) = &migration.asked.back {
        let why = wish.word.reason.clone();
        let why = why.unwrap_or_else(|| format!("{} wants it back", wish.word.actor));
        return said("reverse", 0, &back, Some(why));
    }
    let left = left_ms(steps, &migration);
    let note = match left {
        0 => "comparing both sides a last time".to_owned(),
        left => format!("both sides are kept for {} s more", left.div_ceil(1_000)),
    };
    let window = migration.terms.window_ms;
    let seconds = |ms: u64| ms.div_ceil(1_000);
    tell(
        context,
        seconds(window.saturating_sub(left)),
        Some(seconds(window)),
        "s",
        note,
    );
    let last = left == 0 && migration.asked.paused.is_none();
    let looking = async {
        let Some((seen, sides)) = steps.worker.sides_of(&job).await? else {
            return Ok(Found::Nothing);
        };
        let monitor = Monitor {
            steps,
            job: &job,
            sides: sides.exchanged(),
            order: &Worker::order(&job, &seen),
        };
        let quiet = monitor.stream_back(&mut back, context).await?;
        monitor.compare(&quiet, last, &mut back).await
    };
    let found = match alive(context, looking).await {
        Err(error) => match away(&error, &migration) {
            Some(why) => {
                steps.waits_for(&migration, Some(&why)).await?;
                return said("watch", ASK_AGAIN_MAX, &back, Some(why));
            }
            None => return Err(failed(error)),
        },
        Ok(found) => found,
    };
    let noted = count(steps, &migration, &found).await?;
    match found {
        Found::Target(why) => return said("reverse", 0, &back, Some(why)),
        Found::Source(why) => {
            tracing::warn!(id = %migration.migration_id, why, "the source's copy was made anew");
            return said("watch", 1, &back, Some(why));
        }
        Found::Nothing => {}
    }
    let seen = steps.readers.counts(&job.slice);
    if seen.stragglers > 0 && migration.asked.complete.is_none() {
        let why = format!(
            "somebody to look: {} rows were found on {} alone, which should not be; reverse or complete the move",
            seen.stragglers, migration.from
        );
        steps.waits_for(&noted, Some(&why)).await?;
        return said("watch", ASK_AGAIN_MAX, &back, Some(why));
    }
    let mut strikes: Strikes = Given::part(&given.dual_read, "strikes").unwrap_or_default();
    let around = steps.readers.around_cutover(&job.slice);
    if let Some(wrong) = strikes.look(&around, &steps.moves.pace().budget) {
        let why = format!("the tenant is worse off on {}: {wrong}", migration.to);
        return said("reverse", 0, &back, Some(why));
    }
    if last {
        return finish(steps, &noted, &back).await;
    }
    let paused = migration.asked.paused.is_some();
    let waits = paused.then_some("somebody to resume it");
    steps.waits_for(&noted, waits).await?;
    let often = (window / 100_000).clamp(1, ASK_AGAIN_MAX);
    let ask_again = left.div_ceil(1_000).clamp(1, often);
    let mut said = said("watch", ask_again, &back, None)?;
    said["strikes"] = json!(strikes);
    Ok(said)
}

/// What to wait for when a shard cannot be reached: nothing goes back or is
/// removed by itself meanwhile.
fn away(error: &MoveError, migration: &Migration) -> Option<String> {
    let MoveError::Shard {
        shard,
        source: source @ ShardError::Unavailable { .. },
    } = error
    else {
        return None;
    };
    Some(match *shard == migration.to {
        true => format!("{shard}, which owns the slice, to be reached again: {source}"),
        false => format!("{shard} to be reached again, so that its copy is kept: {source}"),
    })
}

fn said(verdict: &str, ask_again_seconds: u64, back: &Copied, reason: Option<String>) -> Done {
    let mut said = json!({
        "verdict": verdict,
        "askAgainSeconds": ask_again_seconds,
        "back": back,
    });
    if let (Some(reason), Some(members)) = (reason, said.as_object_mut()) {
        members.insert("reason".to_owned(), Value::String(reason));
    }
    Ok(said)
}

/// How much of the window is left, in milliseconds.
fn left_ms(steps: &Steps, migration: &Migration) -> u64 {
    if migration.asked.complete.is_some() {
        return 0;
    }
    let since = migration.figures.cut_over_at;
    let since = since.map_or(i64::MAX, |since| since.unix_ms());
    let gone = steps.now_ms().saturating_sub(since).max(0);
    migration
        .terms
        .window_ms
        .saturating_sub(gone.unsigned_abs())
}

/// The window ends, unless somebody wanted the slice back at the same moment:
/// both is decided by the same record.
async fn finish(steps: &Steps, migration: &Migration, back: &Copied) -> Done {
    let edit = |migration: &mut Migration| {
        if migration.asked.back.is_none() && migration.stage == Stage::CutOver {
            migration.stage = Stage::Cleaning;
            migration.waiting_for = None;
        }
    };
    let noted = steps.note(migration, "migration.clean", edit).await?;
    match noted.stage {
        Stage::Cleaning | Stage::Ended => said("over", 0, back, None),
        _ => said("watch", 0, back, None),
    }
}

async fn count(
    steps: &Steps,
    migration: &Migration,
    found: &Found,
) -> Result<Migration, TaskError> {
    let differed = !matches!(found, Found::Nothing);
    if !differed && migration.figures.compared > 0 {
        // Not each of very many comparisons is worth an entry.
        let often = migration.figures.compared;
        let now = steps.now_ms();
        let since = migration.figures.cut_over_at.map_or(now, |at| at.unix_ms());
        let due = (now - since).max(0).unsigned_abs() / 60_000 >= often;
        if !due && migration.asked.complete.is_none() {
            return Ok(migration.clone());
        }
    }
    let reads = steps.readers.counts(&migration.slice_id());
    let edit = move |migration: &mut Migration| {
        migration.figures.compared += 1;
        migration.figures.differences += u64::from(differed);
        migration.figures.differences = migration.figures.differences.max(reads.differences);
    };
    steps.note(migration, "migration.compared", edit).await
}

struct Monitor<'a> {
    steps: &'a Steps,
    job: &'a Job,
    /// From the owner to where it was.
    sides: Sides,
    order: &'a Order,
}

impl Monitor<'_> {
    /// Streams back what was written; the polls in which nobody voted meanwhile
    /// differ on neither side, or else are returned.
    async fn stream_back(
        &self,
        back: &mut Copied,
        context: &TaskContext,
    ) -> Result<Vec<PollId>, MoveError> {
        let slice = &self.job.slice;
        let (before, _) = self.sides.digests(slice).await?;
        let until = self.steps.now_ms() + RUN_MS;
        loop {
            let carried = self.sides.carry(slice, self.order, back).await;
            if carried?.caught_up {
                break;
            }
            if self.steps.now_ms() >= until || context.is_cancelled() {
                // Not caught up: nothing can be said yet.
                return Ok(Vec::new());
            }
        }
        let (owner, copy) = self.sides.digests(slice).await?;
        let in_motion = differing(&before, &owner);
        Ok(without(differing(&owner, &copy), &in_motion))
    }

    /// Says which side is wrong. Everything stored is read back when something
    /// differs, and before the window ends.
    async fn compare(
        &self,
        unequal: &[PollId],
        last: bool,
        back: &mut Copied,
    ) -> Result<Found, MoveError> {
        if unequal.is_empty() && !last {
            return Ok(Found::Nothing);
        }
        let (owner, copy) = (&self.sides.from, &self.sides.to);
        let shard_failed = |id: &ballast_domain::ShardId| {
            let shard = id.clone();
            move |source| MoveError::Shard { shard, source }
        };
        let wrong = damaged(&*owner.1, self.job).await;
        let wrong = wrong.map_err(shard_failed(&owner.0))?;
        if !wrong.is_empty() {
            let exchanged = self.sides.exchanged();
            let told = told(&exchanged, self.job, &wrong, &wrong).await?;
            return Ok(Found::Target(format!("{} is wrong: {told}", owner.0)));
        }
        let copied_wrong = damaged(&*copy.1, self.job).await;
        let mut polls = copied_wrong.map_err(shard_failed(&copy.0))?;
        polls.extend(unequal);
        polls.sort_unstable();
        polls.dedup();
        if polls.is_empty() {
            return Ok(Found::Nothing);
        }
        let told = told(&self.sides, self.job, &polls, &polls).await?;
        for poll in &polls {
            let discarded = copy.1.discard(&self.job.slice, self.order, *poll).await;
            discarded.map_err(shard_failed(&copy.0))?;
        }
        // Everything is offered once more; what is there stays as it is.
        *back = Copied::default();
        Ok(Found::Source(format!("{} is wrong: {told}", copy.0)))
    }
}

// Undone by Rollback, which brings the slice back.
