//! Executions as the API shows them.

use ballast_domain::Timestamp;
use ballast_state_machines::core::{Position, RunActivity};
use ballast_state_machines::engine::{ExecutionDetails, ExecutionOverview, TaskProgress};
use serde::Serialize;
use serde_json::Value;

/// An execution, as in lists.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionSummary {
    /// Its ID: the workflow's name and its own.
    #[serde(rename = "executionID")]
    #[schema(example = "move-tenant:acme-1")]
    pub execution_id: String,
    /// The workflow.
    pub workflow: String,
    /// Its name among the executions of the workflow.
    pub name: String,
    /// Its status: RUNNING, SUCCEEDED, FAILED, TIMED_OUT or ABORTED.
    pub status: &'static str,
    /// Whether it is paused.
    pub paused: bool,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Hash of the definition that it runs.
    pub definition_hash: String,
    /// Its current positions; only the first ones if there are very many.
    pub position: Vec<PositionBody>,
    /// Number of events in its history.
    pub history_length: u64,
    /// The process that runs it; absent while it only waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

/// One position of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PositionBody {
    /// The state.
    pub state: String,
    /// Its activity there: ready, working, awaitingCallback, waiting, backingOff or
    /// gathering.
    pub doing: &'static str,
    /// Number of earlier attempts of the state.
    pub attempt: u64,
    /// When it entered the state.
    pub entered_at: Timestamp,
    /// When it continues by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wakes_at: Option<Timestamp>,
    /// Number of finished branches or iterations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Total number of branches or iterations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The Map iterations that contain it, outermost first.
    pub iterations: Vec<IterationBody>,
}

/// An iteration of a Map.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IterationBody {
    /// The Map.
    pub map: String,
    /// Which item, from 0.
    pub index: u64,
}

/// An execution, with input and result.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionBody {
    /// The summary, as in lists.
    #[serde(flatten)]
    pub summary: ExecutionSummary,
    /// Its input.
    pub input: Value,
    /// Its output, if it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The name of the error that it ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The cause of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Progress of its tasks, as far as reported.
    pub progress: Vec<ProgressBody>,
}

/// Progress of a task.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgressBody {
    /// The task's state.
    pub state: String,
    /// The task's number in its execution.
    pub task: u64,
    /// When it began in this process.
    pub begun_at: Timestamp,
    /// When it reported this.
    pub at: Timestamp,
    /// Amount done.
    pub done: u64,
    /// Total amount, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The unit of both.
    pub unit: String,
    /// Recent rate per second, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// What is being done, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl From<ExecutionOverview> for ExecutionSummary {
    fn from(shown: ExecutionOverview) -> Self {
        let name = shown.id.split_once(':').map_or("", |(_, name)| name);
        Self {
            name: name.to_owned(),
            execution_id: shown.id,
            workflow: shown.workflow,
            status: shown.status.as_str(),
            paused: shown.paused,
            started_at: Timestamp::from_unix_ms(shown.started_at_ms),
            ended_at: shown.ended_at_ms.map(Timestamp::from_unix_ms),
            definition_hash: shown.definition,
            position: shown.position.into_iter().map(PositionBody::from).collect(),
            history_length: shown.history_len,
            worker: shown.worker,
        }
    }
}

impl From<Position> for PositionBody {
    fn from(position: Position) -> Self {
        let (doing, gathered) = match position.doing {
            RunActivity::Ready => ("ready", None),
            RunActivity::Working => ("working", None),
            RunActivity::AwaitingCallback => ("awaitingCallback", None),
            RunActivity::Waiting => ("waiting", None),
            RunActivity::BackingOff => ("backingOff", None),
            RunActivity::Gathering { done, total } => ("gathering", Some((done, total))),
        };
        let iterations = position.iterations.into_iter();
        Self {
            state: position.state,
            doing,
            attempt: position.attempt,
            entered_at: Timestamp::from_unix_ms(position.entered_at_ms),
            wakes_at: position.wakes_at_ms.map(Timestamp::from_unix_ms),
            done: gathered.map(|(done, _)| done),
            total: gathered.map(|(_, total)| total),
            iterations: iterations
                .map(|iteration| IterationBody {
                    map: iteration.map,
                    index: iteration.index,
                })
                .collect(),
        }
    }
}

impl From<ExecutionDetails> for ExecutionBody {
    fn from(shown: ExecutionDetails) -> Self {
        Self {
            summary: shown.summary.into(),
            input: shown.input,
            output: shown.output,
            error: shown.error,
            cause: shown.cause,
            progress: shown.progress.into_iter().map(ProgressBody::from).collect(),
        }
    }
}

impl From<TaskProgress> for ProgressBody {
    fn from(progress: TaskProgress) -> Self {
        Self {
            state: progress.state,
            task: progress.task.0,
            begun_at: Timestamp::from_unix_ms(progress.begun_at_ms),
            at: Timestamp::from_unix_ms(progress.at_ms),
            done: progress.progress.done,
            total: progress.progress.total,
            unit: progress.progress.unit,
            per_second: progress.per_second,
            note: progress.progress.note,
        }
    }
}
