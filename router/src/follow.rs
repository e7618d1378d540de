//! Background tasks of the router: follows the change feed of the route source to
//! invalidate caches, and reports when keys were last used.

use std::time::Duration;

use ballast_domain::registry::RegistryError;
use ballast_domain::routes::RouteInvalidation;

use crate::RouterState;

/// The pause after the source failed.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// How often uses of keys are reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Runs both tasks, from `revision` on, until the future is dropped.
pub async fn follow(state: RouterState, revision: u64) {
    tokio::join!(
        follow_invalidations(&state, revision),
        report_key_uses(&state)
    );
}

async fn follow_invalidations(state: &RouterState, mut revision: u64) {
    loop {
        match apply_invalidations(state, revision).await {
            Ok(next) => revision = next,
            Err(error) => {
                tracing::warn!(%error, "the route source is unavailable; serving cached routes");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

async fn apply_invalidations(state: &RouterState, revision: u64) -> Result<u64, RegistryError> {
    let (next, stale) = state.parts.source.stale_since(revision).await?;
    for what in stale {
        match what {
            RouteInvalidation::Key(id) => state.parts.keyring.forget(&id),
            RouteInvalidation::Tenant(id) => state.parts.routes.forget_tenant(&id),
            RouteInvalidation::Shard(id) => state.parts.routes.forget_shard(&id),
        }
    }
    Ok(next)
}

async fn report_key_uses(state: &RouterState) {
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        report_key_uses_once(state).await;
    }
}

/// Reports which keys were used since the last report.
async fn report_key_uses_once(state: &RouterState) {
    let uses = state.parts.keyring.take_uses();
    if !uses.is_empty()
        && let Err(error) = state.parts.source.keys_used(uses).await
    {
        // The next use of each key is reported again.
        tracing::warn!(%error, "cannot record the uses of keys");
    }
}

impl RouterState {
    /// Reports the last uses of keys, before a clean stop.
    pub async fn finish(&self) {
        report_key_uses_once(self).await;
    }
}
