//! Errors of the engine.

use crate::language::DefinitionProblem;
use crate::store::{CreateError, ExecutionStoreError, PostError, SaveDefinitionError};

/// Why a definition was not deployed.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// Invalid workflow name.
    #[error(transparent)]
    BadName(#[from] InvalidName),
    /// Invalid definition.
    #[error("the definition is not valid: {}", join_problems(problems))]
    Invalid {
        /// The definition's errors.
        problems: Vec<DefinitionProblem>,
    },
    /// The definition has open substitutions (`${…}`).
    #[error(
        "the definition has open substitutions; fill them in before deploying: {}",
        join_problems(unfilled)
    )]
    Unfilled {
        /// The open substitutions.
        unfilled: Vec<DefinitionProblem>,
    },
    /// Resources without a handler.
    #[error(transparent)]
    NoHandler(#[from] MissingHandlers),
    /// The store refused or failed to save the definition.
    #[error(transparent)]
    Save(#[from] SaveDefinitionError),
}

/// Why an execution was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Invalid name.
    #[error(transparent)]
    BadName(#[from] InvalidName),
    /// The workflow is not deployed.
    #[error("no workflow {name:?} is deployed; deploy it first")]
    NoWorkflow {
        /// The workflow's name.
        name: String,
    },
    /// Resources without a handler.
    #[error(transparent)]
    NoHandler(#[from] MissingHandlers),
    /// The stored definition cannot be parsed.
    #[error("the stored definition of {workflow:?} cannot be parsed; deploy it again: {cause}")]
    BadDefinition {
        /// The workflow's name.
        workflow: String,
        /// The parse error.
        cause: String,
    },
    /// The store refused or failed to create it.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The engine is stopping.
    #[error("the engine is stopping; start the execution on another one")]
    Stopping,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] ExecutionStoreError),
}

/// Why a command was refused.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The token is malformed.
    #[error("invalid task token; use the token that the task received")]
    BadToken,
    /// The execution does not wait for this token: the task was answered, timed out
    /// or stopped, or never had this token.
    #[error("the execution {id} does not wait for this token; list the tokens that it waits for")]
    NotWaiting {
        /// The execution that the token names.
        id: String,
    },
    /// The store refused or failed to queue the message.
    #[error(transparent)]
    Post(#[from] PostError),
}

/// An invalid workflow or execution name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid name {name:?}: use 1 to 80 letters (a-z, A-Z), digits, '-', '_' or '.'")]
pub struct InvalidName {
    /// The name.
    pub name: String,
}

/// Resources without a handler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no handler is registered for {}; register one for each", resources.join(", "))]
pub struct MissingHandlers {
    /// The resources, as written in the definition.
    pub resources: Vec<String>,
}

fn join_problems(problems: &[DefinitionProblem]) -> String {
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
