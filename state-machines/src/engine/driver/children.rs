//! Child executions: started by tasks of this execution, which wait for them.

use std::collections::{BTreeSet, HashMap};

use super::ExecutionDriver;
use crate::core::{ExecutionEvent, TaskId};
use crate::engine::journal::PendingEvent;
use crate::engine::nested::{self, ChildLink};
use crate::engine::shared::Shared;
use crate::engine::{ExecutionDetails, message};
use crate::store::ExecutionStoreResult;

/// A child execution that a task waits for.
#[derive(Debug)]
struct AwaitedChild {
    link: ChildLink,
    since_ms: i64,
    check_at_ms: i64,
}

/// The children of an execution.
#[derive(Debug, Default)]
pub(super) struct Children {
    by_task: HashMap<TaskId, AwaitedChild>,
    /// Tasks whose children are to be checked now.
    checks_due: BTreeSet<TaskId>,
    /// Tasks whose children reported their end before the driver tracked them.
    early: BTreeSet<TaskId>,
    /// When to check whether the parent still waits for this execution. `None` if
    /// it has no parent that waits.
    parent_check_at_ms: Option<i64>,
}

impl Children {
    pub(super) fn new(parent_check_at_ms: Option<i64>) -> Self {
        Self {
            parent_check_at_ms,
            ..Self::default()
        }
    }

    /// When the next check of a child or of the parent is due.
    pub(super) fn next_check(&self) -> Option<i64> {
        let times = self.by_task.values().map(|child| child.check_at_ms);
        times.chain(self.parent_check_at_ms).min()
    }

    /// Whether the check of the parent is due.
    pub(super) fn is_parent_check_due(&self, now: i64) -> bool {
        self.parent_check_at_ms.is_some_and(|at_ms| at_ms <= now)
    }

    /// Whether checks of children are due.
    pub(super) fn has_checks_due(&self) -> bool {
        !self.checks_due.is_empty()
    }

    pub(super) fn collect_due(&mut self, now: i64) {
        for (task, child) in &mut self.by_task {
            if child.check_at_ms <= now {
                child.check_at_ms = nested::next_child_check_ms(child.since_ms, now);
                self.checks_due.insert(*task);
            }
        }
    }

    /// Marks a child for a check, because it may have ended.
    pub(super) fn mark_for_check(&mut self, task: TaskId) {
        match self.by_task.contains_key(&task) {
            true => self.checks_due.insert(task),
            false => self.early.insert(task),
        };
    }

    fn remove(&mut self, task: TaskId) -> Option<AwaitedChild> {
        self.checks_due.remove(&task);
        self.early.remove(&task);
        self.by_task.remove(&task)
    }
}

impl ExecutionDriver {
    /// Tracks a child that a task waits for.
    pub(super) fn track_child(&mut self, task: TaskId, link: ChildLink) {
        let now = self.shared.clock.now_ms();
        let flight = self.journal.execution.task(task);
        let since_ms = flight.map_or(now, |flight| flight.ordered_at_ms);
        let child = AwaitedChild {
            link,
            since_ms,
            check_at_ms: nested::next_child_check_ms(since_ms, now),
        };
        self.children.by_task.insert(task, child);
        if self.children.early.remove(&task) {
            self.children.checks_due.insert(task);
        }
    }

    /// Checks the marked children, and adds an event for each that has ended.
    pub(super) async fn check_children(&mut self) {
        while let Some(task) = self.children.checks_due.pop_first() {
            let Some(child) = self.children.by_task.get(&task) else {
                continue;
            };
            let event = match check_child(&self.shared, task, &child.link).await {
                Ok(event) => event,
                Err(error) => {
                    self.children.checks_due.insert(task);
                    return self.shared.back_off(0, &error).await;
                }
            };
            if let Some(event) = event {
                self.children.remove(task);
                self.callbacks.remove(&task);
                self.due.push_back(PendingEvent::from_event(event));
            }
        }
    }

    /// Notifies children that no task waits for any more.
    pub(super) async fn abandon_children(&mut self) {
        let execution = &self.journal.execution;
        let tasks = self.children.by_task.keys().copied();
        let over: Vec<TaskId> = tasks
            .filter(|task| execution.task(*task).is_none())
            .collect();
        for task in over {
            if let Some(AwaitedChild { link, .. }) = self.children.remove(task) {
                nested::notify_child_abandoned(&self.shared, &link).await;
            }
        }
    }

    /// Settles the children and notifies the parent after the execution's end.
    /// Closing the channel makes starters handle their own late reports.
    pub(super) async fn end_children(&mut self) {
        self.reports.close();
        while let Ok(report) = self.reports.try_recv() {
            self.accept_report(report);
        }
        self.abandon_children().await;
        let execution = &self.journal.execution;
        nested::notify_parent(&self.shared, execution.id(), execution.origin()).await;
    }

    /// Calls [`end_children`](Self::end_children) if the last step committed
    /// although its append reported an error.
    pub(super) async fn end_children_if_ended(&mut self) {
        let found = self.shared.store.get(&self.held.lease.id).await;
        if let Ok(Some(found)) = found
            && !found.row.status.is_open()
        {
            self.end_children().await;
        }
    }

    /// Cancels the execution if its parent no longer waits for it.
    pub(super) async fn check_parent(&mut self) {
        let execution = &self.journal.execution;
        let now = self.shared.clock.now_ms();
        self.children.parent_check_at_ms = nested::next_parent_check_ms(execution, now);
        let Some(origin) = execution.origin() else {
            return;
        };
        match nested::is_parent_waiting(&self.shared, origin).await {
            Ok(true) => {}
            Ok(false) => {
                let event = message::parent_gone_event();
                self.due.push_back(PendingEvent::from_event(event));
            }
            // The next check tries again.
            Err(error) => tracing::warn!(
                execution = self.held.lease.id,
                error = &error as &(dyn std::error::Error + 'static),
                "cannot check whether the parent still waits; checking again later"
            ),
        }
    }
}

/// The event for the parent if a child has ended; `None` while it runs.
async fn check_child(
    shared: &Shared,
    task: TaskId,
    link: &ChildLink,
) -> ExecutionStoreResult<Option<ExecutionEvent>> {
    let found = shared.store.get(&link.child).await?;
    Ok(match found {
        None => Some(nested::child_missing_event(task, &link.child)),
        Some(found) => {
            nested::end_event(link.nested, task, &ExecutionDetails::new(found, Vec::new()))
        }
    })
}
