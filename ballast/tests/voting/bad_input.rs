//! Journey: invalid requests. Each is refused with the documented status and a problem document
//! that says what to do, and changes nothing.

use crate::support::problem::{assert_problem, start_with_tenant};
use serde_json::{Value, json};

/// A bad request: method, path, body, and the expected error code.
type Case = (&'static str, &'static str, Value, &'static str);

async fn assert_all_refused(cases: Vec<Case>) {
    let (it, newest) = start_with_tenant().await;
    for (method, path, body, code) in cases {
        let call = it.call(method, path);
        let call = if body.is_null() {
            call
        } else {
            call.json(&body)
        };
        assert_problem(&format!("{method} {path} {body}"), call.send().await, code);
    }
    assert_eq!(it.newest_event().await, newest, "something was changed");
}

#[tokio::test]
async fn invalid_tenants_are_refused() {
    let create = |body, code| ("POST", "/tenants", body, code);
    let with =
        |name: &str, value: Value, code| create(json!({ "tenantID": "x", name: value }), code);
    let update = |body, code| ("PATCH", "/tenants/acme", body, code);
    let region =
        |policy: &str, regions: Value| json!({ "policy": policy, "secondaryRegions": regions });
    let field = "invalid-field";
    assert_all_refused(vec![
        create(json!({}), field),
        create(json!([]), field),
        create(json!("acme"), field),
        create(json!(["x", null, null, null, null, [], {}, []]), field),
        with("limits", json!([5, null, null]), field),
        with("residency", json!(["strict"]), field),
        update(json!({ "limits": [null, null, null] }), field),
        create(json!({ "tenantID": 7 }), field),
        create(json!({ "tenantID": null }), field),
        create(json!({ "tenantID": "" }), field),
        create(json!({ "tenantID": "Acme" }), field),
        create(json!({ "tenantID": "a\u{0}b" }), field),
        create(json!({ "tenantID": "a\nb" }), field),
        create(json!({ "tenantID": "x".repeat(64) }), field),
        create(json!({ "tenantId": "x" }), field),
        create(json!({ "tenantID": "acme" }), "tenant-exists"),
        with("colour", json!("blue"), field),
        with("name", json!(""), field),
        with("name", json!("a\u{7}b"), field),
        with("name", json!("x".repeat(201)), field),
        with("homeRegion", json!("mars"), "unknown-region"),
        with("homeRegion", json!("Not A Region"), field),
        with("residency", json!("strict"), field),
        with("residency", json!({ "policy": "lax" }), field),
        with("residency", region("strict", json!(["local"])), field),
        with("residency", region("deferred", json!(["local"])), field),
        with("residency", region("permitted", json!([])), field),
        with("residency", region("permitted", json!(["local"])), field),
        with(
            "residency",
            region("permitted", json!(["mars"])),
            "unknown-region",
        ),
        with(
            "residency",
            region("permitted", json!(["mars", "mars"])),
            field,
        ),
        with("zones", json!(["nowhere"]), "unknown-zone"),
        with("zones", json!(["ekb", "ekb"]), field),
        with("zones", json!("ekb"), field),
        with("zones", json!(vec!["ekb"; 33]), field),
        with("limits", json!({ "votesPerSecond": 0 }), field),
        with("limits", json!({ "votesPerSecond": -1 }), field),
        with("limits", json!({ "votesPerSecond": 1.5 }), field),
        with("limits", json!({ "votesPerSecond": "9" }), field),
        with("limits", json!({ "votesPerMinute": 9 }), field),
        with("limits", json!({ "retentionDays": 36_501 }), field),
        with("corsOrigins", json!(["vote.example"]), field),
        with("corsOrigins", json!(["*", "*"]), field),
        with("corsOrigins", json!(["https://a.example/path"]), field),
        update(json!({ "tenantID": "other" }), field),
        update(json!({ "status": "closed" }), field),
        update(json!({ "name": "" }), field),
        update(json!({ "zones": ["nowhere"] }), "unknown-zone"),
        update(json!({ "homeRegion": "mars" }), "unknown-region"),
        update(json!({ "limits": { "concurrentQueries": 0 } }), field),
        (
            "PATCH",
            "/tenants/nobody",
            json!({ "name": "x" }),
            "tenant-not-found",
        ),
        (
            "POST",
            "/tenants/nobody/close",
            Value::Null,
            "tenant-not-found",
        ),
        (
            "POST",
            "/tenants/acme/close",
            json!({ "really": true }),
            field,
        ),
        ("POST", "/tenants/acme/suspend?why=x", Value::Null, field),
        ("POST", "/tenants/acme/suspend?reason=", Value::Null, field),
        (
            "POST",
            "/tenants/acme/suspend?reason=%07",
            Value::Null,
            field,
        ),
    ])
    .await;
}

#[tokio::test]
async fn invalid_shards_and_placements_are_refused() {
    let add = |body, code| ("POST", "/shards", body, code);
    let with = |name: &str, value: Value| {
        (
            "POST",
            "/shards",
            json!({ "shardID": "s", name: value }),
            "invalid-field",
        )
    };
    let update = |body| ("PATCH", "/shards/shard-1", body, "invalid-field");
    let preview = |body, code| ("POST", "/placement/preview", body, code);
    assert_all_refused(vec![
        add(json!({}), "invalid-field"),
        add(json!({ "shardID": "shard-1" }), "shard-exists"),
        add(
            json!({ "shardID": "s", "url": "file:shards/shard-1" }),
            "shard-url-taken",
        ),
        with("weight", json!(0)),
        with("weight", json!(-1)),
        with("weight", json!(1e300)),
        with("weight", json!("1")),
        with("weight", json!("NaN")),
        with("maxSlices", json!(0)),
        with("maxSlices", json!(-5)),
        with("maxSlices", json!(100_000_001)),
        with("zones", json!(["a", "a"])),
        with("zones", json!(["Not a zone"])),
        with("region", json!("")),
        with("url", json!("postgres://u:p@h/db")),
        with("url", json!("file:")),
        with("url", json!("file:../../etc")),
        with("state", json!("down")),
        update(json!({ "weight": 0 })),
        update(json!({ "weight": null, "wait": 1 })),
        update(json!({ "state": "asleep" })),
        update(json!({ "maxSlices": 0 })),
        update(json!({ "region": "local" })),
        (
            "PATCH",
            "/shards/shard-9",
            json!({ "weight": 1 }),
            "shard-not-found",
        ),
        ("DELETE", "/shards/shard-9", Value::Null, "shard-not-found"),
        preview(json!({}), "invalid-field"),
        preview(
            json!({ "add": { "shardID": "s" }, "remove": "shard-1" }),
            "invalid-field",
        ),
        preview(
            json!({ "add": { "shardID": "s", "weight": 0 } }),
            "invalid-field",
        ),
        preview(json!({ "add": { "shardID": "shard-1" } }), "shard-exists"),
        preview(json!({ "remove": "shard-9" }), "shard-not-found"),
        preview(
            json!({ "weight": { "shardID": "shard-1", "weight": -1 } }),
            "invalid-field",
        ),
        (
            "PUT",
            "/tenants/acme/placement/pin",
            json!({ "shardID": "shard-9" }),
            "shard-not-found",
        ),
        (
            "PUT",
            "/tenants/acme/placement/pin",
            json!({}),
            "invalid-field",
        ),
        (
            "GET",
            "/tenants/acme/placement/explain?slice=9",
            Value::Null,
            "not-found",
        ),
        (
            "GET",
            "/tenants/acme/placement/explain?slice=-1",
            Value::Null,
            "invalid-field",
        ),
        (
            "GET",
            "/tenants/acme/placement/explain?at=yesterday",
            Value::Null,
            "invalid-field",
        ),
        (
            "GET",
            "/tenants/acme/placement/explain?at=1999-01-01T00:00:00Z",
            Value::Null,
            "no-history",
        ),
    ])
    .await;
}

#[tokio::test]
async fn invalid_keys_and_tokens_are_refused() {
    let key = |body| ("POST", "/tenants/acme/keys", body, "invalid-field");
    let token = |body| ("POST", "/tokens", body, "invalid-field");
    assert_all_refused(vec![
        key(json!({ "expiresAt": "2020-01-01T00:00:00Z" })),
        key(json!({ "expiresAt": "tomorrow" })),
        key(json!({ "expiresAt": 7 })),
        key(json!({ "scopes": [] })),
        key(json!({ "scopes": ["admin"] })),
        key(json!({ "scopes": "vote" })),
        key(json!({ "name": "" })),
        key(json!({ "test": "yes" })),
        key(json!({ "scope": ["vote"] })),
        (
            "POST",
            "/tenants/nobody/keys",
            json!({}),
            "tenant-not-found",
        ),
        ("POST", "/keys/key-0/revoke", Value::Null, "key-not-found"),
        (
            "POST",
            "/keys/key-0/rotate",
            json!({ "overlapSeconds": 1 }),
            "key-not-found",
        ),
        (
            "POST",
            "/keys/key-0/rotate",
            json!({ "overlapSeconds": -1 }),
            "invalid-field",
        ),
        (
            "POST",
            "/keys/key-0/rotate",
            json!({ "overlapSeconds": 7_776_001 }),
            "invalid-field",
        ),
        (
            "POST",
            "/keys/identify",
            json!({ "key": "hello" }),
            "invalid-field",
        ),
        token(json!({ "name": "x", "role": "king" })),
        token(json!({ "role": "admin" })),
        token(json!({ "name": " ", "role": "admin" })),
        token(json!({ "name": "x", "role": "admin", "expiresAt": "2020-01-01T00:00:00Z" })),
        (
            "POST",
            "/tokens/tok-0/revoke",
            Value::Null,
            "token-not-found",
        ),
    ])
    .await;
}

#[tokio::test]
async fn invalid_queries_are_refused() {
    let get = |path, code| ("GET", path, Value::Null, code);
    let field = "invalid-field";
    assert_all_refused(vec![
        get("/tenants?limit=0", field),
        get("/tenants?limit=1001", field),
        get("/tenants?limit=x", field),
        get("/tenants?limit=-1", field),
        get("/tenants?limit=1&limit=2", field),
        get("/tenants?colour=blue", field),
        get("/tenants?cursor=%21%21", field),
        get("/tenants?status=asleep", field),
        get("/tenants?shard=Not+A+Shard", field),
        get("/events?kind=poll", field),
        get("/events?id=acme", field),
        get("/events?since=yesterday", field),
        get("/events?cursor=YWJj", field),
        get("/placement/drift?limit=100001", field),
        get("/keys?tenant=nobody", "tenant-not-found"),
        get("/tenants/nobody", "tenant-not-found"),
        get("/tenants/a%00b", field),
        get("/tenants/a%0Ab", field),
        get("/tenants/%1b%5b31m", field),
        get("/tenants/%FF%FE", "malformed-request"),
        get("/tenants/a%2Fb", field),
        get("/tenants/%F0%9F%97%B3", field),
        get("/shards/shard-9", "shard-not-found"),
        get("/keys/key-0", "key-not-found"),
        get("/nothing", "not-found"),
        get("/tenants/acme/nothing", "not-found"),
        ("DELETE", "/tenants/acme", Value::Null, "method-not-allowed"),
        ("PUT", "/shards", json!({}), "method-not-allowed"),
        ("POST", "/whoami", Value::Null, "method-not-allowed"),
    ])
    .await;
}
