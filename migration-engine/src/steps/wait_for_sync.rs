//! *WaitForSync*: copies the files of archived polls, then a snapshot, then the
//! changes since, in rounds, until a round is short enough for the write pause at the
//! cutover.
//!
//! Each run of this task ends by writing the cursor to the history. A run takes a
//! tenth of the time spent before it, and at least two seconds: a crash loses little
//! work, and even the longest copy needs few history entries.

use std::time::Duration;

use ballast_domain::migration::Migration;
use ballast_domain::moving::MigrationPhase;
use ballast_state_machines::engine::{TaskContext, TaskError};
use serde_json::{Value, json};

use super::paced_work::{PacedWork, ProgressUnit};
use super::{FOR_RESUME, MigrationSteps, StepInput, StepResult, report_progress, to_task_error};
use crate::copy::{CopyProgress, PrefetchedPage};
use crate::faults;
use crate::throttle::{CopyEnd, CopyThrottle};
use crate::worker::{LeasedMigration, MigrationSides, MigrationWorker};

/// The shortest run, unless the copy is done earlier.
const RUN_MIN_MS: i64 = 2_000;
/// A round that catches up within this time leaves little for the write pause.
const ROUND_MS: i64 = 15;
/// How many rounds one run may take to come that close.
const ROUNDS_MAX: u32 = 200;
/// The longest wait between two checks.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// How often to check for an operator's requests and report progress.
const CHECK_IN_MS: i64 = 250;

pub(super) async fn run(
    steps: &MigrationSteps,
    input: &StepInput,
    context: &TaskContext,
) -> StepResult {
    let migration = steps.open_unless_cancelled(input, context).await?;
    let job = steps.job(&migration, context);
    let mut copied: CopyProgress = StepInput::parse_part(&input.sync, "copied").unwrap_or_default();
    // After a repair, copy everything again.
    let repairs = StepInput::parse_part::<u32>(&input.verification, "repairs").unwrap_or(0);
    if repairs > StepInput::parse_part::<u32>(&input.sync, "repairs").unwrap_or(0) {
        copied.cursor = CopyProgress::default().cursor;
    }
    let active = steps
        .worker
        .active_sides(&job)
        .await
        .map_err(to_task_error)?;
    let Some((record, sides)) = active else {
        return Err(super::not_active_error(&migration));
    };
    let phase = record.route.moving.as_ref().map(|moving| moving.phase);
    if phase != Some(MigrationPhase::Copying) {
        // The migration is already further.
        return to_output(true, 0, &copied, repairs);
    }
    let mut copying = CopyRun {
        steps,
        context,
        migration,
        job: &job,
        sides,
        token: MigrationWorker::command_token(&job, &record),
        throttle: CopyThrottle::new(steps.moves.pace().bytes_per_second),
        begun_ms: steps.now_ms(),
        checked_in_ms: 0,
    };
    copying.copy_files(input, &mut copied).await?;
    let caught_up = copying.run(input, &mut copied).await?;
    copying.record_progress(&copied).await?;
    let ask_again = u64::from(copying.migration.asked.paused.is_some());
    to_output(caught_up, ask_again, &copied, repairs)
}

fn to_output(
    caught_up: bool,
    ask_again_seconds: u64,
    copied: &CopyProgress,
    repairs: u32,
) -> StepResult {
    Ok(json!({
        "caughtUp": caught_up,
        "askAgainSeconds": ask_again_seconds,
        "copied": copied,
        "repairs": repairs,
    }))
}

struct CopyRun<'a> {
    steps: &'a MigrationSteps,
    context: &'a TaskContext,
    migration: Migration,
    job: &'a LeasedMigration,
    sides: MigrationSides,
    token: ballast_vote_shard::shard::MigrationToken,
    throttle: CopyThrottle,
    begun_ms: i64,
    checked_in_ms: i64,
}

