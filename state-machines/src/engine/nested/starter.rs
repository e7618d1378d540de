//! Creates the execution that a Task asks for. It takes no task's place: it
//! does nothing but write.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::arguments::{self, Arguments};
use super::bond::{self, Bond};
use super::{DEPTH_MAX, answer, ended};
use crate::core::{Event, Nested, Origin, RunTask, errors};
use crate::engine::context::Wish;
use crate::engine::error::StartError;
use crate::engine::held::Held;
use crate::engine::runner::Report;
use crate::engine::shared::Shared;
use crate::engine::start::{self, Started};
use crate::engine::{Description, TaskError};
use crate::store::{CreateError, StoreError};

/// Starts one child.
pub(in crate::engine) struct Starter {
    pub(in crate::engine) shared: Arc<Shared>,
    pub(in crate::engine) held: Arc<Held>,
    pub(in crate::engine) nested: Nested,
    pub(in crate::engine) order: RunTask,
    /// How many executions are above the parent.
    pub(in crate::engine) depth: u32,
    pub(in crate::engine) wish: Arc<watch::Sender<Wish>>,
    pub(in crate::engine) reports: mpsc::Sender<Report>,
}

/// Why a child is not started.
enum Trouble {
    /// The parent's task fails.
    Task(TaskError),
    /// It may go better the next time.
    Store(StoreError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Starter {
    pub(in crate::engine) async fn run(self) {
        let event = self.event().await;
        let child = event.as_ref().and_then(submitted);
        let bond = child.map(|child| Bond {
            child: child.to_owned(),
            token: self.order.token.clone(),
            nested: self.nested,
        });
        let report = Report {
            task: self.order.task,
            event,
            bond,
        };
        if let Err(unheard) = self.reports.send(report).await {
            self.unheard(unheard.0.bond).await;
        }
    }

    /// The parent was let go of meanwhile: somebody else has it and wants the
    /// child, or nobody does.
    async fn unheard(&self, bond: Option<Bond>) {
        let wanted = bond::is_wanted(&self.shared, &self.origin()).await;
        if let (Ok(false), Some(bond)) = (wanted, bond) {
            bond::disown(&self.shared, &bond).await;
        }
    }

    /// What comes of it; nothing, if it was given up.
    async fn event(&self) -> Option<Event> {
        let task = self.order.task;
        let mut attempt = 0;
        loop {
            match self.start().await {
                Ok(event) => return Some(event),
                Err(Trouble::Task(TaskError { error, cause })) => {
                    return Some(Event::TaskFailed { task, error, cause });
                }
                Err(Trouble::Store(error)) => {
                    if *self.wish.borrow() != Wish::GoOn {
                        return None;
                    }
                    self.shared.back_off(attempt, &error).await;
                    attempt += 1;
                }
            }
        }
    }

    fn origin(&self) -> Origin {
        Origin {
            execution: self.held.lease.id.clone(),
            token: self.nested.waits().then(|| self.order.token.clone()),
            depth: self.depth + 1,
        }
    }

    async fn start(&self) -> Result<Event, Trouble> {
        let arguments = Arguments::read(&self.order.input).map_err(Trouble::Task)?;
        let origin = self.origin();
        if origin.depth > DEPTH_MAX {
            let cause = format!(
                "executions are nested more than {DEPTH_MAX} deep; does a workflow start itself?"
            );
            return Err(failed("StepFunctions.ExecutionLimitExceeded", cause));
        }
        let name = arguments.name.unwrap_or_else(|| {
            let parent = &self.held.lease.id;
            let name = parent.rsplit(':').next().unwrap_or_default();
            arguments::derived(name, &format!("{parent}#{}", self.order.task))
        });
        let workflow = self.deployed(&arguments.workflows).await?;
        let started = start::start(
            &self.shared,
            &workflow,
            &name,
            arguments.input,
            Some(origin),
        );
        match started.await {
            Ok(started) => self.started(started).await,
            Err(error) => Err(refused(error)),
        }
    }

    /// The first of these names that stands for something; the last, if none.
    async fn deployed(&self, names: &[String]) -> Result<String, Trouble> {
        let deployed = self.shared.store.deployed().await?;
        let is_known = |name: &&String| deployed.iter().any(|known| known.name == **name);
        let found = names.iter().find(is_known).or(names.last());
        Ok(found.cloned().unwrap_or_default())
    }

    async fn started(&self, started: Started) -> Result<Event, Trouble> {
        let task = self.order.task;
        if started.is_ended && self.nested.waits() {
            let found = self.shared.store.get(&started.id).await?;
            let child = found.map(|found| Description::new(found, Vec::new()));
            if let Some(event) = child.and_then(|child| ended(self.nested, task, &child)) {
                return Ok(event);
            }
        }
        let output = answer::started(&started.id, started.at_ms);
        Ok(match self.nested.waits() {
            true => Event::TaskSubmitted { task, output },
            false => Event::TaskSucceeded { task, output },
        })
    }
}

/// The child that is waited for.
fn submitted(event: &Event) -> Option<&str> {
    match event {
        Event::TaskSubmitted { output, .. } => answer::child_of(output),
        _ => None,
    }
}

fn failed(error: &str, cause: String) -> Trouble {
    Trouble::Task(TaskError::new(error, cause))
}

/// Errors have the names that Step Functions has for them.
fn refused(error: StartError) -> Trouble {
    let name = match error {
        StartError::Store(error) | StartError::Create(CreateError::Store(error)) => {
            return Trouble::Store(error);
        }
        StartError::NoWorkflow { .. } => "StepFunctions.StateMachineDoesNotExistException",
        StartError::BadName(_) => "StepFunctions.InvalidNameException",
        StartError::Create(CreateError::Conflict { .. }) => {
            "StepFunctions.ExecutionAlreadyExistsException"
        }
        StartError::Create(CreateError::Unfit(_)) => arguments::BAD_ARGUMENT,
        _ => errors::TASK_FAILED,
    };
    failed(name, error.to_string())
}
