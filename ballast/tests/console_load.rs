//! Hotspots, plans, load and replay on the console, with load that is real.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use support::pages::Browser;
use support::polls::Application;
use support::{Instance, Options, text, within};

/// Hotspots are found and cured in seconds here, and a machine may be busy.
const PATIENCE: Duration = Duration::from_secs(150);

const RULES: &str = r#"
[windows]
step = "1s"
short = "3s"
long = "6s"

[[rule]]
name = "busy"
summary = "More votes than the shard should have."
when = "shard.votes > 50.0"
for = "3s"
clear = "shard.votes < 45.0"
clear_for = "2s"
severity = "critical"
"#;

async fn started() -> Instance {
    let home = Arc::new(tempfile::tempdir().unwrap());
    std::fs::write(home.path().join("rules.toml"), RULES).unwrap();
    let config = "[fleet]\nshards = 2\n[load]\nvotes_per_second = 60\n[moves]\nwindow = \"1s\"\n\
                  [hotspots]\nmode = \"propose\"\nrules = \"rules.toml\"\nsettle = \"0s\"\njudge = \"4s\"\n";
    let options = Options {
        config: Some(config.to_owned()),
        ..Options::default()
    };
    Instance::within(home, options).await
}

/// Votes forty times a second until told to end.
fn busy(app: Application, ending: Arc<AtomicBool>) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let poll = app.poll(json!({})).await;
        let mut beat = tokio::time::interval(Duration::from_millis(100));
        let mut voter = 0;
        while !ending.load(Ordering::SeqCst) {
            beat.tick().await;
            let lines: String = (0..4)
                .map(|n| poll.line(0, &format!("v-{}", voter + n)))
                .collect();
            voter += 4;
            app.send_lines(lines).await;
        }
    })
}

/// Two tenants that are on one shard.
async fn two_on_one(it: &Instance) -> [String; 2] {
    let mut by_shard = std::collections::BTreeMap::new();
    for number in 0.. {
        let tenant = format!("tenant-{number}");
        let made = it.tenant(&tenant).await;
        let shard = text(&made["slices"][0]["shardID"]);
        if let Some(other) = by_shard.insert(shard, tenant.clone()) {
            return [other, tenant];
        }
    }
    unreachable!()
}

async fn first(it: &Instance, path: &str) -> Option<Value> {
    let page = it.get(path).await;
    page["items"].as_array().unwrap().first().cloned()
}

#[tokio::test]
async fn a_plan_is_read_and_approved_and_load_is_drawn_and_replayed() {
    let it = started().await;
    let ending = Arc::new(AtomicBool::new(false));
    let mut voting = Vec::new();
    for tenant in two_on_one(&it).await {
        let app = Application::with_scopes(&it, &tenant, &["vote", "read", "polls"]).await;
        voting.push(busy(app, ending.clone()));
    }
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let empty = browser.get("/console/hotspots").await.expect(200);
    assert!(empty.text.contains("nothing is hot"));
    let plan = within(PATIENCE, "a plan", async || {
        first(&it, "/plans?open=true").await
    })
    .await;
    let id = text(&plan["planID"]);
    let hotspot = text(&first(&it, "/hotspots").await.unwrap()["hotspotID"]);

    let list = browser
        .get("/console/hotspots?shard=shard-1")
        .await
        .expect(200);
    assert!(list.text.contains(&hotspot) && list.text.contains(&id) && list.text.contains("busy"));
    let shown = browser
        .get(&format!("/console/hotspots/{hotspot}"))
        .await
        .expect(200);
    assert!(shown.text.contains("Diagnosis") && shown.text.contains("data-series"));
    let path = format!("/console/plans/{id}");
    let shown = browser.get(&path).await.expect(200);
    assert!(shown.text.contains("Approve") && shown.text.contains("proposed"));

    // A viewer reads it and has no say.
    let (_, viewer) = it.new_token("viewer").await;
    let mut viewer = Browser::logged_in(&it, &viewer).await;
    assert!(
        !viewer
            .get(&path)
            .await
            .expect(200)
            .text
            .contains("/approve")
    );
    viewer
        .act("/console", &format!("{path}/approve"), &[])
        .await
        .expect(403);

    let approved = browser
        .act(&path, &format!("{path}/approve"), &[("reason", "go on")])
        .await;
    approved.expect(303);
    let plan = it.get(&format!("/plans/{id}")).await;
    assert_ne!(plan["status"], "proposed");
    assert_eq!(plan["decided"]["reason"], "go on");
    within(PATIENCE, "the moves", async || {
        let page = browser.get(&path).await.expect(200);
        page.text.contains("/console/moves/").then_some(())
    })
    .await;

    let load = browser.get("/console/load?minutes=15").await.expect(200);
    for said in [
        "Heat, shard by shard",
        "data-tip=\"shard-1",
        "data-series",
        "Skew",
    ] {
        assert!(load.text.contains(said), "{said}");
    }
    let replay = browser
        .get("/console/replay?minutes=15&place=200")
        .await
        .expect(200);
    assert!(replay.text.contains("type=\"range\"") && replay.text.contains("plan.approve"));
    let record = browser
        .get("/console/replay/load.ndjson?minutes=15")
        .await
        .expect(200);
    assert!(record.text.lines().count() > 1, "{}", record.text);
    browser
        .get("/console/replay?from=tomorrow")
        .await
        .expect(422);
    browser.get("/console/plans/none").await.expect(404);
    browser.get("/console/hotspots/none").await.expect(404);
    ending.store(true, Ordering::SeqCst);
    for voting in voting {
        voting.await.unwrap();
    }
}
