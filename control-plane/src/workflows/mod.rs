//! Workflows and their executions.
//!
//! ```text
//!   definitions   deployed definitions
//!   executions    start, list, show
//!   commands      pause, resume, cancel, signal, heartbeat
//!   body          executions as the API shows them
//!   audit         records of commands, in the registry
//!   tasks         resources that any workflow may use
//! ```
//! The engine itself is the crate `ballast-state-machines`, which knows nothing of
//! tenants or tokens. It is attached after the control plane is open
//! ([`ControlPlane::set_workflows`]), because the tasks of built-in workflows use the
//! control plane.

mod audit;
pub mod body;
pub mod commands;
pub mod definitions;
pub mod executions;
pub mod tasks;

use std::sync::Arc;

use ballast_domain::{Error, ErrorCode, Result};
use ballast_state_machines::engine::Engine;
use ballast_state_machines::store::ExecutionStoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::plane::ControlPlane;

/// Maximum number of concurrent watchers.
const WATCHERS_MAX: usize = 1_000;

/// The engine and its watchers.
pub struct Workflows {
    engine: Engine,
    watchers: Arc<Semaphore>,
    ending: watch::Sender<bool>,
}

impl Workflows {
    /// Uses this engine.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
            ending: watch::Sender::new(false),
        }
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Ends all watch streams, which would otherwise delay the shutdown.
    pub fn stop_watchers(&self) {
        self.ending.send_replace(true);
    }

    /// A watcher's permit, and the shutdown signal.
    pub(crate) fn subscribe(&self) -> Result<(OwnedSemaphorePermit, watch::Receiver<bool>)> {
        let place = Arc::clone(&self.watchers).try_acquire_owned();
        let place = place.map_err(|_| {
            let error = Error::new(ErrorCode::Busy, "too many concurrent watchers");
            error.retry_after(5)
        })?;
        Ok((place, self.ending.subscribe()))
    }
}

/// The engine, once attached.
pub(crate) fn engine(plane: &ControlPlane) -> Result<&Engine> {
    Ok(workflows(plane)?.engine())
}

pub(crate) fn workflows(plane: &ControlPlane) -> Result<&Workflows> {
    plane.workflows().ok_or_else(|| match plane.workflow_trouble() {
        Some(why) => {
            let error = Error::new(ErrorCode::Unavailable, no_engine(&why));
            let next = "`ballast doctor` on the server names the damage and the way out. Votes do \
                        not need workflows.";
            error.with_next_step(next).retry_after(10)
        }
        None => {
            let error = Error::new(ErrorCode::Unavailable, "the workflow engine is starting");
            error.retry_after(1)
        }
    })
}

/// What migrations and plans wait for without an engine.
pub(crate) fn no_engine(why: &str) -> String {
    format!("the workflow engine, which cannot start: {why}")
}

/// A store error is not the caller's fault and may be temporary.
pub(crate) fn store_unavailable(source: ExecutionStoreError) -> Error {
    let detail = "the execution store is unavailable";
    let error = Error::new(ErrorCode::Unavailable, detail);
    error.with_source(source).retry_after(1)
}
