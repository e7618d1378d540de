//! Journey: the role that each operation of the OpenAPI document requires.

use crate::support::{Call, HttpAnswer, Instance, eventually, in_ms, text, unknown_secret};
use ballast_domain::credential::Purpose;
use serde_json::{Value, json};

/// Queries with a body: sent as POST, without effect.
const QUESTIONS: [&str; 2] = ["/placement/preview", "/keys/identify"];

struct Operation {
    method: String,
    path: String,
}

/// The name of something that does not exist.
const NOTHING: &str = "nothing";

impl Operation {
    fn looks(&self) -> bool {
        self.method == "get" || QUESTIONS.contains(&self.path.as_str())
    }

    /// Whether its path names something that does not exist.
    fn is_about_nothing(&self) -> bool {
        self.path.contains(NOTHING)
    }

    fn is_for_admins(&self) -> bool {
        self.path.starts_with("/tokens") || self.path.ends_with("/discard")
    }
}

/// Names of things that exist.
struct Named {
    /// The shard that holds the tenant `acme`.
    shard: String,
    key: String,
    secret: String,
    token: String,
    /// A finished migration.
    migration: String,
}

/// Every operation, with existing names for its parameters.
async fn operations(it: &Instance, named: &Named) -> Vec<Operation> {
    let document = it.get("/openapi.json").await;
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let path = path
                .strip_prefix("/admin/v1")
                .unwrap()
                .replace("{tenantID}", "acme")
                .replace("{shardID}", &named.shard)
                .replace("{keyID}", &named.key)
                .replace("{tokenID}", &named.token)
                .replace("{migrationID}", &named.migration)
                // An idle fleet has none.
                .replace("{hotspotID}", NOTHING)
                .replace("{planID}", NOTHING)
                .replace("{workflow}", "trial")
                .replace("{executionID}", "trial:ended");
            assert!(!path.contains('{'), "{path}: an unknown parameter");
            found.push(Operation {
                method: method.clone(),
                path,
            });
        }
    }
    assert!(found.len() >= 28, "only {} operations", found.len());
    found
}

/// A body that is well-formed for any operation: an admin's request with it is not refused as
/// malformed.
fn body(operation: &Operation, named: &Named) -> Value {
    match (operation.method.as_str(), operation.path.as_str()) {
        ("post", "/tenants") => json!({ "tenantID": "other" }),
        ("post", "/shards") => json!({ "shardID": "shard-9" }),
        ("post", "/tokens") => json!({ "name": "x", "role": "viewer" }),
        ("post", "/placement/preview") => json!({ "remove": named.shard }),
        ("post", "/keys/identify") => json!({ "key": named.secret }),
        ("put", "/workflows/trial") => trial(),
        ("post", "/tenants/acme/move") => json!({ "toShardID": named.shard }),
        ("post", "/tenants/acme/split") => json!({ "into": 2 }),
        ("post", "/executions") => json!({ "workflow": "trial" }),
        ("post", "/executions/trial:ended/signal") => json!({ "output": 1 }),
        ("put", _) => json!({ "shardID": named.shard }),
        _ => json!({}),
    }
}

fn trial() -> Value {
    json!({"StartAt": "Pass", "States": {"Pass": {"Type": "Pass", "End": true}}})
}

/// Runs an execution to its end, so that watching it ends.
async fn run_trial(it: &Instance) {
    let put = it.call("PUT", "/workflows/trial").json(&trial());
    put.send().await.expect(200);
    let body = json!({ "workflow": "trial", "name": "ended" });
    it.create("/executions", &body).await;
    let end = it.call("GET", "/executions/trial:ended/watch").send().await;
    assert!(end.text.contains("event: end"), "{}", end.text);
}

/// Another shard than this one.
fn others(shard: &str) -> &'static str {
    match shard {
        "shard-1" => "shard-2",
        _ => "shard-1",
    }
}

/// Moves `acme` to its end; returns its shard and the migration's id.
async fn move_it(it: &Instance, from: &str) -> (String, String) {
    let to = others(from);
    let call = it.call("POST", "/tenants/acme/move");
    let body = json!({ "toShardID": to, "windowMs": 0 });
    let begun = call.json(&body).send().await.expect(202);
    let id = text(&begun["migrationID"]);
    let watch = it.call("GET", &format!("/migrations/{id}/watch"));
    let end = watch.send().await.text;
    assert!(end.contains("event: end"), "{end}");
    (to.to_owned(), id)
}

fn with_body(call: Call, operation: &Operation, named: &Named) -> Call {
    if operation.method == "get" {
        call
    } else {
        call.json(&body(operation, named))
    }
}

