//! *MonitorDualRead*: the window. Streams the target's changes back to the source,
//! compares both sides, and decides whether the window ends, continues, or the slice
//! goes back.

use ballast_domain::migration::{Migration, MigrationStage, StreamedBack};
use ballast_domain::moving::{MigrationPhase, SliceRoute};
use ballast_domain::{PollId, ShardId};
use ballast_state_machines::engine::{TaskContext, TaskError};
use ballast_vote_shard::ShardError;
use ballast_vote_shard::archive::ArchiveError;
use ballast_vote_shard::shard::{MigrationToken, SliceStateError};
use serde_json::{Value, json};

use super::judge_sides::{SideJudge, SideVerdict};
use super::paced_work::{PacedWork, ProgressUnit};
use super::{
    FOR_RESUME, MigrationSteps, StepInput, StepResult, report_progress, to_task_error,
    with_heartbeats,
};
use crate::budget::BudgetStrikes;
use crate::copy::CopyProgress;
use crate::ports::ReadCounts;
use crate::worker::{LeasedMigration, MigrationError, MigrationSides, MigrationWorker};

/// The longest time that one run streams back.
const RUN_MS: i64 = 5_000;
/// What follows when it is unclear which side is right. Migration records store this
/// text and are searched for it: do not change it.
pub(super) const UNCLEAR: &str = "both sides are kept until somebody has looked";
/// The longest interval between two comparisons, in seconds.
const COMPARE_MAX: u64 = 5;
/// The interval of the stream back, in seconds: no more than that is lost with a target
/// that never returns.
const STREAM_AGAIN: u64 = 1;

pub(super) async fn run(
    steps: &MigrationSteps,
    input: &StepInput,
    context: &TaskContext,
) -> StepResult {
    let migration = steps.open(input, context).await?;
    let job = steps.job(&migration, context);
    let mut back: CopyProgress =
        StepInput::parse_part(&input.dual_read, "back").unwrap_or_default();
    let route = steps
        .worker
        .read_route(&job.slice)
        .await
        .map_err(to_task_error)?;
    if let Some(output) = end_output(&route, &migration, &job, &back) {
        return output;
    }
    let moving = route.active_migration(&job.migration_id);
    let is_alone = moving.is_some_and(|moving| moving.also_durable_on().is_none());
    let migration = record_owner_alone(steps, migration, is_alone).await?;
    if let Some(asked) = &migration.asked.back {
        let why = asked.word.reason.clone();
        let why = why.unwrap_or_else(|| format!("reversed by {}", asked.word.actor));
        return to_output("reverse", 0, &back, Some(why));
    }
    let left = left_ms(steps, &migration);
    let window = migration.terms.window_ms;
    report_window(context, window, left);
    let last = left == 0 && migration.asked.paused.is_none();
    let reads = steps.readers.counts(&job.slice);
    let compared_at = StepInput::parse_part::<i64>(&input.dual_read, "comparedAt");
    let is_due = compared_at.is_none_or(|at| steps.now_ms() - at >= compare_interval_ms(window));
    let thorough = last || reads.differences > migration.figures.differences;
    let check = WindowCheck {
        steps,
        context,
        migration: &migration,
        job: &job,
        compares: is_due || thorough || reads.stragglers > migration.figures.stragglers,
        thorough,
        reads,
        last,
    };
    let found = match check.check(&mut back).await {
        Err(error) => match unreachable_shard(&error, &migration) {
            Some(away) => return wait_for_shard(&check, input, away, &back).await,
            None => return Err(to_task_error(error)),
        },
        Ok(found) => found,
    };
    match check.compares {
        true => act_on_comparison(&check, input, &found, &back).await,
        false => keep_watching(input, &back, compared_at),
    }
}

/// Returns the output of a window that is over already, if it is.
fn end_output(
    route: &SliceRoute,
    migration: &Migration,
    job: &LeasedMigration,
    back: &CopyProgress,
) -> Option<StepResult> {
    let moving = route.active_migration(&job.migration_id);
    match moving.map(|moving| moving.phase) {
        Some(MigrationPhase::Window) => None,
        Some(MigrationPhase::Cleaning) => Some(to_output("over", 0, back, None)),
        // The reverse migration is active, or the migration has ended.
        _ if migration.stage == MigrationStage::Cleaning => Some(to_output("over", 0, back, None)),
        _ => {
            let why = "the slice went back".to_owned();
            Some(to_output("reverse", 0, back, Some(why)))
        }
    }
}

