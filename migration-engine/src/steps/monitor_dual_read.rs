//! *MonitorDualRead*: what is written to the target streams back to the source,
//! both are compared, and it is judged whether the window may end, has to go on,
//! or the slice has to go back.

use ballast_domain::migration::{Migration, Stage, StreamedBack};
use ballast_domain::moving::Phase;
use ballast_domain::{PollId, ShardId};
use ballast_state_machines::engine::{TaskContext, TaskError};
use ballast_vote_shard::ShardError;
use ballast_vote_shard::archive::ArchiveError;
use ballast_vote_shard::shard::{Order, Unfit};
use serde_json::{Value, json};

use super::judge_sides::{Found, Judge};
use super::paced::{Counted, Paced};
use super::{Done, FOR_RESUME, Given, Steps, alive, failed, tell};
use crate::budget::Strikes;
use crate::copy::Copied;
use crate::ports::ReadCounts;
use crate::worker::{Job, MoveError, Sides, Worker};

/// One run streams back for so long at the most.
const RUN_MS: i64 = 5_000;
/// What is done when nobody can say which side is right.
const UNCLEAR: &str = "both sides are kept until somebody has looked";
/// Both sides are compared at least so often, in seconds.
const COMPARE_MAX: u64 = 5;
/// What was written streams back so often, in seconds: no more than that is lost
/// with a target that is never seen again.
const STREAM_AGAIN: u64 = 1;

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
    let moving = route.move_of(&job.move_id);
    let is_alone = moving.is_some_and(|moving| moving.also_durable_on().is_none());
    let migration = told_alone(steps, migration, is_alone).await?;
    if let Some(wish) = &migration.asked.back {
        let why = wish.word.reason.clone();
        let why = why.unwrap_or_else(|| format!("{} wants it back", wish.word.actor));
        return said("reverse", 0, &back, Some(why));
    }
    let left = left_ms(steps, &migration);
    let window = migration.terms.window_ms;
    tell_how_long(context, window, left);
    let last = left == 0 && migration.asked.paused.is_none();
    let reads = steps.readers.counts(&job.slice);
    let compared_at = Given::part::<i64>(&given.dual_read, "comparedAt");
    let is_due = compared_at.is_none_or(|at| steps.now_ms() - at >= compare_every_ms(window));
    let thorough = last || reads.differences > migration.figures.differences;
    let look = Look {
        steps,
        context,
        migration: &migration,
        job: &job,
        compares: is_due || thorough || reads.stragglers > migration.figures.stragglers,
        thorough,
    };
    let found = match look.look(&mut back).await {
        Err(error) => match away(&error, &migration) {
            Some(away) => return wait_for(&look, given, away, &back).await,
            None => return Err(failed(error)),
        },
        Ok(found) => found,
    };
    if !look.compares {
        return again(given, &back, compared_at);
    }
    let noted = count(steps, &migration, &found, (reads, &back)).await?;
    match acted_on(steps, &noted, &found).await? {
        Some(Verdict::Back(why)) => return said("reverse", 0, &back, Some(why)),
        Some(Verdict::Again(why)) => return said("watch", 1, &back, Some(why)),
        None => {}
    }
    if let Some(why) = straggler(&noted) {
        steps.waits_for(&noted, Some(&why)).await?;
        return again(given, &back, Some(steps.now_ms()));
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
    let waits = paused.then_some(FOR_RESUME);
    steps.waits_for(&noted, waits).await?;
    let mut said = said("watch", STREAM_AGAIN, &back, None)?;
    said["strikes"] = json!(strikes);
    said["comparedAt"] = json!(steps.now_ms());
    Ok(said)
}

/// How often both sides of a window as long as this are compared.
fn compare_every_ms(window_ms: u64) -> i64 {
    let seconds = (window_ms / 100_000).clamp(1, COMPARE_MAX);
    i64::try_from(seconds * 1_000).unwrap_or(i64::MAX)
}

/// The window goes on, with what is known of the tenant's budget.
fn again(given: &Given, back: &Copied, compared_at: Option<i64>) -> Done {
    let mut said = said("watch", STREAM_AGAIN, back, None)?;
    said["comparedAt"] = json!(compared_at);
    let strikes = &given.dual_read["strikes"];
    if !strikes.is_null() {
        said["strikes"] = strikes.clone();
    }
    Ok(said)
}

