//! The stored form of every record, pinned: a registry written by any release
//! must be readable by every later one. When a test here fails, the format has
//! changed: give the new one a migration and a golden file of its own.

#![allow(clippy::unwrap_used, clippy::panic)]

use ballast_domain::key::ApiKey;
use ballast_domain::registry::Entity;
use ballast_domain::shard::Shard;
use ballast_domain::tenant::Tenant;
use ballast_domain::token::AdminToken;

fn survives<T: Entity>(stored: &str) -> T {
    let record: T = serde_json::from_str(stored).unwrap();
    assert_eq!(serde_json::to_string(&record).unwrap(), stored.trim_end());
    record
}

#[test]
fn a_tenant_is_stored_like_this() {
    let tenant: Tenant = survives(include_str!("golden/tenant.json"));
    assert_eq!(tenant.terms(), ["region:eu", "status:suspended"]);
    assert_eq!(tenant.tallies(), ["shard:shard-1", "pinned:shard-1"]);
}

#[test]
fn a_shard_is_stored_like_this() {
    let shard: Shard = survives(include_str!("golden/shard.json"));
    let terms = ["region:eu", "state:draining", "url:file:shards/shard-1"];
    assert_eq!(shard.terms(), terms);
}

#[test]
fn a_key_is_stored_like_this() {
    let key: ApiKey = survives(include_str!("golden/key.json"));
    assert_eq!(key.terms(), ["tenant:acme"]);
    assert!(key.tallies().is_empty(), "a revoked key does not count");
}

#[test]
fn a_token_is_stored_like_this() {
    let token: AdminToken = survives(include_str!("golden/token.json"));
    assert_eq!(token.terms(), ["role:operator"]);
}
