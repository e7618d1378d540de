//! Audit records of commands on workflows and executions. The engine records what
//! happens; the actor is recorded here, beforehand, in the registry, whose events
//! are the audit log.

use ballast_domain::registry::{CommitError, Entity, RecordKind};
use ballast_domain::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};

use crate::change::commit_failed;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;

const ATTEMPTS: usize = 16;

/// The last deployment of a workflow.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeploymentRecord {
    pub(super) workflow: String,
    pub(super) definition_hash: String,
}

impl Entity for DeploymentRecord {
    const KIND: RecordKind = RecordKind::Workflow;
    fn record_id(&self) -> &str {
        &self.workflow
    }
    fn terms(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The last command on an execution.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandRecord {
    #[serde(rename = "executionID")]
    pub(super) execution_id: String,
    pub(super) asked: String,
    /// The state whose task a signal is for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) state: Option<String>,
}

impl Entity for CommandRecord {
    const KIND: RecordKind = RecordKind::Execution;
    fn record_id(&self) -> &str {
        &self.execution_id
    }
    fn terms(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Records a command.
pub(super) async fn record<T: Entity>(
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
    let error = Error::new(ErrorCode::Busy, "too many concurrent commands");
    Err(error.retry_after(1))
}
