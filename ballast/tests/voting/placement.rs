//! Journey: ten thousand tenants and a fifth shard; previews and explanations are compared with
//! what happens.

use std::collections::BTreeMap;

use crate::support::{Call, Instance, eventually, run_concurrently, text};
use serde_json::{Value, json};

const TENANTS: usize = 10_000;

/// Creates tenants `t-0…` concurrently; returns the answers in order.
async fn tenants(it: &Instance, count: usize, extra: Value) -> Vec<crate::support::HttpAnswer> {
    let (client, admin, token) = (it.http().clone(), it.admin.clone(), it.token.clone());
    run_concurrently(32, count, move |number| {
        let mut body = extra.clone();
        body["tenantID"] = json!(format!("t-{number}"));
        let call = Call::new(&client, "POST", &format!("{admin}/tenants"))
            .token(&token)
            .json(&body);
        async move { call.send().await }
    })
    .await
}

/// The shard of each tenant.
async fn homes(it: &Instance) -> BTreeMap<String, String> {
    let all = it.all("/tenants").await;
    all.iter()
        .map(|tenant| {
            (
                text(&tenant["tenantID"]),
                text(&tenant["slices"][0]["shardID"]),
            )
        })
        .collect()
}

/// The moves of a preview or of the drift, from all pages, without the flag that says whether they
/// were due before.
async fn moves(it: &Instance, change: Option<&Value>) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = match change {
            Some(change) => {
                let path = format!("/placement/preview?limit=700{cursor}");
                let call = it.call("POST", &path).json(change);
                call.send().await.expect(200)
            }
            None => it.get(&format!("/placement/drift?limit=700{cursor}")).await,
        };
        for item in page["items"].as_array().unwrap() {
            found.push((
                text(&item["tenantID"]),
                text(&item["fromShardID"]),
                text(&item["toShardID"]),
            ));
        }
        let Some(next) = page["nextCursor"].as_str() else {
            assert_eq!(page["movesTotal"], json!(found.len()));
            return found;
        };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_preview_of_a_fifth_shard_matches_the_placement_afterwards() {
    let it = Instance::start().await;
    for answer in tenants(&it, TENANTS, json!({})).await {
        answer.expect(201);
    }
    let before = homes(&it).await;
    assert_eq!(before.len(), TENANTS);
    assert_eq!(it.get("/placement/drift").await["items"], json!([]));

    let change = json!({ "add": { "shardID": "shard-5", "weight": 1 } });
    let events = it.newest_event().await;
    let preview = moves(&it, Some(&change)).await;
    assert_eq!(it.newest_event().await, events, "a preview changes nothing");
    // A fifth of the tenants, within five standard deviations.
    let sigma = (TENANTS as f64 * 0.2 * 0.8).sqrt();
    let distance = (preview.len() as f64 - TENANTS as f64 / 5.0).abs();
    assert!(distance < 5.0 * sigma, "{} would move", preview.len());
    for (tenant, from, to) in &preview {
        assert_eq!(to, "shard-5");
        assert_eq!(before.get(tenant), Some(from));
    }

    it.create("/shards", &change["add"]).await;
    assert_eq!(moves(&it, None).await, preview);
    assert_eq!(
        homes(&it).await,
        before,
        "no tenant moves without a command"
    );
    let due: BTreeMap<_, _> = preview.iter().map(|(tenant, _, to)| (tenant, to)).collect();
    for number in (0..TENANTS).step_by(200) {
        let tenant = format!("t-{number}");
        let shown = it.get(&format!("/tenants/{tenant}/placement")).await;
        let home = &before[&tenant];
        assert_eq!(text(&shown["shardID"]), *home);
        let belongs = due.get(&tenant).copied().unwrap_or(home);
        assert_eq!(text(&shown["preferredShardID"]), *belongs);
    }
    tenants_leaving(&it).await;
}

