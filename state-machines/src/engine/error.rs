//! Why an engine refuses.

use crate::language::Problem;
use crate::store::{CreateError, KeepError, PostError, StoreError};

/// Why a definition is not deployed.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The name cannot be used.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// It is not valid.
    #[error("the definition is not valid: {}", told(problems))]
    Invalid {
        /// All that is wrong with it.
        problems: Vec<Problem>,
    },
    /// Substitutions (`${…}`) in it are not filled in.
    #[error(
        "the definition is not filled in; do so before it is deployed: {}",
        told(unfilled)
    )]
    Unfilled {
        /// Where, and which.
        unfilled: Vec<Problem>,
    },
    /// Nobody does the work of some of its resources.
    #[error(transparent)]
    NoHandler(#[from] NoHandler),
    /// It is not kept.
    #[error(transparent)]
    Keep(#[from] KeepError),
}

/// Why an execution is not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The name cannot be used.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// No such workflow is deployed.
    #[error("no workflow {name:?} is deployed; deploy it first")]
    NoWorkflow {
        /// Its name.
        name: String,
    },
    /// Nobody does the work of some of its resources.
    #[error(transparent)]
    NoHandler(#[from] NoHandler),
    /// What is kept under the workflow's name cannot be read.
    #[error("the definition of {workflow:?} cannot be read; deploy it anew: {cause}")]
    BadDefinition {
        /// The workflow's name.
        workflow: String,
        /// What is wrong with it.
        cause: String,
    },
    /// It is not created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The engine stops.
    #[error("the engine is stopping and starts nothing; start it again elsewhere")]
    Stopping,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why something is not asked of an execution.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The token names no task.
    #[error("that is no token of a task; use the one that the task was given")]
    BadToken,
    /// Nobody waits for an answer to this token: its task was answered, took
    /// too long or was stopped, or never had this token.
    #[error("the execution {id} does not wait for that token; ask what it waits for")]
    NotWaiting {
        /// The execution that the token names.
        id: String,
    },
    /// The message is not taken.
    #[error(transparent)]
    Post(#[from] PostError),
}

/// A name that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no name: use 1 to 80 of the letters a-z and A-Z, digits, '-', '_' and '.'")]
pub struct BadName {
    /// The name.
    pub name: String,
}

/// Resources that nobody does the work of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no handler is registered for {}; register one for each", resources.join(", "))]
pub struct NoHandler {
    /// Their names, as the definition has them.
    pub resources: Vec<String>,
}

fn told(problems: &[Problem]) -> String {
    let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
    told.join("; ")
}
