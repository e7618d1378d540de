//! Journey: the life of an API key, seen from the router.

use std::time::Duration;

use crate::support::{
    HttpAnswer, Instance, InstanceOptions, eventually, in_ms, text, unknown_secret, within,
};
use ballast_domain::credential::Purpose;
use serde_json::json;

/// A revoked key stops within a second.
const SECOND: Duration = Duration::from_secs(1);

/// Sends a key in each of the three possible places.
async fn try_every_header(it: &Instance, key: &str) -> [HttpAnswer; 3] {
    let header = it.route("GET", "/resolve").header("x-api-key", key);
    let bearer = it.route("GET", "/resolve").token(key);
    let query = it.route("GET", &format!("/resolve?api_key={key}"));
    [header.send().await, bearer.send().await, query.send().await]
}

/// Waits until a key gets this status and code in all places.
async fn is_answered(it: &Instance, key: &str, status: u16, code: &str) {
    within(SECOND, &format!("{status} {code}"), async || {
        let answers = try_every_header(it, key).await;
        let as_expected = answers.iter().all(|answer| {
            answer.status == status && answer.body["code"].as_str().unwrap_or_default() == code
        });
        as_expected.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_key_resolves_to_its_shard_from_every_header() {
    let it = Instance::start().await;
    let home = text(&it.tenant("acme").await["slices"][0]["shardID"]);
    let (_, key) = it.key("acme").await;
    for answer in try_every_header(&it, &key).await {
        assert_eq!(answer.status, 200, "{}", answer.text);
        let expected = json!({
            "tenantID": "acme", "shardID": home, "shardURL": it.router, "epoch": 1,
            "region": "local",
        });
        assert_eq!(answer.body, expected);
        assert_eq!(answer.header("ballast-tenant"), "acme");
        assert_eq!(answer.header("ballast-shard"), home);
        assert_eq!(answer.header("ballast-epoch"), "1");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
    let nothing = it.route("GET", "/resolve").send().await;
    nothing.expect_error(401, "bad-credential");
}

#[tokio::test]
async fn typos_unknown_keys_and_tokens_get_different_errors() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let (_, key) = it.key("acme").await;
    let last = if key.ends_with('0') { "1" } else { "0" };
    let typo = format!("{}{last}", &key[..key.len() - 1]);
    is_answered(&it, &typo, 401, "mistyped-credential").await;
    is_answered(
        &it,
        &unknown_secret(Purpose::LiveKey),
        401,
        "bad-credential",
    )
    .await;
    is_answered(&it, &it.token, 401, "bad-credential").await;
    is_answered(&it, "hello", 401, "bad-credential").await;
    is_answered(&it, &key, 200, "").await;
}

#[tokio::test]
async fn a_rotated_key_works_for_its_overlap() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let (id, first) = it.key("acme").await;
    is_answered(&it, &first, 200, "").await;
    let rotated = it
        .create(
            &format!("/keys/{id}/rotate"),
            &json!({ "overlapSeconds": 3600 }),
        )
        .await;
    assert_eq!(text(&rotated["replaces"]), id);
    let second = text(&rotated["key"]);
    is_answered(&it, &first, 200, "").await;
    is_answered(&it, &second, 200, "").await;
    let again = it
        .call("POST", &format!("/keys/{id}/rotate"))
        .json(&json!({}));
    again.send().await.expect_error(409, "key-not-active");

    let id = text(&rotated["keyID"]);
    let third = it
        .create(
            &format!("/keys/{id}/rotate"),
            &json!({ "overlapSeconds": 0 }),
        )
        .await;
    is_answered(&it, &second, 401, "bad-credential").await;
    is_answered(&it, &text(&third["key"]), 200, "").await;
    // A short overlap ends without a command.
    let id = text(&third["keyID"]);
    let fourth = it
        .create(
            &format!("/keys/{id}/rotate"),
            &json!({ "overlapSeconds": 1 }),
        )
        .await;
    let old = text(&third["key"]);
    eventually("the end of the overlap", async || {
        (it.resolve(&old).await.status == 401).then_some(())
    })
    .await;
    is_answered(&it, &text(&fourth["key"]), 200, "").await;
}

#[tokio::test]
async fn a_key_ends_by_expiry_and_by_revocation() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let body = json!({ "expiresAt": in_ms(1_500).to_string() });
    let made = it.create("/tenants/acme/keys", &body).await;
    let short = text(&made["key"]);
    assert_eq!(it.resolve(&short).await.status, 200);
    eventually("the expiry", async || {
        (it.resolve(&short).await.status == 401).then_some(())
    })
    .await;
    let shown = it.get(&format!("/keys/{}", text(&made["keyID"]))).await;
    assert_eq!(shown["status"], "expired");

    let (id, key) = it.key("acme").await;
    is_answered(&it, &key, 200, "").await;
    let revoked = it.act(&format!("/keys/{id}/revoke")).await;
    assert_eq!(revoked["status"], "revoked");
    is_answered(&it, &key, 401, "bad-credential").await;
    let events = it.newest_event().await;
    it.act(&format!("/keys/{id}/revoke")).await;
    assert_eq!(
        it.newest_event().await,
        events,
        "ending it again is no change"
    );
}

#[tokio::test]
async fn a_tenants_status_applies_to_its_keys() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let (_, key) = it.key("acme").await;
    is_answered(&it, &key, 200, "").await;
    it.act("/tenants/acme/suspend").await;
    is_answered(&it, &key, 403, "tenant-suspended").await;
    it.act("/tenants/acme/resume").await;
    is_answered(&it, &key, 200, "").await;
    it.act("/tenants/acme/close").await;
    is_answered(&it, &key, 401, "bad-credential").await;
    let more = it.call("POST", "/tenants/acme/keys").json(&json!({}));
    more.send().await.expect_error(409, "tenant-closed");
    let again = it
        .call("POST", "/tenants")
        .json(&json!({ "tenantID": "acme" }));
    again.send().await.expect_error(409, "tenant-exists");
}

