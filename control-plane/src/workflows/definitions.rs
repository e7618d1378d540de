//! Deployed workflows: built-in ones and those of operators.

use std::collections::BTreeMap;

use ballast_domain::error::suggest_nearest;
use ballast_domain::{Error, ErrorCode, Result, Timestamp};
use ballast_state_machines::definitions::{self as built_in, BuiltInWorkflow};
use ballast_state_machines::engine::{DeployError, Engine, MissingHandlers};
use ballast_state_machines::language::{Definition, DefinitionProblem};
use ballast_state_machines::store::{Deployment, SaveDefinitionError};
use serde::Serialize;
use serde_json::Value;

use super::audit::{self, DeploymentRecord};
use super::{engine, store_unavailable};
use crate::intent::Intent;
use crate::plane::ControlPlane;

/// Maximum number of problems in an error; `workflow check` lists all.
const PROBLEMS_MAX: usize = 100;

/// A workflow.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowBody {
    /// Its name.
    #[schema(example = "move-tenant")]
    pub workflow: String,
    /// Whether it is built in.
    pub built_in: bool,
    /// The comment of its definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Its first state.
    pub start_at: String,
    /// Hash of its definition.
    pub definition_hash: String,
    /// When this definition was deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployed_at: Option<Timestamp>,
    /// Resources without a handler on this instance. With any, it cannot be started.
    pub missing_handlers: Vec<String>,
}

/// A workflow with its definition.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct WorkflowDetail {
    /// The summary, as in lists.
    #[serde(flatten)]
    pub workflow: WorkflowBody,
    /// The definition, in the Amazon States Language.
    #[schema(value_type = Object)]
    pub definition: Value,
}

/// A deployed workflow.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct WorkflowDeployed {
    /// The summary, as in lists.
    #[serde(flatten)]
    pub workflow: WorkflowBody,
    /// Warnings about the definition.
    #[schema(value_type = Vec<Object>)]
    pub problems: Vec<DefinitionProblem>,
}

/// Every workflow, ordered by name.
pub async fn list(plane: &ControlPlane) -> Result<Vec<WorkflowBody>> {
    let engine = engine(plane)?;
    let mut found = BTreeMap::new();
    for known in built_in::ALL {
        if let Some(body) = built_in_body(engine, known) {
            found.insert(known.name.to_owned(), body);
        }
    }
    for deployed in engine.deployed().await.map_err(store_unavailable)? {
        let Some(definition) = engine
            .definition(&deployed.hash)
            .await
            .map_err(store_unavailable)?
        else {
            continue;
        };
        let body = workflow_body(engine, &deployed.name, &deployed.hash, &definition);
        let at = Some(Timestamp::from_unix_ms(deployed.at_ms));
        found.insert(
            deployed.name,
            WorkflowBody {
                deployed_at: at,
                ..body
            },
        );
    }
    Ok(found.into_values().collect())
}

/// One workflow, with its definition.
pub async fn get(plane: &ControlPlane, name: &str) -> Result<WorkflowDetail> {
    let engine = engine(plane)?;
    if let Some(deployed) = find_deployed(engine, name).await? {
        let definition = engine
            .definition(&deployed.hash)
            .await
            .map_err(store_unavailable)?;
        if let Some(definition) = definition {
            let body = workflow_body(engine, name, &deployed.hash, &definition);
            return Ok(WorkflowDetail {
                workflow: WorkflowBody {
                    deployed_at: Some(Timestamp::from_unix_ms(deployed.at_ms)),
                    ..body
                },
                definition: definition.source().clone(),
            });
        }
    }
    let known = BuiltInWorkflow::find(name);
    let read =
        known.and_then(|known| Some((built_in_body(engine, known)?, known.definition().ok()?)));
    match read {
        Some((workflow, definition)) => Ok(WorkflowDetail {
            workflow,
            definition: definition.source().clone(),
        }),
        None => Err(not_found(plane, name).await),
    }
}

