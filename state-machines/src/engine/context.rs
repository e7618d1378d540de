//! What a task may know of the execution that it is part of, and what it tells
//! while it works.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::held::Held;
use super::shared::Shared;
use crate::core::{Iteration, RunTask, TaskId};

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// How much is done.
    pub done: u64,
    /// How much there is, if that is known.
    pub total: Option<u64>,
    /// What is counted: `rows`, `bytes`.
    pub unit: String,
    /// What is being done, for people.
    pub note: Option<String>,
}

/// How far a task of an execution is, and since when.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskProgress {
    /// The task.
    pub task: TaskId,
    /// The state that it is the work of.
    pub state: String,
    /// When it was begun here, in milliseconds since 1970.
    pub begun_at_ms: i64,
    /// When it told this.
    pub at_ms: i64,
    /// How fast it goes, as far as that is known: units per second.
    pub per_second: Option<f64>,
    /// How far it is.
    #[serde(flatten)]
    pub progress: Progress,
}

/// Why a task should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Wish {
    /// It should not.
    #[default]
    GoOn,
    /// Nobody wants its result any more.
    Stop,
    /// The engine stops: what is done still counts.
    Leave,
}

impl Wish {
    /// Returns once it should not go on.
    pub(super) async fn other(wish: &mut watch::Receiver<Self>) {
        // An engine that is gone wants nothing any more either.
        let _ = wish.wait_for(|wish| *wish != Self::GoOn).await;
    }
}

/// A task's view of its execution. Clones are the same.
#[derive(Clone)]
pub struct TaskContext {
    inner: Arc<Inner>,
}

struct Inner {
    workflow: String,
    order: About,
    begun_at_ms: i64,
    beat_at_ms: AtomicI64,
    wish: watch::Receiver<Wish>,
    held: Arc<Held>,
    shared: Arc<Shared>,
}

/// What is known of an order besides its input, which is the handler's.
struct About {
    task: TaskId,
    resource: String,
    state: String,
    attempt: u64,
    iterations: Vec<Iteration>,
    token: String,
    key: String,
    timeout_ms: Option<i64>,
    heartbeat_ms: Option<i64>,
}

impl TaskContext {
    pub(super) fn new(
        order: &RunTask,
        held: Arc<Held>,
        shared: Arc<Shared>,
        wish: watch::Receiver<Wish>,
    ) -> Self {
        let now = shared.clock.now_ms();
        let about = About {
            task: order.task,
            resource: order.resource.clone(),
            state: order.state.clone(),
            attempt: order.attempt,
            iterations: order.iterations.clone(),
            token: order.token.clone(),
            timeout_ms: order.timeout_ms,
            heartbeat_ms: order.heartbeat_ms,
            key: format!("{}#{}", held.lease.id, order.task),
        };
        Self {
            inner: Arc::new(Inner {
                workflow: held.workflow.clone(),
                order: about,
                begun_at_ms: now,
                beat_at_ms: AtomicI64::new(now),
                wish,
                held,
                shared,
            }),
        }
    }

    /// The execution's id.
    #[must_use]
    pub fn execution(&self) -> &str {
        &self.inner.held.lease.id
    }

    /// The workflow's name.
    #[must_use]
    pub fn workflow(&self) -> &str {
        &self.inner.workflow
    }

    /// The state that the task is the work of.
    #[must_use]
    pub fn state(&self) -> &str {
        &self.inner.order.state
    }

    /// The resource as the definition names it.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.inner.order.resource
    }

    /// How often the state was tried before: 0 for the first time.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.inner.order.attempt
    }

    /// The iterations of Maps that it runs in, from the outside in.
    #[must_use]
    pub fn iterations(&self) -> &[Iteration] {
        &self.inner.order.iterations
    }

    /// Names this piece of work: the execution's id and the task's. It is the
    /// same when the work is done again after a crash, and another when the
    /// state is tried again.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.inner.order.key
    }

    /// By what [a signal](super::Engine::signal) names the task. Whoever has it
    /// may answer for the task.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.inner.order.token
    }

    /// The number of the lease under which this execution is held: whoever
    /// takes it over later has a higher one. What a task does elsewhere can
    /// carry it, so that one who was taken for dead is told from one who was
    /// not.
    #[must_use]
    pub fn lease(&self) -> u64 {
        self.inner.held.lease.fence
    }

    /// How long this execution is held at least, in milliseconds, should its lease
    /// not be renewed any more: nobody else takes it over before.
    #[must_use]
    pub fn lease_left_ms(&self) -> i64 {
        let until_ms = self.inner.held.leased_until_ms();
        until_ms.saturating_sub(self.inner.shared.clock.now_ms())
    }

    /// How long it may take, in milliseconds, if that is limited.
    #[must_use]
    pub fn timeout_ms(&self) -> Option<i64> {
        self.inner.order.timeout_ms
    }

    /// How long it may be silent, in milliseconds, if that is limited.
    #[must_use]
    pub fn heartbeat_ms(&self) -> Option<i64> {
        self.inner.order.heartbeat_ms
    }

    /// Tells that the task is alive and how far it is. This is kept in memory
    /// and costs little; a Task with `HeartbeatSeconds` must do it that often.
    pub fn heartbeat(&self, progress: Progress) {
        let inner = &self.inner;
        let at_ms = inner.shared.clock.now_ms();
        inner.beat_at_ms.store(at_ms, Ordering::Release);
        inner.held.tell(TaskProgress {
            task: inner.order.task,
            state: inner.order.state.clone(),
            begun_at_ms: inner.begun_at_ms,
            at_ms,
            per_second: None,
            progress,
        });
        inner.shared.watched.changed(&inner.held.lease.id);
    }

    /// Tells that the task is alive, and nothing new of how far it is.
    pub fn alive(&self) {
        let inner = &self.inner;
        let at_ms = inner.shared.clock.now_ms();
        inner.beat_at_ms.store(at_ms, Ordering::Release);
    }

    /// Returns once the task should stop: it was cancelled, took too long, or
    /// the engine stops. What it returns soon after that counts only if the
    /// engine stops; later it is dropped where it waits.
    pub async fn cancelled(&self) {
        Wish::other(&mut self.inner.wish.clone()).await;
    }

    /// Whether the task should stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.inner.wish.borrow() != Wish::GoOn
    }

    /// When it last gave a sign of life.
    pub(super) fn beat_at_ms(&self) -> i64 {
        self.inner.beat_at_ms.load(Ordering::Acquire)
    }
}

impl fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the token: whoever has it may answer.
        f.debug_struct("TaskContext")
            .field("key", &self.idempotency_key())
            .field("state", &self.state())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}
