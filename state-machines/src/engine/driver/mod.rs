//! Drives one execution in memory: apply events, make them durable, and only then
//! execute their effects.
//!
//! ```text
//!   results, timers, messages ─▶ wait for work ─▶ apply ─▶ append ─▶ execute effects ─┐
//!             ▲                                              │                        │
//!             └──────────────────────────────────────────────┼────────────────────────┘
//!                     only waits are left, or the execution ended: release the lease
//! ```
//! All events that are pending when a step starts go into that step.
//!
//! - `append`: makes a step durable
//! - `tasks`: starts and stops tasks, and accepts their reports
//! - `timers`: timers, timeouts and missed heartbeats
//! - `inbox`: messages sent to the execution
//! - `children`: executions that its tasks have started

mod append;
mod children;
mod inbox;
mod tasks;
mod timers;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::context::TaskControl;
use super::held_execution::HeldExecution;
use super::journal::{EventBatch, Journal, PendingEvent};
use super::nested::next_parent_check_ms;
use super::shared::Shared;
use super::task_runner::TaskReport;
use crate::core::{Effect, ExecutionEvent, TaskId, TimerId};
use crate::data::errors::DATA_LIMIT_EXCEEDED;
use crate::store::{self, LeaseAction};
use children::Children;
use timers::AwaitedCallback;

/// Capacity of the report channel; further task runners wait to report.
const REPORTS: usize = 64;

/// Drives one execution.
pub(super) struct ExecutionDriver {
    shared: Arc<Shared>,
    held: Arc<HeldExecution>,
    journal: Journal,
    /// Events to apply.
    due: VecDeque<PendingEvent>,
    /// The last message that was added to `due`.
    messages_read: u64,
    /// The last message that a step committed.
    messages_committed: u64,
    timers: BTreeMap<TimerId, i64>,
    running: HashMap<TaskId, Arc<watch::Sender<TaskControl>>>,
    callbacks: HashMap<TaskId, AwaitedCallback>,
    children: Children,
    report_sender: mpsc::Sender<TaskReport>,
    reports: mpsc::Receiver<TaskReport>,
    _permit: OwnedSemaphorePermit,
}

/// What the driver does next.
enum NextAction {
    Apply,
    ShutDown,
    Lost,
}

/// Whether the driver keeps the execution after a step.
#[derive(PartialEq, Eq)]
enum AfterStep {
    Keep,
    Release,
}

impl ExecutionDriver {
    pub(super) fn new(
        shared: Arc<Shared>,
        held: Arc<HeldExecution>,
        journal: Journal,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let (report_sender, reports) = mpsc::channel(REPORTS);
        let parent_check_at_ms = next_parent_check_ms(&journal.execution, shared.clock.now_ms());
        Self {
            shared,
            held,
            journal,
            due: VecDeque::new(),
            messages_read: 0,
            messages_committed: 0,
            timers: BTreeMap::new(),
            running: HashMap::new(),
            callbacks: HashMap::new(),
            children: Children::new(parent_check_at_ms),
            report_sender,
            reports,
            _permit: permit,
        }
    }

    /// Fails an execution whose step the store refuses.
    pub(super) async fn fail(mut self, why: String) {
        let event = ExecutionEvent::Failed {
            error: DATA_LIMIT_EXCEEDED.to_owned(),
            cause: format!("the store refused a step: {why}"),
        };
        self.due.push_back(PendingEvent::from_event(event));
        self.run(Vec::new(), Vec::new()).await;
    }

    /// Resumes an execution that was loaded from the store.
    pub(super) async fn resume(
        mut self,
        effects: Vec<Effect>,
        messages: Vec<store::StoredMessage>,
    ) {
        self.check_parent().await;
        self.run(effects, messages).await;
    }

