//! Handlers: the code behind a Task's resource.

use std::future::Future;
use std::marker::PhantomData;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::TaskContext;

/// A typed handler of a resource. It may run again with the same
/// [idempotency key](TaskContext::idempotency_key): after a crash the engine does not
/// know how far the first run came.
///
/// For a resource that waits for a callback (`.waitForTaskToken`), the output is only
/// recorded as the submission's response. The execution continues when the token is
/// [signalled](super::Engine::signal).
pub trait TypedTask: Send + Sync + 'static {
    /// The input.
    type Input: DeserializeOwned + Send;
    /// The output.
    type Output: Serialize;

    /// Runs the task.
    fn run(
        &self,
        input: Self::Input,
        context: &TaskContext,
    ) -> impl Future<Output = Result<Self::Output, TaskError>> + Send;
}

/// A handler of a resource in JSON. [`TypedTask`] is more convenient. A handler can
/// also make a task wait for a callback although its resource name does not say so.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Runs the task.
    async fn run(&self, input: Value, context: &TaskContext) -> Result<TaskOutcome, TaskError>;
}

/// The outcome of a handler.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskOutcome {
    /// The task is done, with this result. For a resource that waits for a callback
    /// this means the same as [`Submitted`](Self::Submitted).
    Done(Value),
    /// The work was handed to another system, which will signal the task's token.
    Submitted(Value),
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}: {cause}")]
pub struct TaskError {
    /// The name of the error, which `Retry` and `Catch` match.
    pub error: String,
    /// The reason.
    pub cause: String,
}

impl TaskError {
    /// An error with a name and a cause.
    pub fn new(error: impl Into<String>, cause: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            cause: cause.into(),
        }
    }
}

/// The error name when the handler panicked.
pub const PANICKED: &str = "Task.Panicked";
/// The error name when the handler cannot parse its input.
pub const BAD_INPUT: &str = "Task.BadInput";
/// The error name when the handler's output cannot be encoded as JSON.
pub const BAD_OUTPUT: &str = "Task.BadOutput";

fn parse_input<I: DeserializeOwned>(input: Value, context: &TaskContext) -> Result<I, TaskError> {
    serde_json::from_value(input).map_err(|error| {
        let cause = format!(
            "the handler of {:?} cannot parse its input: {error}",
            context.resource()
        );
        TaskError::new(BAD_INPUT, cause)
    })
}

fn encode_output<O: Serialize>(
    output: &O,
    context: &TaskContext,
) -> Result<TaskOutcome, TaskError> {
    serde_json::to_value(output)
        .map(TaskOutcome::Done)
        .map_err(|error| {
            let cause = format!(
                "the output of the handler of {:?} cannot be encoded as JSON: {error}",
                context.resource()
            );
            TaskError::new(BAD_OUTPUT, cause)
        })
}

/// Adapts a typed task to a handler.
pub(super) struct TypedTaskHandler<T>(pub(super) T);

#[async_trait]
impl<T: TypedTask> Handler for TypedTaskHandler<T> {
    async fn run(&self, input: Value, context: &TaskContext) -> Result<TaskOutcome, TaskError> {
        let input = parse_input(input, context)?;
        let output = self.0.run(input, context).await?;
        encode_output(&output, context)
    }
}

/// Adapts a function to a handler.
pub(super) struct FunctionHandler<F, I> {
    function: F,
    input: PhantomData<fn(I)>,
}

impl<F, I> FunctionHandler<F, I> {
    pub(super) fn new(function: F) -> Self {
        Self {
            function,
            input: PhantomData,
        }
    }
}

#[async_trait]
impl<F, I, O, R> Handler for FunctionHandler<F, I>
where
    F: Fn(I, TaskContext) -> R + Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize,
    R: Future<Output = Result<O, TaskError>> + Send,
{
    async fn run(&self, input: Value, context: &TaskContext) -> Result<TaskOutcome, TaskError> {
        let input = parse_input(input, context)?;
        let output = (self.function)(input, context.clone()).await?;
        encode_output(&output, context)
    }
}
