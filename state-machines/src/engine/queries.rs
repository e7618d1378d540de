//! Queries about definitions and counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Engine, view};
use crate::language::Definition;
use crate::store::{Deployment, ExecutionStoreError, ExecutionStoreResult};

impl Engine {
    /// The deployed workflows, ordered by name.
    pub async fn deployed(&self) -> ExecutionStoreResult<Vec<Deployment>> {
        self.shared.store.deployed().await
    }

    /// Withdraws a workflow's deployment; returns whether there was one. Running
    /// executions continue.
    pub async fn withdraw(&self, name: &str) -> ExecutionStoreResult<bool> {
        self.shared.store.withdraw(name).await
    }

    /// Whether the store accepts writes, as far as it knows.
    pub async fn check(&self) -> ExecutionStoreResult<()> {
        self.shared.store.check().await
    }

    /// A definition by its hash; `None` if the store does not have it.
    pub async fn definition(&self, hash: &str) -> ExecutionStoreResult<Option<Arc<Definition>>> {
        let found = self.shared.load_definition(hash).await?;
        found
            .transpose()
            .map_err(|cause| ExecutionStoreError::new("read a definition", cause))
    }

    /// The resources of a definition that have no handler in this engine.
    #[must_use]
    pub fn missing_handlers(&self, definition: &Definition) -> Vec<String> {
        self.shared.registry.missing(definition)
    }

    /// How many executions have each status.
    pub async fn counts(&self) -> ExecutionStoreResult<BTreeMap<&'static str, u64>> {
        let counts = self.shared.store.counts().await?;
        let named = counts
            .into_iter()
            .map(|(status, count)| (view::from_stored_status(status).as_str(), count));
        Ok(named.collect())
    }

    /// Deletes executions that ended before a time in milliseconds since 1970;
    /// returns how many.
    pub async fn forget_ended(&self, before_ms: i64) -> ExecutionStoreResult<u64> {
        const AT_ONCE: usize = 1_000;
        let mut all = 0;
        loop {
            match self.shared.store.forget_ended(before_ms, AT_ONCE).await? {
                0 => return Ok(all),
                some => all += some,
            }
        }
    }
}
