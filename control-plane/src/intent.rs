//! Who requests a change, why, and whether to remember the reply.

use ballast_domain::registry::{Precondition, RecordWrite, RegistryCommit};
use ballast_domain::{Actor, Result};
use serde::Serialize;

use crate::idempotency::Idempotency;
use crate::plane::ControlPlane;

/// Who requests a change, and why.
#[derive(Debug, Clone)]
pub struct Intent {
    /// Who requests it.
    pub actor: Actor,
    /// Why, if the caller gave a reason.
    pub reason: Option<String>,
    /// How to remember the reply, if the caller sent an idempotency key.
    pub idempotency: Option<Idempotency>,
}

impl Intent {
    /// A change requested by Ballast itself.
    pub fn ballast(part: &str, reason: &str) -> Self {
        Self {
            actor: Actor::ballast(part),
            reason: Some(reason.to_owned()),
            idempotency: None,
        }
    }

    /// Builds the commit of these writes.
    pub fn commit(
        &self,
        action: &'static str,
        writes: Vec<RecordWrite>,
        expects: Vec<Precondition>,
    ) -> RegistryCommit {
        RegistryCommit {
            actor: self.actor.clone(),
            action,
            reason: self.reason.clone(),
            expects,
            writes,
            reply: None,
        }
    }

    /// Builds the commit of a create, including the remembered reply if the caller
    /// sent an idempotency key.
    pub fn create<T: Serialize>(
        &self,
        plane: &ControlPlane,
        action: &'static str,
        writes: Vec<RecordWrite>,
        expects: Vec<Precondition>,
        answer: &T,
    ) -> Result<RegistryCommit> {
        let mut commit = self.commit(action, writes, expects);
        if let Some(idempotency) = &self.idempotency {
            commit.reply = Some(idempotency.seal(plane, answer)?);
        }
        Ok(commit)
    }
}
