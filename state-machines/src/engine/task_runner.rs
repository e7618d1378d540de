//! Runs one task: waits for a permit, then for the handler, within the task's
//! timeouts.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::{mpsc, watch};

use super::context::TaskControl;
use super::held_execution::HeldExecution;
use super::nested::ChildLink;
use super::shared::Shared;
use super::task::PANICKED;
use super::{Handler, TaskContext, TaskError, TaskOutcome};
use crate::core::{ExecutionEvent, RunTask, TaskId};

/// AWS keeps this much of an error's name and cause.
const ERROR_BYTES_MAX: usize = 256;
const CAUSE_BYTES_MAX: usize = 32_768;

/// The one report of a task runner to its driver.
#[derive(Debug)]
pub(super) struct TaskReport {
    pub(super) task: TaskId,
    /// `None` if the outcome does not count.
    pub(super) event: Option<ExecutionEvent>,
    /// The child execution that the task now waits for.
    pub(super) link: Option<ChildLink>,
}

/// Runs one task.
pub(super) struct TaskRunner {
    pub(super) shared: Arc<Shared>,
    pub(super) held: Arc<HeldExecution>,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) order: RunTask,
    /// When the task was ordered, possibly by an earlier engine.
    pub(super) ordered_at_ms: i64,
    pub(super) control: Arc<watch::Sender<TaskControl>>,
    pub(super) reports: mpsc::Sender<TaskReport>,
}

type HandlerResult = Result<Result<TaskOutcome, TaskError>, Box<dyn Any + Send>>;
type HandlerFuture<'a> = Pin<&'a mut (dyn Future<Output = HandlerResult> + Send)>;

impl TaskRunner {
    pub(super) async fn run(mut self) {
        let mut control = self.control.subscribe();
        let permits = Arc::clone(&self.shared.task_permits);
        let _permit = tokio::select! {
            permit = permits.acquire_owned() => permit,
            () = TaskControl::wait_for_stop(&mut control) => return self.report(None).await,
        };
        let context = TaskContext::new(
            &self.order,
            Arc::clone(&self.held),
            Arc::clone(&self.shared),
            control,
        );
        let input = std::mem::take(&mut self.order.input);
        let handler = Arc::clone(&self.handler);
        // Unwind safe: the handler's future is dropped after a panic.
        let work = AssertUnwindSafe(async { handler.run(input, &context).await }).catch_unwind();
        let mut work = std::pin::pin!(work);
        self.wait_for_result(&context, work.as_mut()).await;
        self.held.finish_task(self.order.task);
    }

    /// Waits for the handler, until the task times out or should stop.
    async fn wait_for_result(&self, context: &TaskContext, mut work: HandlerFuture<'_>) {
        loop {
            let (due, is_heartbeat) = self.next_timeout(context);
            tokio::select! {
                biased;
                result = &mut work => return self.report_result(Some(result)).await,
                () = context.cancelled() => {
                    let result = self.wait_grace(work).await;
                    return self.report_result(result).await;
                }
                () = self.shared.clock.sleep_until(due) => {
                    if self.next_timeout(context).0 > self.shared.clock.now_ms() {
                        continue;
                    }
                    let task = self.order.task;
                    let heartbeat = is_heartbeat;
                    self.report(Some(ExecutionEvent::TaskTimedOut { task, heartbeat })).await;
                    self.control.send_replace(TaskControl::Cancel);
                    self.wait_grace(work).await;
                    return;
                }
            }
        }
    }

    /// Reports the handler's result, if it counts.
    async fn report_result(&self, result: Option<HandlerResult>) {
        let event = result.map(|result| self.to_event(result));
        let control = *self.control.borrow();
        let event = event.filter(|event| match control {
            TaskControl::Continue => true,
            TaskControl::Cancel => false,
            // A task that gives up because the engine stops has not failed.
            TaskControl::ShutDown => !matches!(event, ExecutionEvent::TaskFailed { .. }),
        });
        self.report(event).await;
    }

    /// When the task times out, and whether by a missed heartbeat. The timeout
    /// counts from the order: a crash does not extend it. The heartbeat counts from
    /// when this process began the task, because nothing could be heard before.
    fn next_timeout(&self, context: &TaskContext) -> (i64, bool) {
        let from = |start: i64, length: Option<i64>| {
            length.map_or(i64::MAX, |length| start.saturating_add(length))
        };
        let end = from(self.ordered_at_ms, self.order.timeout_ms);
        let silence = from(context.beat_at_ms(), self.order.heartbeat_ms);
        (end.min(silence), silence < end)
    }

    /// Waits for a task that should stop, within the grace period.
    async fn wait_grace(&self, work: HandlerFuture<'_>) -> Option<HandlerResult> {
        let clock = &self.shared.clock;
        let until = clock.now_ms().saturating_add(self.shared.settings.grace_ms);
        tokio::select! {
            result = work => Some(result),
            () = clock.sleep_until(until) => None,
        }
    }

    fn to_event(&self, result: HandlerResult) -> ExecutionEvent {
        let task = self.order.task;
        let waits = self.order.waits_for_callback;
        let failed = match result {
            Ok(Ok(TaskOutcome::Done(output))) if !waits => {
                return ExecutionEvent::TaskSucceeded { task, output };
            }
            Ok(Ok(TaskOutcome::Done(output) | TaskOutcome::Submitted(output))) => {
                return ExecutionEvent::TaskSubmitted { task, output };
            }
            Ok(Err(error)) => error,
            Err(panic) => {
                let resource = &self.order.resource;
                let cause = format!(
                    "the handler of {resource:?} panicked: {}",
                    panic_message(&*panic)
                );
                tracing::error!(
                    execution = self.held.lease.id,
                    state = self.order.state,
                    resource,
                    cause,
                    "a handler panicked"
                );
                TaskError::new(PANICKED, cause)
            }
        };
        ExecutionEvent::TaskFailed {
            task,
            error: truncate_text(failed.error, ERROR_BYTES_MAX),
            cause: truncate_text(failed.cause, CAUSE_BYTES_MAX),
        }
    }

    async fn report(&self, event: Option<ExecutionEvent>) {
        let task = self.order.task;
        // Sending fails if the driver has given the execution up; then the report
        // is moot.
        let report = TaskReport {
            task,
            event,
            link: None,
        };
        let _ = self.reports.send(report).await;
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

fn truncate_text(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}
