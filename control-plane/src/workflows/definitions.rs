//! What is deployed: Ballast's own workflows, and those of operators.

use std::collections::BTreeMap;

use ballast_domain::error::did_you_mean;
use ballast_domain::{Error, ErrorCode, Result, Timestamp};
use ballast_state_machines::definitions::{self as built_in, BuiltIn};
use ballast_state_machines::engine::{DeployError, Engine, NoHandler};
use ballast_state_machines::language::{Definition, Problem};
use ballast_state_machines::store::{Deployed, KeepError};
use serde::Serialize;
use serde_json::Value;

use super::audit::{self, DeployedRecord};
use super::{away, engine};
use crate::intent::Intent;
use crate::plane::ControlPlane;

/// More of a broken definition is told by `workflow check`.
const PROBLEMS_TOLD: usize = 100;

/// A workflow.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowBody {
    /// Its name.
    #[schema(example = "move-tenant")]
    pub workflow: String,
    /// Whether it comes with Ballast.
    pub built_in: bool,
    /// What it is for, as its definition says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The state that it begins with.
    pub start_at: String,
    /// What names its definition.
    pub definition_hash: String,
    /// Since when this definition is deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployed_at: Option<Timestamp>,
    /// The resources that nobody does the work of here: with any, it cannot
    /// be started.
    pub missing_handlers: Vec<String>,
}

/// A workflow with its definition.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct WorkflowDetail {
    /// What lists show.
    #[serde(flatten)]
    pub workflow: WorkflowBody,
    /// The definition, in the Amazon States Language.
    #[schema(value_type = Object)]
    pub definition: Value,
}

/// A workflow that was deployed.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct WorkflowDeployed {
    /// What lists show.
    #[serde(flatten)]
    pub workflow: WorkflowBody,
    /// What is worth a second look.
    #[schema(value_type = Vec<Object>)]
    pub problems: Vec<Problem>,
}