/// Notes since when the owner alone acknowledges, where both sides were to.
async fn told_alone(
    steps: &Steps,
    migration: Migration,
    is_alone: bool,
) -> Result<Migration, TaskError> {
    if !is_alone || !migration.terms.sync || migration.figures.alone_since.is_some() {
        return Ok(migration);
    }
    let now = steps.clock.now();
    let edit = move |migration: &mut Migration| {
        migration.figures.alone_since.get_or_insert(now);
    };
    steps.note(&migration, "migration.alone", edit).await
}

/// A shard that cannot be reached.
struct Away {
    shard: ShardId,
    /// Whether it is the one that owns the slice.
    owns: bool,
    /// Whether it is there, and what it has stored cannot be read.
    damaged: bool,
    cause: String,
}

fn away(error: &MoveError, migration: &Migration) -> Option<Away> {
    let (shard, source): (_, &dyn std::fmt::Display) = match error {
        // Its disk is another: what is wanted of it will never be there.
        MoveError::Shard {
            shard,
            source: source @ ShardError::Unfit(Unfit::Unknown),
        } if *shard == migration.from => (shard, source),
        MoveError::Shard {
            shard,
            source: source @ (ShardError::Unavailable { .. } | ShardError::Damaged { .. }),
        } => (shard, source),
        MoveError::Archive { shard, source } if matches!(**source, ArchiveError::Store { .. }) => {
            (shard, source)
        }
        _ => return None,
    };
    Some(Away {
        shard: shard.clone(),
        owns: *shard == migration.to,
        damaged: is_damage(error),
        cause: source.to_string(),
    })
}

fn is_damage(error: &MoveError) -> bool {
    let MoveError::Shard { source, .. } = error else {
        return false;
    };
    matches!(source, ShardError::Damaged { .. })
}

impl Away {
    /// What is waited for, in words: nothing is removed meanwhile, and nothing
    /// goes back by itself where that would lose something. `sync` says whether
    /// both sides have everything that was acknowledged.
    fn why(&self, sync: bool) -> String {
        let Self { shard, cause, .. } = self;
        let again = match self.damaged {
            true => "to be readable again",
            false => "to be reached again",
        };
        match (self.owns, sync) {
            (true, false) => format!(
                "{shard}, which owns the slice, {again}: {cause}; if it never will be, an admin \
                 can give up what only it has (migration reverse --accept-loss)"
            ),
            (true, true) => format!(
                "{shard}, which owns the slice, {again}: {cause}; migration reverse brings it \
                 back without, with every vote that was acknowledged"
            ),
            (false, false) => format!(
                "{shard} {again}, so that its copy is kept: {cause}; if it never will be, the \
                 move can end without (migration complete --without-source)"
            ),
            (false, true) => format!(
                "{shard} {again}: {cause}; votes count only when it has them, too, until \
                 somebody wants the window to end (migration complete)"
            ),
        }
    }
}

