//! Handlers that return the same results as the reference run.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast_state_machines::core::{ExecutionEvent, RunTask, TaskId};
use ballast_state_machines::engine::{
    Handler, HandlerRegistry, TaskContext, TaskError, TaskOutcome,
};
use ballast_state_machines::language::Definition;
use ballast_state_machines::testing::random_task_event;
use serde_json::Value;
use tokio::sync::mpsc;

/// Returns the reference's results, and sometimes kills its engine.
pub(crate) struct RandomHandler {
    seed: u64,
    /// One in this many tasks kills its engine at the first run; 0 disables it.
    deadly: u64,
    ran: Mutex<HashSet<String>>,
    die: mpsc::UnboundedSender<()>,
}

impl RandomHandler {
    /// A handler, and a receiver of its requests to kill the engine.
    pub(crate) fn new(seed: u64, deadly: u64) -> (Self, mpsc::UnboundedReceiver<()>) {
        let (die, dying) = mpsc::unbounded_channel();
        let ran = Mutex::default();
        let random = Self {
            seed,
            deadly,
            ran,
            die,
        };
        (random, dying)
    }

    /// Handlers for all resources of a definition, and a receiver of their requests
    /// to kill the engine.
    pub(crate) fn registry(
        definition: &Definition,
        seed: u64,
        deadly: u64,
    ) -> (HandlerRegistry, mpsc::UnboundedReceiver<()>) {
        let (handler, dying) = Self::new(seed, deadly);
        let handler = Arc::new(handler);
        let missing = HandlerRegistry::new().missing(definition).into_iter();
        let registry = missing.fold(HandlerRegistry::new(), |registry, resource| {
            registry.with_handler(resource, handler.clone())
        });
        (registry, dying)
    }
}

#[async_trait]
impl Handler for RandomHandler {
    async fn run(&self, input: Value, context: &TaskContext) -> Result<TaskOutcome, TaskError> {
        let key = context.idempotency_key().to_owned();
        let number: u64 = key.rsplit('#').next().unwrap().parse().unwrap();
        let is_first = self.ran.lock().unwrap().insert(key);
        let is_deadly = self.deadly > 0 && (number + self.seed).is_multiple_of(self.deadly);
        if is_first && is_deadly {
            self.die.send(()).unwrap();
            std::future::pending::<()>().await;
        }
        let order = RunTask {
            task: TaskId(number),
            resource: context.resource().to_owned(),
            input,
            token: String::new(),
            attempt: context.attempt(),
            state: context.state().to_owned(),
            iterations: context.iterations().to_vec(),
            timeout_ms: context.timeout_ms(),
            heartbeat_ms: context.heartbeat_ms(),
            credentials: None,
            waits_for_callback: false,
        };
        match random_task_event(self.seed, &order) {
            ExecutionEvent::TaskSucceeded { output, .. } => Ok(TaskOutcome::Done(output)),
            ExecutionEvent::TaskFailed { error, cause, .. } => Err(TaskError { error, cause }),
            _ => {
                context.cancelled().await;
                Err(TaskError::new("Too.Late", "nobody hears it"))
            }
        }
    }
}
