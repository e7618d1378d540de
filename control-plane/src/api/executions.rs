//! `/executions`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use ballast_state_machines::store::limits::PAYLOAD_BYTES_MAX;
use ballast_state_machines::store::{self, ExecutionQuery, HistoryQuery};
use ballast_web::ApiError;
use ballast_web::body::EmptyBody;
use ballast_web::head::Params;
use ballast_web::page::{self, Page};
use serde::Deserialize;

use super::caller::Viewer;
use super::request::{Change, Id, IdempotencyHeader, Payload, Reason};
use super::response::ApiResponse as Answered;
use crate::plane::ControlPlane;
use crate::validate;
use crate::workflows::body::{ExecutionBody, ExecutionSummary};
use crate::workflows::commands::{self, Cancellation, HeartbeatRequest, SignalRequest};
use crate::workflows::executions::{self, DefinitionBody, HistoryBody, NewExecution};

/// Maximum length of a workflow's name.
const WORKFLOW_CHARS_MAX: usize = 80;
/// The payload and its envelope.
const BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 4_096;

impl Payload for NewExecution {
    const BYTES_MAX: usize = BYTES_MAX;
}
impl Payload for SignalRequest {
    const BYTES_MAX: usize = BYTES_MAX;
}
impl Payload for Cancellation {
    const REQUIRED: bool = false;
}
impl Payload for HeartbeatRequest {
    const REQUIRED: bool = false;
}

/// The status of an execution.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schema(as = Status)]
pub(super) enum ExecutionStatus {
    Running,
    Succeeded,
    Failed,
    TimedOut,
    Aborted,
}

impl From<ExecutionStatus> for store::StoredStatus {
    fn from(status: ExecutionStatus) -> Self {
        match status {
            ExecutionStatus::Running => Self::Running,
            ExecutionStatus::Succeeded => Self::Succeeded,
            ExecutionStatus::Failed => Self::Failed,
            ExecutionStatus::TimedOut => Self::TimedOut,
            ExecutionStatus::Aborted => Self::Aborted,
        }
    }
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExecutionFilter {
    /// Only executions of this workflow.
    #[param(max_length = 80)]
    workflow: Option<String>,
    /// Only executions with this status.
    #[param(inline)]
    status: Option<ExecutionStatus>,
    /// Maximum number of results; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// List executions, newest first.
#[utoipa::path(get, path = "/executions", operation_id = "listExecutions",
    tag = "executions", params(ExecutionFilter),
    responses((status = 200, description = "A page of executions", body = Page<ExecutionSummary>)))]
pub(super) async fn list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<ExecutionFilter>,
) -> Result<Json<Page<ExecutionSummary>>, ApiError> {
    let limit = page::page_size(filter.limit)?;
    if let Some(workflow) = &filter.workflow {
        validate::length("?workflow", workflow, WORKFLOW_CHARS_MAX)?;
    }
    let query = ExecutionQuery {
        workflow: filter.workflow,
        status: filter.status.map(Into::into),
        before: page::parse_cursor(filter.cursor.as_deref())?,
        // Request one more to learn whether there is another page.
        limit: limit as usize + 1,
    };
    let found = executions::list(&plane, &query).await?;
    let page = Page::from_items(found, limit, |(number, _)| *number);
    Ok(Json(page.map(|(_, body)| body)))
}

/// Start an execution of a workflow. The same workflow, name and input are the
/// same execution; then the response is 200 with its current state.
#[utoipa::path(post, path = "/executions", operation_id = "startExecution",
    tag = "executions",
    params(Reason, IdempotencyHeader), request_body = NewExecution,
    responses((status = 201, description = "The new execution", body = ExecutionBody),
        (status = 200, description = "The execution, which was started before",
        body = ExecutionBody)))]
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

/// Show an execution: its position, the progress of its tasks, its result.
#[utoipa::path(get, path = "/executions/{executionID}", operation_id = "getExecution",
    tag = "executions",
    params(("executionID" = String, Path)),
    responses((status = 200, description = "The execution", body = ExecutionBody)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
) -> Result<Json<ExecutionBody>, ApiError> {
    Ok(Json(executions::get(&plane, &id).await?))
}

