//! Journey: the target of a migration is lost within the window. Nothing is reversed automatically;
//! an admin accepts the loss, the process dies while the slice returns, and all later reports are
//! correct. Then the disk reappears.

use crate::support::moves::{find_shard, run, show_migration};
use crate::support::polls::Application;
use crate::support::{Instance, text};
use serde_json::{Value, json};

const VOTES: usize = 120;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admin_abandons_a_lost_target_and_the_loss_is_reported() {
    let mut it = Instance::start().await;
    let application = Application::create(&it, "acme").await;
    let poll = application.poll(json!({})).await;
    let lines = (0..VOTES).map(|n| poll.line(n % 2, &format!("voter-{n}")));
    application.send_lines(lines.collect()).await;
    let from = find_shard(&it, "acme").await;
    let to = if from == "shard-1" {
        "shard-2"
    } else {
        "shard-1"
    };
    let call = it.call("POST", "/tenants/acme/move");
    let begun = call.json(&json!({ "toShardID": to })).send().await;
    let id = text(&begun.expect(202)["migrationID"]);
    show_migration(&it, &id, "in its window", |found| {
        found["phase"] == "MonitorDualRead" && found["figures"]["compared"] != 0
    })
    .await;

    // Only an admin may accept a loss, with a reason, and only if the target is unreachable.
    let (_, operator) = it.new_token("operator").await;
    let silent = ["migration", "reverse", &id, "--accept-loss"];
    let accept = [&silent[..], &["--reason", "its disk is dead"]].concat();
    let refusals = [
        (operator.as_str(), &accept, "role"),
        (it.token.as_str(), &silent.to_vec(), "reason"),
        (it.token.as_str(), &accept, "No loss needs to be accepted"),
    ];
    for (token, arguments, why) in refusals {
        let refused = run(&it, token, arguments).await;
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(refused.stderr.contains(why), "{why}: {refused:?}");
    }
    let asked = it.get(&format!("/migrations/{id}")).await["asked"].clone();
    assert_eq!(asked, Value::Null);

    // The disk is gone. The migration waits, and nothing is reversed automatically.
    it.kill9();
    let disk = it.home().join("data/shards").join(to);
    let aside = disk.with_extension("pulled");
    std::fs::rename(&disk, &aside).unwrap();
    it = it.restart_dying_at(Some("ordered Activate")).await;
    show_migration(&it, &id, "it waits", |found| found["status"] == "waiting").await;
    assert_eq!(find_shard(&it, "acme").await, to);
    let accepted = run(&it, &it.token, &accept).await;
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    // The source has just taken the slice back, and the record does not say so yet.
    it.process().died().await;

    it = it.restart_dying_at(None).await;
    let is_over = |found: &Value| found["status"] == "reversed";
    let ended = show_migration(&it, &id, "it is back", is_over).await;
    let lost = &ended["givenUp"];
    assert_eq!(lost["shardID"], to, "{ended}");
    assert_eq!(lost["reason"], "its disk is dead");
    assert_eq!(lost["actor"]["name"], "first-admin");
    assert_eq!(ended["certificate"]["givenUp"], *lost);
    assert_eq!(ended["leftBehind"], "away");
    assert_eq!(find_shard(&it, "acme").await, from);
    let total = application.newest(&poll).await["total"].as_u64();
    assert_eq!(total, Some(VOTES as u64));
    application.vote(&poll, 0, "late").await.expect(200);

    let show = run(&it, &it.token, &["migration", "show", &id]).await;
    assert!(show.stdout.contains("is lost, accepted by first-admin"));
    let printed = run(&it, &it.token, &["migration", "certificate", &id]).await;
    let file = it.home().join("certificate.json");
    std::fs::write(&file, &printed.stdout).unwrap();
    let verify = ["migration", "verify-certificate", "certificate.json"];
    let verified = run(&it, &it.token, &verify).await;
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert!(verified.stdout.contains("LOSS"), "{verified:?}");
    assert!(verified.stderr.contains("does not prove"), "{verified:?}");
    let audit = run(&it, &it.token, &["migration", "audit", "acme"]).await;
    assert_eq!(audit.code, Some(0), "{audit:?}");
    assert!(audit.stdout.contains("1 loss accepted"), "{audit:?}");
    assert!(
        audit.stdout.contains("accepted by first-admin"),
        "{audit:?}"
    );

    // The disk reappears: it owns nothing, and its data is not merged.
    it.kill9();
    std::fs::rename(&aside, &disk).unwrap();
    it = it.restart_dying_at(None).await;
    let is_kept = |found: &Value| found["leftBehind"] == "kept";
    show_migration(&it, &id, "the copy is kept", is_kept).await;
    let call = it.call("POST", "/tenants/acme/move");
    let refused = call.json(&json!({ "toShardID": to })).send().await;
    refused.expect_error(409, "move-refused");
    let discard = ["migration", "discard", &id, "--reason", "recounted"];
    let refused = run(&it, &operator, &discard).await;
    assert!(refused.stderr.contains("role admin"), "{refused:?}");
    let discarded = run(&it, &it.token, &discard).await;
    assert_eq!(discarded.code, Some(0), "{discarded:?}");
    let is_gone = |found: &Value| found["leftBehind"] == "gone";
    show_migration(&it, &id, "it is removed", is_gone).await;
    let total = application.newest(&poll).await["total"].as_u64();
    assert_eq!(total, Some(VOTES as u64 + 1));
}
