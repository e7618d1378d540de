//! Journey: load is measured, recorded and reported, and survives a kill.

use std::fs;
use std::sync::Arc;

use crate::support::polls::Application;
use crate::support::{Instance, InstanceOptions, eventually, text};
use serde_json::{Value, json};

/// Starts an instance with load steps of one second, and windows of two and four.
const RULES: &str = "[windows]\nstep = \"1s\"\nshort = \"2s\"\nlong = \"4s\"\n";

async fn measured() -> Instance {
    let home = Arc::new(tempfile::tempdir().unwrap());
    fs::write(home.path().join("rules.toml"), RULES).unwrap();
    let config = "[hotspots]\nrules = \"rules.toml\"\n[load]\nvotes_per_second = 50\n";
    let options = InstanceOptions {
        config: Some(config.to_owned()),
        ..InstanceOptions::default()
    };
    Instance::within(home, options).await
}

fn find<'a>(list: &'a Value, field: &str, id: &str) -> Option<&'a Value> {
    list.as_array().unwrap().iter().find(|it| it[field] == id)
}

#[tokio::test]
async fn load_is_reported_by_shard_and_tenant_and_survives_a_kill() {
    let mut it = measured().await;
    let acme = Application::create(&it, "acme").await;
    let poll = acme.poll(json!({})).await;
    let lines: String = (0..200)
        .map(|n| poll.line(n % 2, &format!("v-{n}")))
        .collect();
    acme.send_lines(lines).await;
    acme.vote(&poll, 0, "one-more").await.expect(200);
    acme.vote(&poll, 0, "one-more").await.expect(200);
    acme.get(&poll.path("/votes")).await;
    let shard = text(&it.get("/tenants/acme").await["slices"][0]["shardID"]);

    let now = eventually("the votes in the load", async || {
        let now = it.get("/load").await;
        let tenant = find(&now["tenants"], "tenantID", "acme")?.clone();
        (tenant["votesPerSecond"].as_f64()? > 0.0).then_some((now, tenant))
    });
    let (now, tenant) = now.await;
    assert_eq!(now["stepMs"], 1_000);
    let hot = find(&now["shards"], "shardID", &shard).unwrap();
    assert!(hot["votesPerSecond"].as_f64().unwrap() > 0.0, "{hot}");
    assert!(hot["heat"].as_f64().unwrap() > 0.0, "{hot}");
    assert!(hot["voteLatency"]["p99"].as_f64().is_some(), "{hot}");
    assert_eq!(hot["capacity"]["votesPerSecond"], 50.0);
    assert!(tenant["latency"]["p50"].as_f64().is_some(), "{tenant}");
    assert_eq!(tenant["slices"][0]["shardID"], shard.as_str());
    assert_eq!(now["polls"][0]["pollID"], poll.id.as_str());
    assert_eq!(now["keys"][0]["tenantID"], "acme");
    assert_eq!(now["shards"].as_array().unwrap().len(), 4);

    // All votes are in the record.
    let all = |it: &Instance| {
        let call = it.call("GET", "/load/record");
        let shard = shard.clone();
        async move { votes(&call.send().await.text, &shard) }
    };
    eventually("every vote in the record", async || {
        (all(&it).await == 202).then_some(())
    })
    .await;
    let path = "/load/history?step=2000&tenantID=acme";
    let history = it.get(path).await;
    let points = &history["tenants"][0]["points"];
    assert!(
        points[0]["votesPerSecond"].as_f64().unwrap() > 0.0,
        "{history}"
    );

    it.kill9();
    let files = it.home().join("data/load");
    let file = fs::read_dir(&files)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut torn = fs::read(&file).unwrap();
    torn.extend_from_slice(b"{\"kind\":\"shard\",");
    fs::write(&file, torn).unwrap();
    let it = it.restart().await;
    assert_eq!(all(&it).await, 202, "it lost what it had");
    // Recording continues after the restart.
    let at = text(&points[0]["at"]);
    eventually("new steps", async || {
        let now = it.get("/load").await;
        (now["at"].as_str()? > at.as_str()).then_some(())
    })
    .await;
    let then = it.get(&format!("/load?at={}", text(&now["at"]))).await;
    assert!(
        find(&then["tenants"], "tenantID", "acme").is_some(),
        "{then}"
    );
    let record = it.call("GET", "/load/record").send().await;
    assert!(record.text.starts_with("{\"format\":\"ballast-load\""));
    assert!(record.text.contains("\"tenant\":\"acme\""));
}

/// The votes of a shard in a record.
fn votes(record: &str, shard: &str) -> u64 {
    let lines = record
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let shards = lines.filter(|line| line["kind"] == "shard" && line["shard"] == shard);
    let votes = shards.map(|line| line["flow"]["votes"].as_f64().unwrap());
    votes.sum::<f64>() as u64
}

#[tokio::test]
async fn invalid_load_queries_are_refused_with_a_pointer() {
    let it = measured().await;
    for (query, place) in [
        ("history?step=1", "?step"),
        (
            "history?from=2027-01-01T00:00:00Z&to=2026-01-01T00:00:00Z",
            "?from",
        ),
        ("history?from=2020-01-01T00:00:00Z&step=1000", "?step"),
        ("history?from=yesterday", "?from"),
        ("history?tenants=0", "?tenants"),
        ("record?step=0", "?step"),
    ] {
        let answer = it.call("GET", &format!("/load/{query}")).send().await;
        let body = answer.expect_error(422, "invalid-field");
        assert!(body.to_string().contains(place), "{query}: {body}");
    }
    it.anonymous("GET", "/load")
        .send()
        .await
        .expect_error(401, "bad-credential");
    assert_eq!(it.get("/load?tenantID=nobody").await["tenants"], json!([]));
}

#[tokio::test]
async fn the_metrics_name_shards_and_only_the_hottest_tenants() {
    let it = measured().await;
    for tenant in 0..25 {
        let app = Application::create(&it, &format!("tenant-{tenant}")).await;
        let poll = app.poll(json!({})).await;
        app.vote(&poll, 0, "a").await.expect(200);
    }
    eventually("tenants in the metrics", async || {
        let text = it.route("GET", "/metrics").send().await.text;
        let named = text
            .lines()
            .filter(|line| line.starts_with("ballast_load_tenant_heat{"));
        let votes: f64 = text
            .lines()
            .filter(|line| line.starts_with("ballast_load_votes_total{"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        assert!(named.clone().count() <= 20, "{text}");
        (named.count() == 20 && votes >= 25.0).then_some(())
    })
    .await;
}
