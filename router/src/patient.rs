//! Routes from a source that may not answer at all: it is asked for so long,
//! then it counts as away. Whoever waits behind the question goes on too.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ballast_domain::credential::CredentialHash;
use ballast_domain::moving::MoveId;
use ballast_domain::registry::{StoreError, StoreResult};
use ballast_domain::routes::{Grant, RouteSource, ShardRoute, Stale, Streamed, TenantRoute};
use ballast_domain::{KeyId, ShardId, TenantId, Timestamp};

/// A request waits no longer than this for what its key or route is.
const PATIENCE: Duration = Duration::from_secs(10);

/// The source, asked with patience.
pub(crate) struct Patient(pub(crate) Arc<dyn RouteSource>);

async fn in_time<T>(
    doing: &'static str,
    asking: impl Future<Output = StoreResult<T>>,
) -> StoreResult<T> {
    tokio::time::timeout(PATIENCE, asking)
        .await
        .unwrap_or_else(|_| {
            tracing::warn!(doing, seconds = PATIENCE.as_secs(), "no answer in time");
            Err(StoreError::new(doing, "no answer in time"))
        })
}

#[async_trait]
impl RouteSource for Patient {
    async fn grant(&self, hash: &CredentialHash) -> StoreResult<Option<Grant>> {
        in_time("read a key", self.0.grant(hash)).await
    }

    async fn tenant(&self, id: &TenantId) -> StoreResult<Option<Arc<TenantRoute>>> {
        in_time("read a tenant's route", self.0.tenant(id)).await
    }

    async fn shard(&self, id: &ShardId) -> StoreResult<Option<ShardRoute>> {
        in_time("read a shard's route", self.0.shard(id)).await
    }

    async fn streamed_back(&self, id: &MoveId) -> StoreResult<Streamed> {
        in_time("read how far a move is", self.0.streamed_back(id)).await
    }

    /// Waiting is what this is for.
    async fn stale_since(&self, revision: u64) -> StoreResult<(u64, Vec<Stale>)> {
        self.0.stale_since(revision).await
    }

    async fn revision(&self) -> StoreResult<u64> {
        self.0.revision().await
    }

    async fn keys_used(&self, uses: Vec<(KeyId, Timestamp)>) -> StoreResult<()> {
        self.0.keys_used(uses).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeSource;

    #[tokio::test(start_paused = true)]
    async fn a_source_that_does_not_answer_counts_as_away() {
        let source = Arc::new(FakeSource::default());
        source.fall_silent();
        let patient = Patient(source);
        let asked = patient.tenant(&"acme".parse().unwrap()).await;
        assert_eq!(asked.unwrap_err().doing, "read a tenant's route");
    }
}