/// Records a comparison of both sides, and decides whether the window continues, ends, or
/// the slice goes back.
async fn act_on_comparison(
    check: &WindowCheck<'_>,
    input: &StepInput,
    found: &SideVerdict,
    back: &CopyProgress,
) -> StepResult {
    let (steps, migration) = (check.steps, check.migration);
    let updated = record_comparison(steps, migration, found, (check.reads, back)).await?;
    match record_verdict(steps, &updated, found).await? {
        Some(WindowDecision::Reverse(why)) => return to_output("reverse", 0, back, Some(why)),
        Some(WindowDecision::CheckAgain(why)) => return to_output("watch", 1, back, Some(why)),
        None => {}
    }
    if let Some(why) = straggler_wait(&updated) {
        steps.record_waiting(&updated, Some(&why)).await?;
        return keep_watching(input, back, Some(steps.now_ms()));
    }
    let mut strikes: BudgetStrikes =
        StepInput::parse_part(&input.dual_read, "strikes").unwrap_or_default();
    let around = steps.readers.around_cutover(&check.job.slice);
    if let Some(wrong) = strikes.observe(&around, &steps.moves.pace().budget) {
        let why = format!("the tenant's calls got worse on {}: {wrong}", migration.to);
        return to_output("reverse", 0, back, Some(why));
    }
    if check.last {
        return end_window(steps, &updated, back).await;
    }
    let paused = migration.asked.paused.is_some();
    let waits = paused.then_some(FOR_RESUME);
    steps.record_waiting(&updated, waits).await?;
    let mut output = to_output("watch", STREAM_AGAIN, back, None)?;
    output["strikes"] = json!(strikes);
    output["comparedAt"] = json!(steps.now_ms());
    Ok(output)
}

/// Returns how often to compare both sides in a window of this length.
fn compare_interval_ms(window_ms: u64) -> i64 {
    let seconds = (window_ms / 100_000).clamp(1, COMPARE_MAX);
    i64::try_from(seconds * 1_000).unwrap_or(i64::MAX)
}

/// Continues the window, and keeps the budget's state.
fn keep_watching(input: &StepInput, back: &CopyProgress, compared_at: Option<i64>) -> StepResult {
    let mut output = to_output("watch", STREAM_AGAIN, back, None)?;
    output["comparedAt"] = json!(compared_at);
    let strikes = &input.dual_read["strikes"];
    if !strikes.is_null() {
        output["strikes"] = strikes.clone();
    }
    Ok(output)
}

/// Records since when the owner alone acknowledges, in a synchronous migration.
async fn record_owner_alone(
    steps: &MigrationSteps,
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
    steps
        .update_record(&migration, "migration.alone", edit)
        .await
}

/// A shard that cannot be reached.
struct UnreachableShard {
    shard: ShardId,
    /// Whether it owns the slice.
    owns: bool,
    /// Whether it answers, but its stored data cannot be read.
    damaged: bool,
    cause: String,
}

fn unreachable_shard(error: &MigrationError, migration: &Migration) -> Option<UnreachableShard> {
    let (shard, source): (_, &dyn std::fmt::Display) = match error {
        // Its disk was replaced, so its copy is lost.
        MigrationError::Shard {
            shard,
            source: source @ ShardError::SliceState(SliceStateError::UnknownSlice),
        } if *shard == migration.from => (shard, source),
        MigrationError::Shard {
            shard,
            source: source @ (ShardError::Unavailable { .. } | ShardError::Damaged { .. }),
        } => (shard, source),
        MigrationError::Archive { shard, source }
            if matches!(**source, ArchiveError::Store { .. }) =>
        {
            (shard, source)
        }
        _ => return None,
    };
    Some(UnreachableShard {
        shard: shard.clone(),
        owns: *shard == migration.to,
        damaged: is_damage(error),
        cause: source.to_string(),
    })
}

