//! Throttles work on files: it slows down when the source's voters wait longer, keeps
//! to the limit of bytes per second, sends heartbeats, and stops when the migration is
//! cancelled or its lease is lost.

use std::time::Duration;

use async_trait::async_trait;
use ballast_state_machines::engine::{TaskContext, TaskError};
use ballast_vote_shard::archive::{ArchiveError, ArchiveProgress, ArchiveStopped, ArchiveThrottle};

use super::{FOR_RESUME, MigrationSteps, StepInput, report_progress, to_task_error};
use crate::faults;
use crate::throttle::{CopyEnd, CopyThrottle};
use crate::worker::{MigrationError, MigrationSide};

/// How often to check for an operator's requests and report progress.
const CHECK_IN_MS: i64 = 250;
/// How often to check whether a paused migration is resumed.
const PAUSED_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The longest wait between two checks.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The unit of the reported progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgressUnit {
    Polls,
    Bytes,
}

/// The throttle and progress of one piece of work.
pub(super) struct PacedWork<'a> {
    steps: &'a MigrationSteps,
    context: &'a TaskContext,
    /// The task's input, if an operator may cancel and pause the work.
    input: Option<&'a StepInput>,
    /// The shard whose latency throttles the work.
    spared: &'a MigrationSide,
    throttle: CopyThrottle,
    counted: ProgressUnit,
    note: String,
    done: ArchiveProgress,
    all: ArchiveProgress,
    /// Bytes of the current file.
    bytes: u64,
    waited_ms: i64,
    checked_in_ms: i64,
    ended: Option<TaskError>,
}

impl<'a> PacedWork<'a> {
    /// Work that an operator can cancel and pause.
    pub(super) fn interruptible(
        steps: &'a MigrationSteps,
        input: &'a StepInput,
        context: &'a TaskContext,
        spared: &'a MigrationSide,
        counted: ProgressUnit,
        note: String,
    ) -> Self {
        let input = Some(input);
        Self {
            input,
            ..Self::uninterruptible(steps, context, spared, counted, note)
        }
    }

    /// Work that ignores an operator's requests: the task itself handles them.
    pub(super) fn uninterruptible(
        steps: &'a MigrationSteps,
        context: &'a TaskContext,
        spared: &'a MigrationSide,
        counted: ProgressUnit,
        note: String,
    ) -> Self {
        Self {
            steps,
            context,
            input: None,
            spared,
            throttle: CopyThrottle::new(steps.moves.pace().bytes_per_second),
            counted,
            note,
            done: ArchiveProgress::default(),
            all: ArchiveProgress::default(),
            bytes: 0,
            waited_ms: steps.now_ms(),
            checked_in_ms: 0,
            ended: None,
        }
    }

    /// Converts an error of the work to the workflow's error names.
    pub(super) fn into_task_error(self, error: MigrationError) -> TaskError {
        match (&error, self.ended) {
            (MigrationError::Archive { source, .. }, Some(ended))
                if matches!(**source, ArchiveError::Stopped(_)) =>
            {
                ended
            }
            _ => to_task_error(error),
        }
    }

    /// Every [`CHECK_IN_MS`]: handles an operator's requests, adjusts the throttle, and
    /// reports progress.
    async fn check_in(&mut self) -> Result<(), ArchiveStopped> {
        let now = self.steps.now_ms();
        if now - self.checked_in_ms < CHECK_IN_MS {
            return Ok(());
        }
        self.checked_in_ms = now;
        self.wait_while_paused().await.map_err(|ended| {
            self.ended = Some(ended);
            ArchiveStopped
        })?;
        let spared = self.spared.1.commit_micros();
        self.throttle
            .observe_latencies(&[(CopyEnd::Source, spared)]);
        self.report();
        Ok(())
    }

    /// Waits while the migration is paused.
    async fn wait_while_paused(&self) -> Result<(), TaskError> {
        let Some(input) = self.input else {
            return Ok(());
        };
        loop {
            let migration = self
                .steps
                .open_unless_cancelled(input, self.context)
                .await?;
            let paused = migration.asked.paused.is_some();
            let why = paused.then_some(FOR_RESUME);
            self.steps.record_waiting(&migration, why).await?;
            if !paused || self.context.is_cancelled() {
                return Ok(());
            }
            self.context.keep_alive();
            self.sleep(PAUSED_POLL_INTERVAL).await;
        }
    }

    async fn sleep(&self, rest: Duration) {
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            () = self.context.cancelled() => {}
        }
    }

    fn report(&self) {
        let (done, all) = (&self.done, &self.all);
        let why = self.throttle.slowdown_reason();
        let why = why.map_or(String::new(), |why| format!("; {why}"));
        match self.counted {
            ProgressUnit::Polls => {
                let note = format!("{}{why}", self.note);
                report_progress(self.context, done.polls, Some(all.polls), "polls", note);
            }
            ProgressUnit::Bytes => {
                let bytes = done.bytes.saturating_add(self.bytes).min(all.bytes);
                let note = format!("{}: {} of {} files{why}", self.note, done.polls, all.polls);
                report_progress(self.context, bytes, Some(all.bytes), "bytes", note);
            }
        }
    }
}

#[async_trait]
impl ArchiveThrottle for PacedWork<'_> {
    async fn advance(&mut self, bytes: u64) -> Result<(), ArchiveStopped> {
        self.bytes = self.bytes.saturating_add(bytes);
        faults::crash_point("paced", &self.note);
        self.check_in().await?;
        let took = self.steps.now_ms() - self.waited_ms;
        let took = took.max(0).unsigned_abs().saturating_mul(1_000);
        let mut rest = Duration::from_micros(self.throttle.delay_micros(bytes, took));
        while !rest.is_zero() && !self.context.is_cancelled() {
            let part = rest.min(WAIT_MAX);
            self.sleep(part).await;
            rest -= part;
            if !rest.is_zero() {
                self.check_in().await?;
            }
        }
        self.waited_ms = self.steps.now_ms();
        match self.context.is_cancelled() {
            true => Err(ArchiveStopped),
            false => Ok(()),
        }
    }

    fn report_progress(&mut self, done: &ArchiveProgress, all: &ArchiveProgress) {
        (self.done, self.all, self.bytes) = (*done, *all, 0);
        if self.all.polls > 0 && self.checked_in_ms == 0 {
            self.report();
        }
    }
}
