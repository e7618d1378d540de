//! Journey: cures other than moves, in auto mode. A tenant that is too big for any shard is split;
//! a full fleet gets a shard; where Ballast cannot create one, it asks the operators for it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::busy::BusyTenant;
use crate::support::process::ballast;
use crate::support::{Instance, InstanceOptions, Process, eventually, text, within};
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};

/// Splits, migrations and the judgement of cures take time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// A shard is rated at 60 votes/s; one with more than 50 is a hotspot.
const RULES: &str = r#"
[windows]
step = "1s"
short = "3s"
long = "6s"

[[rule]]
name = "busy"
when = "shard.votes > 50.0"
for = "3s"
clear = "shard.votes < 48.0"
clear_for = "2s"
"#;

async fn started(more: &str, env: Vec<(String, String)>) -> Instance {
    let home = Arc::new(tempfile::tempdir().unwrap());
    fs::write(home.path().join("rules.toml"), RULES).unwrap();
    let config = format!(
        "[fleet]\nshards = 2\n[load]\nvotes_per_second = 60\n[moves]\nwindow = \"1s\"\n\
         [hotspots]\nmode = \"auto\"\nrules = \"rules.toml\"\nsettle = \"0s\"\njudge = \"3s\"\n\
         {more}"
    );
    let options = InstanceOptions {
        config: Some(config),
        env,
        ..InstanceOptions::default()
    };
    Instance::within(home, options).await
}

/// The first plan with this cure.
async fn plan_that(it: &Instance, does: &str) -> Option<Value> {
    let mut plans = it.all("/plans").await.into_iter();
    plans.find(|plan| plan["does"] == does)
}

async fn wait_until_cool(it: &Instance) {
    within(PATIENCE, "nothing is hot", async || {
        let open = it.get("/hotspots?open=true").await;
        open["items"].as_array()?.is_empty().then_some(())
    })
    .await;
}

async fn list_shards(it: &Instance, tenant: &str) -> BTreeSet<String> {
    let tenant = it.get(&format!("/tenants/{tenant}")).await;
    let slices = tenant["slices"].as_array().unwrap().iter();
    slices.map(|slice| text(&slice["shardID"])).collect()
}

#[tokio::test]
async fn a_tenant_that_is_too_big_for_any_shard_is_split() {
    let it = started("", Vec::new()).await;
    it.tenant("acme").await;
    let busy = BusyTenant::begin(&it, "acme", 6, 64).await;
    let plan = within(PATIENCE, "a split", async || plan_that(&it, "split").await).await;
    let letter = text(&plan["letter"]);
    assert!(letter.contains("Split acme into 2 parts"), "{plan}");
    within(PATIENCE, "it is on two shards", async || {
        (list_shards(&it, "acme").await.len() == 2).then_some(())
    })
    .await;
    wait_until_cool(&it).await;
    let id = text(&plan["planID"]);
    let done = within(PATIENCE, "the split is judged", async || {
        let plan = it.get(&format!("/plans/{id}")).await;
        (plan["status"] == "done").then_some(plan)
    })
    .await;
    assert!(text(&done["note"]).contains("has 2 slices"), "{done}");
    busy.end().await;
}

#[tokio::test]
async fn a_full_fleet_gets_a_shard_and_uses_it() {
    let it = started("", Vec::new()).await;
    let mut busy = Vec::new();
    for number in 0..3 {
        let tenant = format!("tenant-{number}");
        it.tenant(&tenant).await;
        busy.push(BusyTenant::begin(&it, &tenant, 4, 1).await);
    }
    within(PATIENCE, "a third shard", async || {
        let shards = it.get("/shards").await;
        let ids = shards["items"].as_array()?.iter();
        ids.map(|shard| text(&shard["shardID"]))
            .find(|id| id == "shard-3")
    })
    .await;
    let plan = plan_that(&it, "add shards").await.unwrap();
    assert!(
        text(&plan["letter"]).contains("Add a shard to local"),
        "{plan}"
    );
    wait_until_cool(&it).await;
    let mut used = BTreeSet::new();
    for busy in &busy {
        used.extend(list_shards(&it, &busy.tenant).await);
    }
    assert_eq!(used.len(), 3, "{used:?}");
    for busy in busy {
        busy.end().await;
    }
}

type ReceivedHooks = Arc<Mutex<Vec<Value>>>;

async fn receive_hook(State(heard): State<ReceivedHooks>, body: String) {
    let reply = serde_json::from_str(&body).unwrap();
    heard.lock().unwrap().push(reply);
}

#[tokio::test]
async fn operators_are_asked_for_shards_that_ballast_cannot_create() {
    let heard = ReceivedHooks::default();
    let app = Router::new()
        .route("/hook", post(receive_hook))
        .with_state(heard.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let hook = format!(
        "[[webhooks]]\nurl = \"{url}\"\nsecret = \"env:HOOK_SECRET\"\nevents = [\"plan\"]\n"
    );
    let secret = ("HOOK_SECRET".to_owned(), "x".repeat(32));
    let it = started(&hook, vec![secret]).await;
    // A region whose shards were added by an operator.
    let far = |id: &str| json!({"shardID": id, "url": format!("file:far/{id}"), "region": "far"});
    it.create("/shards", &far("far-1")).await;
    let tenant = json!({"tenantID": "acme", "homeRegion": "far"});
    it.create("/tenants", &tenant).await;
    it.create(
        "/tenants",
        &json!({"tenantID": "more", "homeRegion": "far"}),
    )
    .await;
    let one = BusyTenant::begin(&it, "acme", 4, 1).await;
    let two = BusyTenant::begin(&it, "more", 4, 1).await;
    let plan = within(PATIENCE, "a request", async || {
        let plan = plan_that(&it, "add shards").await?;
        plan["shardsNeeded"].is_object().then_some(plan)
    })
    .await;
    assert_eq!(plan["status"], "running", "{plan}");
    assert_eq!(plan["shardsNeeded"]["region"], "far", "{plan}");
    assert_eq!(plan["shardsNeeded"]["count"], 1, "{plan}");
    let reply = eventually("the webhook", async || {
        let heard = heard.lock().unwrap();
        let mut reply = heard.iter();
        reply
            .find(|it| it["event"] == "plan.shards-needed")
            .cloned()
    })
    .await;
    assert!(text(&reply["text"]).contains("1 shard more"), "{reply}");
    let id = text(&plan["planID"]);
    let mut command = ballast();
    command.args(["plan", "show", &id, "--url", &it.admin]);
    command.env("BALLAST_TOKEN", &it.token);
    let shown = Process::spawn(&mut command).wait_for_end().await;
    assert!(shown.stdout.contains("1 more shard in far"), "{shown:?}");
    let why = it.get("/shards/far-1/why-not").await;
    assert!(
        text(&why["answer"]).contains("waits for 1 more shard"),
        "{why}"
    );
    // An operator adds a shard; the plan then continues without a command.
    it.create("/shards", &far("far-2")).await;
    within(PATIENCE, "they are apart", async || {
        let (one, two) = (
            list_shards(&it, "acme").await,
            list_shards(&it, "more").await,
        );
        (one != two).then_some(())
    })
    .await;
    wait_until_cool(&it).await;
    one.end().await;
    two.end().await;
}
