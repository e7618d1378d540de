//! `/executions`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use ballast_state_machines::store::limits::PAYLOAD_BYTES_MAX;
use ballast_state_machines::store::{self, HistoryQuery, Query};
use ballast_web::ApiError;
use ballast_web::body::Nothing;
use ballast_web::head::Params;
use ballast_web::page::{self, Page};
use serde::Deserialize;

use super::answer::Answer as Answered;
use super::caller::Viewer;
use super::request::{Change, Id, IdempotencyHeader, Payload, Reason};
use crate::plane::ControlPlane;
use crate::validate;
use crate::workflows::ask::{self, Answer, Cancellation, SignOfLife};
use crate::workflows::body::{ExecutionBody, ExecutionSummary};
use crate::workflows::executions::{self, DefinitionBody, HistoryBody, NewExecution};

/// The longest name of a workflow.
const WORKFLOW_CHARS_MAX: usize = 80;
/// The payload, and what is around it.
const BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 4_096;

impl Payload for NewExecution {
    const BYTES_MAX: usize = BYTES_MAX;
}
impl Payload for Answer {
    const BYTES_MAX: usize = BYTES_MAX;
}
impl Payload for Cancellation {
    const REQUIRED: bool = false;
}
impl Payload for SignOfLife {
    const REQUIRED: bool = false;
}

/// How an execution stands.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Status {
    Running,
    Succeeded,
    Failed,
    TimedOut,
    Aborted,
}

impl From<Status> for store::Status {
    fn from(status: Status) -> Self {
        match status {
            Status::Running => Self::Running,
            Status::Succeeded => Self::Succeeded,
            Status::Failed => Self::Failed,
            Status::TimedOut => Self::TimedOut,
            Status::Aborted => Self::Aborted,
        }
    }
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Filter {
    /// Only those of this workflow.
    #[param(max_length = 80)]
    workflow: Option<String>,
    /// Only those that stand so.
    #[param(inline)]
    status: Option<Status>,
    /// How many at the most; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// List executions, the newest first.
#[utoipa::path(get, path = "/executions", tag = "executions", params(Filter),
    responses((status = 200, body = Page<ExecutionSummary>)))]
pub(super) async fn list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<Filter>,
) -> Result<Json<Page<ExecutionSummary>>, ApiError> {
    let limit = page::limit(filter.limit)?;
    if let Some(workflow) = &filter.workflow {
        validate::length("?workflow", workflow, WORKFLOW_CHARS_MAX)?;
    }
    let query = Query {
        workflow: filter.workflow,
        status: filter.status.map(Into::into),
        before: page::after(filter.cursor.as_deref())?,
        // One more says whether there are more.
        limit: limit as usize + 1,
    };
    let found = executions::list(&plane, &query).await?;
    let page = Page::of(found, limit, |(number, _)| *number);
    Ok(Json(page.map(|(_, body)| body)))
}

/// Start an execution of a workflow. The same workflow, name and input are the
/// same execution: it is answered with 200 as it stands.
#[utoipa::path(post, path = "/executions", tag = "executions",
    params(Reason, IdempotencyHeader), request_body = NewExecution,
    responses((status = 201, body = ExecutionBody), (status = 200, body = ExecutionBody)))]
pub(super) async fn start(
    State(plane): State<ControlPlane>,
    change: Change<NewExecution>,
) -> Answered {
    let started = executions::start(&plane, &change.intent, change.body).await?;
    let status = match started.before {
        true => StatusCode::OK,
        false => StatusCode::CREATED,
    };
    Ok((status, Json(started.body)).into_response())
}

/// Show an execution: where it stands, how far its tasks are, what came of it.
#[utoipa::path(get, path = "/executions/{executionID}", tag = "executions",
    params(("executionID" = String, Path)), responses((status = 200, body = ExecutionBody)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
) -> Result<Json<ExecutionBody>, ApiError> {
    Ok(Json(executions::get(&plane, &id).await?))
}

/// Show the definition that an execution runs.
#[utoipa::path(get, path = "/executions/{executionID}/definition", tag = "executions",
    params(("executionID" = String, Path)), responses((status = 200, body = DefinitionBody)))]
pub(super) async fn definition(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
) -> Result<Json<DefinitionBody>, ApiError> {
    Ok(Json(executions::definition(&plane, &id).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryFilter {
    /// The newest first.
    newest_first: Option<bool>,
    /// How many at the most; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextToken` of the part before.
    cursor: Option<String>,
}

/// Show what happened in an execution, in the shape of Step Functions'
/// `GetExecutionHistory`.
#[utoipa::path(get, path = "/executions/{executionID}/history", tag = "executions",
    params(("executionID" = String, Path), HistoryFilter),
    responses((status = 200, body = HistoryBody)))]
pub(super) async fn history(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
    Params(filter): Params<HistoryFilter>,
) -> Result<Json<HistoryBody>, ApiError> {
    let query = HistoryQuery {
        after: page::after(filter.cursor.as_deref())?,
        newest_first: filter.newest_first.unwrap_or(false),
        limit: page::limit(filter.limit)? as usize,
    };
    Ok(Json(executions::history(&plane, &id, &query).await?))
}

/// Have an execution begin nothing new. What its tasks answer is kept.
#[utoipa::path(post, path = "/executions/{executionID}/pause", tag = "executions",
    params(("executionID" = String, Path), Reason), responses((status = 200, body = ExecutionBody)))]
pub(super) async fn pause(
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
    change: Change<Nothing>,
) -> Result<Json<ExecutionBody>, ApiError> {
    Ok(Json(ask::pause(&plane, &change.intent, &id).await?))
}

/// Have a paused execution go on.
#[utoipa::path(post, path = "/executions/{executionID}/resume", tag = "executions",
    params(("executionID" = String, Path), Reason), responses((status = 200, body = ExecutionBody)))]
pub(super) async fn resume(
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
    change: Change<Nothing>,
) -> Result<Json<ExecutionBody>, ApiError> {
    Ok(Json(ask::resume(&plane, &change.intent, &id).await?))
}

/// End an execution. Its tasks are stopped.
#[utoipa::path(post, path = "/executions/{executionID}/cancel", tag = "executions",
    params(("executionID" = String, Path), Reason), request_body = Option<Cancellation>,
    responses((status = 200, body = ExecutionBody)))]
pub(super) async fn cancel(
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
    change: Change<Cancellation>,
) -> Result<Json<ExecutionBody>, ApiError> {
    let Change { intent, body, .. } = change;
    Ok(Json(ask::cancel(&plane, &intent, &id, body).await?))
}

/// Answer for a task that waits for a signal.
#[utoipa::path(post, path = "/executions/{executionID}/signal", tag = "executions",
    params(("executionID" = String, Path), Reason), request_body = Answer,
    responses((status = 200, body = ExecutionBody)))]
pub(super) async fn signal(
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
    change: Change<Answer>,
) -> Result<Json<ExecutionBody>, ApiError> {
    let Change { intent, body, .. } = change;
    Ok(Json(ask::signal(&plane, &intent, &id, &body).await?))
}

/// Tell that a task which waits for a signal is alive, and how far it is.
#[utoipa::path(post, path = "/executions/{executionID}/heartbeat", tag = "executions",
    params(("executionID" = String, Path), Reason), request_body = Option<SignOfLife>,
    responses((status = 200, body = ExecutionBody)))]
pub(super) async fn heartbeat(
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
    change: Change<SignOfLife>,
) -> Result<Json<ExecutionBody>, ApiError> {
    Ok(Json(ask::heartbeat(&plane, &id, change.body).await?))
}
