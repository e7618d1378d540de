//! Somebody removes or damages the file of workflow executions: votes go on, and what needs
//! workflows says that it waits for them.

use std::sync::Arc;

use crate::support::polls::Application;
use crate::support::{Instance, InstanceOptions, eventually, text};
use serde_json::json;

#[tokio::test]
async fn votes_go_on_with_damaged_executions_and_moves_say_what_they_wait_for() {
    let home = Arc::new(tempfile::tempdir().unwrap());
    let mut it = Instance::within(home.clone(), InstanceOptions::default()).await;
    let mut acme = Application::create(&it, "acme").await;
    let poll = acme.poll(json!({})).await;
    acme.vote(&poll, 0, "ada").await.expect(200);
    it.kill9();
    let file = home.path().join("data/executions.db");
    let aside = home.path().join("aside");
    std::fs::rename(&file, &aside).unwrap();
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(home.path().join(format!("data/executions.db{suffix}")));
    }
    std::fs::write(&file, vec![0x5a; 8_192]).unwrap();
    it = it.restart().await;
    acme.router.clone_from(&it.router);
    acme.vote(&poll, 0, "ben").await.expect(200);
    assert_eq!(acme.newest(&poll).await["total"], 2);
    it.route("GET", "/resolve")
        .header("x-api-key", &acme.key)
        .send()
        .await
        .expect(200);
    let ready = it.route("GET", "/readyz").send().await;
    assert_eq!(ready.status, 200, "{}", ready.text);
    assert!(
        ready.text.contains("workflows are unavailable"),
        "{}",
        ready.text
    );

    let from = text(&it.get("/tenants/acme").await["slices"][0]["shardID"]);
    let to = if from == "shard-1" {
        "shard-2"
    } else {
        "shard-1"
    };
    let asked = it.call("POST", "/tenants/acme/move");
    let asked = asked.json(&json!({ "toShardID": to, "windowMs": 0 }));
    let asked = asked.send().await.expect(202);
    let path = format!("/migrations/{}", text(&asked["migrationID"]));
    let waiting = it.get(&path).await;
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let why = text(&waiting["waitingFor"]);
    assert!(why.contains("the workflow engine"), "{why}");
    let refused = it.call("GET", "/executions").send().await;
    let said = refused.expect_error(503, "unavailable");
    assert!(text(&said["detail"]).contains("cannot start"), "{said}");

    // Moved away, it is created anew, and the migration runs.
    std::fs::remove_file(&file).unwrap();
    eventually("the end of the migration", async || {
        let now = it.get(&path).await;
        (now["status"] == "completed").then_some(())
    })
    .await;
    acme.vote(&poll, 1, "cyd").await.expect(200);
    assert_eq!(acme.newest(&poll).await["total"], 3);
}

#[tokio::test]
async fn a_migration_goes_on_after_its_executions_were_removed() {
    let home = Arc::new(tempfile::tempdir().unwrap());
    let mut it = Instance::within(home.clone(), InstanceOptions::default()).await;
    let mut acme = Application::create(&it, "acme").await;
    let poll = acme.poll(json!({})).await;
    acme.vote(&poll, 0, "ada").await.expect(200);
    let from = text(&it.get("/tenants/acme").await["slices"][0]["shardID"]);
    let to = if from == "shard-1" {
        "shard-2"
    } else {
        "shard-1"
    };
    let asked = it.call("POST", "/tenants/acme/move");
    let asked = asked.json(&json!({ "toShardID": to, "windowMs": 3_000 }));
    let asked = asked.send().await.expect(202);
    let path = format!("/migrations/{}", text(&asked["migrationID"]));
    it.kill9();
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(home.path().join(format!("data/executions.db{suffix}")));
    }
    it = it.restart().await;
    acme.router.clone_from(&it.router);
    eventually("the end of the migration", async || {
        let now = it.get(&path).await;
        (now["status"] == "completed").then_some(())
    })
    .await;
    assert_eq!(acme.newest(&poll).await["total"], 1);
}
