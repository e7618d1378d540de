//! What a task handler knows about its execution, and how it reports progress.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::held_execution::HeldExecution;
use super::shared::Shared;
use crate::core::{Iteration, RunTask, TaskId};

/// The progress that a task reports.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProgressReport {
    /// Units done.
    pub done: u64,
    /// Units in total, if known.
    pub total: Option<u64>,
    /// The unit: `rows`, `bytes`.
    pub unit: String,
    /// The current activity, for people.
    pub note: Option<String>,
}

/// The latest progress of a task, with its rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskProgress {
    /// The task.
    pub task: TaskId,
    /// The task's state.
    pub state: String,
    /// When this process began to run the task, in milliseconds since 1970.
    pub begun_at_ms: i64,
    /// When the task reported this.
    pub at_ms: i64,
    /// Units per second, once enough was reported to tell.
    pub per_second: Option<f64>,
    /// The report.
    #[serde(flatten)]
    pub progress: ProgressReport,
}

/// Whether a task may go on, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TaskControl {
    /// It may.
    #[default]
    Continue,
    /// Its result is no longer wanted.
    Cancel,
    /// The engine stops; a result still counts.
    ShutDown,
}

impl TaskControl {
    /// Returns once the task should stop.
    pub(super) async fn wait_for_stop(control: &mut watch::Receiver<Self>) {
        // An error means that the driver is gone, which also means to stop.
        let _ = control.wait_for(|control| *control != Self::Continue).await;
    }
}

/// A task's view of its execution. Clones share it.
#[derive(Clone)]
pub struct TaskContext {
    inner: Arc<ContextInner>,
}

struct ContextInner {
    workflow: String,
    order: TaskInfo,
    begun_at_ms: i64,
    beat_at_ms: AtomicI64,
    control: watch::Receiver<TaskControl>,
    held: Arc<HeldExecution>,
    shared: Arc<Shared>,
}

/// The parts of a task's order that the context shows. The input goes to the
/// handler.
struct TaskInfo {
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
        held: Arc<HeldExecution>,
        shared: Arc<Shared>,
        control: watch::Receiver<TaskControl>,
    ) -> Self {
        let now = shared.clock.now_ms();
        let about = TaskInfo {
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
            inner: Arc::new(ContextInner {
                workflow: held.workflow.clone(),
                order: about,
                begun_at_ms: now,
                beat_at_ms: AtomicI64::new(now),
                control,
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

    /// The name of the task's state.
    #[must_use]
    pub fn state(&self) -> &str {
        &self.inner.order.state
    }

    /// The resource as written in the definition.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.inner.order.resource
    }

    /// How many attempts of this state came before: 0 for the first.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.inner.order.attempt
    }

    /// The Map iterations around the task, outermost first.
    #[must_use]
    pub fn iterations(&self) -> &[Iteration] {
        &self.inner.order.iterations
    }

    /// Identifies this task: the execution's id and the task's number. It stays the
    /// same when a crash makes the task run again, and changes when the state is
    /// retried.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.inner.order.key
    }

    /// The token that [a signal](super::Engine::signal) completes this task with.
    /// Anyone who has the token can complete the task.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.inner.order.token
    }

    /// The fence of the execution's current lease. Each later lease has a higher
    /// one. A task can pass it to other systems, so that they reject a worker that
    /// lost its lease.
    #[must_use]
    pub fn lease(&self) -> u64 {
        self.inner.held.lease.fence
    }

    /// The remaining lease time in milliseconds: no other worker takes the
    /// execution over before it has passed.
    #[must_use]
    pub fn lease_left_ms(&self) -> i64 {
        let until_ms = self.inner.held.leased_until_ms();
        until_ms.saturating_sub(self.inner.shared.clock.now_ms())
    }

    /// The timeout in milliseconds, if there is one.
    #[must_use]
    pub fn timeout_ms(&self) -> Option<i64> {
        self.inner.order.timeout_ms
    }

    /// The heartbeat timeout in milliseconds, if there is one.
    #[must_use]
    pub fn heartbeat_ms(&self) -> Option<i64> {
        self.inner.order.heartbeat_ms
    }

    /// Reports that the task is alive, and its progress. The report stays in memory
    /// and is cheap. A Task with `HeartbeatSeconds` must call this that often.
    pub fn heartbeat(&self, progress: ProgressReport) {
        let inner = &self.inner;
        let at_ms = inner.shared.clock.now_ms();
        inner.beat_at_ms.store(at_ms, Ordering::Release);
        inner.held.record_progress(TaskProgress {
            task: inner.order.task,
            state: inner.order.state.clone(),
            begun_at_ms: inner.begun_at_ms,
            at_ms,
            per_second: None,
            progress,
        });
        inner.shared.change_notifier.notify(&inner.held.lease.id);
    }

    /// Reports that the task is alive, without new progress.
    pub fn keep_alive(&self) {
        let inner = &self.inner;
        let at_ms = inner.shared.clock.now_ms();
        inner.beat_at_ms.store(at_ms, Ordering::Release);
    }

    /// Returns once the task should stop: it was cancelled, timed out, or the
    /// engine stops. A result within the grace period counts only if the engine
    /// stops; after the grace period the engine drops the handler's future.
    pub async fn cancelled(&self) {
        TaskControl::wait_for_stop(&mut self.inner.control.clone()).await;
    }

    /// Whether the task should stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.inner.control.borrow() != TaskControl::Continue
    }

    /// When the task last reported that it is alive.
    pub(super) fn beat_at_ms(&self) -> i64 {
        self.inner.beat_at_ms.load(Ordering::Acquire)
    }
}

impl fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token is a credential: leave it out.
        f.debug_struct("TaskContext")
            .field("key", &self.idempotency_key())
            .field("state", &self.state())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}
