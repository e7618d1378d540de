//! `/workflows`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ballast_state_machines::store::limits::DEFINITION_BYTES_MAX;
use ballast_web::ApiError;
use ballast_web::body::EmptyBody;
use ballast_web::head::Params;
use ballast_web::page::{self, Page};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::caller::Viewer;
use super::request::{Change, Id, Payload, Reason};
use crate::plane::ControlPlane;
use crate::workflows::definitions::{self, WorkflowBody, WorkflowDeployed, WorkflowDetail};

/// A definition in the Amazon States Language.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = Document, value_type = Object)]
#[serde(transparent)]
pub(super) struct DefinitionDocument(Map<String, Value>);

impl Payload for DefinitionDocument {
    const BYTES_MAX: usize = DEFINITION_BYTES_MAX;
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WorkflowFilter {
    /// Maximum number of results; 100 when absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// List workflows: built-in and deployed ones.
#[utoipa::path(get, path = "/workflows", operation_id = "listWorkflows",
    tag = "workflows", params(WorkflowFilter),
    responses((status = 200, description = "A page of workflows", body = Page<WorkflowBody>)))]
pub(super) async fn list(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Params(filter): Params<WorkflowFilter>,
) -> Result<Json<Page<WorkflowBody>>, ApiError> {
    let limit = page::page_size(filter.limit)?;
    let after: String = page::parse_cursor(filter.cursor.as_deref())?.unwrap_or_default();
    let found = definitions::list(&plane).await?.into_iter();
    let rest = found
        .filter(|body| body.workflow > after)
        .take(limit as usize + 1);
    Ok(Json(Page::from_items(rest.collect(), limit, |body| {
        body.workflow.clone()
    })))
}

/// Show a workflow with its definition.
#[utoipa::path(get, path = "/workflows/{workflow}", operation_id = "getWorkflow",
    tag = "workflows",
    params(("workflow" = String, Path)),
    responses((status = 200, description = "The workflow", body = WorkflowDetail)))]
pub(super) async fn show(
    _: Viewer,
    State(plane): State<ControlPlane>,
    Id(name): Id<String>,
) -> Result<Json<WorkflowDetail>, ApiError> {
    Ok(Json(definitions::get(&plane, &name).await?))
}

/// Deploy a definition under a name. Running executions keep the definition they
/// began with.
#[utoipa::path(put, path = "/workflows/{workflow}", operation_id = "deployWorkflow",
    tag = "workflows",
    params(("workflow" = String, Path), Reason), request_body = DefinitionDocument,
    responses((status = 200, description = "The deployed workflow", body = WorkflowDeployed)))]
pub(super) async fn deploy(
    State(plane): State<ControlPlane>,
    Id(name): Id<String>,
    change: Change<DefinitionDocument>,
) -> Result<Json<WorkflowDeployed>, ApiError> {
    let Change { intent, body, .. } = change;
    let document = Value::Object(body.0);
    let deployed = definitions::deploy(&plane, &intent, &name, &document).await?;
    Ok(Json(deployed))
}

/// Remove a workflow: no further executions start. Running ones continue.
#[utoipa::path(delete, path = "/workflows/{workflow}", operation_id = "removeWorkflow",
    tag = "workflows",
    params(("workflow" = String, Path), Reason),
    responses((status = 204, description = "The workflow is removed")))]
pub(super) async fn remove(
    State(plane): State<ControlPlane>,
    Id(name): Id<String>,
    change: Change<EmptyBody>,
) -> Result<StatusCode, ApiError> {
    definitions::remove(&plane, &change.intent, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
