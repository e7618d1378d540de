//! Journey: malformed requests to any endpoint: bodies, credentials, headers. Each is refused with
//! a problem document and changes nothing.

use crate::support::problem::{assert_problem, start_with_tenant};
use crate::support::{Call, unknown_secret};
use ballast_domain::credential::Purpose;
use serde_json::json;

/// Raw bodies: content type, text, expected code.
fn raw_bodies() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let long = format!(r#"{{"tenantID":"x","name":"{}"}}"#, "x".repeat(66_000));
    let json = "application/json";
    vec![
        (json, text("{"), "malformed-request"),
        (json, text("nonsense"), "malformed-request"),
        (
            json,
            text(r#"{"tenantID":"x"} trailing"#),
            "malformed-request",
        ),
        (json, text(r#"{"tenantID":"x"}{}"#), "malformed-request"),
        (json, text(r#"{"tenantID":"x",}"#), "malformed-request"),
        (
            json,
            text(r#"{"tenantID":"x","name":NaN}"#),
            "malformed-request",
        ),
        (
            json,
            text(r#"{"tenantID":"x","name":"\ud800"}"#),
            "malformed-request",
        ),
        (json, vec![0xff, 0xfe, 0x00], "malformed-request"),
        (
            json,
            b"{\"tenantID\":\"\xff\"}".to_vec(),
            "malformed-request",
        ),
        (json, vec![b'['; 10_000], "invalid-field"),
        (
            json,
            text(&format!(r#"{{"zones":{}"#, "[".repeat(10_000))),
            "invalid-field",
        ),
        (
            json,
            text(r#"{"tenantID":"x","tenantID":"y"}"#),
            "invalid-field",
        ),
        (
            json,
            text(r#"{"tenantID":"x","limits":{"votesPerSecond":1e400}}"#),
            "malformed-request",
        ),
        (
            json,
            text(r#"{"tenantID":"x","limits":{"votesPerSecond":99999999999999999999}}"#),
            "invalid-field",
        ),
        (json, text(&long), "body-too-large"),
        (
            "text/plain",
            text(r#"{"tenantID":"x"}"#),
            "unsupported-media-type",
        ),
        ("application/xml", text("<x/>"), "unsupported-media-type"),
        (
            "application/x-www-form-urlencoded",
            text("tenantID=x"),
            "unsupported-media-type",
        ),
    ]
}

#[tokio::test]
async fn invalid_bodies_are_refused() {
    let (it, newest) = start_with_tenant().await;
    for (kind, body, code) in raw_bodies() {
        let shown: String = String::from_utf8_lossy(&body).chars().take(60).collect();
        let answer = it.call("POST", "/tenants").raw(kind, body).send().await;
        assert_problem(&shown, answer, code);
    }
    assert_eq!(it.newest_event().await, newest, "something was changed");
}

#[tokio::test]
async fn invalid_credentials_are_refused() {
    let (it, newest) = start_with_tenant().await;
    let (id, revoked) = it.new_token("admin").await;
    it.act(&format!("/tokens/{id}/revoke")).await;
    let (_, key) = it.key("acme").await;
    let newest_after = it.newest_event().await;
    assert!(newest_after > newest);
    let last = if it.token.ends_with('x') { 'y' } else { 'x' };
    let mistyped = format!("{}{last}", &it.token[..it.token.len() - 1]);
    let bearer = |token: &str| format!("Bearer {token}");
    let headers = [
        (String::new(), "bad-credential"),
        ("Bearer".to_owned(), "bad-credential"),
        ("Basic dXNlcjpwYXNz".to_owned(), "bad-credential"),
        (it.token.clone(), "bad-credential"),
        (bearer("hello"), "bad-credential"),
        (bearer(&it.token[..20]), "bad-credential"),
        (bearer(&mistyped), "mistyped-credential"),
        (bearer(&revoked), "bad-credential"),
        (
            bearer(&unknown_secret(Purpose::AdminToken)),
            "bad-credential",
        ),
        (bearer(&key), "bad-credential"),
    ];
    for (header, code) in headers {
        let create = || -> Call {
            it.anonymous("POST", "/tenants")
                .json(&json!({ "tenantID": "x" }))
        };
        let answer = create().header("authorization", &header).send().await;
        assert!(
            !answer.text.contains(&it.token[20..40]),
            "a secret in {}",
            answer.text
        );
        assert_problem(&header, answer, code);
    }
    assert_eq!(
        it.newest_event().await,
        newest_after,
        "something was changed"
    );
}

#[tokio::test]
async fn invalid_headers_are_refused() {
    let (it, newest) = start_with_tenant().await;
    let rename = |tag: &str| {
        it.call("PATCH", "/tenants/acme")
            .header("if-match", tag)
            .json(&json!({ "name": "x" }))
    };
    for tag in [
        "\"7\"",
        "\"0\"",
        "1",
        "W/\"1\"",
        "\"x\"",
        "\"\"",
        "\"2\", \"3\"",
    ] {
        assert_problem(tag, rename(tag).send().await, "changed-meanwhile");
    }
    let create = |key: &str| {
        it.call("POST", "/tenants")
            .header("idempotency-key", key)
            .json(&json!({ "tenantID": "x" }))
    };
    assert_problem(
        "long key",
        create(&"k".repeat(201)).send().await,
        "invalid-field",
    );
    assert_problem("empty key", create("").send().await, "invalid-field");
    assert_eq!(it.newest_event().await, newest, "something was changed");

    create("once").send().await.expect(201);
    let newest = it.newest_event().await;
    let other = it
        .call("POST", "/tenants")
        .header("idempotency-key", "once")
        .json(&json!({ "tenantID": "y" }));
    assert_problem("reused key", other.send().await, "idempotency-mismatch");
    let elsewhere = it
        .call("POST", "/shards")
        .header("idempotency-key", "once")
        .json(&json!({ "shardID": "x" }));
    assert_problem("reused key", elsewhere.send().await, "idempotency-mismatch");
    assert_eq!(it.newest_event().await, newest, "something was changed");
}

#[tokio::test]
async fn the_router_refuses_in_the_same_way() {
    let (it, _) = start_with_tenant().await;
    let (_, key) = it.key("acme").await;
    let newest = it.newest_event().await;
    let cases = [
        ("GET", "/resolve", "bad-credential"),
        ("GET", "/resolve?api_key=hello", "bad-credential"),
        ("GET", "/resolve?api_key=", "bad-credential"),
        ("GET", "/nothing", "not-found"),
        ("POST", "/healthz", "method-not-allowed"),
        ("GET", "/problems/nonsense", "not-found"),
    ];
    for (method, path, code) in cases {
        assert_problem(path, it.route(method, path).send().await, code);
    }
    let cannot_be = it
        .route("GET", "/resolve?poll=mine")
        .header("x-api-key", &key);
    assert_problem("no poll", cannot_be.send().await, "malformed-request");
    assert_eq!(it.newest_event().await, newest, "something was changed");
}
