//! Tests of `/resolve` through the whole router, over a controlled route source.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::response::Response;
use ballast_domain::limits::TenantLimits;
use ballast_domain::moving::{ActiveMigration, MigrationId, MigrationPhase};
use ballast_domain::poll::PollId;
use ballast_domain::routes::TenantRoute;
use ballast_domain::shard::ShardState;
use ballast_domain::tenant::{Epoch, Slice, TenantStatus};
use ballast_domain::{Clock, Timestamp};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::testing::{FakeSource, ports, settings};
use crate::{RouterSettings, RouterState, router};

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(1_794_821_400_000)
    }
}

/// The second slice begins in the middle of the hashes.
const MIDDLE: u64 = 1 << 63;

fn slice(number: u32, hash_from: u64, shard: &str) -> Slice {
    let shard_id = shard.parse().unwrap();
    Slice {
        hash_from,
        epoch: Epoch(u64::from(number) + 1),
        ..Slice::placed(number, shard_id, Timestamp::from_unix_ms(0))
    }
}

/// A router, its source and a key: `acme` has two slices, on shards 1 and 2.
fn set_up() -> (axum::Router, Arc<FakeSource>, String) {
    let source = Arc::new(FakeSource::default());
    let (key, _) = source.add_key("acme");
    source.add_tenant(TenantRoute {
        tenant_id: "acme".parse().unwrap(),
        status: TenantStatus::Active,
        home_region: "local".parse().unwrap(),
        limits: TenantLimits::default(),
        cors_origins: vec!["https://vote.example".to_owned()],
        slices: vec![slice(0, 0, "shard-1"), slice(1, MIDDLE, "shard-2")],
    });
    source.set_shard("shard-1", ShardState::Active);
    source.set_shard("shard-2", ShardState::Draining);
    let settings = RouterSettings {
        // Nothing is cached, because tests change the source.
        cache_ttl: Duration::ZERO,
        ..settings()
    };
    let state = RouterState::new(settings, ports(Arc::new(Noon), source.clone()));
    (router(state), source, key)
}

async fn ask(router: &axum::Router, request: Request<Body>) -> (Response, Value) {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    (Response::from_parts(parts, Body::empty()), body)
}

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn the_previous_shard_is_named_while_the_window_is_open() {
    let (router, source, key) = set_up();
    let key = [("x-api-key", key.as_str())];
    let path = format!("/resolve?poll={}", poll_in(true));
    for (phase, also_on) in [
        (MigrationPhase::Copying, None),
        (MigrationPhase::Sealing { epoch: Epoch(9) }, None),
        (MigrationPhase::Window, Some("shard-1")),
        (MigrationPhase::Cleaning, None),
    ] {
        source.change_route(|route| {
            route.slices[1].moving = Some(ActiveMigration {
                migration_id: MigrationId("m".to_owned()),
                from: "shard-1".parse().unwrap(),
                to: "shard-2".parse().unwrap(),
                prepared: Epoch(8),
                gives_up: false,
                sync: false,
                phase,
            });
        });
        let (response, body) = ask(&router, request("GET", &path, &key)).await;
        assert_eq!(
            (&body["shardID"], &body["epoch"]),
            (&json!("shard-2"), &json!(2))
        );
        assert_eq!(body.get("alsoOn").and_then(Value::as_str), also_on);
        let header = response.headers().get("ballast-also-on");
        assert_eq!(header.map(|value| value.to_str().unwrap()), also_on);
        let (_, all) = ask(&router, request("GET", "/resolve", &key)).await;
        let listed = all["slices"][1].get("alsoOn").and_then(Value::as_str);
        assert_eq!(listed, also_on);
    }
}

/// A poll in the lower or the upper half of the hashes.
fn poll_in(upper: bool) -> PollId {
    let mut polls = (1..).map(PollId::from_number);
    polls.find(|poll| (poll.hash() >= MIDDLE) == upper).unwrap()
}

#[tokio::test]
async fn several_slices_are_listed_and_a_poll_picks_one() {
    let (router, _, key) = set_up();
    let key = [("x-api-key", key.as_str())];
    let (response, body) = ask(&router, request("GET", "/resolve", &key)).await;
    assert_eq!(response.status(), 200);
    let place = |shard: &str, epoch: u64| {
        json!({
            "tenantID": "acme", "shardID": shard, "shardURL": "http://ballast.example",
            "epoch": epoch, "region": "local",
        })
    };
    let mut all = place("shard-1", 1);
    all["slices"] = json!([
        {
            "slice": 0, "hashFrom": 0, "shardID": "shard-1", "epoch": 1, "region": "local",
            "shardURL": "http://ballast.example", "state": "active",
        },
        {
            "slice": 1, "hashFrom": MIDDLE, "shardID": "shard-2", "epoch": 2, "region": "local",
            "shardURL": "http://ballast.example", "state": "draining",
        },
    ]);
    assert_eq!(body, all);
    for (upper, shard, epoch) in [(false, "shard-1", 1), (true, "shard-2", 2)] {
        let poll = poll_in(upper);
        let (response, body) = ask(
            &router,
            request("GET", &format!("/resolve?poll={poll}"), &key),
        )
        .await;
        assert_eq!(body, place(shard, epoch));
        assert_eq!(response.headers()["ballast-shard"], shard);
        assert_eq!(response.headers()["ballast-epoch"], epoch.to_string());
        // A proxy need not extract the poll from the URI.
        let path = format!("/resolve/polls/{poll}/votes?poll=mine");
        let (_, body) = ask(&router, request("POST", &path, &key)).await;
        assert_eq!(body, place(shard, epoch));
        let original = ("x-original-uri", &*format!("/polls/{poll}?x=1"));
        let (_, body) = ask(&router, request("GET", "/resolve", &[key[0], original])).await;
        assert_eq!(body, place(shard, epoch));
    }
}