/// The moves in the preview of removing a shard.
async fn tenants_leaving(it: &Instance) {
    let change = json!({ "remove": "shard-2" });
    let preview = moves(it, Some(&change)).await;
    it.patch("/shards/shard-2", &json!({ "state": "draining" }))
        .await;
    assert_eq!(moves(it, None).await, preview);
    let leaving = preview.iter().filter(|(_, from, _)| from == "shard-2");
    let held = it.slices_per_shard().await["shard-2"];
    assert_eq!(
        leaving.count() as u64,
        held,
        "all that it holds, and only that"
    );
    assert!(preview.iter().all(|(_, _, to)| to != "shard-2"));
}

#[tokio::test]
async fn explanations_hold_when_tried() {
    let it = Instance::start().await;
    it.create("/shards", &json!({ "shardID": "shard-5", "weight": 2.5 }))
        .await;
    it.patch("/shards/shard-1", &json!({ "state": "down" }))
        .await;
    for number in 0..20 {
        let tenant = format!("t-{number}");
        it.tenant(&tenant).await;
        let reply = it
            .get(&format!("/tenants/{tenant}/placement/explain"))
            .await;
        assert_eq!(reply["shardID"], reply["preferredShardID"]);
        assert_explains_every_shard(&reply);
        let ways = reply["wouldMove"].as_array().unwrap();
        assert!(ways.len() >= 4, "{reply}");
        for way in ways {
            tried(&it, &tenant, way, &reply).await;
        }
        let after = it
            .get(&format!("/tenants/{tenant}/placement/explain"))
            .await;
        assert_eq!(after, reply, "all is as before");
    }
}

fn assert_explains_every_shard(reply: &Value) {
    let shards = reply["shards"].as_array().unwrap();
    let mut names: Vec<_> = shards.iter().map(|shard| text(&shard["shardID"])).collect();
    let score = |shard: &Value| shard["score"].as_f64().unwrap();
    let open = |shard: &&Value| shard["vetoes"].as_array().unwrap().is_empty();
    let best = shards
        .iter()
        .filter(open)
        .max_by(|one, two| score(one).total_cmp(&score(two)))
        .unwrap();
    assert_eq!(best["shardID"], reply["preferredShardID"]);
    let second = shards
        .iter()
        .filter(open)
        .filter(|shard| shard["shardID"] != best["shardID"])
        .map(score)
        .fold(0.0, f64::max);
    let margin = reply["margin"].as_f64().unwrap();
    assert!((margin - (score(best) - second)).abs() < 1e-9, "{reply}");
    names.sort();
    assert_eq!(
        names,
        ["shard-1", "shard-2", "shard-3", "shard-4", "shard-5"]
    );
    let down = shards
        .iter()
        .find(|shard| shard["shardID"] == "shard-1")
        .unwrap();
    assert_eq!(down["vetoes"][0]["code"], "state");
}

/// Makes the change, reads the placement, and undoes the change.
async fn tried(it: &Instance, tenant: &str, way: &Value, reply: &Value) {
    let shard = text(&way["shardID"]);
    let path = format!("/shards/{shard}");
    let was = reply["shards"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["shardID"] == way["shardID"])
        .unwrap();
    let field = text(&way["change"]);
    it.patch(&path, &json!({ &field: way["to"] })).await;
    let placement = it.get(&format!("/tenants/{tenant}/placement")).await;
    assert_eq!(placement["preferredShardID"], way["toShardID"], "{way}");
    assert_ne!(placement["preferredShardID"], reply["preferredShardID"]);
    it.patch(&path, &json!({ &field: was[&field] })).await;
}

