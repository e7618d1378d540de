//! Work on files at the pace of a move: it spares the source's voters, keeps to
//! the limit of bytes, gives signs of life, and ends when it is called off or
//! its lease is lost.

use std::time::Duration;

use async_trait::async_trait;
use ballast_state_machines::engine::{TaskContext, TaskError};
use ballast_vote_shard::archive::{ArchiveError, Pace, Report, Stopped};

use super::{FOR_RESUME, Given, Steps, failed, tell};
use crate::faults;
use crate::throttle::{End, Throttle};
use crate::worker::{MoveError, Side};

/// How often it is looked at what is asked of the move, and told how far it is.
const LOOK_MS: i64 = 250;
/// How long it rests while the move is paused, before it looks again.
const PAUSED: Duration = Duration::from_millis(500);
/// A rest is looked up from so often.
const REST: Duration = Duration::from_secs(1);

/// What is counted for those who watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Polls,
    Bytes,
}

/// The pace of one piece of work.
pub(super) struct Paced<'a> {
    steps: &'a Steps,
    context: &'a TaskContext,
    /// Whoever may call the work off, while that is possible.
    given: Option<&'a Given>,
    /// The shard whose voters are spared.
    spared: &'a Side,
    throttle: Throttle,
    counted: Counted,
    note: String,
    done: Report,
    all: Report,
    /// Of what is being worked on.
    bytes: u64,
    rested_ms: i64,
    looked_ms: i64,
    ended: Option<TaskError>,
}

impl<'a> Paced<'a> {
    /// Work that may be called off and paused.
    pub(super) fn heeding(
        steps: &'a Steps,
        given: &'a Given,
        context: &'a TaskContext,
        spared: &'a Side,
        counted: Counted,
        note: String,
    ) -> Self {
        let given = Some(given);
        Self {
            given,
            ..Self::steady(steps, context, spared, counted, note)
        }
    }

    /// Work that goes on whatever is asked of the move: the step itself heeds
    /// that.
    pub(super) fn steady(
        steps: &'a Steps,
        context: &'a TaskContext,
        spared: &'a Side,
        counted: Counted,
        note: String,
    ) -> Self {
        Self {
            steps,
            context,
            given: None,
            spared,
            throttle: Throttle::new(steps.moves.pace().bytes_per_second),
            counted,
            note,
            done: Report::default(),
            all: Report::default(),
            bytes: 0,
            rested_ms: steps.now_ms(),
            looked_ms: 0,
            ended: None,
        }
    }

    /// What a failure of the work means to the workflow.
    pub(super) fn failed(self, error: MoveError) -> TaskError {
        match (&error, self.ended) {
            (MoveError::Archive { source, .. }, Some(ended))
                if matches!(**source, ArchiveError::Stopped(_)) =>
            {
                ended
            }
            _ => failed(error),
        }
    }

    /// Looks now and then at what is asked of the move, feels the source, and
    /// tells how far it is.
    async fn look(&mut self) -> Result<(), Stopped> {
        let now = self.steps.now_ms();
        if now - self.looked_ms < LOOK_MS {
            return Ok(());
        }
        self.looked_ms = now;
        self.heed().await.map_err(|ended| {
            self.ended = Some(ended);
            Stopped
        })?;
        let spared = self.spared.1.commit_micros();
        self.throttle.feel(&[(End::Source, spared)]);
        self.tell();
        Ok(())
    }

    /// Waits while the move is paused.
    async fn heed(&self) -> Result<(), TaskError> {
        let Some(given) = self.given else {
            return Ok(());
        };
        loop {
            let migration = self.steps.go_on(given, self.context).await?;
            let paused = migration.asked.paused.is_some();
            let why = paused.then_some(FOR_RESUME);
            self.steps.waits_for(&migration, why).await?;
            if !paused || self.context.is_cancelled() {
                return Ok(());
            }
            self.context.alive();
            self.sleep(PAUSED).await;
        }
    }

    async fn sleep(&self, rest: Duration) {
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            () = self.context.cancelled() => {}
        }
    }

    fn tell(&self) {
        let (done, all) = (&self.done, &self.all);
        let why = self.throttle.why();
        let why = why.map_or(String::new(), |why| format!("; {why}"));
        match self.counted {
            Counted::Polls => {
                let note = format!("{}{why}", self.note);
                tell(self.context, done.polls, Some(all.polls), "polls", note);
            }
            Counted::Bytes => {
                let bytes = done.bytes.saturating_add(self.bytes).min(all.bytes);
                let note = format!("{}: {} of {} files{why}", self.note, done.polls, all.polls);
                tell(self.context, bytes, Some(all.bytes), "bytes", note);
            }
        }
    }
}

#[async_trait]
impl Pace for Paced<'_> {
    async fn went_on(&mut self, bytes: u64) -> Result<(), Stopped> {
        self.bytes = self.bytes.saturating_add(bytes);
        faults::point("paced", &self.note);
        self.look().await?;
        let took = self.steps.now_ms() - self.rested_ms;
        let took = took.max(0).unsigned_abs().saturating_mul(1_000);
        let mut rest = Duration::from_micros(self.throttle.rest_micros(bytes, took));
        while !rest.is_zero() && !self.context.is_cancelled() {
            let part = rest.min(REST);
            self.sleep(part).await;
            rest -= part;
            if !rest.is_zero() {
                self.look().await?;
            }
        }
        self.rested_ms = self.steps.now_ms();
        match self.context.is_cancelled() {
            true => Err(Stopped),
            false => Ok(()),
        }
    }

    fn so_far(&mut self, done: &Report, all: &Report) {
        (self.done, self.all, self.bytes) = (*done, *all, 0);
        if self.all.polls > 0 && self.looked_ms == 0 {
            self.tell();
        }
    }
}
