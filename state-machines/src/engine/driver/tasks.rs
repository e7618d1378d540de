//! Starts tasks once their order is durable, stops them, and accepts their reports.

use std::sync::Arc;

use tokio::sync::watch;

use super::ExecutionDriver;
use crate::core::{Effect, ExecutionEvent, NestedStart, RunTask, TaskId, errors};
use crate::engine::context::TaskControl;
use crate::engine::journal::PendingEvent;
use crate::engine::nested::{ChildLink, ChildStarter};
use crate::engine::task_runner::{TaskReport, TaskRunner};

impl ExecutionDriver {
    /// Executes effects after their step is durable.
    pub(super) fn execute_effects(&mut self, effects: Vec<Effect>) {
        self.track_timers(&effects);
        for effect in effects {
            match effect {
                Effect::RunTask(order) => self.start_task(*order),
                Effect::StopTask { task } => self.stop_task(task),
                Effect::Continue { turn } => {
                    self.due
                        .push_back(PendingEvent::from_event(ExecutionEvent::Continued { turn }));
                }
                Effect::SetTimer { .. } | Effect::StopTimer { .. } | Effect::Ended => {}
            }
        }
    }

    fn start_task(&mut self, order: RunTask) {
        let task = order.task;
        let flight = self.journal.execution.task(task);
        let ordered_at_ms = flight.map(|flight| flight.ordered_at_ms);
        let submitted = flight.filter(|flight| flight.is_submitted);
        let nested = NestedStart::from_resource(&order.resource);
        if let Some(flight) = submitted {
            let child = flight.child.clone();
            self.await_callback(task);
            if let (Some(child), Some(nested)) = (child, nested) {
                let token = order.token;
                self.track_child(
                    task,
                    ChildLink {
                        child,
                        token,
                        nested,
                    },
                );
                self.children.mark_for_check(task);
            }
            return;
        }
        if let Some(nested) = nested {
            return self.start_child(nested, order);
        }
        let Some(handler) = self.shared.registry.find(&order.resource) else {
            // Unreachable: a claim checks the handlers of the definition.
            let resource = &order.resource;
            let event = ExecutionEvent::TaskFailed {
                task,
                error: errors::TASK_FAILED.to_owned(),
                cause: format!("no handler is registered for {resource}"),
            };
            return self.due.push_back(PendingEvent::from_event(event));
        };
        let control = Arc::new(watch::Sender::new(TaskControl::Continue));
        self.running.insert(task, Arc::clone(&control));
        let runner = TaskRunner {
            shared: Arc::clone(&self.shared),
            held: Arc::clone(&self.held),
            handler: Arc::clone(handler),
            order,
            ordered_at_ms: ordered_at_ms.unwrap_or_else(|| self.shared.clock.now_ms()),
            control,
            reports: self.report_sender.clone(),
        };
        self.shared.spawn(runner.run());
    }

    fn start_child(&mut self, nested: NestedStart, order: RunTask) {
        let control = Arc::new(watch::Sender::new(TaskControl::Continue));
        self.running.insert(order.task, Arc::clone(&control));
        let origin = self.journal.execution.origin();
        let starter = ChildStarter {
            shared: Arc::clone(&self.shared),
            held: Arc::clone(&self.held),
            nested,
            order,
            depth: origin.map_or(0, |origin| origin.depth),
            control,
            reports: self.report_sender.clone(),
        };
        self.shared.spawn(starter.run());
    }

    pub(super) fn stop_task(&mut self, task: TaskId) {
        if let Some(control) = self.running.remove(&task) {
            control.send_replace(TaskControl::Cancel);
        }
        self.callbacks.remove(&task);
    }

    pub(super) fn accept_report(&mut self, TaskReport { task, event, link }: TaskReport) {
        self.running.remove(&task);
        if let Some(link) = link {
            self.track_child(task, link);
        }
        let Some(event) = event else {
            return;
        };
        if matches!(event, ExecutionEvent::TaskSubmitted { .. }) {
            self.await_callback(task);
        }
        self.due.push_back(PendingEvent::from_event(event));
    }
}