/// Every workflow, in the order of the names.
pub async fn list(plane: &ControlPlane) -> Result<Vec<WorkflowBody>> {
    let engine = engine(plane)?;
    let mut found = BTreeMap::new();
    for known in built_in::ALL {
        if let Some(body) = own(engine, known) {
            found.insert(known.name.to_owned(), body);
        }
    }
    for deployed in engine.deployed().await.map_err(away)? {
        let Some(definition) = engine.definition(&deployed.hash).await.map_err(away)? else {
            continue;
        };
        let body = described(engine, &deployed.name, &deployed.hash, &definition);
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
    if let Some(deployed) = deployed(engine, name).await? {
        let definition = engine.definition(&deployed.hash).await.map_err(away)?;
        if let Some(definition) = definition {
            let body = described(engine, name, &deployed.hash, &definition);
            return Ok(WorkflowDetail {
                workflow: WorkflowBody {
                    deployed_at: Some(Timestamp::from_unix_ms(deployed.at_ms)),
                    ..body
                },
                definition: definition.source().clone(),
            });
        }
    }
    let known = BuiltIn::find(name);
    let read = known.and_then(|known| Some((own(engine, known)?, known.definition().ok()?)));
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
    if BuiltIn::find(name).is_some() {
        let detail = format!("{name} comes with Ballast and is not replaced");
        return Err(Error::new(ErrorCode::WorkflowBuiltIn, detail));
    }
    let text = document.to_string();
    // What is refused leaves no trace in the audit log.
    let examined = engine.examine(name, &text).map_err(refused)?;
    let record = DeployedRecord {
        workflow: name.to_owned(),
        definition_hash: examined.hash.clone(),
    };
    audit::note(plane, intent, "workflow.deploy", &record).await?;
    engine.deploy(name, &text).await.map_err(refused)?;
    let body = described(engine, name, &examined.hash, &examined.definition);
    let deployed_at = deployed(engine, name).await?;
    Ok(WorkflowDeployed {
        workflow: WorkflowBody {
            deployed_at: deployed_at.map(|deployed| Timestamp::from_unix_ms(deployed.at_ms)),
            ..body
        },
        problems: examined.problems,
    })
}

/// Takes a workflow away: nothing is started under its name any more.
/// Executions that are on their way go on.
pub async fn remove(plane: &ControlPlane, intent: &Intent, name: &str) -> Result<()> {
    let engine = engine(plane)?;
    if BuiltIn::find(name).is_some() {
        let detail = format!("{name} comes with Ballast and stays");
        return Err(Error::new(ErrorCode::WorkflowBuiltIn, detail).next("Leave it alone."));
    }
    let Some(known) = deployed(engine, name).await? else {
        return Err(not_found(plane, name).await);
    };
    let record = DeployedRecord {
        workflow: name.to_owned(),
        definition_hash: known.hash,
    };
    audit::note(plane, intent, "workflow.remove", &record).await?;
    engine.withdraw(name).await.map_err(away)?;
    Ok(())
}

/// Deploys those of Ballast's own workflows that there are handlers for.
pub async fn deploy_own(engine: &Engine) -> Result<(), DeployError> {
    for known in built_in::ALL {
        match engine.deploy(known.name, known.text).await {
            Ok(_) | Err(DeployError::NoHandler(_)) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// What a workflow's name stands for.
async fn deployed(engine: &Engine, name: &str) -> Result<Option<Deployed>> {
    let deployed = engine.deployed().await.map_err(away)?;
    Ok(deployed.into_iter().find(|known| known.name == name))
}

/// One of Ballast's own, deployed or not.
fn own(engine: &Engine, known: BuiltIn) -> Option<WorkflowBody> {
    let definition = known.definition().ok()?;
    let hash = ballast_state_machines::engine::hash(known.text);
    Some(described(engine, known.name, &hash, &definition))
}

fn described(engine: &Engine, name: &str, hash: &str, definition: &Definition) -> WorkflowBody {
    WorkflowBody {
        workflow: name.to_owned(),
        built_in: BuiltIn::find(name).is_some(),
        comment: definition.comment().map(str::to_owned),
        start_at: definition.start_at().to_owned(),
        definition_hash: hash.to_owned(),
        deployed_at: None,
        missing_handlers: engine.missing_handlers(definition),
    }
}

pub(super) async fn not_found(plane: &ControlPlane, name: &str) -> Error {
    let known = list(plane).await.unwrap_or_default();
    let near = did_you_mean(name, known.iter().map(|known| known.workflow.as_str()));
    let detail = format!("there is no workflow {name:?}{near}");
    Error::new(ErrorCode::WorkflowNotFound, detail)
}

pub(super) fn no_handler(missing: &NoHandler) -> Error {
    let detail = format!(
        "no handler does the work of {}",
        missing.resources.join(", ")
    );
    Error::new(ErrorCode::NoHandler, detail)
}

fn refused(error: DeployError) -> Error {
    match error {
        DeployError::BadName(bad) => Error::invalid_field("path", bad.to_string()),
        DeployError::NoHandler(missing) => no_handler(&missing),
        DeployError::Invalid { problems } | DeployError::Unfilled { unfilled: problems } => {
            let told = problems.first().map(ToString::to_string);
            let more = match problems.len() {
                0 | 1 => String::new(),
                many => format!(" (and {} more)", many - 1),
            };
            let detail = format!("{}{more}", told.unwrap_or_default());
            let error = Error::new(ErrorCode::InvalidDefinition, detail);
            problems
                .into_iter()
                .take(PROBLEMS_TOLD)
                .fold(error, |error, problem| {
                    error.at(&problem.path, problem.message)
                })
        }
        DeployError::Keep(KeepError::Unfit(unfit)) => Error::invalid_field("", unfit.to_string()),
        DeployError::Keep(KeepError::Store(source)) => away(source),
        DeployError::Keep(other) => Error::internal("keep a definition", other),
    }
}
