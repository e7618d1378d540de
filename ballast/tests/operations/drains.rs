//! Journey: windows hold no place in drains and rebalances, and previews say when all is done.

use serde_json::{Value, json};

use crate::migration::{ask_to_move, elsewhere, find_shard, moved, over, run, voted};
use crate::support::{Instance, InstanceOptions, eventually};

/// The slices of a shard that have been cut over and are still in their windows.
async fn count_windows(it: &Instance, shard: &str) -> usize {
    let open = it.all(&format!("/migrations?open=true&from={shard}")).await;
    let windows = open.iter().filter(|one| one["phase"] == "MonitorDualRead");
    windows.count()
}

/// A window of hours holds no place among the concurrent migrations: the next slice is copied as
/// soon as the one before it was cut over.
#[tokio::test]
async fn a_drain_does_not_wait_for_windows() {
    let it = Instance::start().await;
    for n in 0..8 {
        it.tenant(&format!("tenant-{n}")).await;
    }
    let shard = find_shard(&it, "tenant-0").await;
    let held = it.get(&format!("/shards/{shard}")).await["slices"].clone();
    let held = usize::try_from(held.as_u64().unwrap()).unwrap();
    assert!(held >= 2, "the shard has {held}");
    let begin = ["shard", "drain", &shard, "--yes", "--concurrency", "1"];
    let begun = run(&it, &[&begin[..], &["--window", "1h"]].concat()).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    eventually("every slice is in its window", async || {
        (count_windows(&it, &shard).await == held).then_some(())
    })
    .await;
}

/// The same for a rebalance.
#[tokio::test]
async fn a_rebalance_does_not_wait_for_windows() {
    let it = Instance::start().await;
    for n in 0..8 {
        it.tenant(&format!("tenant-{n}")).await;
    }
    // Placement now prefers one shard by far.
    it.patch("/shards/shard-4", &json!({"weight": 1_000.0}))
        .await;
    let due = it.get("/rebalance").await["plan"]["totals"]["moves"]
        .as_u64()
        .unwrap();
    assert!(due >= 2, "{due} slices would move");
    let begin = ["rebalance", "--yes", "--concurrency", "1", "--window", "1h"];
    let begun = run(&it, &begin).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    eventually("every slice is in its window", async || {
        let open = it.all("/migrations?open=true").await;
        let windows = open.iter().filter(|one| one["phase"] == "MonitorDualRead");
        (windows.count() as u64 == due).then_some(())
    })
    .await;
}

/// A move that waits for next week's maintenance window says so in its dry run and to somebody who
/// approves it, and starts when an operator says `--now`, with a reason.
#[tokio::test]
async fn a_maintenance_window_is_named_and_overridden() {
    // It opens in more than four days, whatever day it is.
    let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    #[allow(clippy::disallowed_methods, reason = "the instance uses this clock")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let day = usize::try_from(now.unwrap().as_secs() / 86_400).unwrap() + 3 + 5;
    let window = format!("{} 02:00-04:00", days[day % 7]);
    let it = Instance::with(InstanceOptions {
        config: Some(format!("[moves]\nmaintenance = [\"{window}\"]\n")),
        ..InstanceOptions::default()
    })
    .await;
    voted(&it, "acme", 5).await;
    let [to, next] = elsewhere(&it, "acme").await;
    let shown = run(&it, &["tenant", "move", "acme", "--to", &to, "--dry-run"]).await;
    assert!(shown.stdout.contains("of copying"), "{shown:?}");
    let waits = format!("for maintenance windows ({window} UTC)");
    assert!(shown.stdout.contains(&waits), "{shown:?}");
    let days_ahead = |finish: &Value| finish["maintenanceWaitMs"].as_u64().unwrap() / 86_400_000;
    let asked = ask_to_move(&it, "acme", json!({"toShardID": to, "dryRun": true})).await;
    let finish = asked.expect(200)["finish"].clone();
    assert!(days_ahead(&finish) >= 3, "{finish}");
    let shard = find_shard(&it, "acme").await;
    for path in [format!("/shards/{shard}/drain"), "/rebalance".to_owned()] {
        let body = it
            .get(&format!("{path}?now=true&windowMs=600000&concurrency=2"))
            .await;
        let finish = if path == "/rebalance" {
            &body["finish"]
        } else {
            &body["plan"]["finish"]
        };
        assert_eq!(finish["windowMs"], 600_000, "{body}");
        assert_eq!(days_ahead(finish), 0, "{body}");
    }
    let drain = it.get(&format!("/shards/{shard}/drain")).await;
    assert!(days_ahead(&drain["plan"]["finish"]) >= 3, "{drain}");
    // Approving does not help, and the answer says what does.
    let id = moved(&it, "acme", json!({"toShardID": to, "windowMs": 0})).await;
    eventually("it waits", async || {
        let found = it.get(&format!("/migrations/{id}")).await;
        (found["status"] == "waiting").then_some(())
    })
    .await;
    let refused = run(&it, &["migration", "approve", &id]).await;
    assert!(
        refused
            .stderr
            .contains("it waits for the maintenance window"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("--now"), "{refused:?}");
    let refused = run(&it, &["migration", "approve", &id, "--now"]).await;
    assert!(refused.stderr.contains("reason"), "{refused:?}");
    let because = ["--now", "--reason", "the disk is failing"];
    let begun = run(
        &it,
        &[&["migration", "approve", &id], &because[..]].concat(),
    )
    .await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    let done = over(&it, &id).await;
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["asked"]["startNow"]["reason"], "the disk is failing");
    // A new one begins at once, and so do those of a drain.
    let at_once = ["tenant", "move", "acme", "--to", &next, "--window", "0s"];
    let refused = run(&it, &[&at_once[..], &["--now"]].concat()).await;
    assert!(refused.stderr.contains("reason"), "{refused:?}");
    let begun = run(&it, &[&at_once[..], &["--wait"], &because[..]].concat()).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    let drain = ["shard", "drain", &next, "--yes", "--window", "0s"];
    let refused = run(&it, &[&drain[..], &["--now"]].concat()).await;
    assert!(refused.stderr.contains("reason"), "{refused:?}");
    let begun = run(&it, &[&drain[..], &because[..]].concat()).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    eventually("it is empty", async || {
        (it.get(&format!("/shards/{next}/drain")).await["status"] == "empty").then_some(())
    })
    .await;
}

/// One poll stays in one slice, and the dry run of a split says so.
#[tokio::test]
async fn the_dry_run_of_a_split_names_the_poll_that_stays_whole() {
    let it = Instance::start().await;
    let (_, poll) = voted(&it, "acme", 40).await;
    let split = ["tenant", "split", "acme", "--into", "4", "--dry-run"];
    let shown = run(&it, &split).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let says = format!("poll {} has 100 % of the votes of slice 0", poll.id);
    assert!(shown.stdout.contains(&says), "{shown:?}");
    assert!(shown.stdout.contains("stays in one slice"), "{shown:?}");
}