impl CopyRun<'_> {
    /// Copies the files that the target does not have yet, before the rows. The files
    /// themselves are the progress.
    async fn copy_files(
        &self,
        input: &StepInput,
        copied: &mut CopyProgress,
    ) -> Result<(), TaskError> {
        let (from, to) = (&self.sides.from, &self.sides.to.0);
        let note = format!("copying files from {} to {to}", from.0);
        let (steps, context) = (self.steps, self.context);
        let mut pace =
            PacedWork::interruptible(steps, input, context, from, ProgressUnit::Bytes, note);
        let slice = &self.job.slice;
        let brought = self.sides.copy_files(slice, &self.token, &mut pace).await;
        copied.add_files(&brought.map_err(|error| pace.into_task_error(error))?);
        faults::crash_point("brought", "files");
        Ok(())
    }

    /// Copies until a round is short or the run's time is up, and returns whether the
    /// copy is close enough.
    async fn run(
        &mut self,
        input: &StepInput,
        copied: &mut CopyProgress,
    ) -> Result<bool, TaskError> {
        let until = self.begun_ms + self.run_ms();
        let (mut round_began, mut rounds) = (self.steps.now_ms(), 0);
        // The first round is the snapshot.
        let mut is_first = copied.cursor == CopyProgress::default().cursor;
        let mut ahead = PrefetchedPage::default();
        loop {
            self.check_in(input, copied).await?;
            if self.migration.asked.paused.is_some() {
                return Ok(false);
            }
            let began = self.steps.now_ms();
            let slice = &self.job.slice;
            let (sides, token) = (&self.sides, &self.token);
            let page = sides
                .copy_page_with_prefetch(slice, token, copied, &mut ahead)
                .await;
            let page = page.map_err(to_task_error)?;
            let now = self.steps.now_ms();
            // Wait for the throttle also after the last page of a run.
            let rests = self.throttle_wait(input, page.bytes, now - began).await;
            if page.caught_up {
                let took = now - round_began;
                if !is_first && took <= ROUND_MS {
                    return Ok(true);
                }
                rounds += 1;
                is_first = false;
                round_began = self.steps.now_ms();
            }
            if now >= until || (rounds >= ROUNDS_MAX && page.caught_up) || self.is_over() {
                // A copy that cannot come closer is cut over as it is: the write pause
                // has its own limit.
                return Ok(rounds >= ROUNDS_MAX);
            }
            rests?;
        }
    }

    fn is_over(&self) -> bool {
        self.context.is_cancelled()
    }

    fn run_ms(&self) -> i64 {
        let since = self.migration.figures.copying_since;
        let spent = since.map_or(0, |since| self.begun_ms - since.unix_ms());
        (spent / 10).max(RUN_MIN_MS)
    }

    /// Waits as long as the throttle says, unless the migration is paused or cancelled.
    async fn throttle_wait(
        &mut self,
        input: &StepInput,
        bytes: u64,
        took_ms: i64,
    ) -> Result<(), TaskError> {
        let took = took_ms.unsigned_abs().saturating_mul(1_000);
        let mut rest = Duration::from_micros(self.throttle.delay_micros(bytes, took));
        while !rest.is_zero() && !self.is_over() && self.migration.asked.paused.is_none() {
            let part = rest.min(WAIT_MAX);
            tokio::select! {
                () = tokio::time::sleep(part) => {}
                () = self.context.cancelled() => {}
            }
            rest -= part;
            if !rest.is_zero() {
                self.context.keep_alive();
                self.migration = self
                    .steps
                    .open_unless_cancelled(input, self.context)
                    .await?;
            }
        }
        Ok(())
    }

    /// Every [`CHECK_IN_MS`]: handles an operator's requests, adjusts the throttle, and
    /// reports progress.
    async fn check_in(
        &mut self,
        input: &StepInput,
        copied: &CopyProgress,
    ) -> Result<(), TaskError> {
        let now = self.steps.now_ms();
        if now - self.checked_in_ms < CHECK_IN_MS {
            return Ok(());
        }
        self.checked_in_ms = now;
        self.migration = self
            .steps
            .open_unless_cancelled(input, self.context)
            .await?;
        let (source, target) = (&self.sides.from.1, &self.sides.to.1);
        self.throttle.observe_latencies(&[
            (CopyEnd::Source, source.commit_micros()),
            (CopyEnd::Target, target.commit_micros()),
        ]);
        let price = self.migration.price.as_ref();
        let total = price.map(|price| price.rows.max(copied.rows));
        let (from, to) = (&self.migration.from, &self.migration.to);
        let mut note = match copied.cursor {
            ballast_vote_shard::shard::Cursor::Changes { .. } => {
                format!("copying changes from {from} to {to}")
            }
            _ => format!("copying the snapshot from {from} to {to}"),
        };
        if let Some(why) = self.throttle.slowdown_reason() {
            note = format!("{note}; {why}");
        }
        report_progress(self.context, copied.rows, total, "rows", note);
        Ok(())
    }

    /// Records the figures, and what the migration waits for.
    async fn record_progress(&self, copied: &CopyProgress) -> Result<(), TaskError> {
        let paused = self.migration.asked.paused.is_some();
        let why = paused.then_some(FOR_RESUME);
        let (rows, bytes) = (copied.rows, copied.bytes);
        let steps = self.steps;
        let edit = move |migration: &mut Migration| {
            migration.figures.rows = rows;
            migration.figures.bytes = bytes;
            migration.waiting_for = why.map(str::to_owned);
        };
        steps
            .update_record(&self.migration, "migration.copied", edit)
            .await?;
        Ok(())
    }
}

/// Parses how far the copy is from this task's earlier output.
pub(super) fn parse_progress(sync: &Value) -> CopyProgress {
    StepInput::parse_part(sync, "copied").unwrap_or_default()
}

// Undone by the worker, which purges what the target has imported.
