//! Tests of tenants in a changing fleet.

use ballast_domain::error::ErrorCode;
use ballast_domain::tenant::TenantStatus;

use super::*;
use crate::change::IfMatch;
use crate::intent::Intent;
use crate::shards::{self, NewShard, ShardPatch};
use crate::{placements, testing};

fn tenant(json: &str) -> NewTenant {
    serde_json::from_str(json).unwrap()
}

#[tokio::test]
async fn a_tenant_whose_zone_is_gone_can_still_be_changed() {
    let (_directory, plane, _) = testing::plane().await;
    let intent = Intent::ballast("test", "a reason");
    let shard = "shard-1".parse().unwrap();
    let zoned = |zones: &str| -> ShardPatch {
        serde_json::from_str(&format!(r#"{{"zones":{zones}}}"#)).unwrap()
    };
    shards::update(&plane, &intent, &shard, &IfMatch::Any, &zoned(r#"["ssd"]"#))
        .await
        .unwrap();
    create(
        &plane,
        &intent,
        tenant(r#"{"tenantID":"z","zones":["ssd"]}"#),
    )
    .await
    .unwrap();
    shards::update(&plane, &intent, &shard, &IfMatch::Any, &zoned("[]"))
        .await
        .unwrap();

    let id = "z".parse().unwrap();
    let rename: TenantPatch = serde_json::from_str(r#"{"name":"Zed"}"#).unwrap();
    update(&plane, &intent, &id, &IfMatch::Any, &rename)
        .await
        .unwrap();
    let rezone: TenantPatch = serde_json::from_str(r#"{"zones":["ssd"]}"#).unwrap();
    let refused = update(&plane, &intent, &id, &IfMatch::Any, &rezone)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::UnknownZone);
}

#[tokio::test]
async fn a_shard_that_tenants_are_pinned_to_is_not_removed() {
    let (_directory, plane, _) = testing::plane().await;
    let intent = Intent::ballast("test", "a reason");
    let new: NewShard = serde_json::from_str(r#"{"shardID":"spare"}"#).unwrap();
    create(&plane, &intent, tenant(r#"{"tenantID":"acme"}"#))
        .await
        .unwrap();
    shards::add(&plane, &intent, &new).await.unwrap();
    let (id, spare) = ("acme".parse().unwrap(), "spare".parse().unwrap());
    placements::pin(&plane, &intent, &id, &IfMatch::Any, &spare)
        .await
        .unwrap();
    let refused = shards::remove(&plane, &intent, &spare, &IfMatch::Any)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ShardNotEmpty);
    placements::unpin(&plane, &intent, &id, &IfMatch::Any)
        .await
        .unwrap();
    shards::remove(&plane, &intent, &spare, &IfMatch::Any)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_closed_tenant_is_not_due_to_move() {
    let (_directory, plane, _) = testing::plane().await;
    let intent = Intent::ballast("test", "a reason");
    let made = create(&plane, &intent, tenant(r#"{"tenantID":"acme"}"#))
        .await
        .unwrap();
    let id = "acme".parse().unwrap();
    set_status(&plane, &intent, &id, &IfMatch::Any, TenantStatus::Closed)
        .await
        .unwrap();
    let drain: ShardPatch = serde_json::from_str(r#"{"state":"draining"}"#).unwrap();
    let holder = &made.value.slices[0].shard_id;
    shards::update(&plane, &intent, holder, &IfMatch::Any, &drain)
        .await
        .unwrap();
    let shown = placements::show(&plane, &id).await.unwrap();
    assert_eq!(shown.value.preferred_shard_id.as_ref(), Some(holder));
    let due = placements::preview(&plane, None, None, 10).await.unwrap();
    assert_eq!(due.moves_total, 0);
}

#[tokio::test]
async fn alternative_spellings_of_a_directory_are_rejected() {
    let (_directory, plane, _) = testing::plane().await;
    let intent = Intent::ballast("test", "a reason");
    for url in [
        "file:./shards/shard-1",
        "file:shards//shard-1",
        "file:shards/shard-1/",
        "file:a/../b",
    ] {
        let body = format!(r#"{{"shardID":"twin","url":"{url}"}}"#);
        let new: NewShard = serde_json::from_str(&body).unwrap();
        let refused = shards::add(&plane, &intent, &new).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidField, "{url}");
    }
}
