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

mod children;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::context::Wish;
use super::held::Held;
use super::journal::{Due, Journal};
use super::message::{Meaning, Message};
use super::nested::{Bond, Starter, next_origin_look_ms};
use super::runner::{Report, Runner};
use super::shared::Shared;
use super::{Progress, TaskProgress};
use crate::core::{Effect, Event, Nested, RunTask, TaskId, TimerId};
use crate::data::errors::DATA_LIMIT_EXCEEDED;
use crate::store::{self, AppendError, Appended, Step, Then};
use children::Children;

/// How often an append is tried before the execution is let go of.
const APPEND_ATTEMPTS: u32 = 8;
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

/// A task that somebody else works on.
#[derive(Debug, Clone, Copy)]
struct HandedOver {
    ends_at_ms: Option<i64>,
    /// How long it may be silent, and since when it is.
    heartbeat: Option<(i64, i64)>,
}

impl HandedOver {
    /// When it will have taken too long, and whether it will have been silent
    /// for too long.
    fn due(&self) -> Option<(i64, bool)> {
        let silence = self
            .heartbeat
            .map(|(length, since)| (since.saturating_add(length), true));
        let end = self.ends_at_ms.map(|end| (end, false));
        silence.into_iter().chain(end).min()
    }
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
        let mut batch = self.journal.apply(&mut self.due, now);
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

    /// Makes a step durable; `None` if the execution is not ours any more, or
    /// had better be read anew.
    async fn append(&self, step: Step) -> Option<Appended> {
        let after = step.seq + step.entries.len() as u64;
        let mut attempt = 0;
        loop {
            match self.shared.store.append(step.clone()).await {
                Ok(appended) => return Some(appended),
                Err(AppendError::Store(error)) if attempt < APPEND_ATTEMPTS => {
                    self.shared.back_off(attempt, &error).await;
                    attempt += 1;
                }
                // It had happened when the store failed: nobody else can have
                // gone on with our lease.
                Err(AppendError::Stale { found, .. })
                    if attempt > 0 && found == after && !step.entries.is_empty() =>
                {
                    return Some(Appended { waiting: 1 });
                }
                Err(AppendError::Fenced { .. }) => {
                    tracing::info!(
                        execution = self.held.lease.id,
                        "another worker has the execution"
                    );
                    return None;
                }
                Err(AppendError::Unfit(unfit)) => {
                    self.give_up(unfit.to_string()).await;
                    return None;
                }
                Err(error) => {
                    tracing::error!(
                        execution = self.held.lease.id,
                        error = &error as &(dyn std::error::Error + 'static),
                        "a step was not kept; the execution is read anew when its lease has run out"
                    );
                    return None;
                }
            }
        }
    }

    /// A step cannot be kept, and would not be the next time either. What is in
    /// memory is ahead of what is kept: it is read anew, to fail.
    async fn give_up(&self, why: String) {
        let lease = &self.held.lease;
        tracing::error!(
            execution = lease.id,
            cause = why,
            "a step cannot be kept; the execution fails"
        );
        self.shared.is_unfit(&lease.id, why);
        let now = self.shared.clock.now_ms();
        let over = self.shared.store.renew(std::slice::from_ref(lease), now);
        // If this fails, the lease runs out later by itself.
        let _ = over.await;
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

    /// Timers are set before a step is made, so that it knows whether it may
    /// park; they do nothing until then.
    fn note(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::SetTimer { timer, at_ms } => {
                    self.timers.insert(*timer, *at_ms);
                }
                Effect::StopTimer { timer } => {
                    self.timers.remove(timer);
                }
                Effect::StopTask { task } => {
                    self.handed_over.remove(task);
                }
                _ => {}
            }
        }
    }

    /// Does what follows from what is durable.
    fn carry_out(&mut self, effects: Vec<Effect>) {
        self.note(&effects);
        for effect in effects {
            match effect {
                Effect::RunTask(order) => self.start(*order),
                Effect::StopTask { task } => self.stop(task),
                Effect::Continue { turn } => {
                    self.due.push_back(Due::event(Event::Continued { turn }));
                }
                Effect::SetTimer { .. } | Effect::StopTimer { .. } | Effect::Ended => {}
            }
        }
    }

    fn start(&mut self, order: RunTask) {
        let task = order.task;
        let flight = self.journal.execution.task(task);
        let submitted = flight.filter(|flight| flight.is_submitted);
        let nested = Nested::of(&order.resource);
        if let Some(flight) = submitted {
            let child = flight.child.clone();
            self.hand_over(task);
            if let (Some(child), Some(nested)) = (child, nested) {
                let token = order.token;
                self.adopt(
                    task,
                    Bond {
                        child,
                        token,
                        nested,
                    },
                );
                self.children.look_at(task);
            }
            return;
        }
        if let Some(nested) = nested {
            return self.start_child(nested, order);
        }
        let Some(handler) = self.shared.registry.find(&order.resource) else {
            // Nobody gets here: definitions are checked when they are taken up.
            let resource = &order.resource;
            let event = Event::TaskFailed {
                task,
                error: crate::core::errors::TASK_FAILED.to_owned(),
                cause: format!("no handler is registered for {resource}"),
            };
            return self.due.push_back(Due::event(event));
        };
        let wish = Arc::new(watch::Sender::new(Wish::GoOn));
        self.running.insert(task, Arc::clone(&wish));
        let runner = Runner {
            shared: Arc::clone(&self.shared),
            held: Arc::clone(&self.held),
            handler: Arc::clone(handler),
            order,
            wish,
            reports: self.reporting.clone(),
        };
        self.shared.spawn(runner.run());
    }