fn is_damage(error: &MigrationError) -> bool {
    let MigrationError::Shard { source, .. } = error else {
        return false;
    };
    matches!(source, ShardError::Damaged { .. })
}

impl UnreachableShard {
    /// Describes the wait and an operator's options. Meanwhile nothing is removed, and
    /// the slice does not go back by itself if that loses writes. `sync` says whether
    /// both sides have every acknowledged write.
    fn describe_wait(&self, sync: bool) -> String {
        let Self { shard, cause, .. } = self;
        let again = match self.damaged {
            true => "to be readable again",
            false => "to be reached again",
        };
        match (self.owns, sync) {
            (true, false) => format!(
                "{shard}, which owns the slice, {again}: {cause}; if it is permanently gone, an \
                 admin can abandon it, with the votes that only it has (migration reverse --accept-loss)"
            ),
            (true, true) => format!(
                "{shard}, which owns the slice, {again}: {cause}; migration reverse brings the \
                 slice back without it, with every acknowledged vote"
            ),
            (false, false) => format!(
                "{shard} {again}, because it has the copy for going back: {cause}; if it is \
                 permanently gone, end the window without it (migration complete --without-source)"
            ),
            (false, true) => format!(
                "{shard} {again}: {cause}; votes are only acknowledged when it has them, too, \
                 until the window ends (migration complete)"
            ),
        }
    }
}

/// Waits for an unreachable shard. If the owner is unreachable for too long and no
/// acknowledged write is lost without it, the slice goes back.
async fn wait_for_shard(
    check: &WindowCheck<'_>,
    input: &StepInput,
    away: UnreachableShard,
    back: &CopyProgress,
) -> StepResult {
    let (steps, migration, now) = (check.steps, check.migration, check.steps.now_ms());
    let since = StepInput::parse_part::<i64>(&input.dual_read, "awaySince").unwrap_or(now);
    let route = steps
        .worker
        .read_route(&check.job.slice)
        .await
        .map_err(to_task_error)?;
    let moving = route.active_migration(&check.job.migration_id);
    let mut is_sync = moving.is_some_and(|moving| moving.also_durable_on().is_some());
    let most = steps.moves.pace().budget.away_ms;
    let is_long = most.is_some_and(|most| (now - since).max(0).unsigned_abs() >= most);
    if away.owns && is_sync && is_long {
        let (to, seconds) = (&migration.to, (now - since) / 1_000);
        let how = match away.damaged {
            true => "could not be read",
            false => "was unreachable",
        };
        let why = format!("{to} {how} for {seconds} s, and the source has every acknowledged vote");
        return to_output("reverse", 0, back, Some(why));
    }
    if !away.owns && is_sync && migration.asked.complete.is_some() {
        // The operator wants the window to end, so do not make votes wait for the copy.
        steps
            .worker
            .stop_synchronous_acks(check.job)
            .await
            .map_err(to_task_error)?;
        is_sync = false;
    }
    if !away.owns && migration.asked.without_source.is_some() {
        // Without the source there is nothing to compare with.
        return end_window(steps, migration, back).await;
    }
    let why = match steps.worker.shards().is_starting(&away.shard) {
        true => format!("{} to start", away.shard),
        false => away.describe_wait(is_sync),
    };
    let migration = match away.owns {
        true => &record_stream(steps, migration, back).await?,
        false => migration,
    };
    steps.record_waiting(migration, Some(&why)).await?;
    let mut output = to_output("watch", STREAM_AGAIN, back, Some(why))?;
    if away.owns {
        output["awaySince"] = json!(since);
    }
    Ok(output)
}

fn to_output(
    verdict: &str,
    ask_again_seconds: u64,
    back: &CopyProgress,
    reason: Option<String>,
) -> StepResult {
    let mut output = json!({
        "verdict": verdict,
        "askAgainSeconds": ask_again_seconds,
        "back": back,
    });
    if let (Some(reason), Some(members)) = (reason, output.as_object_mut()) {
        members.insert("reason".to_owned(), Value::String(reason));
    }
    Ok(output)
}

