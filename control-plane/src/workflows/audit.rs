//! Who asked what of which workflow or execution. The engine keeps what
//! happens; who wanted it is written here, before it happens, as every other
//! change is: into the registry, whose events are the audit log.

use ballast_domain::registry::{CommitError, Entity, Kind};
use ballast_domain::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};

use crate::change::commit_failed;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;

const ATTEMPTS: usize = 16;

/// What is known of a workflow's deployments.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeployedRecord {
    pub(super) workflow: String,
    pub(super) definition_hash: String,
}

impl Entity for DeployedRecord {
    const KIND: Kind = Kind::Workflow;
    fn record_id(&self) -> &str {
        &self.workflow
    }
    fn terms(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What was last asked of an execution.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AskedRecord {
    #[serde(rename = "executionID")]
    pub(super) execution_id: String,
    pub(super) asked: String,
    /// The state whose task was answered for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) state: Option<String>,
}

impl Entity for AskedRecord {
    const KIND: Kind = Kind::Execution;
    fn record_id(&self) -> &str {
        &self.execution_id
    }
    fn terms(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Writes down that something is asked.
pub(super) async fn note<T: Entity>(
    plane: &ControlPlane,
    intent: &Intent,
    action: &'static str,
    record: &T,
) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let old = typed::get::<T>(plane.registry(), record.record_id()).await?;
        let write = match old {
            Some(old) => typed::update(old.version, record)?,
            None => typed::create(record, Vec::new())?,
        };
        let commit = intent.commit(action, vec![write], Vec::new());
        match plane.registry().commit(commit).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { .. }) => {}
            Err(other) => return Err(commit_failed(other)),
        }
    }
    let error = Error::new(
        ErrorCode::Busy,
        "others ask things of it at the same time, again and again",
    );
    Err(error.retry_after(1))
}