/// Waits for a shard that is away: not for ever where nothing is lost without it.
async fn wait_for(look: &Look<'_>, given: &Given, away: Away, back: &Copied) -> Done {
    let (steps, migration, now) = (look.steps, look.migration, look.steps.now_ms());
    let since = Given::part::<i64>(&given.dual_read, "awaySince").unwrap_or(now);
    let route = steps.worker.route(&look.job.slice).await.map_err(failed)?;
    let moving = route.move_of(&look.job.move_id);
    let mut is_sync = moving.is_some_and(|moving| moving.also_durable_on().is_some());
    let most = steps.moves.pace().budget.away_ms;
    let is_long = most.is_some_and(|most| (now - since).max(0).unsigned_abs() >= most);
    if away.owns && is_sync && is_long {
        let (to, seconds) = (&migration.to, (now - since) / 1_000);
        let how = match away.damaged {
            true => "could not be read",
            false => "was away",
        };
        let why = format!(
            "{to} {how} for {seconds} s, and the source has every vote that was acknowledged"
        );
        return said("reverse", 0, back, Some(why));
    }
    if !away.owns && is_sync && migration.asked.complete.is_some() {
        // Whoever wants the window to end wants votes to be taken.
        steps.worker.relax(look.job).await.map_err(failed)?;
        is_sync = false;
    }
    if !away.owns && migration.asked.without_source.is_some() {
        // Nothing is compared any more: there is nothing to compare with.
        return finish(steps, migration, back).await;
    }
    let why = match steps.worker.shards().is_starting(&away.shard) {
        true => format!("{} to start", away.shard),
        false => away.why(is_sync),
    };
    let migration = match away.owns {
        true => &told_streamed(steps, migration, back).await?,
        false => migration,
    };
    steps.waits_for(migration, Some(&why)).await?;
    let mut said = said("watch", STREAM_AGAIN, back, Some(why))?;
    if away.owns {
        said["awaySince"] = json!(since);
    }
    Ok(said)
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

/// Tells how much of the window is over.
fn tell_how_long(context: &TaskContext, window: u64, left: u64) {
    let note = match left {
        0 => "comparing both sides a last time".to_owned(),
        left => format!("both sides are kept for {} s more", left.div_ceil(1_000)),
    };
    let seconds = |ms: u64| ms.div_ceil(1_000);
    let gone = seconds(window.saturating_sub(left));
    tell(context, gone, Some(seconds(window)), "s", note);
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

/// What is to be done after what was found.
enum Verdict {
    /// The slice goes back.
    Back(String),
    /// The window goes on, and is looked at again soon.
    Again(String),
}

/// Writes down which side is wrong, and says what follows.
async fn acted_on(
    steps: &Steps,
    migration: &Migration,
    found: &Found,
) -> Result<Option<Verdict>, TaskError> {
    let (owner, copy) = (&migration.to, &migration.from);
    let (shard, told, then) = match found {
        Found::Nothing => return Ok(None),
        Found::Owner(told) => (owner, told, "the slice goes back"),
        Found::Copy(told) => (copy, told, "copied anew"),
        Found::Unclear(told) => (owner, told, UNCLEAR),
    };
    let why = format!("{shard} is wrong: {}", told.line());
    let waits = matches!(found, Found::Unclear(_)).then(|| {
        format!("somebody to look: {owner} and {copy} differ, and nobody can say which is right; to complete the move then keeps what {owner} has")
    });
    if waits.is_some() && has_looked(migration, &told.line()) {
        return Ok(None);
    }
    if waits.is_some() && migration.waiting_for == waits {
        // It was told, and is so still.
        return Ok(Some(Verdict::Again(why)));
    }
    let edit = move |migration: &mut Migration| {
        migration.waiting_for.clone_from(&waits);
    };
    let place = ("MonitorDualRead", shard);
    steps.found(migration, place, told, then, edit).await?;
    Ok(Some(match found {
        Found::Owner(_) => Verdict::Back(why),
        _ => Verdict::Again(why),
    }))
}

/// Whether somebody wanted the window to end after it was told what differs.
fn has_looked(migration: &Migration, what: &str) -> bool {
    let mut findings = migration.findings.iter().rev();
    let told = findings.find(|one| one.then == UNCLEAR && one.what == what);
    let asked = migration.asked.complete.as_ref();
    told.zip(asked)
        .is_some_and(|(told, word)| word.at > told.at)
}

/// A vote that only the source has should not be: the source is kept until
/// somebody has looked.
fn straggler(migration: &Migration) -> Option<String> {
    let seen = migration.figures.stragglers;
    let waits = seen > 0 && migration.asked.complete.is_none();
    waits.then(|| {
        format!(
            "somebody to look: {seen} times a vote was read on {} that {} lacks, which should not be; reverse or complete the move",
            migration.from, migration.to
        )
    })
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

/// Counts the comparison, and what readers have seen.
async fn count(
    steps: &Steps,
    migration: &Migration,
    found: &Found,
    (reads, back): (ReadCounts, &Copied),
) -> Result<Migration, TaskError> {
    let differed = !matches!(found, Found::Nothing);
    let figures = &migration.figures;
    let news = differed
        || reads.differences > figures.differences
        || reads.stragglers > figures.stragglers;
    if !news && figures.compared > 0 {
        // Not each of very many comparisons is worth an entry.
        let now = steps.now_ms();
        let since = figures.cut_over_at.map_or(now, |at| at.unix_ms());
        let due = (now - since).max(0).unsigned_abs() / 60_000 >= figures.compared;
        if !due && migration.asked.complete.is_none() {
            return Ok(migration.clone());
        }
    }
    let streamed_back = streamed_back(back);
    let edit = move |migration: &mut Migration| {
        let figures = &mut migration.figures;
        // What was wrong on the source is about to be brought anew.
        let before = figures.streamed_back.filter(|_| !differed);
        figures.streamed_back = streamed_back.or(before);
        figures.compared += 1;
        figures.differences += u64::from(differed);
        figures.differences = figures.differences.max(reads.differences);
        figures.stragglers = figures.stragglers.max(reads.stragglers);
    };
    steps.note(migration, "migration.compared", edit).await
}

/// Notes how far the stream back is, if that is farther than is known: what is lost
/// with an owner that is away begins there.
async fn told_streamed(
    steps: &Steps,
    migration: &Migration,
    back: &Copied,
) -> Result<Migration, TaskError> {
    let known = migration.figures.streamed_back;
    let Some(streamed) =
        streamed_back(back).filter(|now| known.is_none_or(|was| was.before < now.before))
    else {
        return Ok(migration.clone());
    };
    let edit = move |migration: &mut Migration| migration.figures.streamed_back = Some(streamed);
    steps.note(migration, "migration.streamed", edit).await
}

/// How far a stream back is, once it has caught up.
pub(super) fn streamed_back(back: &Copied) -> Option<StreamedBack> {
    let (position, before) = back.position().zip(back.complete_before)?;
    Some(StreamedBack { position, before })
}

/// One look at both sides.
struct Look<'a> {
    steps: &'a Steps,
    context: &'a TaskContext,
    migration: &'a Migration,
    job: &'a Job,
    /// Whether both sides are compared; if not, what was written only streams back.
    compares: bool,
    /// Whether everything is read back, also if nothing seems to differ.
    thorough: bool,
}

impl Look<'_> {
    /// Streams back what was written, and says which side is wrong, if one is.
    async fn look(&self, back: &mut Copied) -> Result<Found, MoveError> {
        let Some((seen, sides)) = self.steps.worker.sides_of(self.job).await? else {
            return Ok(Found::Nothing);
        };
        // From the owner to where it was.
        let sides = sides.exchanged();
        let order = Worker::order(self.job, &seen);
        let streaming = self.stream_back(&sides, &order, back);
        let unequal = alive(self.context, streaming).await?;
        if unequal.is_empty() && !self.thorough {
            return Ok(Found::Nothing);
        }
        let note = "reading both sides' files back".to_owned();
        let (steps, context) = (self.steps, self.context);
        let mut pace = Paced::steady(steps, context, &sides.from, Counted::Bytes, note);
        let sealed = self.migration.proved.as_ref();
        let judge = Judge {
            worker: &self.steps.worker,
            job: self.job,
            sides: &sides,
            order: &order,
            at: Worker::looked_at(self.job, &seen),
            sealed: sealed.map(|proved| proved.source_digest.as_str()),
        };
        alive(context, judge.judge(&unequal, back, &mut pace)).await
    }

    /// Streams back what was written; the polls in which nobody voted meanwhile
    /// differ on neither side, or else are returned.
    async fn stream_back(
        &self,
        sides: &Sides,
        order: &Order,
        back: &mut Copied,
    ) -> Result<Vec<PollId>, MoveError> {
        let slice = &self.job.slice;
        let before = match self.compares {
            true => Some(sides.source_digests(slice).await?),
            false => None,
        };
        let began = self.steps.clock.now();
        let until = began.unix_ms() + RUN_MS;
        while !sides.carry(slice, order, back).await?.caught_up {
            if self.steps.now_ms() >= until || self.context.is_cancelled() {
                // Not caught up: nothing can be said yet.
                return Ok(Vec::new());
            }
        }
        back.complete_before = Some(began);
        match before {
            Some(before) => sides.unequal_at_rest(slice, &before).await,
            None => Ok(Vec::new()),
        }
    }
}

// Undone by Rollback, which brings the slice back.
