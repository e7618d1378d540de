//! Executions: start, list, show.

use ballast_domain::registry::RecordKind;
use ballast_domain::{Error, ErrorCode, Result};
use ballast_state_machines::core::HistoryEvent;
use ballast_state_machines::engine::StartError;
use ballast_state_machines::store::{CreateError, ExecutionQuery, HistoryQuery};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::audit::{self, CommandRecord};
use super::body::{ExecutionBody, ExecutionSummary};
use super::{definitions, engine, store_unavailable};
use crate::intent::Intent;
use crate::plane::ControlPlane;

/// A request to start an execution.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewExecution {
    /// The workflow.
    #[schema(min_length = 1, max_length = 80)]
    pub workflow: String,
    /// Its name within the workflow: the same name and input are the same execution.
    /// Generated when absent.
    #[schema(min_length = 1, max_length = 80)]
    pub name: Option<String>,
    /// Its input; `{}` when absent.
    #[serde(default = "empty_object")]
    #[schema(value_type = Option<Value>)]
    pub input: Value,
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}

/// An execution, and whether it already existed.
#[derive(Debug, Clone)]
pub struct StartedExecution {
    /// The execution.
    pub body: ExecutionBody,
    /// Whether it already existed.
    pub before: bool,
}

/// The definition that an execution runs.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionBody {
    /// Its hash.
    pub definition_hash: String,
    /// The definition, in the Amazon States Language.
    #[schema(value_type = Object)]
    pub definition: Value,
}

/// A page of a history, in the format of `GetExecutionHistory`.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryBody {
    /// The events.
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<HistoryEvent>,
    /// The `cursor` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_token: Option<String>,
}

/// Starts an execution. Starting the same one again returns the existing one.
pub async fn start(
    plane: &ControlPlane,
    intent: &Intent,
    new: NewExecution,
) -> Result<StartedExecution> {
    let engine = engine(plane)?;
    let name = match (&new.name, &intent.idempotency) {
        (Some(name), _) => name.clone(),
        // The same idempotency key means the same execution.
        (None, Some(idempotency)) => format!("key-{}", idempotency.id()),
        (None, None) => random_name(plane),
    };
    let id = format!("{}:{name}", new.workflow);
    let found = engine.get(&id).await.map_err(store_unavailable)?;
    let before = found.is_some();
    // Return an existing execution even if its workflow was removed.
    if let Some(found) = found.filter(|found| found.input == new.input) {
        return Ok(StartedExecution {
            body: found.into(),
            before,
        });
    }
    if !before {
        let examined = engine.check_start(&new.workflow, &name, &new.input).await;
        if let Err(error) = examined {
            return Err(to_error(plane, &new, error).await);
        }
        record_command(plane, intent, "execution.start", &id, None).await?;
    }
    let started = engine.start(&new.workflow, &name, new.input.clone()).await;
    match started {
        Ok(id) => Ok(StartedExecution {
            body: get(plane, &id).await?,
            before,
        }),
        Err(error) => {
            let by_key = new.name.is_none() && intent.idempotency.is_some();
            let error = to_error(plane, &new, error).await;
            Err(match error.code() {
                ErrorCode::ExecutionExists if by_key => Error::new(
                    ErrorCode::IdempotencyMismatch,
                    "this Idempotency-Key was sent before with another input",
                ),
                _ => error,
            })
        }
    }
}

/// A random unique name.
fn random_name(plane: &ControlPlane) -> String {
    let mut bytes = [0; 8];
    plane.entropy().fill(&mut bytes);
    format!("{:016x}", u64::from_be_bytes(bytes))
}

/// Records a command on an execution.
pub(super) async fn record_command(
    plane: &ControlPlane,
    intent: &Intent,
    action: &'static str,
    id: &str,
    state: Option<String>,
) -> Result<()> {
    let verb = action.rsplit('.').next().unwrap_or(action);
    let record = CommandRecord {
        execution_id: id.to_owned(),
        asked: verb.to_owned(),
        state,
    };
    debug_assert!(action.starts_with(RecordKind::Execution.name()));
    audit::record(plane, intent, action, &record).await
}

/// A page of executions, newest first, each with the number that the next page
/// starts before.
pub async fn list(
    plane: &ControlPlane,
    query: &ExecutionQuery,
) -> Result<Vec<(u64, ExecutionSummary)>> {
    let found = engine(plane)?
        .list(query)
        .await
        .map_err(store_unavailable)?;
    let numbered = found.into_iter().map(|row| (row.number, row.into()));
    Ok(numbered.collect())
}

/// One execution.
pub async fn get(plane: &ControlPlane, id: &str) -> Result<ExecutionBody> {
    let found = engine(plane)?.get(id).await.map_err(store_unavailable)?;
    found.map(Into::into).ok_or_else(|| not_found(id))
}

/// The definition that an execution runs.
pub async fn definition(plane: &ControlPlane, id: &str) -> Result<DefinitionBody> {
    let engine = engine(plane)?;
    let found = engine.get(id).await.map_err(store_unavailable)?;
    let hash = found.ok_or_else(|| not_found(id))?.summary.definition;
    let definition = engine.definition(&hash).await.map_err(store_unavailable)?;
    let definition = definition
        .ok_or_else(|| Error::internal("read an execution's definition", "it is not stored"))?;
    Ok(DefinitionBody {
        definition_hash: hash,
        definition: definition.source().clone(),
    })
}

/// A page of an execution's history.
pub async fn history(plane: &ControlPlane, id: &str, query: &HistoryQuery) -> Result<HistoryBody> {
    let found = engine(plane)?
        .history(id, query)
        .await
        .map_err(store_unavailable)?;
    let page = found.ok_or_else(|| not_found(id))?;
    let last = page.last_id.filter(|_| page.more);
    Ok(HistoryBody {
        events: page.events,
        next_token: last.map(ballast_web::page::cursor),
    })
}

pub(super) fn not_found(id: &str) -> Error {
    let detail = format!("there is no execution {id:?}");
    Error::new(ErrorCode::ExecutionNotFound, detail)
}

async fn to_error(plane: &ControlPlane, new: &NewExecution, error: StartError) -> Error {
    match error {
        StartError::BadName(bad) => {
            let field = if bad.name == new.workflow {
                "/workflow"
            } else {
                "/name"
            };
            Error::invalid_field(field, bad.to_string())
        }
        StartError::NoWorkflow { name } => not_deployed(plane, &name).await,
        StartError::NoHandler(missing) => definitions::no_handler(&missing),
        StartError::Create(CreateError::Conflict { id, differs }) => {
            let detail = format!("there is an execution {id:?} already, with another {differs}");
            Error::new(ErrorCode::ExecutionExists, detail)
        }
        StartError::Create(CreateError::InvalidRecord(unfit)) => {
            Error::invalid_field("/input", unfit.to_string())
        }
        StartError::Create(CreateError::Store(source)) | StartError::Store(source) => {
            store_unavailable(source)
        }
        StartError::Stopping => {
            let error = Error::new(ErrorCode::Unavailable, "the engine is stopping");
            error.retry_after(2)
        }
        other => Error::internal("start an execution", other),
    }
}

/// The error for a workflow that is not deployed: a built-in one lacks handlers.
async fn not_deployed(plane: &ControlPlane, name: &str) -> Error {
    match definitions::get(plane, name).await {
        Ok(found) => {
            let resources = found.workflow.missing_handlers;
            definitions::no_handler(&ballast_state_machines::engine::MissingHandlers { resources })
        }
        Err(error) => error,
    }
}
