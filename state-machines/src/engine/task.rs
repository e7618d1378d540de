//! What does the work of a Task.

use std::future::Future;
use std::marker::PhantomData;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::TaskContext;

/// The work behind a resource, typed. It may be run again with the same
/// [idempotency key](TaskContext::idempotency_key): after a crash nobody knows
/// how far it came.
///
/// For a resource that waits for a callback (`.waitForTaskToken`), what it
/// returns is what whoever took the work over said; the execution goes on when
/// the token is [answered](super::Engine::signal).
pub trait Task: Send + Sync + 'static {
    /// What it is given.
    type Input: DeserializeOwned + Send;
    /// What comes of it.
    type Output: Serialize;

    /// Does the work.
    fn run(
        &self,
        input: Self::Input,
        context: &TaskContext,
    ) -> impl Future<Output = Result<Self::Output, TaskError>> + Send;
}

/// The work behind a resource, in JSON. [`Task`] is more comfortable, and this
/// can also hand over work of a resource whose name does not say so.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Does the work.
    async fn run(&self, input: Value, context: &TaskContext) -> Result<Answer, TaskError>;
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It is done, and this is its result. For a resource that waits for a
    /// callback it is the same as [`Submitted`](Self::Submitted).
    Done(Value),
    /// It was handed over, and somebody will answer with its token.
    Submitted(Value),
}

/// Why a task was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}: {cause}")]
pub struct TaskError {
    /// The name of the error: `Retry` and `Catch` go by it.
    pub error: String,
    /// What happened.
    pub cause: String,
}

impl TaskError {
    /// An error by its name, and what happened.
    pub fn new(error: impl Into<String>, cause: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            cause: cause.into(),
        }
    }
}

/// The handler panicked.
pub const PANICKED: &str = "Task.Panicked";
/// The handler cannot read what it was given.
pub const BAD_INPUT: &str = "Task.BadInput";
/// What the handler returned cannot be written as JSON.
pub const BAD_OUTPUT: &str = "Task.BadOutput";

fn read<I: DeserializeOwned>(input: Value, context: &TaskContext) -> Result<I, TaskError> {
    serde_json::from_value(input).map_err(|error| {
        let cause = format!(
            "the handler of {:?} cannot read its input: {error}",
            context.resource()
        );
        TaskError::new(BAD_INPUT, cause)
    })
}

fn write<O: Serialize>(output: &O, context: &TaskContext) -> Result<Answer, TaskError> {
    serde_json::to_value(output)
        .map(Answer::Done)
        .map_err(|error| {
            let cause = format!(
                "what the handler of {:?} returned is no JSON: {error}",
                context.resource()
            );
            TaskError::new(BAD_OUTPUT, cause)
        })
}

/// A typed task as a handler.
pub(super) struct Typed<T>(pub(super) T);

#[async_trait]
impl<T: Task> Handler for Typed<T> {
    async fn run(&self, input: Value, context: &TaskContext) -> Result<Answer, TaskError> {
        let input = read(input, context)?;
        let output = self.0.run(input, context).await?;
        write(&output, context)
    }
}

/// A function as a handler.
pub(super) struct Function<F, I> {
    function: F,
    input: PhantomData<fn(I)>,
}

impl<F, I> Function<F, I> {
    pub(super) fn new(function: F) -> Self {
        Self {
            function,
            input: PhantomData,
        }
    }
}

#[async_trait]
impl<F, I, O, R> Handler for Function<F, I>
where
    F: Fn(I, TaskContext) -> R + Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize,
    R: Future<Output = Result<O, TaskError>> + Send,
{
    async fn run(&self, input: Value, context: &TaskContext) -> Result<Answer, TaskError> {
        let input = read(input, context)?;
        let output = (self.function)(input, context.clone()).await?;
        write(&output, context)
    }
}
