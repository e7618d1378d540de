//! An execution in memory: what happens to it is applied, made durable, and
//! only then done.
//!
//! ```text
//!   answers, timers, messages ─▶ gather ─▶ apply ─▶ append ─▶ carry out ─┐
//!             ▲                                       │                  │
//!             └───────────────────────────────────────┼──────────────────┘
//!                        only waits are left, or it ended: let go
//! ```
//! What has come by the time a step is made becomes one step.
//!
//! - `keeping`: a step made durable, or not
//! - `tasks`: tasks begun, handed over and stopped
//! - `times`: what is due by itself
//! - `mail`: messages that were sent to it
//! - `children`: executions that its tasks have started

mod children;
mod keeping;
mod mail;
mod tasks;
mod times;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::context::Wish;
use super::held::Held;
use super::journal::{Batch, Due, Journal};
use super::nested::next_origin_look_ms;
use super::runner::Report;
use super::shared::Shared;
use crate::core::{Effect, Event, TaskId, TimerId};
use crate::data::errors::DATA_LIMIT_EXCEEDED;
use crate::store::{self, Then};
use children::Children;
use times::HandedOver;

/// Reports that wait for their holder; more runners wait to report.
const REPORTS: usize = 64;

/// Holds one execution.
pub(super) struct Holder {
    shared: Arc<Shared>,
    held: Arc<Held>,
    journal: Journal,
    /// What is to be applied.
    due: VecDeque<Due>,
    /// The last message that is among it, or was.
    read: u64,
    /// The last message that a step took.
    taken: u64,
    timers: BTreeMap<TimerId, i64>,
    running: HashMap<TaskId, Arc<watch::Sender<Wish>>>,
    handed_over: HashMap<TaskId, HandedOver>,
    children: Children,
    reporting: mpsc::Sender<Report>,
    reports: mpsc::Receiver<Report>,
    _slot: OwnedSemaphorePermit,
}

/// What is to be done next.
enum Next {
    Step,
    Leave,
    Lost,
}

/// Whether an execution stays in memory.
#[derive(PartialEq, Eq)]
enum Stays {
    Yes,
    No,
}

impl Holder {
    pub(super) fn new(
        shared: Arc<Shared>,
        held: Arc<Held>,
        journal: Journal,
        slot: OwnedSemaphorePermit,
    ) -> Self {
        let (reporting, reports) = mpsc::channel(REPORTS);
        let origin_at_ms = next_origin_look_ms(&journal.execution, shared.clock.now_ms());
        Self {
            shared,
            held,
            journal,
            due: VecDeque::new(),
            read: 0,
            taken: 0,
            timers: BTreeMap::new(),
            running: HashMap::new(),
            handed_over: HashMap::new(),
            children: Children::new(origin_at_ms),
            reporting,
            reports,
            _slot: slot,
        }
    }

    /// Ends an execution that cannot go on.
    pub(super) async fn fail(mut self, why: String) {
        let event = Event::Failed {
            error: DATA_LIMIT_EXCEEDED.to_owned(),
            cause: format!("a step cannot be kept: {why}"),
        };
        self.due.push_back(Due::event(event));
        self.run(Vec::new(), Vec::new()).await;
    }

    /// Holds an execution that was left before.
    pub(super) async fn resume(mut self, effects: Vec<Effect>, mail: Vec<store::Message>) {
        self.check_origin().await;
        self.run(effects, mail).await;
    }

