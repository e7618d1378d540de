//! Journey: skewed load causes a hotspot, a tenant is moved, the hotspot clears, and no vote is
//! lost or counted twice. Windows are short here; the rules come from a file like an operator's.

use std::fs;
use std::sync::Arc;

use crate::support::busy::BusyTenant;
use crate::support::hot::{
    PATIENCE, RULES, find_shard, first, overload_one_shard, started, started_with,
};
use crate::support::polls::Application;
use crate::support::process::ballast;
use crate::support::{Instance, InstanceOptions, Process, eventually, text, within};
use ballast_domain::Timestamp;
use serde_json::{Value, json};

/// Runs a command.
async fn cli(it: &Instance, args: &[&str]) -> crate::support::ProcessExit {
    let mut command = ballast();
    command.args(args).args(["--url", &it.admin]);
    command
        .env("BALLAST_TOKEN", &it.token)
        .current_dir(it.home());
    Process::spawn(&mut command).wait_for_end().await
}

async fn are_apart(it: &Instance, one: &BusyTenant, two: &BusyTenant) -> Option<()> {
    let (one, two) = (
        find_shard(it, &one.tenant).await,
        find_shard(it, &two.tenant).await,
    );
    (one != two).then_some(())
}

#[tokio::test]
async fn in_auto_mode_a_hotspot_is_cured_and_judged_and_no_vote_is_lost() {
    let it = started("auto").await;
    let (one, two, shard) = overload_one_shard(&it).await;
    let hotspot = within(PATIENCE, "a hotspot", async || {
        let found = first(&it, "/hotspots").await?;
        (found["cure"] == "move").then_some(found)
    })
    .await;
    assert_eq!(hotspot["shardIDs"], json!([shard]));
    assert!(text(&hotspot["letter"]).contains("Cause"), "{hotspot}");
    within(PATIENCE, "a tenant is moved", async || {
        are_apart(&it, &one, &two).await
    })
    .await;
    let id = text(&hotspot["hotspotID"]);
    within(PATIENCE, "the hotspot is over", async || {
        let now = it.get(&format!("/hotspots/{id}")).await;
        (now["status"] == "over").then_some(())
    })
    .await;
    let plan = within(PATIENCE, "the plan is judged", async || {
        let plan = first(&it, "/plans").await?;
        (plan["status"] == "done").then_some(plan)
    })
    .await;
    assert_eq!(plan["past"]["verdict"], "helped", "{plan}");
    assert!(
        plan["outcome"]["shards"]
            .as_array()
            .is_some_and(|it| !it.is_empty()),
        "{plan}"
    );
    assert_eq!(plan["hotspotID"], id.as_str());
    // Placement does not move the tenant back.
    assert_eq!(it.get("/placement/drift").await["movesTotal"], 0);
    // One migration is enough: nothing is moved back or further.
    let moves = it.get("/migrations").await["items"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(moves, 1);
    let shown = cli(&it, &["plan", "show", plan["planID"].as_str().unwrap()]).await;
    assert!(shown.stdout.contains("Outcome"), "{shown:?}");
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn a_key_that_overloads_its_shard_is_throttled_and_informed() {
    let it = started("auto").await;
    let rules = RULES.replace("shard.votes > 50.0", "shard.errors > 0.5");
    let rules = rules.replace("shard.votes < 45.0", "shard.errors < 0.4");
    fs::write(it.home().join("rules.toml"), rules).unwrap();
    let mut it = it;
    it.process().signal("HUP");
    it.tenant("acme").await;
    let (id, key) = it.key("acme").await;
    let app = Application {
        http: it.http().clone(),
        router: it.router.clone(),
        key,
    };
    let poll = app.poll(json!({})).await;
    app.vote(&poll, 0, "ada").await.expect(200);
    // The same voter votes again and again: all these votes are refused.
    let refused = within(PATIENCE, "it is let through only so often", async || {
        let answer = app.vote(&poll, 1, "ada").await;
        (answer.status == 429).then_some(answer)
    })
    .await;
    assert!(
        text(&refused.body["next"]).contains("overloaded"),
        "{refused:?}"
    );
    let shown = it.get(&format!("/keys/{id}")).await;
    assert!(
        shown["throttle"]["callsPerSecond"].as_u64().unwrap() >= 1,
        "{shown}"
    );
    let reply = cli(&it, &["key", "show", &id]).await;
    assert!(reply.stdout.contains("calls/s until"), "{reply:?}");
    let plan = first(&it, "/plans").await.unwrap();
    assert_eq!(plan["does"], "throttle", "{plan}");
}

/// Lanes are added when an item has more than 2 votes/s per lane, and removed when it has almost
/// none.
const LANE_RULES: &str = r#"
[windows]
step = "1s"
short = "3s"
long = "6s"

[[rule]]
name = "hot"
subject = "item"
when = "item.lane_votes > 2.0"
for = "3s"
clear = "item.lane_votes < 1.0"

[[rule]]
name = "idle"
subject = "item"
when = "item.lanes > 10 && item.lane_votes < 0.5 && long.item.lane_votes < 0.5"
for = "3s"
"#;

#[tokio::test]
async fn a_hot_poll_gets_more_lanes_and_fewer_after_cooling() {
    lanes_come_and_go(false).await;
}

#[tokio::test]
async fn a_poll_that_cooled_during_downtime_gets_fewer_lanes() {
    lanes_come_and_go(true).await;
}

async fn lanes_come_and_go(dies: bool) {
    let home = Arc::new(tempfile::tempdir().unwrap());
    fs::write(home.path().join("rules.toml"), LANE_RULES).unwrap();
    let config = "[hotspots]\nmode = \"auto\"\nrules = \"rules.toml\"\nlane_votes_max = 4\n\
                  judge = \"2s\"\n";
    let options = InstanceOptions {
        config: Some(config.to_owned()),
        ..InstanceOptions::default()
    };
    let mut it = Instance::within(home, options).await;
    it.tenant("acme").await;
    let busy = BusyTenant::begin(&it, "acme", 6, 1).await;
    let (app, poll) = (busy.app.clone(), busy.polls[0].clone());
    let path = poll.path("/lanes");
    within(PATIENCE, "more lanes", async || {
        let lanes = app.get(&path).await;
        (lanes["lanes"].as_u64()? >= 20).then_some(())
    })
    .await;
    let plan = first(&it, "/plans").await.unwrap();
    assert_eq!(plan["does"], "more lanes", "{plan}");
    let counted = busy.end().await;
    if dies {
        it.kill9();
        it = it.restart().await;
    }
    let cooled = within(PATIENCE, "fewer lanes", async || {
        let lanes = app.get(&path).await;
        (lanes["lanes"] == 10).then_some(lanes)
    })
    .await;
    // Votes counted on the removed lanes are still counted.
    assert_eq!(cooled["total"].as_u64(), Some(counted), "{cooled}");
    assert_eq!(app.newest(&poll).await["total"].as_u64(), Some(counted));
    let plan = first(&it, "/plans").await.unwrap();
    assert_eq!(plan["does"], "fewer lanes", "{plan}");
    assert!(text(&plan["letter"]).contains("more lanes ("), "{plan}");
    within(PATIENCE, "the hotspot is over", async || {
        (first(&it, "/hotspots?open=true").await.is_none()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn in_propose_mode_plans_wait_for_approval() {
    // A rejected cure is proposed again only after a while.
    let mut it = started_with("propose", "rest = \"6s\"\n").await;
    let (one, two, shard) = overload_one_shard(&it).await;
    let plan = within(PATIENCE, "a plan", async || {
        let plan = first(&it, "/plans?open=true").await?;
        (plan["status"] == "proposed").then_some(plan)
    })
    .await;
    let id = text(&plan["planID"]);
    assert!(
        text(&plan["letter"]).contains("Cure: 1 migration"),
        "{plan}"
    );
    let planned = &plan["plan"]["moves"][0];
    let [tenant, to] = ["tenantID", "toShardID"].map(|name| text(&planned[name]));
    assert_eq!(plan["reason"], format!("move {tenant} to {to}"));
    // It says why nothing is done, also after a restart.
    let why = cli(&it, &["hotspot", "why-not", &shard]).await;
    assert!(
        why.stdout.contains(&format!("ballast plan approve {id}")),
        "{why:?}"
    );
    let rejected = cli(&it, &["plan", "reject", &id, "--reason", "not now"]).await;
    assert_eq!(
        rejected.stdout.trim(),
        format!("{id} is rejected"),
        "{rejected:?}"
    );
    it.call("POST", &format!("/plans/{id}/approve"))
        .send()
        .await
        .expect_error(409, "wrong-phase");
    within(PATIENCE, "the rejection", async || {
        let hotspot = first(&it, "/hotspots?open=true").await?;
        let why = hotspot["whyNot"]["because"].as_str()?.to_owned();
        why.contains(&format!("rejected {id}: not now"))
            .then_some(())
    })
    .await;
    // A restarted process remembers the rejection, too.
    it.kill9();
    it = it.restart().await;
    // Another cure may be proposed meanwhile, because less load is recorded right after a start.
    let second = within(PATIENCE, "another plan", async || {
        let plans = it.all("/plans?open=true").await;
        let is_same =
            |other: &Value| other["planID"] != id.as_str() && other["does"] == plan["does"];
        plans.into_iter().find(is_same)
    })
    .await;
    let [rejected, made] = [
        &it.get(&format!("/plans/{id}")).await["decided"]["at"],
        &second["madeAt"],
    ]
    .map(|at| text(at).parse::<Timestamp>().unwrap().unix_ms());
    assert!(made - rejected >= 6_000, "it rests: {rejected} {second}");
    let second = text(&second["planID"]);
    let before = first(&it, "/hotspots?open=true").await.unwrap();
    it.kill9();
    let it = it.restart().await;
    let after = first(&it, "/hotspots?open=true").await.unwrap();
    assert_eq!(before["hotspotID"], after["hotspotID"]);
    let approved = cli(&it, &["plan", "approve", &second]).await;
    assert_eq!(approved.code, Some(0), "{approved:?}");
    within(PATIENCE, "a tenant is moved", async || {
        are_apart(&it, &one, &two).await
    })
    .await;
    drop((one, two));
}

#[tokio::test]
async fn in_observe_mode_hotspots_are_only_reported() {
    let it = started("observe").await;
    let (one, two, shard) = overload_one_shard(&it).await;
    let hotspot = within(PATIENCE, "a hotspot", async || {
        let found = first(&it, "/hotspots?open=true").await?;
        found["whyNot"]["because"]
            .as_str()
            .is_some()
            .then_some(found)
    })
    .await;
    let listed = cli(&it, &["hotspot", "list", "--open"]).await;
    assert!(
        listed
            .stdout
            .contains(hotspot["hotspotID"].as_str().unwrap()),
        "{listed:?}"
    );
    let why = it.get(&format!("/shards/{shard}/why-not")).await;
    eventually("the reason", async || {
        let why = it.get(&format!("/shards/{shard}/why-not")).await;
        text(&why["answer"]).contains("observe").then_some(())
    })
    .await;
    assert_eq!(why["rules"][0]["rule"], "busy");
    assert_eq!(it.get("/plans").await["items"], json!([]));
    it.call("GET", "/hotspots/none")
        .send()
        .await
        .expect_error(404, "hotspot-not-found");
    it.call("GET", "/plans/none")
        .send()
        .await
        .expect_error(404, "plan-not-found");
    // Recorded load can be used to test rules and to simulate changes.
    let tested = cli(&it, &["hotspot", "rules", "test", "rules.toml", "--json"]).await;
    let report: Value = serde_json::from_str(&tested.stdout).unwrap();
    assert!(
        report["rules"][0]["fired"].as_u64().unwrap() >= 1,
        "{report}"
    );
    let simulated = cli(&it, &["simulate", "--change", "add-shard=shard-9"]).await;
    assert!(
        simulated
            .stdout
            .contains("What if there were a shard shard-9"),
        "{simulated:?}"
    );
    // Simulations do not move tenants that must not move.
    let drained = async || {
        let change = format!("drain={shard}");
        let reply = cli(&it, &["simulate", "--change", &change, "--json"]).await;
        let reply: Value = serde_json::from_str(&reply.stdout).unwrap();
        let moves = reply["answer"]["plan"]["moves"].as_array().unwrap().iter();
        let moved = moves.map(|it| text(&it["tenantID"]));
        moved.collect::<std::collections::BTreeSet<_>>()
    };
    assert!(drained().await.contains(&one.tenant));
    let path = format!("/tenants/{}", one.tenant);
    it.patch(&path, &json!({ "dial": "stop" })).await;
    let moved = drained().await;
    assert!(
        !moved.contains(&one.tenant) && moved.contains(&two.tenant),
        "{moved:?}"
    );
    let outlook = cli(&it, &["load", "forecast"]).await;
    let said = "Too little load was recorded for a forecast: it needs 80 minutes";
    assert!(outlook.stdout.contains(said), "{outlook:?}");
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn invalid_rules_are_refused_and_the_old_ones_stay() {
    let mut it = started("observe").await;
    let wrong = RULES.replace("shard.votes > 50.0", "shard.vote > 50.0");
    fs::write(it.home().join("rules.toml"), &wrong).unwrap();
    let checked = cli(&it, &["hotspot", "rules", "check", "rules.toml"]).await;
    assert_eq!(checked.code, Some(1), "{checked:?}");
    assert!(
        checked.stdout.contains("did you mean shard.votes?"),
        "{checked:?}"
    );
    it.process().signal("HUP");
    let process = it.process();
    eventually("the log line", async || {
        process
            .stderr()
            .contains("did you mean shard.votes?")
            .then_some(())
    })
    .await;
    let rule = |it: &Instance| {
        let call = it.call("GET", "/shards/shard-1/why-not");
        async { call.send().await.expect(200)["rules"][0]["rule"].clone() }
    };
    assert_eq!(rule(&it).await, "busy");
    fs::write(
        it.home().join("rules.toml"),
        RULES.replace("busy", "crowded"),
    )
    .unwrap();
    it.process().signal("HUP");
    eventually("the new rules", async || {
        (rule(&it).await == "crowded").then_some(())
    })
    .await;
}