#[tokio::test]
async fn a_poll_that_cannot_be_is_refused() {
    let (router, _, key) = set_up();
    for bad in ["", "mine", "poll-1", "poll-%30"] {
        let path = format!("/resolve?poll={bad}");
        let (response, body) = ask(&router, request("GET", &path, &[("x-api-key", &key)])).await;
        assert_eq!(response.status(), 400, "{bad}");
        assert_eq!(body["code"], "malformed-request", "{bad}");
    }
}

#[tokio::test]
async fn a_shard_that_is_down_is_told_with_when_to_ask_again() {
    let (router, source, key) = set_up();
    let key = [("x-api-key", key.as_str())];
    source.set_shard("shard-2", ShardState::Down);
    let upper = format!("/resolve?poll={}", poll_in(true));
    let (response, body) = ask(&router, request("GET", &upper, &key)).await;
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "5");
    assert!(!response.headers().contains_key("ballast-shard"));
    assert_eq!(body["code"], "shard-down");
    // The other slice is served, and the list shows which one is not.
    let lower = format!("/resolve?poll={}", poll_in(false));
    let (response, _) = ask(&router, request("GET", &lower, &key)).await;
    assert_eq!(response.status(), 200);
    let (response, body) = ask(&router, request("GET", "/resolve", &key)).await;
    assert_eq!(response.status(), 200);
    assert_eq!(body["slices"][1]["state"], "down");
    source.set_shard("shard-1", ShardState::Down);
    let (response, _) = ask(&router, request("GET", "/resolve", &key)).await;
    assert_eq!(response.status(), 503);
}

#[tokio::test]
async fn proxies_ask_with_any_method_and_path() {
    let (router, _, key) = set_up();
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PURGE"] {
        for path in [
            "/resolve",
            "/resolve/",
            "/resolve//",
            "/resolve/polls/x/votes",
        ] {
            let (response, body) =
                ask(&router, request(method, path, &[("x-api-key", &key)])).await;
            assert_eq!(response.status(), 200, "{method} {path}");
            assert_eq!(response.headers()["ballast-tenant"], "acme");
            assert_eq!(body.is_null(), method == "HEAD", "{method} {path}");
            let (response, _) = ask(&router, request(method, path, &[])).await;
            assert_eq!(response.status(), 401, "{method} {path} without a key");
        }
    }
    let uri = format!("/polls?api_key={key}");
    for header in ["x-original-uri", "x-forwarded-uri"] {
        let (response, _) = ask(&router, request("GET", "/resolve", &[(header, &uri)])).await;
        assert_eq!(response.status(), 200, "{header}");
    }
    let appended = format!("/resolve{uri}");
    let (response, _) = ask(&router, request("GET", &appended, &[])).await;
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn no_header_makes_a_question_without_a_key_a_preflight() {
    let (router, _, _) = set_up();
    let asked = ("access-control-request-method", "POST");
    let origin = ("origin", "https://vote.example");
    for method in ["x-original-method", "x-forwarded-method"] {
        let headers = [asked, origin, (method, "OPTIONS")];
        let (response, _) = ask(&router, request("GET", "/resolve", &headers)).await;
        assert_eq!(response.status(), 401, "{method}");
    }
    // Envoy forwards the method. It gets the answer to the preflight, which is not the 200 that
    // would let the request through.
    let (response, _) = ask(
        &router,
        request("OPTIONS", "/resolve/polls", &[asked, origin]),
    )
    .await;
    assert_eq!(response.status(), 204);
}

#[tokio::test]
async fn the_origin_that_a_proxy_passes_on_is_checked() {
    let (router, _, key) = set_up();
    for (origin, status) in [("https://vote.example", 200), ("https://evil.example", 403)] {
        let headers = [("x-api-key", key.as_str()), ("origin", origin)];
        let (response, _) = ask(&router, request("POST", "/resolve/polls", &headers)).await;
        assert_eq!(response.status(), status, "{origin}");
    }
}