#[tokio::test]
async fn every_operation_requires_a_role() {
    let it = Instance::start().await;
    let shard = text(&it.tenant("acme").await["slices"][0]["shardID"]);
    let (key, secret) = it.key("acme").await;
    let (_, viewer) = it.new_token("viewer").await;
    let (token, operator) = it.new_token("operator").await;
    run_trial(&it).await;
    let (shard, migration) = move_it(&it, &shard).await;
    let before = it.newest_event().await;
    let named = Named {
        shard,
        key,
        secret,
        token,
        migration,
    };
    let all = operations(&it, &named).await;
    for operation in &all {
        let name = format!("{} {}", operation.method, operation.path);
        let method = operation.method.to_uppercase();
        let call = |token: Option<&str>| {
            let call = it.anonymous(&method, &operation.path);
            let call = match token {
                Some(token) => call.token(token),
                None => call,
            };
            with_body(call, operation, &named).send()
        };
        for bad in [
            None,
            Some(unknown_secret(Purpose::AdminToken)),
            Some(named.secret.clone()),
        ] {
            let answer = call(bad.as_deref()).await;
            assert_eq!(answer.status, 401, "{name}: {}", answer.text);
            assert_eq!(
                answer.header("www-authenticate"),
                "Bearer realm=\"ballast\""
            );
        }
        let answer = call(Some(&viewer)).await;
        if operation.looks() && operation.is_about_nothing() {
            assert_eq!(answer.status, 404, "{name}: {}", answer.text);
        } else if operation.looks() && !operation.is_for_admins() {
            assert_eq!(answer.status, 200, "{name}: {}", answer.text);
        } else {
            answer.expect_error(403, "missing-role");
        }
        if operation.is_for_admins() {
            call(Some(&operator))
                .await
                .expect_error(403, "missing-role");
        }
    }
    // A dry run is allowed to everybody who may read.
    for (verb, mut body) in [
        ("move", json!({ "toShardID": others(&named.shard) })),
        ("split", json!({ "into": 2 })),
    ] {
        body["dryRun"] = true.into();
        let call = it.anonymous("POST", &format!("/tenants/acme/{verb}"));
        call.token(&viewer).json(&body).send().await.expect(200);
    }
    assert_eq!(it.newest_event().await, before, "nothing was changed");
    // What a viewer may not do, an operator may, except for what only admins may do. The shard is
    // not empty and the tenant is closed at that point, so a conflict is accepted, too.
    for operation in all.iter().filter(|one| !one.is_for_admins()) {
        let method = operation.method.to_uppercase();
        let call = it.anonymous(&method, &operation.path).token(&operator);
        let answer = with_body(call, operation, &named).send().await;
        assert!(
            answer.is_ok()
                || answer.status == 409
                || (operation.is_about_nothing() && answer.status == 404),
            "{method} {}: {}",
            operation.path,
            answer.text
        );
    }
}

/// Whether a token is accepted.
async fn enters(it: &Instance, token: &str) -> bool {
    let answer = it.anonymous("GET", "/whoami").token(token).send().await;
    answer.status == 200
}

#[tokio::test]
async fn the_last_admin_cannot_be_removed() {
    let it = Instance::start().await;
    let own = text(&it.get("/whoami").await["tokenID"]);
    let revoke = |id: &str| it.call("POST", &format!("/tokens/{id}/revoke"));
    revoke(&own).send().await.expect_error(409, "last-admin");
    // Operators do not count as admins, nor do admins that will expire.
    it.new_token("operator").await;
    let expiring = json!({
        "name": "guest", "role": "admin", "expiresAt": in_ms(3_600_000).to_string(),
    });
    it.create("/tokens", &expiring).await;
    revoke(&own).send().await.expect_error(409, "last-admin");
    let (_, second) = it.new_token("admin").await;
    revoke(&own).send().await.expect(200);
    assert!(!enters(&it, &it.token).await);
    assert!(enters(&it, &second).await);
}

#[tokio::test]
async fn revoked_and_expired_tokens_stop_at_once() {
    let it = Instance::start().await;
    let (id, token) = it.new_token("operator").await;
    assert!(enters(&it, &token).await);
    it.act(&format!("/tokens/{id}/revoke")).await;
    assert!(!enters(&it, &token).await);
    let expiring = json!({
        "name": "guest", "role": "admin", "expiresAt": in_ms(1_000).to_string(),
    });
    let made = it.create("/tokens", &expiring).await;
    let token = text(&made["token"]);
    let end: ballast_domain::Timestamp = text(&made["expiresAt"]).parse().unwrap();
    eventually("the expiry", async || {
        let asked_at = in_ms(0);
        let entered = enters(&it, &token).await;
        assert!(!entered || asked_at < end, "let in after its expiry");
        (!entered).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_admins_cannot_revoke_each_other() {
    let it = Instance::start().await;
    let mut token = it.token.clone();
    let mut id = text(&it.get("/whoami").await["tokenID"]);
    for _ in 0..10 {
        let call = it.anonymous("POST", "/tokens").token(&token);
        let made = call.json(&json!({ "name": "rival", "role": "admin" }));
        let made = made.send().await.expect(201);
        let (rival_id, rival) = (text(&made["tokenID"]), text(&made["token"]));
        let revoke = |by: &str, whom: &str| {
            let path = format!("/tokens/{whom}/revoke");
            it.anonymous("POST", &path).token(by).send()
        };
        let (one, two): (HttpAnswer, HttpAnswer) =
            tokio::join!(revoke(&token, &rival_id), revoke(&rival, &id));
        let done = [&one, &two].iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(done, 1, "{} / {}", one.text, two.text);
        let loser = if one.is_ok() { &two } else { &one };
        assert!([401, 409].contains(&loser.status), "{}", loser.text);
        let left = [enters(&it, &token).await, enters(&it, &rival).await];
        assert_eq!(left, [one.is_ok(), two.is_ok()]);
        if two.is_ok() {
            (token, id) = (rival, rival_id);
        }
    }
}
