//! Tasks: begun once their order is durable, stopped when nobody wants them any
//! more, and what they report.

use std::sync::Arc;

use tokio::sync::watch;

use super::Holder;
use crate::core::{Effect, Event, Nested, RunTask, TaskId, errors};
use crate::engine::context::Wish;
use crate::engine::journal::Due;
use crate::engine::nested::{Bond, Starter};
use crate::engine::runner::{Report, Runner};

impl Holder {
    /// Does what follows from what is durable.
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
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
        let ordered_at_ms = flight.map(|flight| flight.ordered_at_ms);
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
                error: errors::TASK_FAILED.to_owned(),
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
            ordered_at_ms: ordered_at_ms.unwrap_or_else(|| self.shared.clock.now_ms()),
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

    pub(super) fn stop(&mut self, task: TaskId) {
        if let Some(wish) = self.running.remove(&task) {
            wish.send_replace(Wish::Stop);
        }
        self.handed_over.remove(&task);
    }

    pub(super) fn reported(&mut self, Report { task, event, bond }: Report) {
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
}
