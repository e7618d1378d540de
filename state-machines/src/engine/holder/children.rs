//! Executions that the tasks of this one have started and wait for.

use std::collections::{BTreeSet, HashMap};

use super::Holder;
use crate::core::{Event, TaskId};
use crate::engine::journal::Due;
use crate::engine::nested::{self, Bond};
use crate::engine::shared::Shared;
use crate::engine::{Description, message};
use crate::store::StoreResult;

/// An execution that a task waits for.
#[derive(Debug)]
struct Child {
    bond: Bond,
    since_ms: i64,
    look_at_ms: i64,
}

/// Those that tasks wait for.
#[derive(Debug, Default)]
pub(super) struct Children {
    by_task: HashMap<TaskId, Child>,
    /// Whose children are to be looked at now.
    looks: BTreeSet<TaskId>,
    /// Whose children were said to have ended before they were known.
    early: BTreeSet<TaskId>,
    /// When it is looked whether this one is still waited for itself; only if
    /// that is so, and somebody may.
    origin_at_ms: Option<i64>,
}

impl Children {
    pub(super) fn new(origin_at_ms: Option<i64>) -> Self {
        Self {
            origin_at_ms,
            ..Self::default()
        }
    }

    /// When somebody is to be looked at.
    pub(super) fn next_look(&self) -> Option<i64> {
        let times = self.by_task.values().map(|child| child.look_at_ms);
        times.chain(self.origin_at_ms).min()
    }

    /// Whether it is time to look whether this execution is waited for.
    pub(super) fn is_origin_due(&self, now: i64) -> bool {
        self.origin_at_ms.is_some_and(|at_ms| at_ms <= now)
    }

    /// Whether one is to be looked at now.
    pub(super) fn is_look_due(&self) -> bool {
        !self.looks.is_empty()
    }

    pub(super) fn times_come(&mut self, now: i64) {
        for (task, child) in &mut self.by_task {
            if child.look_at_ms <= now {
                child.look_at_ms = nested::next_look_ms(child.since_ms, now);
                self.looks.insert(*task);
            }
        }
    }

    /// A child may have ended.
    pub(super) fn look_at(&mut self, task: TaskId) {
        match self.by_task.contains_key(&task) {
            true => self.looks.insert(task),
            false => self.early.insert(task),
        };
    }

    fn forget(&mut self, task: TaskId) -> Option<Child> {
        self.looks.remove(&task);
        self.early.remove(&task);
        self.by_task.remove(&task)
    }
}

impl Holder {
    /// A task waits for this execution from now on.
    pub(super) fn adopt(&mut self, task: TaskId, bond: Bond) {
        let now = self.shared.clock.now_ms();
        let flight = self.journal.execution.task(task);
        let since_ms = flight.map_or(now, |flight| flight.ordered_at_ms);
        let child = Child {
            bond,
            since_ms,
            look_at_ms: nested::next_look_ms(since_ms, now),
        };
        self.children.by_task.insert(task, child);
        if self.children.early.remove(&task) {
            self.children.looks.insert(task);
        }
    }

    /// Looks at the children that may have ended.
    pub(super) async fn look_at_children(&mut self) {
        while let Some(task) = self.children.looks.pop_first() {
            let Some(child) = self.children.by_task.get(&task) else {
                continue;
            };
            let event = match see(&self.shared, task, &child.bond).await {
                Ok(event) => event,
                Err(error) => {
                    self.children.looks.insert(task);
                    return self.shared.back_off(0, &error).await;
                }
            };
            if let Some(event) = event {
                self.children.forget(task);
                self.handed_over.remove(&task);
                self.due.push_back(Due::event(event));
            }
        }
    }

    /// Tells those that no task waits for any more.
    pub(super) async fn disown_children(&mut self) {
        let execution = &self.journal.execution;
        let tasks = self.children.by_task.keys().copied();
        let over: Vec<TaskId> = tasks
            .filter(|task| execution.task(*task).is_none())
            .collect();
        for task in over {
            if let Some(Child { bond, .. }) = self.children.forget(task) {
                nested::disown(&self.shared, &bond).await;
            }
        }
    }

    /// The execution has ended: what starters report from now on, nobody hears.
    pub(super) async fn end_children(&mut self) {
        self.reports.close();
        while let Ok(report) = self.reports.try_recv() {
            self.reported(report);
        }
        self.disown_children().await;
        let execution = &self.journal.execution;
        nested::tell_ended(&self.shared, execution.id(), execution.origin()).await;
    }

    /// The last step may have happened though it was not answered: then those
    /// who have to know must still be told.
    pub(super) async fn end_children_if_ended(&mut self) {
        let found = self.shared.store.get(&self.held.lease.id).await;
        if let Ok(Some(found)) = found
            && !found.row.status.is_open()
        {
            self.end_children().await;
        }
    }

    /// Whether whoever started this execution still waits for it.
    pub(super) async fn check_origin(&mut self) {
        let execution = &self.journal.execution;
        let now = self.shared.clock.now_ms();
        self.children.origin_at_ms = nested::next_origin_look_ms(execution, now);
        let Some(origin) = execution.origin() else {
            return;
        };
        match nested::is_wanted(&self.shared, origin).await {
            Ok(true) => {}
            Ok(false) => {
                let event = message::disowned();
                self.due.push_back(Due::event(event));
            }
            // The next time, then.
            Err(error) => tracing::warn!(
                execution = self.held.lease.id,
                error = &error as &(dyn std::error::Error + 'static),
                "it is not known whether anybody waits for the execution"
            ),
        }
    }
}

/// What a child's end is to its parent; nothing, while it is on its way.
async fn see(shared: &Shared, task: TaskId, bond: &Bond) -> StoreResult<Option<Event>> {
    let found = shared.store.get(&bond.child).await?;
    Ok(match found {
        None => Some(nested::gone(task, &bond.child)),
        Some(found) => nested::ended(bond.nested, task, &Description::new(found, Vec::new())),
    })
}
