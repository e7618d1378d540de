//! *WaitForSync*: the files of archived polls are brought, then what else is
//! there is copied, then what has changed since, round after round, until a
//! round is short enough for the pause at the cutover.
//!
//! How far it is, is written down with the end of each run of this step. A run
//! takes a tenth of the time that was spent before it, and two seconds at the
//! least: so a crash costs little, and the longest copy few entries.

use std::time::Duration;

use ballast_domain::migration::Migration;
use ballast_domain::moving::Phase;
use ballast_state_machines::engine::{TaskContext, TaskError};
use serde_json::{Value, json};

use super::paced::{Counted, Paced};
use super::{Done, FOR_RESUME, Given, Steps, failed, tell};
use crate::copy::{Ahead, Copied};
use crate::faults;
use crate::throttle::{End, Throttle};
use crate::worker::{Job, Sides, Worker};

/// A run takes at least so long, unless it is done before.
const RUN_MIN_MS: i64 = 2_000;
/// A round that was caught up within this leaves little for the pause.
const ROUND_MS: i64 = 15;
/// Rounds that may be tried in one run to come that close.
const ROUNDS_MAX: u32 = 200;
/// A rest is looked up from so often.
const REST: Duration = Duration::from_secs(1);
/// How often it is looked at what is asked of the move, and told how far it is.
const LOOK_MS: i64 = 250;

pub(super) async fn run(steps: &Steps, given: &Given, context: &TaskContext) -> Done {
    let migration = steps.go_on(given, context).await?;
    let job = steps.job(&migration, context);
    let mut copied: Copied = Given::part(&given.sync, "copied").unwrap_or_default();
    // After a repair everything is looked at once more.
    let repairs = Given::part::<u32>(&given.verification, "repairs").unwrap_or(0);
    if repairs > Given::part::<u32>(&given.sync, "repairs").unwrap_or(0) {
        copied.cursor = Copied::default().cursor;
    }
    let found = steps.worker.sides_of(&job).await.map_err(failed)?;
    let Some((seen, sides)) = found else {
        return Err(super::failed_over(&migration));
    };
    let phase = seen.route.moving.as_ref().map(|moving| moving.phase);
    if phase != Some(Phase::Copying) {
        // It is farther than this.
        return said(true, 0, &copied, repairs);
    }
    let mut copying = Copying {
        steps,
        context,
        migration,
        job: &job,
        sides,
        order: Worker::order(&job, &seen),
        throttle: Throttle::new(steps.moves.pace().bytes_per_second),
        begun_ms: steps.now_ms(),
        looked_ms: 0,
    };
    copying.files(given, &mut copied).await?;
    let caught_up = copying.run(given, &mut copied).await?;
    copying.noted(&copied).await?;
    let ask_again = u64::from(copying.migration.asked.paused.is_some());
    said(caught_up, ask_again, &copied, repairs)
}

fn said(caught_up: bool, ask_again_seconds: u64, copied: &Copied, repairs: u32) -> Done {
    Ok(json!({
        "caughtUp": caught_up,
        "askAgainSeconds": ask_again_seconds,
        "copied": copied,
        "repairs": repairs,
    }))
}

struct Copying<'a> {
    steps: &'a Steps,
    context: &'a TaskContext,
    migration: Migration,
    job: &'a Job,
    sides: Sides,
    order: ballast_vote_shard::shard::Order,
    throttle: Throttle,
    begun_ms: i64,
    looked_ms: i64,
}

