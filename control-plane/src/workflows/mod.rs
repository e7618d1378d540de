//! Workflows: what is deployed, what runs, what is asked of it.
//!
//! ```text
//!   definitions   what is deployed, and by whom
//!   executions    started, listed, shown
//!   ask           pause, resume, cancel, signal
//!   body          what is shown of them
//!   audit         who asked what of which, in the registry
//!   tasks         resources that anybody's workflow may use
//! ```
//! The engine itself is the crate `ballast-state-machines`, which knows
//! nothing of tenants or tokens. Whoever opens the control plane gives it one
//! ([`ControlPlane::run_workflows`]): after it is open, because the tasks of
//! Ballast's own workflows use the control plane.

pub mod ask;
mod audit;
pub mod body;
pub mod definitions;
pub mod executions;
pub mod tasks;

use std::sync::Arc;

use ballast_domain::{Error, ErrorCode, Result};
use ballast_state_machines::engine::Engine;
use ballast_state_machines::store::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::plane::ControlPlane;

/// How many may watch executions at the same time.
const WATCHERS_MAX: usize = 1_000;

/// The engine, and who looks at it.
pub struct Workflows {
    engine: Engine,
    watchers: Arc<Semaphore>,
    ending: watch::Sender<bool>,
}

impl Workflows {
    /// Workflows run by this engine.
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

    /// Lets those who watch go: they would stay until the end.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    /// A place among those who watch, and the sign to go.
    pub(crate) fn watcher(&self) -> Result<(OwnedSemaphorePermit, watch::Receiver<bool>)> {
        let place = Arc::clone(&self.watchers).try_acquire_owned();
        let place = place.map_err(|_| {
            let error = Error::new(ErrorCode::Busy, "too many watch executions already");
            error.retry_after(5)
        })?;
        Ok((place, self.ending.subscribe()))
    }
}

/// The engine, if there is one yet.
pub(crate) fn engine(plane: &ControlPlane) -> Result<&Engine> {
    Ok(running(plane)?.engine())
}

pub(crate) fn running(plane: &ControlPlane) -> Result<&Workflows> {
    plane.workflows().ok_or_else(|| {
        let error = Error::new(ErrorCode::Unavailable, "the workflow engine is starting");
        error.retry_after(1)
    })
}

/// That the store is away is not the caller's fault and may pass.
pub(crate) fn away(source: StoreError) -> Error {
    let detail = "the store of executions cannot be used right now";
    let error = Error::new(ErrorCode::Unavailable, detail);
    error.because(source).retry_after(1)
}