/// Reports how much of the window has passed.
fn report_window(context: &TaskContext, window: u64, left: u64) {
    let note = match left {
        0 => "comparing both sides for the last time".to_owned(),
        left => format!("both sides are kept for {} s more", left.div_ceil(1_000)),
    };
    let seconds = |ms: u64| ms.div_ceil(1_000);
    let gone = seconds(window.saturating_sub(left));
    report_progress(context, gone, Some(seconds(window)), "s", note);
}

/// Returns how much of the window is left, in milliseconds.
fn left_ms(steps: &MigrationSteps, migration: &Migration) -> u64 {
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

/// What follows from a verdict.
enum WindowDecision {
    /// The slice goes back.
    Reverse(String),
    /// The window continues, and both sides are checked again soon.
    CheckAgain(String),
}

/// Records which side is wrong, and returns what follows.
async fn record_verdict(
    steps: &MigrationSteps,
    migration: &Migration,
    found: &SideVerdict,
) -> Result<Option<WindowDecision>, TaskError> {
    let (owner, copy) = (&migration.to, &migration.from);
    let (shard, report, then) = match found {
        SideVerdict::NothingWrong => return Ok(None),
        SideVerdict::OwnerWrong(report) => (owner, report, "the slice goes back"),
        SideVerdict::CopyRepaired(report) => (copy, report, "copied again"),
        SideVerdict::Unclear(report) => (owner, report, UNCLEAR),
    };
    let why = format!("{shard} has wrong data: {}", report.to_line());
    let waits = matches!(found, SideVerdict::Unclear(_)).then(|| {
        format!("an operator to check: {owner} and {copy} differ, and it is unclear which is right; completing the migration keeps what {owner} has")
    });
    if waits.is_some() && is_acknowledged(migration, &report.to_line()) {
        return Ok(None);
    }
    if waits.is_some() && migration.waiting_for == waits {
        // The same finding is recorded already.
        return Ok(Some(WindowDecision::CheckAgain(why)));
    }
    let edit = move |migration: &mut Migration| {
        migration.waiting_for.clone_from(&waits);
    };
    let place = ("MonitorDualRead", shard);
    steps
        .record_finding(migration, place, report, then, edit)
        .await?;
    Ok(Some(match found {
        SideVerdict::OwnerWrong(_) => WindowDecision::Reverse(why),
        _ => WindowDecision::CheckAgain(why),
    }))
}

/// Whether an operator asked to end the window after this finding was recorded.
fn is_acknowledged(migration: &Migration, what: &str) -> bool {
    let mut findings = migration.findings.iter().rev();
    let report = findings.find(|one| one.then == UNCLEAR && one.what == what);
    let asked = migration.asked.complete.as_ref();
    report
        .zip(asked)
        .is_some_and(|(report, word)| word.at > report.at)
}

/// Describes the wait if there are stragglers, votes that only the source has: the
/// source is kept until an operator has checked.
fn straggler_wait(migration: &Migration) -> Option<String> {
    let record = migration.figures.stragglers;
    let waits = record > 0 && migration.asked.complete.is_none();
    waits.then(|| {
        format!(
            "an operator to check: {record} reads found a vote on {} that {} lacks; reverse or complete the migration",
            migration.from, migration.to
        )
    })
}

/// Ends the window, unless an operator has asked to reverse the migration at the same
/// moment: the migration's record decides.
async fn end_window(
    steps: &MigrationSteps,
    migration: &Migration,
    back: &CopyProgress,
) -> StepResult {
    let edit = |migration: &mut Migration| {
        if migration.asked.back.is_none() && migration.stage == MigrationStage::CutOver {
            migration.stage = MigrationStage::Cleaning;
            migration.waiting_for = None;
        }
    };
    let updated = steps
        .update_record(migration, "migration.clean", edit)
        .await?;
    match updated.stage {
        MigrationStage::Cleaning | MigrationStage::Ended => to_output("over", 0, back, None),
        _ => to_output("watch", 0, back, None),
    }
}

/// Records a comparison, and what routers have counted.
async fn record_comparison(
    steps: &MigrationSteps,
    migration: &Migration,
    found: &SideVerdict,
    (reads, back): (ReadCounts, &CopyProgress),
) -> Result<Migration, TaskError> {
    let differed = !matches!(found, SideVerdict::NothingWrong);
    let figures = &migration.figures;
    let news = differed
        || reads.differences > figures.differences
        || reads.stragglers > figures.stragglers;
    if !news && figures.compared > 0 {
        // At most one update per minute, because each is an entry in the history.
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
        // After a difference the source is copied again, so the old position is void.
        let before = figures.streamed_back.filter(|_| !differed);
        figures.streamed_back = streamed_back.or(before);
        figures.compared += 1;
        figures.differences += u64::from(differed);
        figures.differences = figures.differences.max(reads.differences);
        figures.stragglers = figures.stragglers.max(reads.stragglers);
    };
    steps
        .update_record(migration, "migration.compared", edit)
        .await
}

/// Records how far the stream back is, if it has advanced: an abandoned owner loses
/// what comes after that.
async fn record_stream(
    steps: &MigrationSteps,
    migration: &Migration,
    back: &CopyProgress,
) -> Result<Migration, TaskError> {
    let known = migration.figures.streamed_back;
    let Some(streamed) =
        streamed_back(back).filter(|now| known.is_none_or(|was| was.before < now.before))
    else {
        return Ok(migration.clone());
    };
    let edit = move |migration: &mut Migration| migration.figures.streamed_back = Some(streamed);
    steps
        .update_record(migration, "migration.streamed", edit)
        .await
}

/// Returns how far the stream back is, once it has caught up.
pub(super) fn streamed_back(back: &CopyProgress) -> Option<StreamedBack> {
    let (position, before) = back.position().zip(back.complete_before)?;
    Some(StreamedBack { position, before })
}

/// One check of both sides.
struct WindowCheck<'a> {
    steps: &'a MigrationSteps,
    context: &'a TaskContext,
    migration: &'a Migration,
    job: &'a LeasedMigration,
    /// Whether to compare both sides; if not, only stream back.
    compares: bool,
    /// Whether to read back everything, even if the digests are equal.
    thorough: bool,
    /// What routers have counted.
    reads: ReadCounts,
    /// Whether this is the last check of the window.
    last: bool,
}

