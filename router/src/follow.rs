//! The follower: hears from the source what is stale and forgets it; tells
//! the source which keys were used.

use std::time::Duration;

use ballast_domain::registry::StoreError;
use ballast_domain::routes::Stale;

use crate::State;

/// How long to wait after the source failed.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// How often the uses of keys are told.
const TELL_USES: Duration = Duration::from_secs(5);

/// Follows the source from `revision` on, until the task is dropped.
pub async fn follow(state: State, revision: u64) {
    tokio::join!(forget(&state, revision), tell_uses(&state));
}

async fn forget(state: &State, mut revision: u64) {
    loop {
        match round(state, revision).await {
            Ok(next) => revision = next,
            Err(error) => {
                tracing::warn!(%error, "the route source is away, serving what is known");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

async fn round(state: &State, revision: u64) -> Result<u64, StoreError> {
    let (next, stale) = state.parts.source.stale_since(revision).await?;
    for what in stale {
        match what {
            Stale::Key(id) => state.parts.keyring.forget(&id),
            Stale::Tenant(id) => state.parts.routes.forget_tenant(&id),
            Stale::Shard(id) => state.parts.routes.forget_shard(&id),
        }
    }
    Ok(next)
}

async fn tell_uses(state: &State) {
    loop {
        tokio::time::sleep(TELL_USES).await;
        flush_uses(state).await;
    }
}

/// Tells the source which keys were used since the last time.
async fn flush_uses(state: &State) {
    let uses = state.parts.keyring.take_uses();
    if !uses.is_empty()
        && let Err(error) = state.parts.source.keys_used(uses).await
    {
        // They are told again with the next use of each key.
        tracing::warn!(%error, "the uses of keys could not be noted");
    }
}

impl State {
    /// Tells the source the last uses: for a clean stop.
    pub async fn finish(&self) {
        flush_uses(self).await;
    }
}