impl Copying<'_> {
    /// Brings the files that the target does not name yet: they come before the
    /// rows. How far it is, is what is there.
    async fn files(&self, given: &Given, copied: &mut Copied) -> Result<(), TaskError> {
        let (from, to) = (&self.sides.from, &self.sides.to.0);
        let note = format!("bringing files from {} to {to}", from.0);
        let (steps, context) = (self.steps, self.context);
        let mut pace = Paced::heeding(steps, given, context, from, Counted::Bytes, note);
        let slice = &self.job.slice;
        let brought = self.sides.bring_files(slice, &self.order, &mut pace).await;
        copied.add(&brought.map_err(|error| pace.failed(error))?);
        faults::point("brought", "files");
        Ok(())
    }

    /// Copies until a round is short, or its time is up; whether it is caught
    /// up.
    async fn run(&mut self, given: &Given, copied: &mut Copied) -> Result<bool, TaskError> {
        let until = self.begun_ms + self.run_ms();
        let (mut round_began, mut rounds) = (self.steps.now_ms(), 0);
        // The first round is everything.
        let mut is_first = copied.cursor == Copied::default().cursor;
        let mut ahead = Ahead::default();
        loop {
            self.look(given, copied).await?;
            if self.migration.asked.paused.is_some() {
                return Ok(false);
            }
            let began = self.steps.now_ms();
            let slice = &self.job.slice;
            let (sides, order) = (&self.sides, &self.order);
            let carried = sides.carry_ahead(slice, order, copied, &mut ahead).await;
            let carried = carried.map_err(failed)?;
            let now = self.steps.now_ms();
            // What was carried is paid for, also at the end of a run.
            let rests = self.rest(given, carried.bytes, now - began).await;
            if carried.caught_up {
                let took = now - round_began;
                if !is_first && took <= ROUND_MS {
                    return Ok(true);
                }
                rounds += 1;
                is_first = false;
                round_began = self.steps.now_ms();
            }
            if now >= until || (rounds >= ROUNDS_MAX && carried.caught_up) || self.is_over() {
                // One that cannot come closer is cut over as it is: the pause
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

    /// Rests as long as the throttle says, unless something is asked of the move.
    async fn rest(&mut self, given: &Given, bytes: u64, took_ms: i64) -> Result<(), TaskError> {
        let took = took_ms.unsigned_abs().saturating_mul(1_000);
        let mut rest = Duration::from_micros(self.throttle.rest_micros(bytes, took));
        while !rest.is_zero() && !self.is_over() && self.migration.asked.paused.is_none() {
            let part = rest.min(REST);
            tokio::select! {
                () = tokio::time::sleep(part) => {}
                () = self.context.cancelled() => {}
            }
            rest -= part;
            if !rest.is_zero() {
                self.context.alive();
                self.migration = self.steps.go_on(given, self.context).await?;
            }
        }
        Ok(())
    }

    /// Looks now and then at what is asked of the move, feels both shards, and
    /// tells how far it is.
    async fn look(&mut self, given: &Given, copied: &Copied) -> Result<(), TaskError> {
        let now = self.steps.now_ms();
        if now - self.looked_ms < LOOK_MS {
            return Ok(());
        }
        self.looked_ms = now;
        self.migration = self.steps.go_on(given, self.context).await?;
        let (source, target) = (&self.sides.from.1, &self.sides.to.1);
        self.throttle.feel(&[
            (End::Source, source.commit_micros()),
            (End::Target, target.commit_micros()),
        ]);
        let price = self.migration.price.as_ref();
        let total = price.map(|price| price.rows.max(copied.rows));
        let (from, to) = (&self.migration.from, &self.migration.to);
        let mut note = match copied.cursor {
            ballast_vote_shard::shard::Cursor::Changes { .. } => {
                format!("copying what changes on {from} to {to}")
            }
            _ => format!("copying what is on {from} to {to}"),
        };
        if let Some(why) = self.throttle.why() {
            note = format!("{note}; {why}");
        }
        tell(self.context, copied.rows, total, "rows", note);
        Ok(())
    }

    /// Keeps the figures for those who look, and what it waits for.
    async fn noted(&self, copied: &Copied) -> Result<(), TaskError> {
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
            .note(&self.migration, "migration.copied", edit)
            .await?;
        Ok(())
    }
}

/// How far a copy is, as an earlier step said.
pub(super) fn copied_of(sync: &Value) -> Copied {
    Given::part(sync, "copied").unwrap_or_default()
}

// Undone by the worker: whatever the target has taken in is purged there.
