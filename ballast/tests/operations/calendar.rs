//! Journey: a poll says how many voters it expects. Its counters get their lanes before it opens,
//! its tenant's migrations are frozen, and the reason is shown.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::support::polls::Application;
use crate::support::process::ballast;
use crate::support::{Instance, InstanceOptions, Process, in_ms, text, within};
use serde_json::{Value, json};

/// Migrations take time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const RULES: &str = r#"
[windows]
step = "1s"
short = "3s"
long = "6s"

[[rule]]
name = "busy"
when = "shard.pressure > 0.9"
"#;

async fn started(mode: &str, more: &str) -> Instance {
    let home = Arc::new(tempfile::tempdir().unwrap());
    fs::write(home.path().join("rules.toml"), RULES).unwrap();
    let config = format!(
        "[fleet]\nshards = 2\n[moves]\nwindow = \"1s\"\n\
         [hotspots]\nmode = \"{mode}\"\nrules = \"rules.toml\"\n{more}"
    );
    let options = InstanceOptions {
        config: Some(config),
        ..InstanceOptions::default()
    };
    Instance::within(home, options).await
}

/// A poll that opens in half an hour, with a peak of 15,000 votes/s.
fn event() -> Value {
    json!({ "openingTime": in_ms(1_800_000), "expectedVoters": 30_000_000 })
}

async fn find_shard(it: &Instance, tenant: &str) -> String {
    text(&it.get(&format!("/tenants/{tenant}")).await["slices"][0]["shardID"])
}

/// Requests to move a tenant to the other of two shards.
async fn request_move(it: &Instance, tenant: &str, max_pause_ms: Option<u64>) -> String {
    let to = match find_shard(it, tenant).await.as_str() {
        "shard-1" => "shard-2",
        _ => "shard-1",
    };
    let mut wanted = json!({ "toShardID": to });
    if let Some(most) = max_pause_ms {
        wanted["maxPauseMs"] = json!(most);
    }
    let path = format!("/tenants/{tenant}/move");
    let moved = it.call("POST", &path).json(&wanted);
    text(&moved.send().await.expect(202)["migrationID"])
}

/// Waits until a migration waits for this.
async fn waits_for(it: &Instance, id: &str, what: &str) -> Value {
    within(PATIENCE, what, async || {
        let now = it.get(&format!("/migrations/{id}")).await;
        now["waitingFor"].as_str()?.contains(what).then_some(now)
    })
    .await
}

async fn cli(it: &Instance, args: &[&str]) -> crate::support::ProcessExit {
    let mut command = ballast();
    command.args(args).args(["--url", &it.admin]);
    command
        .env("BALLAST_TOKEN", &it.token)
        .current_dir(it.home());
    Process::spawn(&mut command).wait_for_end().await
}

async fn wait_until_moved(it: &Instance, id: &str) {
    within(PATIENCE, "the migration", async || {
        let now = it.get(&format!("/migrations/{id}")).await;
        (now["status"] == "completed").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_large_scheduled_poll_gets_lanes_and_freezes_its_tenant() {
    let it = started("auto", "").await;
    it.tenant("acme").await;
    it.tenant("quiet").await;
    let app = Application::with_scopes(&it, "acme", &["vote", "read", "polls"]).await;
    let poll = app.poll(event()).await;
    let shown = app.get(&poll.path("")).await;
    assert_eq!(shown["expectedVoters"], 30_000_000, "{shown}");
    assert_eq!(shown["lanes"], 10, "{shown}");
    // 30 % of the voters in ten minutes, 500 votes/s per lane.
    within(PATIENCE, "lanes for all of them", async || {
        (app.get(&poll.path("")).await["lanes"] == 30).then_some(())
    })
    .await;
    let plan = it.get("/plans").await["items"][0].clone();
    assert_eq!(plan["does"], "more lanes", "{plan}");
    assert!(text(&plan["letter"]).contains("expects"), "{plan}");
    // A migration of its tenant waits, and says why.
    let shard = find_shard(&it, "acme").await;
    let id = request_move(&it, "acme", None).await;
    let waits = waits_for(&it, &id, "frozen until").await;
    let why = text(&waits["waitingFor"]);
    assert!(why.contains("expects 30000000 voters"), "{why}");
    let why = cli(&it, &["hotspot", "why-not", &shard]).await;
    assert!(why.stdout.contains("acme: moves of its"), "{why:?}");
    // Other tenants move as usual, and so does this one if an operator overrides the freeze.
    let other = request_move(&it, "quiet", None).await;
    wait_until_moved(&it, &other).await;
    let still = it.get(&format!("/migrations/{id}")).await;
    assert!(text(&still["waitingFor"]).contains("frozen"), "{still}");
    let approved = cli(&it, &["migration", "approve", &id]).await;
    assert_eq!(approved.code, Some(0), "{approved:?}");
    wait_until_moved(&it, &id).await;
    assert_ne!(find_shard(&it, "acme").await, shard);
    assert_eq!(app.get(&poll.path("")).await["lanes"], 30);
}

#[tokio::test]
async fn a_running_migration_does_not_cut_over_near_a_scheduled_poll() {
    let it = started("observe", "").await;
    it.tenant("acme").await;
    let app = Application::with_scopes(&it, "acme", &["vote", "read", "polls"]).await;
    // No write pause is that short: the migration copies, and waits.
    let id = request_move(&it, "acme", Some(1)).await;
    waits_for(&it, &id, "quieter moment").await;
    app.poll(event()).await;
    let held = waits_for(&it, &id, "frozen until").await;
    assert_eq!(held["phase"], "UpdateTenantRouting", "{held}");
    // An operator overrides the freeze.
    let approved = cli(&it, &["migration", "approve", &id]).await;
    assert_eq!(approved.code, Some(0), "{approved:?}");
    waits_for(&it, &id, "quieter moment").await;
    let cancelled = cli(&it, &["migration", "cancel", &id]).await;
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
}

#[tokio::test]
async fn lanes_are_proposed_once_and_small_polls_are_ignored() {
    let it = started("propose", "[calendar]\naudience_min = 40000000\n").await;
    it.tenant("acme").await;
    let app = Application::with_scopes(&it, "acme", &["vote", "read", "polls"]).await;
    let small = app.poll(event()).await;
    let mut large = event();
    large["expectedVoters"] = json!(50_000_000);
    let large = app.poll(large).await;
    let proposed = within(PATIENCE, "a plan", async || {
        let plans = it.get("/plans").await["items"].clone();
        plans.as_array()?.first().cloned()
    })
    .await;
    assert_eq!(proposed["status"], "proposed", "{proposed}");
    let about =
        |poll: &crate::support::polls::TestPoll| text(&proposed["letter"]).contains(&poll.id);
    assert!(about(&large) && !about(&small), "{proposed}");
    let id = text(&proposed["planID"]);
    it.act(&format!("/plans/{id}/approve")).await;
    within(PATIENCE, "its lanes", async || {
        (app.get(&large.path("")).await["lanes"] == 50).then_some(())
    })
    .await;
    assert_eq!(app.get(&small.path("")).await["lanes"], 10);
    assert_eq!(it.all("/plans").await.len(), 1);
    let wrong = app.call("POST", "/polls").json(&json!({
        "items": ["a", "b"], "expirationTime": in_ms(3_600_000), "expectedVoters": 0,
    }));
    wrong.send().await.expect_error(422, "invalid-field");
}
