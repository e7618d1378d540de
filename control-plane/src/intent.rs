//! Who wants a change, why, and whether the answer is to be remembered.

use ballast_domain::registry::{Commit, Expect, Write};
use ballast_domain::{Actor, Result};
use serde::Serialize;

use crate::idempotency::Idempotency;
use crate::plane::ControlPlane;

/// Who wants a change and why.
#[derive(Debug, Clone)]
pub struct Intent {
    /// Who.
    pub actor: Actor,
    /// Why, if that was said.
    pub reason: Option<String>,
    /// How the answer is remembered, if the caller asked for that.
    pub idempotency: Option<Idempotency>,
}

impl Intent {
    /// Ballast itself wants it.
    pub fn ballast(part: &str, reason: &str) -> Self {
        Self {
            actor: Actor::ballast(part),
            reason: Some(reason.to_owned()),
            idempotency: None,
        }
    }

    /// The commit of these writes.
    pub fn commit(&self, action: &'static str, writes: Vec<Write>, expects: Vec<Expect>) -> Commit {
        Commit {
            actor: self.actor.clone(),
            action,
            reason: self.reason.clone(),
            expects,
            writes,
            reply: None,
        }
    }

    /// The commit of a create, with its answer remembered if the caller asked
    /// for that.
    pub fn create<T: Serialize>(
        &self,
        plane: &ControlPlane,
        action: &'static str,
        writes: Vec<Write>,
        expects: Vec<Expect>,
        answer: &T,
    ) -> Result<Commit> {
        let mut commit = self.commit(action, writes, expects);
        if let Some(idempotency) = &self.idempotency {
            commit.reply = Some(idempotency.seal(plane, answer)?);
        }
        Ok(commit)
    }
}
