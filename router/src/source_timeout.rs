//! A route source with a timeout: a source that does not answer counts as
//! unavailable, so that requests that wait for the same answer go on.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ballast_domain::credential::CredentialHash;
use ballast_domain::moving::MigrationId;
use ballast_domain::registry::{RegistryError, RegistryResult};
use ballast_domain::routes::{
    KeyGrant, RouteInvalidation, RouteSource, ShardRoute, StreamedPosition, TenantRoute,
};
use ballast_domain::{KeyId, ShardId, TenantId, Timestamp};

/// The longest that a request waits for its key or route.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(10);

/// The source, with a timeout on every read.
pub(crate) struct TimeoutSource(pub(crate) Arc<dyn RouteSource>);

async fn with_timeout<T>(
    doing: &'static str,
    asking: impl Future<Output = RegistryResult<T>>,
) -> RegistryResult<T> {
    tokio::time::timeout(SOURCE_TIMEOUT, asking)
        .await
        .unwrap_or_else(|_| {
            tracing::warn!(
                doing,
                seconds = SOURCE_TIMEOUT.as_secs(),
                "no answer in time"
            );
            Err(RegistryError::new(doing, "no answer in time"))
        })
}

#[async_trait]
impl RouteSource for TimeoutSource {
    async fn grant(&self, hash: &CredentialHash) -> RegistryResult<Option<KeyGrant>> {
        with_timeout("read a key", self.0.grant(hash)).await
    }

    async fn tenant(&self, id: &TenantId) -> RegistryResult<Option<Arc<TenantRoute>>> {
        with_timeout("read a tenant's route", self.0.tenant(id)).await
    }

    async fn shard(&self, id: &ShardId) -> RegistryResult<Option<ShardRoute>> {
        with_timeout("read a shard's route", self.0.shard(id)).await
    }

    async fn streamed_back(&self, id: &MigrationId) -> RegistryResult<StreamedPosition> {
        with_timeout("read the progress of a migration", self.0.streamed_back(id)).await
    }

    /// Waiting for changes has no timeout.
    async fn stale_since(&self, revision: u64) -> RegistryResult<(u64, Vec<RouteInvalidation>)> {
        self.0.stale_since(revision).await
    }

    async fn revision(&self) -> RegistryResult<u64> {
        self.0.revision().await
    }

    async fn keys_used(&self, uses: Vec<(KeyId, Timestamp)>) -> RegistryResult<()> {
        self.0.keys_used(uses).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeSource;

    #[tokio::test(start_paused = true)]
    async fn a_source_that_does_not_answer_counts_as_unavailable() {
        let source = Arc::new(FakeSource::default());
        source.fall_silent();
        let patient = TimeoutSource(source);
        let asked = patient.tenant(&"acme".parse().unwrap()).await;
        assert_eq!(asked.unwrap_err().doing, "read a tenant's route");
    }
}
