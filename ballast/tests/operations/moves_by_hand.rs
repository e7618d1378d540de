//! Journey: executions of `move-tenant` that are started by hand. Only one execution works on a
//! migration.

use crate::support::polls::Application;
use crate::support::{Instance, eventually, text};
use serde_json::{Value, json};

async fn find_shard(it: &Instance) -> String {
    text(&it.get("/tenants/acme").await["slices"][0]["shardID"])
}

async fn begin_execution(it: &Instance, name: &str, input: Value) -> String {
    let wanted = json!({ "workflow": "move-tenant", "name": name, "input": input });
    let begun = it.call("POST", "/executions").json(&wanted).send().await;
    assert!((200..300).contains(&begun.status), "{}", begun.text);
    format!("move-tenant:{name}")
}

/// The cause with which an execution ended.
async fn why_it_ended(it: &Instance, id: &str) -> String {
    let ended = eventually("the execution is over", async || {
        let now = it.get(&format!("/executions/{id}")).await;
        (now["status"] != "RUNNING" && now["status"] != "PENDING").then_some(now)
    })
    .await;
    assert_eq!(ended["status"], "FAILED", "{ended}");
    ended.to_string()
}

/// Two executions of one migration would undo each other's work.
#[tokio::test]
async fn only_one_execution_works_on_a_migration() {
    let it = Instance::start().await;
    let application = Application::create(&it, "acme").await;
    let poll = application.poll(json!({})).await;
    let lines = (0..200).map(|n| poll.line(n % 2, &format!("v{n}")));
    application.send_lines(lines.collect()).await;
    let here = find_shard(&it).await;
    let mut others = (1..=4)
        .map(|n| format!("shard-{n}"))
        .filter(|id| *id != here);
    let (to, other) = (others.next().unwrap(), others.next().unwrap());
    // Before a migration of that name exists, and while it runs.
    let input = json!({
        "migrationID": "mine", "tenantID": "acme", "toShardID": to, "windowMs": 600_000,
    });
    let early = begin_execution(&it, "another", input).await;
    let why = why_it_ended(&it, &early).await;
    assert!(why.contains("leave out migrationID"), "{why}");
    assert!(it.all("/migrations").await.is_empty());
    let wanted = json!({ "toShardID": to, "windowMs": 600_000 });
    let begun = it
        .call("POST", "/tenants/acme/move")
        .json(&wanted)
        .send()
        .await;
    let id = text(&begun.expect(202)["migrationID"]);
    let input = json!({ "migrationID": id, "tenantID": "acme", "toShardID": to });
    let late = begin_execution(&it, "late", input).await;
    let why = why_it_ended(&it, &late).await;
    assert!(why.contains("works on migration"), "{why}");
    let path = format!("/migrations/{id}");
    eventually("the window", async || {
        (it.get(&path).await["phase"] == "MonitorDualRead").then_some(())
    })
    .await;
    it.act(&format!("{path}/complete")).await;
    eventually("the end", async || {
        (it.get(&path).await["status"] == "completed").then_some(())
    })
    .await;
    assert_eq!(application.newest(&poll).await["total"], 200);
    // Names of reversals and of later executions are reserved, and so are names that no later
    // request could repeat.
    for name in ["weird-back", "weird.2"] {
        let input = json!({ "tenantID": "acme", "toShardID": other });
        let odd = begin_execution(&it, name, input).await;
        let why = why_it_ended(&it, &odd).await;
        assert!(why.contains("cannot be called"), "{why}");
    }
    let input = json!({ "migrationID": "a b/c", "tenantID": "acme", "toShardID": other });
    let odd = begin_execution(&it, "odd", input).await;
    why_it_ended(&it, &odd).await;
    assert_eq!(it.all("/migrations").await.len(), 1);
    assert_eq!(find_shard(&it).await, to);
}