/// Deploys a definition under a name.
pub async fn deploy(
    plane: &ControlPlane,
    intent: &Intent,
    name: &str,
    document: &Value,
) -> Result<WorkflowDeployed> {
    let engine = engine(plane)?;
    if BuiltInWorkflow::find(name).is_some() {
        let detail = format!("{name} is built in and cannot be replaced");
        return Err(Error::new(ErrorCode::WorkflowBuiltIn, detail));
    }
    let text = document.to_string();
    // Validate first: rejected definitions leave no trace in the audit log.
    let checked = engine.check_definition(name, &text).map_err(to_error)?;
    let record = DeploymentRecord {
        workflow: name.to_owned(),
        definition_hash: checked.hash.clone(),
    };
    audit::record(plane, intent, "workflow.deploy", &record).await?;
    engine.deploy(name, &text).await.map_err(to_error)?;
    let body = workflow_body(engine, name, &checked.hash, &checked.definition);
    let deployed_at = find_deployed(engine, name).await?;
    Ok(WorkflowDeployed {
        workflow: WorkflowBody {
            deployed_at: deployed_at.map(|deployed| Timestamp::from_unix_ms(deployed.at_ms)),
            ..body
        },
        problems: checked.problems,
    })
}

/// Removes a workflow: no further executions start. Running ones continue.
pub async fn remove(plane: &ControlPlane, intent: &Intent, name: &str) -> Result<()> {
    let engine = engine(plane)?;
    if BuiltInWorkflow::find(name).is_some() {
        let detail = format!("{name} is built in and cannot be removed");
        return Err(Error::new(ErrorCode::WorkflowBuiltIn, detail)
            .with_next_step("Deploy a workflow under another name instead."));
    }
    let Some(known) = find_deployed(engine, name).await? else {
        return Err(not_found(plane, name).await);
    };
    let record = DeploymentRecord {
        workflow: name.to_owned(),
        definition_hash: known.hash,
    };
    audit::record(plane, intent, "workflow.remove", &record).await?;
    engine.withdraw(name).await.map_err(store_unavailable)?;
    Ok(())
}

/// Deploys the built-in workflows that have all their handlers.
pub async fn deploy_built_in(engine: &Engine) -> Result<(), DeployError> {
    for known in built_in::ALL {
        match engine.deploy(known.name, known.text).await {
            Ok(_) | Err(DeployError::NoHandler(_)) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// The deployment of a workflow, if any.
async fn find_deployed(engine: &Engine, name: &str) -> Result<Option<Deployment>> {
    let deployed = engine.deployed().await.map_err(store_unavailable)?;
    Ok(deployed.into_iter().find(|known| known.name == name))
}

/// A built-in workflow, deployed or not.
fn built_in_body(engine: &Engine, known: BuiltInWorkflow) -> Option<WorkflowBody> {
    let definition = known.definition().ok()?;
    let hash = ballast_state_machines::engine::hash_definition(known.text);
    Some(workflow_body(engine, known.name, &hash, &definition))
}

fn workflow_body(engine: &Engine, name: &str, hash: &str, definition: &Definition) -> WorkflowBody {
    WorkflowBody {
        workflow: name.to_owned(),
        built_in: BuiltInWorkflow::find(name).is_some(),
        comment: definition.comment().map(str::to_owned),
        start_at: definition.start_at().to_owned(),
        definition_hash: hash.to_owned(),
        deployed_at: None,
        missing_handlers: engine.missing_handlers(definition),
    }
}

pub(super) async fn not_found(plane: &ControlPlane, name: &str) -> Error {
    let known = list(plane).await.unwrap_or_default();
    let near = suggest_nearest(name, known.iter().map(|known| known.workflow.as_str()));
    let detail = format!("there is no workflow {name:?}{near}");
    Error::new(ErrorCode::WorkflowNotFound, detail)
}

pub(super) fn no_handler(missing: &MissingHandlers) -> Error {
    let detail = format!("there is no handler for {}", missing.resources.join(", "));
    Error::new(ErrorCode::NoHandler, detail)
}

fn to_error(error: DeployError) -> Error {
    match error {
        DeployError::BadName(bad) => Error::invalid_field("path", bad.to_string()),
        DeployError::NoHandler(missing) => no_handler(&missing),
        DeployError::Invalid { problems } | DeployError::Unfilled { unfilled: problems } => {
            let first = problems.first().map(ToString::to_string);
            let more = match problems.len() {
                0 | 1 => String::new(),
                many => format!(" (and {} more)", many - 1),
            };
            let detail = format!("{}{more}", first.unwrap_or_default());
            let error = Error::new(ErrorCode::InvalidDefinition, detail);
            problems
                .into_iter()
                .take(PROBLEMS_MAX)
                .fold(error, |error, problem| {
                    error.with_field(&problem.path, problem.message)
                })
        }
        DeployError::Save(SaveDefinitionError::InvalidRecord(unfit)) => {
            Error::invalid_field("", unfit.to_string())
        }
        DeployError::Save(SaveDefinitionError::Store(source)) => store_unavailable(source),
        DeployError::Save(other) => Error::internal("keep a definition", other),
    }
}
