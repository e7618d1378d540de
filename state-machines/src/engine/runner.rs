//! One task, run: when it may, for as long as it may.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::{mpsc, watch};

use super::context::Wish;
use super::held::Held;
use super::nested::Bond;
use super::shared::Shared;
use super::task::PANICKED;
use super::{Answer, Handler, TaskContext, TaskError};
use crate::core::{Event, RunTask, TaskId};

/// AWS keeps as much of an error's name and of its cause.
const ERROR_BYTES_MAX: usize = 256;
const CAUSE_BYTES_MAX: usize = 32_768;

/// What a runner tells its holder, once.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) task: TaskId,
    /// Nothing, if what came of it does not count.
    pub(super) event: Option<Event>,
    /// The execution that the task waits for from now on.
    pub(super) bond: Option<Bond>,
}

/// A task that is run.
pub(super) struct Runner {
    pub(super) shared: Arc<Shared>,
    pub(super) held: Arc<Held>,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) order: RunTask,
    /// When it was ordered: maybe by an engine before this one.
    pub(super) ordered_at_ms: i64,
    pub(super) wish: Arc<watch::Sender<Wish>>,
    pub(super) reports: mpsc::Sender<Report>,
}

type Came = Result<Result<Answer, TaskError>, Box<dyn Any + Send>>;
type Work<'a> = Pin<&'a mut (dyn Future<Output = Came> + Send)>;

impl Runner {
    pub(super) async fn run(mut self) {
        let mut wish = self.wish.subscribe();
        let hands = Arc::clone(&self.shared.hands);
        let _hand = tokio::select! {
            hand = hands.acquire_owned() => hand,
            () = Wish::other(&mut wish) => return self.report(None).await,
        };
        let context = TaskContext::new(
            &self.order,
            Arc::clone(&self.held),
            Arc::clone(&self.shared),
            wish,
        );
        let input = std::mem::take(&mut self.order.input);
        let handler = Arc::clone(&self.handler);
        // A panic is the handler's own affair: what it holds is dropped.
        let work = AssertUnwindSafe(async { handler.run(input, &context).await }).catch_unwind();
        let mut work = std::pin::pin!(work);
        self.see_through(&context, work.as_mut()).await;
        self.held.forget(self.order.task);
    }

    /// Waits for the work, for as long as it may take.
    async fn see_through(&self, context: &TaskContext, mut work: Work<'_>) {
        loop {
            let (due, is_heartbeat) = self.patience(context);
            tokio::select! {
                biased;
                came = &mut work => return self.came(Some(came)).await,
                () = context.cancelled() => {
                    let came = self.in_grace(work).await;
                    return self.came(came).await;
                }
                () = self.shared.clock.sleep_until(due) => {
                    if self.patience(context).0 > self.shared.clock.now_ms() {
                        continue;
                    }
                    let task = self.order.task;
                    let heartbeat = is_heartbeat;
                    self.report(Some(Event::TaskTimedOut { task, heartbeat })).await;
                    self.wish.send_replace(Wish::Stop);
                    self.in_grace(work).await;
                    return;
                }
            }
        }
    }

    /// Reports what came of the work, if it counts.
    async fn came(&self, came: Option<Came>) {
        let event = came.map(|came| self.event(came));
        let wish = *self.wish.borrow();
        let event = event.filter(|event| match wish {
            Wish::GoOn => true,
            Wish::Stop => false,
            // Who gives up because the engine stops has not failed.
            Wish::Leave => !matches!(event, Event::TaskFailed { .. }),
        });
        self.report(event).await;
    }

    /// Until when it is waited for, and whether for a sign of life. A crash
    /// gives a task no more time; but nobody could hear of it while it was not
    /// run, so its silence counts from when it was begun here.
    fn patience(&self, context: &TaskContext) -> (i64, bool) {
        let from = |start: i64, length: Option<i64>| {
            length.map_or(i64::MAX, |length| start.saturating_add(length))
        };
        let end = from(self.ordered_at_ms, self.order.timeout_ms);
        let silence = from(context.beat_at_ms(), self.order.heartbeat_ms);
        (end.min(silence), silence < end)
    }

    /// What comes of a task that should stop, if it comes soon.
    async fn in_grace(&self, work: Work<'_>) -> Option<Came> {
        let clock = &self.shared.clock;
        let until = clock.now_ms().saturating_add(self.shared.settings.grace_ms);
        tokio::select! {
            came = work => Some(came),
            () = clock.sleep_until(until) => None,
        }
    }

    fn event(&self, came: Came) -> Event {
        let task = self.order.task;
        let waits = self.order.waits_for_callback;
        let failed = match came {
            Ok(Ok(Answer::Done(output))) if !waits => return Event::TaskSucceeded { task, output },
            Ok(Ok(Answer::Done(output) | Answer::Submitted(output))) => {
                return Event::TaskSubmitted { task, output };
            }
            Ok(Err(error)) => error,
            Err(panic) => {
                let resource = &self.order.resource;
                let cause = format!("the handler of {resource:?} panicked: {}", said(&*panic));
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
        Event::TaskFailed {
            task,
            error: shortened(failed.error, ERROR_BYTES_MAX),
            cause: shortened(failed.cause, CAUSE_BYTES_MAX),
        }
    }

    async fn report(&self, event: Option<Event>) {
        let task = self.order.task;
        // A holder that is gone has let go of the execution.
        let report = Report {
            task,
            event,
            bond: None,
        };
        let _ = self.reports.send(report).await;
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it said nothing")
}

fn shortened(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}