#[tokio::test]
async fn a_pin_decides_and_unpinning_undoes_it() {
    let it = Instance::start().await;
    let home = text(&it.tenant("acme").await["slices"][0]["shardID"]);
    let other = if home == "shard-1" {
        "shard-2"
    } else {
        "shard-1"
    };
    let path = "/tenants/acme/placement/pin";
    let pinned = it
        .call("PUT", &format!("{path}?reason=near+its+users"))
        .json(&json!({ "shardID": other }))
        .send()
        .await
        .expect(200);
    assert_eq!(text(&pinned["shardID"]), home);
    assert_eq!(text(&pinned["preferredShardID"]), other);
    assert_eq!(pinned["pin"]["reason"], "near its users");
    let reply = it.get("/tenants/acme/placement/explain").await;
    let ways = reply["wouldMove"].as_array().unwrap();
    assert_eq!(ways[0]["change"], "none");
    assert_eq!(ways[0]["toShardID"], json!(other));
    assert_eq!(ways[1]["change"], "unpin");
    assert_eq!(text(&ways[1]["toShardID"]), home);
    assert_eq!(moves(&it, None).await.len(), 1);
    let free = it.call("DELETE", path).send().await.expect(200);
    assert_eq!(text(&free["preferredShardID"]), home);
    assert_eq!(free["pin"], Value::Null);
    it.patch(&format!("/shards/{other}"), &json!({ "state": "down" }))
        .await;
    let refused = it.call("PUT", path).json(&json!({ "shardID": other }));
    refused.send().await.expect_error(409, "pin-refused");
    let unknown = it.call("PUT", path).json(&json!({ "shardID": "shard-9" }));
    unknown.send().await.expect_error(404, "shard-not-found");
}

#[tokio::test]
async fn past_placements_are_explained_as_of_then() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let explain = "/tenants/acme/placement/explain";
    let first = it.get(explain).await;
    let first_at = newest_at(&it).await;
    passed(&it, &first_at).await;
    it.create("/shards", &json!({ "shardID": "shard-5" })).await;
    let second = it.get(explain).await;
    let second_at = newest_at(&it).await;
    passed(&it, &second_at).await;
    it.patch("/shards/shard-1", &json!({ "weight": 500 })).await;
    let third = it.get(explain).await;
    assert_eq!(first["shards"].as_array().unwrap().len(), 4);
    assert_eq!(second["shards"].as_array().unwrap().len(), 5);
    assert_eq!(third["preferredShardID"], "shard-1");
    assert_eq!(it.get(&format!("{explain}?at={first_at}")).await, first);
    assert_eq!(it.get(&format!("{explain}?at={second_at}")).await, second);
    let now = newest_at(&it).await;
    assert_eq!(it.get(&format!("{explain}?at={now}")).await, third);
    let long_ago = it.call("GET", &format!("{explain}?at=2020-01-01T00:00:00Z"));
    long_ago.send().await.expect_error(404, "no-history");
}

async fn newest_at(it: &Instance) -> String {
    text(&it.get("/events?limit=1").await["items"][0]["at"])
}