    /// Holds the execution for as long as there is something to do.
    pub(super) async fn run(mut self, effects: Vec<Effect>, mail: Vec<store::Message>) {
        self.carry_out(effects);
        self.open(mail);
        let mut stopping = self.shared.stopping.subscribe();
        loop {
            match self.gather(&mut stopping).await {
                Next::Lost => return,
                Next::Leave => return self.leave().await,
                Next::Step => {
                    if self.step(false).await == Stays::No {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until there is something to apply, or nothing to wait for here.
    async fn gather(&mut self, stopping: &mut watch::Receiver<bool>) -> Next {
        loop {
            if self.held.is_lost() {
                return Next::Lost;
            }
            if self.held.take_mail() {
                self.fetch_mail().await;
            }
            while let Ok(report) = self.reports.try_recv() {
                self.reported(report);
            }
            let now = self.shared.clock.now_ms();
            self.times_come(now);
            if self.children.is_look_due() {
                self.look_at_children().await;
            }
            if self.children.is_origin_due(now) {
                self.check_origin().await;
            }
            if !self.due.is_empty() {
                return Next::Step;
            }
            if *stopping.borrow_and_update() {
                return Next::Leave;
            }
            if matches!(self.then(now), Then::Park { .. }) {
                return Next::Step;
            }
            let next = self.next_time();
            tokio::select! {
                Some(report) = self.reports.recv() => self.reported(report),
                () = self.held.signal.notified() => {}
                () = self.shared.clock.sleep_until(next.unwrap_or(i64::MAX)), if next.is_some() => {}
                _ = stopping.changed() => {}
            }
        }
    }

    /// Applies what is due, makes it durable, and does what follows from it.
    async fn step(&mut self, is_leaving: bool) -> Stays {
        let now = self.shared.clock.now_ms();
        let Some(mut batch) = self.apply(now).await else {
            return Stays::No;
        };
        let effects = wanted(std::mem::take(&mut batch.effects));
        let is_ended = self.journal.execution.status().is_ended();
        let has_work = effects
            .iter()
            .any(|effect| matches!(effect, Effect::RunTask(_)));
        self.note(&effects);
        let then = match () {
            () if is_ended => Then::Park { wake_at_ms: None },
            () if is_leaving => Then::Park {
                wake_at_ms: Some(now),
            },
            () if has_work => Then::Keep,
            () => self.then(now),
        };
        let stays = match then {
            Then::Keep => Stays::Yes,
            Then::Park { .. } => Stays::No,
        };
        if batch.entries.is_empty() && stays == Stays::Yes && self.journal.taken == self.taken {
            self.disown_children().await;
            return stays;
        }
        let step = self.journal.step(batch, self.held.lease.clone(), then);
        let Some(appended) = self.append(step).await else {
            if is_ended {
                self.end_children_if_ended().await;
            }
            return Stays::No;
        };
        self.taken = self.journal.taken;
        match is_ended {
            true => self.end_children().await,
            false => self.disown_children().await,
        }
        if stays == Stays::Yes {
            if appended.waiting > 0 {
                self.held.has_mail();
            }
            self.carry_out(effects);
        }
        self.shared.watched.changed(&self.held.lease.id);
        stays
    }

    /// Applies what is due. If that breaks off, what is in memory is nothing to
    /// go on with.
    async fn apply(&mut self, now: i64) -> Option<Batch> {
        let definition = Arc::clone(&self.journal.definition);
        let mut journal = self.journal.take_out();
        let mut due = std::mem::take(&mut self.due);
        let applied = self.shared.evaluate(&definition, move || {
            let batch = journal.apply(&mut due, now);
            (journal, due, batch)
        });
        match applied.await {
            Ok((journal, due, batch)) => {
                (self.journal, self.due) = (journal, due);
                Some(batch)
            }
            Err(cause) => {
                tracing::error!(
                    execution = self.held.lease.id,
                    cause,
                    "a step was not made; the execution is read anew when its lease has run out"
                );
                None
            }
        }
    }

    /// Whether the execution has to stay in memory, or when it must be back.
    fn then(&self, now: i64) -> Then {
        let listens = self
            .handed_over
            .values()
            .any(|task| task.heartbeat.is_some());
        let next = self.next_time();
        let soon = now.saturating_add(self.shared.settings.park_after_ms);
        let is_busy = !self.running.is_empty()
            || listens
            || !self.due.is_empty()
            || self.children.is_look_due();
        if is_busy || next.is_some_and(|next| next <= soon) {
            return Then::Keep;
        }
        Then::Park { wake_at_ms: next }
    }

    /// The engine stops: what is done in time still counts, and the rest is
    /// left to whoever comes next.
    async fn leave(&mut self) {
        for wish in self.running.values() {
            wish.send_replace(Wish::Leave);
        }
        let clock = Arc::clone(&self.shared.clock);
        let until = clock.now_ms().saturating_add(self.shared.settings.grace_ms);
        let mut over = std::pin::pin!(clock.sleep_until(until));
        while !self.running.is_empty() {
            tokio::select! {
                Some(report) = self.reports.recv() => self.reported(report),
                () = &mut over => break,
            }
        }
        self.step(true).await;
    }
}

impl Drop for Holder {
    /// However it ends, its tasks have nobody to answer to any more.
    fn drop(&mut self) {
        for wish in self.running.values() {
            wish.send_replace(Wish::Stop);
        }
        self.shared.let_go(&self.held);
        self.shared.watched.changed(&self.held.lease.id);
    }
}

/// Effects without those that others among them undo.
fn wanted(mut effects: Vec<Effect>) -> Vec<Effect> {
    let stopped: Vec<TaskId> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::StopTask { task } => Some(*task),
            _ => None,
        })
        .collect();
    effects.retain(|effect| match effect {
        Effect::RunTask(order) => !stopped.contains(&order.task),
        _ => true,
    });
    effects
}