impl WindowCheck<'_> {
    /// Streams back the owner's changes, and decides which side is wrong, if one is.
    async fn check(&self, back: &mut CopyProgress) -> Result<SideVerdict, MigrationError> {
        let Some((record, sides)) = self.steps.worker.active_sides(self.job).await? else {
            return Ok(SideVerdict::NothingWrong);
        };
        // From the owner to the copy.
        let sides = sides.swap_roles();
        let token = MigrationWorker::command_token(self.job, &record);
        let streaming = self.stream_back(&sides, &token, back);
        let unequal = with_heartbeats(self.context, streaming).await?;
        if unequal.is_empty() && !self.thorough {
            return Ok(SideVerdict::NothingWrong);
        }
        let note = "reading both sides' files back".to_owned();
        let (steps, context) = (self.steps, self.context);
        let mut pace =
            PacedWork::uninterruptible(steps, context, &sides.from, ProgressUnit::Bytes, note);
        let sealed = self.migration.proved.as_ref();
        let judge = SideJudge {
            worker: &self.steps.worker,
            job: self.job,
            sides: &sides,
            token: &token,
            at: MigrationWorker::observed_slice(self.job, &record),
            sealed: sealed.map(|proved| proved.source_digest.as_str()),
        };
        with_heartbeats(context, judge.judge(&unequal, back, &mut pace)).await
    }

    /// Streams back the owner's changes, and returns the polls that differ and have had
    /// no votes meanwhile.
    async fn stream_back(
        &self,
        sides: &MigrationSides,
        token: &MigrationToken,
        back: &mut CopyProgress,
    ) -> Result<Vec<PollId>, MigrationError> {
        let slice = &self.job.slice;
        let before = match self.compares {
            true => Some(sides.source_digests(slice).await?),
            false => None,
        };
        let began = self.steps.clock.now();
        let until = began.unix_ms() + RUN_MS;
        while !sides.copy_page(slice, token, back).await?.caught_up {
            if self.steps.now_ms() >= until || self.context.is_cancelled() {
                // Not caught up, so a difference means nothing yet.
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

// Undone by Rollback, which brings the slice back to the source.
