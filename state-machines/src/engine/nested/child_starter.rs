//! Creates the child execution that a Task asks for. It needs no task permit,
//! because it only writes to the store.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::arguments::{self, StartArguments};
use super::child_link::{self, ChildLink};
use super::{DEPTH_MAX, end_event, response};
use crate::core::{ExecutionEvent, NestedStart, ParentTask, RunTask, errors};
use crate::engine::context::TaskControl;
use crate::engine::error::StartError;
use crate::engine::held_execution::HeldExecution;
use crate::engine::shared::Shared;
use crate::engine::start::{self, StartedExecution};
use crate::engine::task_runner::TaskReport;
use crate::engine::{ExecutionDetails, TaskError};
use crate::store::{CreateError, ExecutionStoreError};

/// Starts one child.
pub(in crate::engine) struct ChildStarter {
    pub(in crate::engine) shared: Arc<Shared>,
    pub(in crate::engine) held: Arc<HeldExecution>,
    pub(in crate::engine) nested: NestedStart,
    pub(in crate::engine) order: RunTask,
    /// How many ancestors the parent has.
    pub(in crate::engine) depth: u32,
    pub(in crate::engine) control: Arc<watch::Sender<TaskControl>>,
    pub(in crate::engine) reports: mpsc::Sender<TaskReport>,
}

/// Why a child was not started.
enum ChildStartError {
    /// The parent's task fails with this error.
    Task(TaskError),
    /// The store failed; try again.
    Store(ExecutionStoreError),
}

impl From<ExecutionStoreError> for ChildStartError {
    fn from(error: ExecutionStoreError) -> Self {
        Self::Store(error)
    }
}

impl ChildStarter {
    pub(in crate::engine) async fn run(self) {
        let event = self.start_with_retries().await;
        let child = event.as_ref().and_then(submitted_child_id);
        let link = child.map(|child| ChildLink {
            child: child.to_owned(),
            token: self.order.token.clone(),
            nested: self.nested,
        });
        let report = TaskReport {
            task: self.order.task,
            event,
            link,
        };
        if let Err(undelivered) = self.reports.send(report).await {
            self.handle_undelivered_report(undelivered.0.link).await;
        }
    }

    /// The driver is gone. Either another worker holds the parent and finds the
    /// child by its name, or no task wants the child any more: then cancel it.
    async fn handle_undelivered_report(&self, link: Option<ChildLink>) {
        let wanted = child_link::is_parent_waiting(&self.shared, &self.origin()).await;
        if let (Ok(false), Some(link)) = (wanted, link) {
            child_link::notify_child_abandoned(&self.shared, &link).await;
        }
    }

    /// Starts the child, with retries while the store fails. Returns the parent's
    /// event, or `None` if the task was cancelled.
    async fn start_with_retries(&self) -> Option<ExecutionEvent> {
        let task = self.order.task;
        let mut attempt = 0;
        loop {
            match self.start_child().await {
                Ok(event) => return Some(event),
                Err(ChildStartError::Task(TaskError { error, cause })) => {
                    return Some(ExecutionEvent::TaskFailed { task, error, cause });
                }
                Err(ChildStartError::Store(error)) => {
                    if *self.control.borrow() != TaskControl::Continue {
                        return None;
                    }
                    self.shared.back_off(attempt, &error).await;
                    attempt += 1;
                }
            }
        }
    }

    fn origin(&self) -> ParentTask {
        ParentTask {
            execution: self.held.lease.id.clone(),
            token: self
                .nested
                .waits_for_end()
                .then(|| self.order.token.clone()),
            depth: self.depth + 1,
        }
    }

    async fn start_child(&self) -> Result<ExecutionEvent, ChildStartError> {
        let arguments = StartArguments::parse(&self.order.input).map_err(ChildStartError::Task)?;
        let origin = self.origin();
        if origin.depth > DEPTH_MAX {
            let cause = format!(
                "executions are nested more than {DEPTH_MAX} deep; check whether a workflow starts itself"
            );
            return Err(task_failure("StepFunctions.ExecutionLimitExceeded", cause));
        }
        let name = arguments.name.unwrap_or_else(|| {
            let parent = &self.held.lease.id;
            let name = parent.rsplit(':').next().unwrap_or_default();
            arguments::derive_child_name(name, &format!("{parent}#{}", self.order.task))
        });
        let workflow = self.resolve_workflow(&arguments.workflows).await?;
        let started = start::start_execution(
            &self.shared,
            &workflow,
            &name,
            arguments.input,
            Some(origin),
        );
        match started.await {
            Ok(started) => self.event_for_started_child(started).await,
            Err(error) => Err(from_start_error(error)),
        }
    }

    /// The first of these names that is deployed; the last one if none is.
    async fn resolve_workflow(&self, names: &[String]) -> Result<String, ChildStartError> {
        let deployed = self.shared.store.deployed().await?;
        let is_known = |name: &&String| deployed.iter().any(|known| known.name == **name);
        let found = names.iter().find(is_known).or(names.last());
        Ok(found.cloned().unwrap_or_default())
    }

    async fn event_for_started_child(
        &self,
        started: StartedExecution,
    ) -> Result<ExecutionEvent, ChildStartError> {
        let task = self.order.task;
        if started.is_ended && self.nested.waits_for_end() {
            let found = self.shared.store.get(&started.id).await?;
            let child = found.map(|found| ExecutionDetails::new(found, Vec::new()));
            if let Some(event) = child.and_then(|child| end_event(self.nested, task, &child)) {
                return Ok(event);
            }
        }
        let output = response::start_response(&started.id, started.at_ms);
        Ok(match self.nested.waits_for_end() {
            true => ExecutionEvent::TaskSubmitted { task, output },
            false => ExecutionEvent::TaskSucceeded { task, output },
        })
    }
}

/// The id of the child that the task now waits for.
fn submitted_child_id(event: &ExecutionEvent) -> Option<&str> {
    match event {
        ExecutionEvent::TaskSubmitted { output, .. } => response::child_id(output),
        _ => None,
    }
}

fn task_failure(error: &str, cause: String) -> ChildStartError {
    ChildStartError::Task(TaskError::new(error, cause))
}

/// Maps errors to the names that Step Functions uses.
fn from_start_error(error: StartError) -> ChildStartError {
    let name = match error {
        StartError::Store(error) | StartError::Create(CreateError::Store(error)) => {
            return ChildStartError::Store(error);
        }
        StartError::NoWorkflow { .. } => "StepFunctions.StateMachineDoesNotExistException",
        StartError::BadName(_) => "StepFunctions.InvalidNameException",
        StartError::Create(CreateError::Conflict { .. }) => {
            "StepFunctions.ExecutionAlreadyExistsException"
        }
        StartError::Create(CreateError::InvalidRecord(_)) => arguments::BAD_ARGUMENT,
        _ => errors::TASK_FAILED,
    };
    task_failure(name, error.to_string())
}