/// Show the definition that an execution runs.
#[utoipa::path(get, path = "/executions/{executionID}/definition",
    operation_id = "getExecutionDefinition",
    tag = "executions",
    params(("executionID" = String, Path)),
    responses((status = 200, description = "The definition", body = DefinitionBody)))]
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
    /// Newest first.
    newest_first: Option<bool>,
    /// Maximum number of results; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextToken` of the previous page.
    cursor: Option<String>,
}

/// Show the history of an execution, in the format of Step Functions'
/// `GetExecutionHistory`.
#[utoipa::path(get, path = "/executions/{executionID}/history",
    operation_id = "getExecutionHistory",
    tag = "executions",
    params(("executionID" = String, Path), HistoryFilter),
    responses((status = 200, description = "A page of history events", body = HistoryBody)))]
pub(super) async fn history(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
    Params(filter): Params<HistoryFilter>,
) -> Result<Json<HistoryBody>, ApiError> {
    let query = HistoryQuery {
        after: page::parse_cursor(filter.cursor.as_deref())?,
        newest_first: filter.newest_first.unwrap_or(false),
        limit: page::page_size(filter.limit)? as usize,
    };
    Ok(Json(executions::history(&plane, &id, &query).await?))
}

/// Pause an execution: it begins nothing new. Results of running tasks are kept.
#[utoipa::path(post, path = "/executions/{executionID}/pause", operation_id = "pauseExecution",
    tag = "executions",
    params(("executionID" = String, Path), Reason),
    responses((status = 200, description = "The paused execution", body = ExecutionBody)))]
pub(super) async fn pause(
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
    change: Change<EmptyBody>,
) -> Result<Json<ExecutionBody>, ApiError> {
    Ok(Json(commands::pause(&plane, &change.intent, &id).await?))
}

/// Resume a paused execution.
#[utoipa::path(post, path = "/executions/{executionID}/resume", operation_id = "resumeExecution",
    tag = "executions",
    params(("executionID" = String, Path), Reason),
    responses((status = 200, description = "The resumed execution", body = ExecutionBody)))]
pub(super) async fn resume(
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
    change: Change<EmptyBody>,
) -> Result<Json<ExecutionBody>, ApiError> {
    Ok(Json(commands::resume(&plane, &change.intent, &id).await?))
}

/// Cancel an execution. Its tasks are stopped.
#[utoipa::path(post, path = "/executions/{executionID}/cancel", operation_id = "cancelExecution",
    tag = "executions",
    params(("executionID" = String, Path), Reason), request_body = Option<Cancellation>,
    responses((status = 200, description = "The cancelled execution", body = ExecutionBody)))]
pub(super) async fn cancel(
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
    change: Change<Cancellation>,
) -> Result<Json<ExecutionBody>, ApiError> {
    let Change { intent, body, .. } = change;
    Ok(Json(commands::cancel(&plane, &intent, &id, body).await?))
}

/// Send the result of a task that waits for a signal.
#[utoipa::path(post, path = "/executions/{executionID}/signal", operation_id = "signalExecution",
    tag = "executions",
    params(("executionID" = String, Path), Reason), request_body = SignalRequest,
    responses((status = 200, description = "The execution with the result", body = ExecutionBody)))]
pub(super) async fn signal(
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
    change: Change<SignalRequest>,
) -> Result<Json<ExecutionBody>, ApiError> {
    let Change { intent, body, .. } = change;
    Ok(Json(commands::signal(&plane, &intent, &id, &body).await?))
}

/// Send a heartbeat, with progress, for a task that waits for a signal.
#[utoipa::path(post, path = "/executions/{executionID}/heartbeat", operation_id = "sendHeartbeat",
    tag = "executions",
    params(("executionID" = String, Path), Reason), request_body = Option<HeartbeatRequest>,
    responses((status = 200, description = "The execution with the progress",
        body = ExecutionBody)))]
pub(super) async fn heartbeat(
    State(plane): State<ControlPlane>,
    Id(id): Id<String>,
    change: Change<HeartbeatRequest>,
) -> Result<Json<ExecutionBody>, ApiError> {
    Ok(Json(commands::heartbeat(&plane, &id, change.body).await?))
}