    fn start_child(&mut self, nested: Nested, order: RunTask) {
        let wish = Arc::new(watch::Sender::new(Wish::GoOn));
        self.running.insert(order.task, Arc::clone(&wish));
        let origin = self.journal.execution.origin();
        let starter = Starter {
            shared: Arc::clone(&self.shared),
            held: Arc::clone(&self.held),
            nested,
            order,
            depth: origin.map_or(0, |origin| origin.depth),
            wish,
            reports: self.reporting.clone(),
        };
        self.shared.spawn(starter.run());
    }

    fn stop(&mut self, task: TaskId) {
        if let Some(wish) = self.running.remove(&task) {
            wish.send_replace(Wish::Stop);
        }
        self.handed_over.remove(&task);
    }

    /// A task is somebody else's from now on. Its time runs from when it was
    /// ordered, in whoever's memory it is.
    fn hand_over(&mut self, task: TaskId) {
        let Some(flight) = self.journal.execution.task(task) else {
            return;
        };
        let now = self.shared.clock.now_ms();
        let ends_at_ms = flight
            .order
            .timeout_ms
            .map(|length| flight.ordered_at_ms.saturating_add(length));
        let heartbeat = flight.order.heartbeat_ms.map(|length| (length, now));
        // What the engine itself waits for need not tell that it is alive.
        let heartbeat = heartbeat.filter(|_| Nested::of(&flight.order.resource).is_none());
        let handed = HandedOver {
            ends_at_ms,
            heartbeat,
        };
        self.handed_over.insert(task, handed);
    }

    fn reported(&mut self, Report { task, event, bond }: Report) {
        self.running.remove(&task);
        if let Some(bond) = bond {
            self.adopt(task, bond);
        }
        let Some(event) = event else {
            return;
        };
        if matches!(event, Event::TaskSubmitted { .. }) {
            self.hand_over(task);
        }
        self.due.push_back(Due::event(event));
    }

    /// When something will be due by itself.
    fn next_time(&self) -> Option<i64> {
        let timers = self.timers.values().copied();
        let handed = self.handed_over.values();
        let handed = handed.filter_map(|task| Some(task.due()?.0));
        let looks = self.children.next_look();
        timers.chain(handed).chain(looks).min()
    }

    /// What the time brings.
    fn times_come(&mut self, now: i64) {
        if self.next_time().is_none_or(|next| next > now) {
            return;
        }
        self.children.times_come(now);
        let mut come: Vec<(i64, Event)> = Vec::new();
        self.timers.retain(|timer, at_ms| {
            let is_due = *at_ms <= now;
            if is_due {
                come.push((*at_ms, Event::TimerFired { timer: *timer }));
            }
            !is_due
        });
        self.handed_over.retain(|task, handed| match handed.due() {
            Some((at_ms, heartbeat)) if at_ms <= now => {
                let task = *task;
                come.push((at_ms, Event::TaskTimedOut { task, heartbeat }));
                false
            }
            _ => true,
        });
        come.sort_by_key(|(at_ms, _)| *at_ms);
        let events = come.into_iter().map(|(_, event)| Due::event(event));
        self.due.extend(events);
    }

    async fn fetch_mail(&mut self) {
        match self
            .shared
            .store
            .messages(std::slice::from_ref(&self.held.lease))
            .await
        {
            Ok(mail) => {
                for mail in mail {
                    self.open(mail.messages);
                }
            }
            Err(error) => {
                self.held.has_mail();
                self.shared.back_off(0, &error).await;
            }
        }
    }

    fn open(&mut self, mail: Vec<store::Message>) {
        for message in mail {
            if message.number <= self.read {
                continue;
            }
            self.read = message.number;
            let meaning = match serde_json::from_str::<Message>(&message.body) {
                Ok(read) => read.meaning(&self.journal.execution),
                Err(error) => {
                    tracing::warn!(
                        execution = self.held.lease.id,
                        message = message.number,
                        error = &error as &(dyn std::error::Error + 'static),
                        "a message cannot be read and is left out"
                    );
                    Meaning::Nothing
                }
            };
            let event = self.meant(meaning);
            let message = message.number;
            self.due.push_back(Due { event, message });
        }
    }

    fn meant(&mut self, meaning: Meaning) -> Option<Event> {
        match meaning {
            Meaning::Event(event) => {
                if let Event::TaskSucceeded { task, .. } | Event::TaskFailed { task, .. } = &event {
                    self.stop(*task);
                }
                Some(event)
            }
            Meaning::Look(task) => {
                self.children.look_at(task);
                None
            }
            Meaning::Alive(task, progress) => {
                self.is_alive(task, progress);
                None
            }
            Meaning::Nothing => None,
        }
    }

    fn is_alive(&mut self, task: TaskId, progress: Progress) {
        let at_ms = self.shared.clock.now_ms();
        if let Some(HandedOver {
            heartbeat: Some((_, since)),
            ..
        }) = self.handed_over.get_mut(&task)
        {
            *since = at_ms;
        }
        if let Some(flight) = self.journal.execution.task(task) {
            self.held.tell(TaskProgress {
                task,
                state: flight.order.state.clone(),
                begun_at_ms: flight.ordered_at_ms,
                at_ms,
                progress,
            });
            self.shared.watched.changed(&self.held.lease.id);
        }
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
