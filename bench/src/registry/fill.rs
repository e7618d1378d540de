//! Fills a registry like the API does: each tenant is a commit of its own, and many run
//! concurrently.

use std::sync::Arc;

use ballast_control_plane::registry::sqlite::SqliteRegistry;
use ballast_control_plane::registry::typed;
use ballast_domain::registry::{RecordWrite, Registry, RegistryCommit};
use ballast_domain::shard::Shard;
use ballast_domain::tenant::TenantStatus;
use ballast_domain::{Actor, TokenId};
use tokio::task::JoinSet;

use crate::sample;

/// Concurrent creations.
const UNDER_WAY: usize = 1_024;
/// Shards, and the regions that they are in by turns.
const SHARDS: usize = 100;
const REGIONS: [&str; 3] = ["eu", "us", "ap"];
/// A fixed number of suspended tenants: a rare term whose page is equally long in a small
/// and a large registry. Of a million tenants it is one in ten thousand.
const SUSPENDED: usize = 100;

/// Creates the shards and this many tenants.
pub(super) async fn fill(registry: &SqliteRegistry, tenants: usize) -> anyhow::Result<()> {
    let shards = (0..SHARDS).map(|n| sample::shard(n, REGIONS[n % REGIONS.len()], 1.0));
    let shards: Vec<Shard> = shards.collect::<Result<_, _>>()?;
    let writes = shards.iter().map(|shard| typed::create(shard, Vec::new()));
    let writes = writes.collect::<Result<_, _>>()?;
    registry.commit(commit("shard.create", writes)?).await?;

    let shards = Arc::new(shards);
    let mut under_way = JoinSet::new();
    for worker in 0..UNDER_WAY {
        let (registry, shards) = (registry.clone(), shards.clone());
        under_way.spawn(async move {
            for n in (worker..tenants).step_by(UNDER_WAY) {
                let mut tenant = sample::tenant(n, &shards)?;
                if n.is_multiple_of(tenants.div_ceil(SUSPENDED)) {
                    tenant.status = TenantStatus::Suspended;
                }
                let write = typed::create(&tenant, Vec::new())?;
                registry
                    .commit(commit("tenant.create", vec![write])?)
                    .await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = under_way.join_next().await {
        done??;
    }
    Ok(())
}

fn commit(action: &'static str, writes: Vec<RecordWrite>) -> anyhow::Result<RegistryCommit> {
    let token: TokenId = "tok-4f1c9a0b7e2d8a63".parse()?;
    Ok(RegistryCommit {
        actor: Actor {
            name: "provisioning".to_owned(),
            token_id: Some(token),
            address: Some("10.20.30.40".to_owned()),
        },
        action,
        reason: None,
        expects: Vec::new(),
        writes,
        reply: None,
    })
}