    /// Drives the execution until it ends, parks, or loses its lease.
    pub(super) async fn run(mut self, effects: Vec<Effect>, messages: Vec<store::StoredMessage>) {
        self.execute_effects(effects);
        self.read_messages(messages);
        let mut stopping = self.shared.stopping.subscribe();
        loop {
            match self.wait_for_work(&mut stopping).await {
                NextAction::Lost => return,
                NextAction::ShutDown => return self.shut_down().await,
                NextAction::Apply => {
                    if self.run_step(false).await == AfterStep::Release {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until there are events to apply, or the execution can be parked.
    async fn wait_for_work(&mut self, stopping: &mut watch::Receiver<bool>) -> NextAction {
        loop {
            if self.held.is_lost() {
                return NextAction::Lost;
            }
            if self.held.take_message_notice() {
                self.fetch_messages().await;
            }
            while let Ok(report) = self.reports.try_recv() {
                self.accept_report(report);
            }
            let now = self.shared.clock.now_ms();
            self.collect_due(now);
            if self.children.has_checks_due() {
                self.check_children().await;
            }
            if self.children.is_parent_check_due(now) {
                self.check_parent().await;
            }
            if !self.due.is_empty() {
                return NextAction::Apply;
            }
            if *stopping.borrow_and_update() {
                return NextAction::ShutDown;
            }
            if matches!(self.decide_lease(now), LeaseAction::Park { .. }) {
                return NextAction::Apply;
            }
            let next = self.next_time();
            tokio::select! {
                Some(report) = self.reports.recv() => self.accept_report(report),
                () = self.held.signal.notified() => {}
                () = self.shared.clock.sleep_until(next.unwrap_or(i64::MAX)), if next.is_some() => {}
                _ = stopping.changed() => {}
            }
        }
    }

    /// Applies pending events, makes them durable, and executes their effects.
    async fn run_step(&mut self, is_leaving: bool) -> AfterStep {
        let now = self.shared.clock.now_ms();
        let Some(mut batch) = self.apply(now).await else {
            return AfterStep::Release;
        };
        let effects = drop_stopped_tasks(std::mem::take(&mut batch.effects));
        let is_ended = self.journal.execution.status().is_ended();
        let has_work = effects
            .iter()
            .any(|effect| matches!(effect, Effect::RunTask(_)));
        self.track_timers(&effects);
        let lease_action = match () {
            () if is_ended => LeaseAction::Park { wake_at_ms: None },
            () if is_leaving => LeaseAction::Park {
                wake_at_ms: Some(now),
            },
            () if has_work => LeaseAction::Keep,
            () => self.decide_lease(now),
        };
        let after = match lease_action {
            LeaseAction::Keep => AfterStep::Keep,
            LeaseAction::Park { .. } => AfterStep::Release,
        };
        if batch.entries.is_empty()
            && after == AfterStep::Keep
            && self.journal.last_message_read == self.messages_committed
        {
            self.abandon_children().await;
            return after;
        }
        let step = self
            .journal
            .build_step(batch, self.held.lease.clone(), lease_action);
        let Some(appended) = self.append_step(step).await else {
            if is_ended {
                self.end_children_if_ended().await;
            }
            return AfterStep::Release;
        };
        self.messages_committed = self.journal.last_message_read;
        match is_ended {
            true => self.end_children().await,
            false => self.abandon_children().await,
        }
        if after == AfterStep::Keep {
            if appended.waiting > 0 {
                self.held.notify_message();
            }
            self.execute_effects(effects);
        }
        self.shared.change_notifier.notify(&self.held.lease.id);
        after
    }

    /// Applies pending events. If the evaluation panics, the state in memory is
    /// lost and the driver must give the execution up.
    async fn apply(&mut self, now: i64) -> Option<EventBatch> {
        let definition = Arc::clone(&self.journal.definition);
        let mut journal = self.journal.take();
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
                    "applying events failed; the execution is loaded again after its lease expires"
                );
                None
            }
        }
    }

    /// Decides whether the execution stays in memory, or when the store wakes it.
    fn decide_lease(&self, now: i64) -> LeaseAction {
        let awaits_heartbeats = self.callbacks.values().any(|task| task.heartbeat.is_some());
        let next = self.next_time();
        let soon = now.saturating_add(self.shared.settings.park_after_ms);
        let is_busy = !self.running.is_empty()
            || awaits_heartbeats
            || !self.due.is_empty()
            || self.children.has_checks_due();
        if is_busy || next.is_some_and(|next| next <= soon) {
            return LeaseAction::Keep;
        }
        LeaseAction::Park { wake_at_ms: next }
    }

    /// Stops with the engine: results within the grace period are recorded, and the
    /// next worker runs the other tasks again.
    async fn shut_down(&mut self) {
        for control in self.running.values() {
            control.send_replace(TaskControl::ShutDown);
        }
        let clock = Arc::clone(&self.shared.clock);
        let until = clock.now_ms().saturating_add(self.shared.settings.grace_ms);
        let mut grace_over = std::pin::pin!(clock.sleep_until(until));
        while !self.running.is_empty() {
            tokio::select! {
                Some(report) = self.reports.recv() => self.accept_report(report),
                () = &mut grace_over => break,
            }
        }
        self.run_step(true).await;
    }
}

impl Drop for ExecutionDriver {
    /// Cancels all running tasks, whatever ended the driver.
    fn drop(&mut self) {
        for control in self.running.values() {
            control.send_replace(TaskControl::Cancel);
        }
        self.shared.remove_held(&self.held);
        self.shared.change_notifier.notify(&self.held.lease.id);
    }
}

/// Removes orders for tasks that the same effects stop.
fn drop_stopped_tasks(mut effects: Vec<Effect>) -> Vec<Effect> {
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
