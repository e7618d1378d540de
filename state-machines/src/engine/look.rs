//! What an engine knows besides single executions: definitions, counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Engine, view};
use crate::language::Definition;
use crate::store::{Deployed, StoreError, StoreResult};

impl Engine {
    /// What is deployed, in the order of the names.
    pub async fn deployed(&self) -> StoreResult<Vec<Deployed>> {
        self.shared.store.deployed().await
    }

    /// Has a workflow's name stand for nothing any more; whether it stood for
    /// something. Executions that are on their way go on.
    pub async fn withdraw(&self, name: &str) -> StoreResult<bool> {
        self.shared.store.withdraw(name).await
    }

    /// Whether the store would take a write, as far as it knows.
    pub async fn check(&self) -> StoreResult<()> {
        self.shared.store.check().await
    }

    /// A definition by its hash; `None` if it is not kept.
    pub async fn definition(&self, hash: &str) -> StoreResult<Option<Arc<Definition>>> {
        let found = self.shared.definition(hash).await?;
        found
            .transpose()
            .map_err(|cause| StoreError::new("read a definition", cause))
    }

    /// The resources of a definition that nobody here does the work of.
    #[must_use]
    pub fn missing_handlers(&self, definition: &Definition) -> Vec<String> {
        self.shared.registry.missing(definition)
    }

    /// How many executions there are of each status.
    pub async fn counts(&self) -> StoreResult<BTreeMap<&'static str, u64>> {
        let counts = self.shared.store.counts().await?;
        let named = counts
            .into_iter()
            .map(|(status, count)| (view::status(status).as_str(), count));
        Ok(named.collect())
    }

    /// Forgets executions that ended before a time, in milliseconds since
    /// 1970; how many it were.
    pub async fn forget_ended(&self, before_ms: i64) -> StoreResult<u64> {
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
