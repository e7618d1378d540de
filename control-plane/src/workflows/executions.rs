//! Executions: started, listed, shown.

use ballast_domain::registry::Kind;
use ballast_domain::{Error, ErrorCode, Result};
use ballast_state_machines::core::HistoryEvent;
use ballast_state_machines::engine::StartError;
use ballast_state_machines::store::{CreateError, HistoryQuery, Query};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::audit::{self, AskedRecord};
use super::body::{ExecutionBody, ExecutionSummary};
use super::{away, definitions, engine};
use crate::intent::Intent;
use crate::plane::ControlPlane;

/// What a caller says of an execution to be started.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewExecution {
    /// The workflow.
    #[schema(min_length = 1, max_length = 80)]
    pub workflow: String,
    /// Its name among the executions of the workflow: the same name and input
    /// are the same execution. One is made up when absent.
    #[schema(min_length = 1, max_length = 80)]
    pub name: Option<String>,
    /// What it is given; `{}` when absent.
    #[serde(default = "nothing")]
    #[schema(value_type = Option<Value>)]
    pub input: Value,
}

fn nothing() -> Value {
    Value::Object(serde_json::Map::new())
}

/// An execution, and whether it was there before.
#[derive(Debug, Clone)]
pub struct Started {
    /// The execution.
    pub body: ExecutionBody,
    /// Whether it was there before.
    pub before: bool,
}

/// The definition that an execution runs.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionBody {
    /// What names it.
    pub definition_hash: String,
    /// The definition, in the Amazon States Language.
    #[schema(value_type = Object)]
    pub definition: Value,
}

/// A part of a history, in the shape of `GetExecutionHistory`.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryBody {
    /// What happened.
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<HistoryEvent>,
    /// What to send as `cursor` for the next part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_token: Option<String>,
}

/// Starts an execution; the same one again is answered with what is there.
pub async fn start(plane: &ControlPlane, intent: &Intent, new: NewExecution) -> Result<Started> {
    let engine = engine(plane)?;
    let name = match (&new.name, &intent.idempotency) {
        (Some(name), _) => name.clone(),
        // Repeated under the same key it is the same execution.
        (None, Some(idempotency)) => format!("key-{}", idempotency.id()),
        (None, None) => random_name(plane),
    };
    let id = format!("{}:{name}", new.workflow);
    let found = engine.get(&id).await.map_err(away)?;
    let before = found.is_some();
    // What is there is answered, also when its workflow was taken away since.
    if let Some(found) = found.filter(|found| found.input == new.input) {
        return Ok(Started {
            body: found.into(),
            before,
        });
    }
    if !before {
        let examined = engine.may_start(&new.workflow, &name, &new.input).await;
        if let Err(error) = examined {
            return Err(refused(plane, &new, error).await);
        }
        asked(plane, intent, "execution.start", &id, None).await?;
    }
    let started = engine.start(&new.workflow, &name, new.input.clone()).await;
    match started {
        Ok(id) => Ok(Started {
            body: get(plane, &id).await?,
            before,
        }),
        Err(error) => {
            let by_key = new.name.is_none() && intent.idempotency.is_some();
            let error = refused(plane, &new, error).await;
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

/// A name that nobody else comes upon, and that sorts by nothing.
fn random_name(plane: &ControlPlane) -> String {
    let mut bytes = [0; 8];
    plane.entropy().fill(&mut bytes);
    format!("{:016x}", u64::from_be_bytes(bytes))
}

/// Writes down that something is asked of an execution.
pub(super) async fn asked(
    plane: &ControlPlane,
    intent: &Intent,
    action: &'static str,
    id: &str,
    state: Option<String>,
) -> Result<()> {
    let verb = action.rsplit('.').next().unwrap_or(action);
    let record = AskedRecord {
        execution_id: id.to_owned(),
        asked: verb.to_owned(),
        state,
    };
    debug_assert!(action.starts_with(Kind::Execution.name()));
    audit::note(plane, intent, action, &record).await
}

/// A page of executions, the newest first; each with the number that the next
/// page begins before.
pub async fn list(plane: &ControlPlane, query: &Query) -> Result<Vec<(u64, ExecutionSummary)>> {
    let found = engine(plane)?.list(query).await.map_err(away)?;
    let numbered = found.into_iter().map(|row| (row.number, row.into()));
    Ok(numbered.collect())
}

/// One execution.
pub async fn get(plane: &ControlPlane, id: &str) -> Result<ExecutionBody> {
    let found = engine(plane)?.get(id).await.map_err(away)?;
    found.map(Into::into).ok_or_else(|| not_found(id))
}

/// The definition that an execution runs.
pub async fn definition(plane: &ControlPlane, id: &str) -> Result<DefinitionBody> {
    let engine = engine(plane)?;
    let found = engine.get(id).await.map_err(away)?;
    let hash = found.ok_or_else(|| not_found(id))?.summary.definition;
    let definition = engine.definition(&hash).await.map_err(away)?;
    let definition = definition
        .ok_or_else(|| Error::internal("read an execution's definition", "it is not kept"))?;
    Ok(DefinitionBody {
        definition_hash: hash,
        definition: definition.source().clone(),
    })
}

/// A part of an execution's history.
pub async fn history(plane: &ControlPlane, id: &str, query: &HistoryQuery) -> Result<HistoryBody> {
    let found = engine(plane)?.history(id, query).await.map_err(away)?;
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

async fn refused(plane: &ControlPlane, new: &NewExecution, error: StartError) -> Error {
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
        StartError::Create(CreateError::Unfit(unfit)) => {
            Error::invalid_field("/input", unfit.to_string())
        }
        StartError::Create(CreateError::Store(source)) | StartError::Store(source) => away(source),
        StartError::Stopping => {
            let error = Error::new(ErrorCode::Unavailable, "the engine is stopping");
            error.retry_after(2)
        }
        other => Error::internal("start an execution", other),
    }
}

/// A workflow of Ballast's own that nobody does the work of is there, and is
/// not deployed.
async fn not_deployed(plane: &ControlPlane, name: &str) -> Error {
    match definitions::get(plane, name).await {
        Ok(found) => {
            let resources = found.workflow.missing_handlers;
            definitions::no_handler(&ballast_state_machines::engine::NoHandler { resources })
        }
        Err(error) => error,
    }
}
