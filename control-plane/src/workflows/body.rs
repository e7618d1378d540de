//! What is shown of executions.

use ballast_domain::Timestamp;
use ballast_state_machines::core::{Doing, Position};
use ballast_state_machines::engine::{Description, Summary, TaskProgress};
use serde::Serialize;
use serde_json::Value;

/// An execution as lists show it.
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
    /// How it stands: RUNNING, SUCCEEDED, FAILED, TIMED_OUT or ABORTED.
    pub status: &'static str,
    /// Whether it begins nothing new.
    pub paused: bool,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What names the definition that it runs.
    pub definition_hash: String,
    /// Where it stands; of very many places, the first.
    pub position: Vec<PositionBody>,
    /// How many events its history has.
    pub history_length: u64,
    /// Who runs it; nobody, while it only waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

/// One place where an execution stands.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PositionBody {
    /// The state.
    pub state: String,
    /// What it does there: ready, working, awaitingCallback, waiting,
    /// backingOff or gathering.
    pub doing: &'static str,
    /// How often the state was tried before.
    pub attempt: u64,
    /// When it entered the state.
    pub entered_at: Timestamp,
    /// When it goes on by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wakes_at: Option<Timestamp>,
    /// How many branches or iterations are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// How many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The iterations of Maps that it is in, from the outside in.
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

/// An execution with what it was given and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionBody {
    /// What lists show.
    #[serde(flatten)]
    pub summary: ExecutionSummary,
    /// What it was given.
    pub input: Value,
    /// What came of it, if it ended well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The name of the error that it ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What happened then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// How far its tasks are, as far as they tell.
    pub progress: Vec<ProgressBody>,
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgressBody {
    /// The state that it is the work of.
    pub state: String,
    /// The task's number in its execution.
    pub task: u64,
    /// When it was begun here.
    pub begun_at: Timestamp,
    /// When it told this.
    pub at: Timestamp,
    /// How much is done.
    pub done: u64,
    /// How much there is, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// What is counted.
    pub unit: String,
    /// How many of them were done per second lately, as far as that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// What is being done, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl From<Summary> for ExecutionSummary {
    fn from(shown: Summary) -> Self {
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
            Doing::Ready => ("ready", None),
            Doing::Working => ("working", None),
            Doing::AwaitingCallback => ("awaitingCallback", None),
            Doing::Waiting => ("waiting", None),
            Doing::BackingOff => ("backingOff", None),
            Doing::Gathering { done, total } => ("gathering", Some((done, total))),
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

impl From<Description> for ExecutionBody {
    fn from(shown: Description) -> Self {
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
    fn from(told: TaskProgress) -> Self {
        Self {
            state: told.state,
            task: told.task.0,
            begun_at: Timestamp::from_unix_ms(told.begun_at_ms),
            at: Timestamp::from_unix_ms(told.at_ms),
            done: told.progress.done,
            total: told.progress.total,
            unit: told.progress.unit,
            per_second: told.per_second,
            note: told.progress.note,
        }
    }
}
