//! Journey: a synchronous window, in which a vote counts only when both sides have it. The target's
//! disk is lost; the slice returns automatically, without an accepted loss, and every acknowledged
//! vote is present.

use crate::support::moves::{find_shard, run, show_migration};
use crate::support::polls::Application;
use crate::support::{Instance, InstanceOptions, text};
use serde_json::{Value, json};

/// Votes before the migration, and in its window.
const VOTES: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_with_the_target() {
    let options = InstanceOptions {
        config: Some("[moves]\nreverse_away = \"1s\"\n".to_owned()),
        ..InstanceOptions::default()
    };
    let mut it = Instance::with(options).await;
    let application = Application::create(&it, "acme").await;
    let poll = application.poll(json!({})).await;
    let lines = (0..VOTES).map(|n| poll.line(n % 2, &format!("before-{n}")));
    application.send_lines(lines.collect()).await;
    let from = find_shard(&it, "acme").await;
    let to = match from.as_str() {
        "shard-1" => "shard-2",
        _ => "shard-1",
    };
    let plan = [
        "tenant",
        "move",
        "acme",
        "--to",
        to,
        "--window",
        "sync:1h",
        "--dry-run",
    ];
    let plan = run(&it, &it.token, &plan).await;
    assert!(
        plan.stdout
            .contains("votes count once both shards have them"),
        "{plan:?}"
    );
    let begin = [
        "tenant", "move", "acme", "--to", to, "--window", "sync:1h", "--json",
    ];
    let begun = run(&it, &it.token, &begin).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    let begun: Value = serde_json::from_str(&begun.stdout).unwrap();
    let id = text(&begun["migrationID"]);
    assert_eq!(begun["terms"]["sync"], true, "{begun}");
    show_migration(&it, &id, "in its window", |found| {
        found["phase"] == "MonitorDualRead"
    })
    .await;

    // Single votes and a stream; the last ones right before the disk is lost.
    for n in 0..20 {
        let voter = format!("one-{n}");
        application.vote(&poll, n % 2, &voter).await.expect(200);
    }
    let lines = (0..VOTES).map(|n| poll.line(n % 2, &format!("since-{n}")));
    application.send_lines(lines.collect()).await;
    it.kill9();
    let disk = it.home().join("data/shards").join(to);
    std::fs::rename(&disk, disk.with_extension("pulled")).unwrap();

    // No operator acts.
    it = it.restart().await;
    let is_over = |found: &Value| found["status"] == "reversed";
    let ended = show_migration(&it, &id, "it is back", is_over).await;
    assert_eq!(find_shard(&it, "acme").await, from);
    assert_eq!(ended["givenUp"]["synced"], true, "{ended}");
    let total = application.newest(&poll).await["total"].as_u64();
    assert_eq!(total, Some(2 * VOTES as u64 + 20));
    application.vote(&poll, 0, "late").await.expect(200);

    let printed = run(&it, &it.token, &["migration", "certificate", &id]).await;
    std::fs::write(it.home().join("certificate.json"), &printed.stdout).unwrap();
    let verify = ["migration", "verify-certificate", "certificate.json"];
    let verified = run(&it, &it.token, &verify).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert!(
        verified.stdout.contains("was on both sides"),
        "{verified:?}"
    );
    let audit = run(&it, &it.token, &["migration", "audit", "acme"]).await;
    assert!(audit.stdout.contains("no violations"), "{audit:?}");
}