#[tokio::test]
async fn a_key_shows_its_scopes_and_last_use() {
    let mut it = Instance::start().await;
    it.tenant("acme").await;
    let all = it.create("/tenants/acme/keys", &json!({})).await;
    assert_eq!(all["scopes"], json!(["vote", "read", "polls"]));
    assert_eq!(all["mode"], "live");
    assert!(text(&all["key"]).starts_with("bl_live_"));
    let body = json!({ "scopes": ["read", "vote", "read"], "test": true, "name": "ci" });
    let few = it.create("/tenants/acme/keys", &body).await;
    assert_eq!(few["scopes"], json!(["vote", "read"]));
    assert!(text(&few["key"]).starts_with("bl_test_"));
    let path = format!("/keys/{}", text(&few["keyID"]));
    let patched = it
        .patch(&path, &json!({ "scopes": ["polls"], "name": "cd" }))
        .await;
    assert_eq!(patched["scopes"], json!(["polls"]));
    assert_eq!(patched["name"], "cd");

    assert!(it.get(&path).await.get("lastUsedAt").is_none());
    let secret = text(&few["key"]);
    it.resolve(&secret).await.expect(200);
    // Uses are recorded every few seconds, and at a clean stop.
    it.process().signal("TERM");
    it.process().wait_for_end().await;
    let it = it.restart().await;
    let shown = it.get(&path).await;
    let used: ballast_domain::Timestamp = text(&shown["lastUsedAt"]).parse().unwrap();
    assert!(used <= in_ms(0));
    it.resolve(&secret).await.expect(200);
    eventually("a later use", async || {
        let shown = it.get(&path).await;
        (text(&shown["lastUsedAt"]) != used.to_string()).then_some(())
    })
    .await;
    let identified = it
        .call("POST", "/keys/identify")
        .json(&json!({ "key": secret }));
    assert_eq!(identified.send().await.expect(200)["keyID"], few["keyID"]);
}

#[tokio::test]
async fn browsers_are_admitted_by_origin() {
    let it = Instance::start().await;
    let body = json!({ "tenantID": "acme", "corsOrigins": ["https://vote.example"] });
    it.create("/tenants", &body).await;
    let (_, key) = it.key("acme").await;
    let preflight = it
        .route("OPTIONS", "/resolve")
        .header("origin", "https://vote.example")
        .header("access-control-request-method", "GET")
        .header("access-control-request-headers", "x-api-key")
        .send()
        .await;
    assert_eq!(preflight.status, 204);
    assert_eq!(
        preflight.header("access-control-allow-origin"),
        "https://vote.example"
    );
    assert!(
        preflight
            .header("access-control-allow-headers")
            .contains("x-api-key")
    );
    let from = |origin: &str| {
        it.route("GET", "/resolve")
            .header("x-api-key", &key)
            .header("origin", origin)
    };
    let allowed = from("https://vote.example").send().await;
    assert_eq!(allowed.status, 200);
    assert_eq!(
        allowed.header("access-control-allow-origin"),
        "https://vote.example"
    );
    let unknown = unknown_secret(Purpose::LiveKey);
    let refused = it.route("GET", "/resolve").header("x-api-key", &unknown);
    let refused = refused
        .header("origin", "https://vote.example")
        .send()
        .await;
    assert_eq!(
        refused.header("access-control-allow-origin"),
        "https://vote.example"
    );
    refused.expect_error(401, "bad-credential");
    for origin in ["https://evil.example", "http://vote.example", "null"] {
        let refused = from(origin).send().await;
        assert_eq!(refused.header("access-control-allow-origin"), "");
        refused.expect_error(403, "origin-not-allowed");
    }
    let own = from(&it.router).send().await;
    assert_eq!(own.status, 200);
    it.patch("/tenants/acme", &json!({ "corsOrigins": ["*"] }))
        .await;
    within(SECOND, "every origin", async || {
        (from("https://other.example").send().await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn no_secret_is_ever_logged() {
    let mut it = Instance::with(InstanceOptions {
        env: vec![("RUST_LOG".to_owned(), "trace".to_owned())],
        ..InstanceOptions::default()
    })
    .await;
    it.tenant("acme").await;
    let (_, key) = it.key("acme").await;
    let (_, token) = it.new_token("viewer").await;
    try_every_header(&it, &key).await;
    let encoded = key.replace('_', "%5F");
    it.route("GET", &format!("/resolve?api_key={encoded}"))
        .send()
        .await;
    it.route("POST", &format!("/resolve/polls?api_key={key}"))
        .send()
        .await;
    it.route("GET", "/resolve")
        .header("x-original-uri", &format!("/?api_key={key}"))
        .send()
        .await;
    it.route("GET", &format!("/polls?x=1&api_key={key}&y={token}"))
        .send()
        .await;
    it.call("GET", &format!("/tenants?prefix={key}"))
        .send()
        .await;
    it.call("GET", &format!("/tenants/{key}")).send().await;
    it.anonymous("GET", "/whoami").token(&token).send().await;
    it.call("POST", "/keys/identify")
        .json(&json!({ "key": key }))
        .send()
        .await;
    it.process().signal("TERM");
    let ended = it.process().wait_for_end().await;
    assert!(ended.stderr.contains("/resolve?"), "requests are logged");
    for secret in [&key, &token, &it.token] {
        // Its middle, in case only its ends are redacted.
        let middle = &secret[16..40];
        let leak = ended.stderr.lines().find(|line| line.contains(middle));
        assert_eq!(leak, None);
    }
}
