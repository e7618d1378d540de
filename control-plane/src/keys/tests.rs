//! Tests of the life cycle of keys.

use std::sync::Arc;

use ballast_domain::bounds::KEYS_PER_TENANT_MAX;
use ballast_domain::key::KeyStatus;
use ballast_domain::tenant::TenantStatus;
use ballast_domain::{ErrorCode, TenantId};

use super::*;
use crate::change::IfMatch;
use crate::intent::Intent;
use crate::tenants::{self, NewTenant};
use crate::testing::{self, ManualClock};

async fn with_tenant() -> (tempfile::TempDir, ControlPlane, TenantId, Intent) {
    with_tenant_at(Arc::new(ManualClock::new())).await
}

async fn with_tenant_at(
    clock: Arc<ManualClock>,
) -> (tempfile::TempDir, ControlPlane, TenantId, Intent) {
    let (directory, plane, _) = testing::plane_at(clock).await;
    let intent = Intent::ballast("test", "a reason");
    let new: NewTenant = serde_json::from_str(r#"{"tenantID":"acme"}"#).unwrap();
    tenants::create(&plane, &intent, new).await.unwrap();
    (directory, plane, "acme".parse().unwrap(), intent)
}

fn lasting(seconds: i64) -> NewKey {
    NewKey {
        expires_in_seconds: Some(seconds),
        ..NewKey::default()
    }
}

#[tokio::test]
async fn revoked_and_expired_keys_do_not_count_against_the_limit() {
    let clock = Arc::new(ManualClock::new());
    let (_directory, plane, tenant, intent) = with_tenant_at(clock.clone()).await;
    for n in 0..KEYS_PER_TENANT_MAX {
        let new = if n % 2 == 0 {
            NewKey::default()
        } else {
            lasting(60)
        };
        create(&plane, &intent, &tenant, &new).await.unwrap();
    }
    let full = create(&plane, &intent, &tenant, &NewKey::default())
        .await
        .unwrap_err();
    assert_eq!(full.code(), ErrorCode::TooMany);

    let one = list(&plane, Some(&tenant), None, 1)
        .await
        .unwrap()
        .remove(0);
    let id = &one.key.value.key_id;
    revoke(&plane, &intent, id, &IfMatch::Any).await.unwrap();
    create(&plane, &intent, &tenant, &NewKey::default())
        .await
        .unwrap();

    // Half of them expire; no cleanup is needed.
    clock.advance_ms(61_000);
    let made = create(&plane, &intent, &tenant, &NewKey::default())
        .await
        .unwrap();
    let all = list(&plane, Some(&tenant), None, 2_000).await.unwrap();
    assert_eq!(
        all.len() as u64,
        KEYS_PER_TENANT_MAX + 2,
        "they stay listed"
    );
    let expired = all
        .iter()
        .filter(|key| key.status == KeyStatus::Expired)
        .count();
    assert!(expired >= 499, "{expired}");
    assert_eq!(made.body.status, KeyStatus::Active);
}

#[tokio::test]
async fn rotating_neither_extends_a_key_nor_works_for_a_closed_tenant() {
    let (_directory, plane, tenant, intent) = with_tenant().await;
    let old = create(&plane, &intent, &tenant, &lasting(3_600))
        .await
        .unwrap();
    let end = old.body.key.value.expires_at;
    let id = old.body.key.value.key_id.clone();
    let rotation = Rotation::default();
    let next = rotate(&plane, &intent, &id, &IfMatch::Any, &rotation)
        .await
        .unwrap();
    assert_eq!(next.body.key.value.expires_at, end);

    tenants::set_status(
        &plane,
        &intent,
        &tenant,
        &IfMatch::Any,
        TenantStatus::Closed,
    )
    .await
    .unwrap();
    let id = next.body.key.value.key_id.clone();
    let refused = rotate(&plane, &intent, &id, &IfMatch::Any, &rotation)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::TenantClosed);
}

#[tokio::test]
async fn concurrent_changes_all_succeed() {
    let (_directory, plane, tenant, intent) = with_tenant().await;
    let mut running = tokio::task::JoinSet::new();
    for n in 0..60 {
        let (plane, tenant, intent) = (plane.clone(), tenant.clone(), intent.clone());
        running.spawn(async move {
            let patch = serde_json::from_str(&format!(r#"{{"name":"n{n}"}}"#)).unwrap();
            tenants::update(&plane, &intent, &tenant, &IfMatch::Any, &patch).await?;
            create(&plane, &intent, &tenant, &NewKey::default()).await?;
            let shard = serde_json::from_str(&format!(r#"{{"shardID":"more-{n}"}}"#)).unwrap();
            crate::shards::add(&plane, &intent, &shard).await.map(drop)
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap().unwrap();
    }
    assert_eq!(plane.fleet().snapshot().shards().len(), 63);
}