/// Waits for the next millisecond, because the time of events has that resolution.
async fn passed(it: &Instance, at: &str) {
    let at: ballast_domain::Timestamp = at.parse().unwrap();
    eventually("a later millisecond", async || {
        it.get("/whoami").await;
        (crate::support::in_ms(0) > at).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_density_limit_holds_against_concurrent_creates() {
    let it = Instance::start().await;
    for (shard, most) in [
        ("shard-1", 3),
        ("shard-2", 7),
        ("shard-3", 12),
        ("shard-4", 18),
    ] {
        it.patch(&format!("/shards/{shard}"), &json!({ "maxSlices": most }))
            .await;
    }
    let answers = tenants(&it, 64, json!({})).await;
    let made = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(made, 40, "every place is taken and no more");
    for answer in answers.into_iter().filter(|answer| !answer.is_ok()) {
        let problem = answer.expect_error(409, "no-eligible-shard");
        assert!(text(&problem["detail"]).contains("is full"), "{problem}");
    }
    let tallies: Vec<_> = it.slices_per_shard().await.into_values().collect();
    assert_eq!(tallies, [3, 7, 12, 18]);
}

#[tokio::test]
async fn a_busy_shard_gets_fewer_tenants_and_keeps_its_own() {
    let it = Instance::start().await;
    it.patch("/shards/shard-1", &json!({ "maxSlices": 10 }))
        .await;
    let mut number = 0;
    while it.slices_per_shard().await["shard-1"] < 8 {
        it.tenant(&format!("t-{number}")).await;
        number += 1;
    }
    eventually("a busy shard", async || {
        let shard = it.get("/shards/shard-1").await;
        (shard["pressure"] == "busy").then_some(())
    })
    .await;
    let events = it.get("/events?kind=shard&id=shard-1&limit=1").await;
    assert_eq!(events["items"][0]["action"], "shard.pressure");
    let mut passed_over = 0;
    for _ in 0..40 {
        let made = it.tenant(&format!("t-{number}")).await;
        number += 1;
        let over = made["slices"][0]["passedOver"].as_array();
        passed_over += usize::from(over.is_some_and(|over| over.contains(&json!("shard-1"))));
    }
    assert!(passed_over > 0, "no tenant preferred another shard");
    assert!(it.slices_per_shard().await["shard-1"] <= 10);
    assert_eq!(it.get("/placement/drift").await["items"], json!([]));
    // Calm again: tenants that were placed elsewhere are not due to move there.
    it.patch("/shards/shard-1", &json!({ "maxSlices": 1000 }))
        .await;
    eventually("a calm shard", async || {
        let shard = it.get("/shards/shard-1").await;
        (shard["pressure"] == "calm").then_some(())
    })
    .await;
    assert_eq!(it.get("/placement/drift").await["items"], json!([]));
}

#[tokio::test]
async fn zones_are_respected() {
    let it = Instance::start().await;
    it.patch("/shards/shard-2", &json!({ "zones": ["ekb", "ssd"] }))
        .await;
    it.patch("/shards/shard-3", &json!({ "zones": ["msk"] }))
        .await;
    for number in 0..10 {
        let body = json!({ "tenantID": format!("t-{number}"), "zones": ["ekb"] });
        let made = it.create("/tenants", &body).await;
        assert_eq!(made["slices"][0]["shardID"], "shard-2");
    }
    let body = json!({ "tenantID": "two", "zones": ["ekb", "msk"] });
    let home = text(&it.create("/tenants", &body).await["slices"][0]["shardID"]);
    assert!(["shard-2", "shard-3"].contains(&home.as_str()));
    // Another zone: the tenant stays on its shard and is due to move.
    it.patch("/tenants/t-0", &json!({ "zones": ["msk"] })).await;
    let due = moves(&it, None).await;
    assert_eq!(
        due,
        [("t-0".to_owned(), "shard-2".to_owned(), "shard-3".to_owned())]
    );
}

#[tokio::test]
async fn a_secondary_region_is_used_only_when_home_has_no_room() {
    let it = Instance::start().await;
    it.create(
        "/shards",
        &json!({ "shardID": "far-1", "region": "far", "weight": 100 }),
    )
    .await;
    let permitted = json!({ "policy": "permitted", "secondaryRegions": ["far"] });
    for number in 0..10 {
        let body = json!({ "tenantID": format!("t-{number}"), "residency": permitted });
        let made = it.create("/tenants", &body).await;
        assert_ne!(made["slices"][0]["shardID"], "far-1");
    }
    for number in 1..=4 {
        let path = format!("/shards/shard-{number}");
        it.patch(&path, &json!({ "state": "down" })).await;
    }
    let body = json!({ "tenantID": "away", "residency": permitted });
    let made = it.create("/tenants", &body).await;
    assert_eq!(made["slices"][0]["shardID"], "far-1");
    let strict = it
        .call("POST", "/tenants")
        .json(&json!({ "tenantID": "strict" }));
    strict.send().await.expect_error(409, "no-eligible-shard");
    let reply = it.get("/tenants/away/placement/explain").await;
    let far = &reply["shards"][0];
    assert_eq!(
        (&far["shardID"], &far["secondary"]),
        (&json!("far-1"), &json!(true))
    );
    // Its home region has room again: the tenant is due to move back.
    it.patch("/shards/shard-3", &json!({ "state": "active" }))
        .await;
    let shown = it.get("/tenants/away/placement").await;
    assert_eq!(shown["preferredShardID"], "shard-3");
}
