//! Journey: migrations are started, followed, paused, cancelled, reversed and certified, over the
//! admin API and from the command line.

use std::process::Command;

use crate::support::polls::{Application, TestPoll};
use crate::support::process::ballast;
use crate::support::{
    HttpAnswer, Instance, InstanceOptions, Process, ProcessExit, eventually, text,
};
use serde_json::{Value, json};

/// A command with the instance's address and token.
fn command(it: &Instance, arguments: &[&str]) -> Command {
    let mut command = ballast();
    command
        .args(arguments)
        .current_dir(it.home())
        .env("BALLAST_URL", &it.admin)
        .env("BALLAST_TOKEN", &it.token);
    command
}

pub(crate) async fn run(it: &Instance, arguments: &[&str]) -> ProcessExit {
    Process::spawn(&mut command(it, arguments))
        .wait_for_end()
        .await
}

fn parsed(ended: &ProcessExit) -> Value {
    let read = serde_json::from_str(&ended.stdout);
    read.unwrap_or_else(|bad| panic!("{bad}: {ended:?}"))
}

pub(crate) async fn find_shard(it: &Instance, tenant: &str) -> String {
    let tenant = it.get(&format!("/tenants/{tenant}")).await;
    text(&tenant["slices"][0]["shardID"])
}

/// Two shards that a tenant is not on.
pub(crate) async fn elsewhere(it: &Instance, tenant: &str) -> [String; 2] {
    let here = find_shard(it, tenant).await;
    let all = (1..=4).map(|n| format!("shard-{n}"));
    let others: Vec<String> = all.filter(|id| *id != here).collect();
    [others[0].clone(), others[1].clone()]
}

pub(crate) async fn ask_to_move(it: &Instance, tenant: &str, body: Value) -> HttpAnswer {
    let call = it.call("POST", &format!("/tenants/{tenant}/move"));
    call.json(&body).send().await
}

/// Starts a migration and returns its id.
pub(crate) async fn moved(it: &Instance, tenant: &str, body: Value) -> String {
    let begun = ask_to_move(it, tenant, body).await.expect(202);
    text(&begun["migrationID"])
}

/// Waits until a migration has ended, and returns it.
pub(crate) async fn over(it: &Instance, id: &str) -> Value {
    let watch = it.call("GET", &format!("/migrations/{id}/watch"));
    let reply = watch.send().await;
    assert!(reply.text.contains("event: end"), "{}", reply.text);
    it.get(&format!("/migrations/{id}")).await
}

/// Waits until a migration is in a phase.
async fn reaches(it: &Instance, id: &str, phase: &str) -> Value {
    eventually(phase, async || {
        let found = it.get(&format!("/migrations/{id}")).await;
        (found["phase"] == phase).then_some(found)
    })
    .await
}

/// A tenant with a poll and votes.
pub(crate) async fn voted(it: &Instance, tenant: &str, votes: usize) -> (Application, TestPoll) {
    let application = Application::create(it, tenant).await;
    let poll = application.poll(json!({})).await;
    let lines = (0..votes).map(|n| poll.line(n % 2, &format!("voter-{n}")));
    application.send_lines(lines.collect()).await;
    (application, poll)
}

/// The sum of all votes of a poll.
async fn total(application: &Application, poll: &TestPoll) -> u64 {
    let newest = application.newest(poll).await;
    newest["total"].as_u64().unwrap()
}

#[tokio::test]
async fn a_migration_is_requested_followed_and_certified() {
    let it = Instance::start().await;
    let (application, poll) = voted(&it, "acme", 200).await;
    let from = find_shard(&it, "acme").await;
    let [to, _] = elsewhere(&it, "acme").await;
    // A dry run shows everything and changes nothing.
    let plan = ask_to_move(&it, "acme", json!({"toShardID": to, "dryRun": true})).await;
    let plan = plan.expect(200);
    assert_eq!(plan["price"]["rows"], 200);
    assert_eq!(plan["actions"].as_array().unwrap().len(), 9);
    assert_eq!(it.get("/migrations").await["items"], json!([]));

    let id = moved(&it, "acme", json!({"toShardID": to, "windowMs": 0})).await;
    let done = over(&it, &id).await;
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["phase"], "CleanupOldShard");
    assert!(done["pauseMs"].is_u64(), "{done}");
    assert_eq!(
        [&done["tenantID"], &done["fromShardID"], &done["toShardID"]],
        [&json!("acme"), &json!(from), &json!(to)]
    );
    assert_eq!(find_shard(&it, "acme").await, to);
    assert_eq!(total(&application, &poll).await, 200);

    let signed = it.get(&format!("/migrations/{id}/certificate")).await;
    assert_eq!(signed, done["certificate"]);
    assert_eq!(signed["votes"]["acknowledged"], signed["votes"]["present"]);
    let key = it.get("/certificate-key").await;
    assert_eq!(signed["publicKey"], key["publicKey"]);
    let asked = it.call("POST", &format!("/migrations/{id}/cancel"));
    asked.send().await.expect_error(409, "wrong-phase");
    let tag = it.call("GET", &format!("/migrations/{id}")).send().await;
    assert_eq!(tag.header("etag"), format!("\"{}\"", done["version"]));
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let it = Instance::start().await;
    voted(&it, "acme", 10).await;
    let here = find_shard(&it, "acme").await;
    let [to, other] = elsewhere(&it, "acme").await;
    let refused = async |body, status, code| {
        let answer = ask_to_move(&it, "acme", body).await;
        answer.expect_error(status, code);
    };
    refused(json!({"toShardID": here}), 409, "already-there").await;
    refused(
        json!({"toShardID": to, "fromShardID": other}),
        409,
        "move-refused",
    )
    .await;
    refused(json!({"toShardID": "shard-99"}), 404, "shard-not-found").await;
    refused(json!({"toShardID": to, "slice": 1}), 404, "not-found").await;
    refused(
        json!({"toShardID": to, "maxPauseMs": 0}),
        422,
        "invalid-field",
    )
    .await;
    let far = 31 * 86_400_000_u64;
    refused(
        json!({"toShardID": to, "windowMs": far}),
        422,
        "invalid-field",
    )
    .await;
    for path in ["/migrations/mv-none", "/migrations/mv-none/certificate"] {
        let answer = it.call("GET", path).send().await;
        answer.expect_error(404, "migration-not-found");
    }
    // While a migration runs, no other may start, and it has no certificate yet.
    let id = moved(&it, "acme", json!({"toShardID": to})).await;
    refused(json!({"toShardID": other}), 409, "move-in-progress").await;
    let early = it.call("GET", &format!("/migrations/{id}/certificate"));
    early.send().await.expect_error(404, "not-found");
    reaches(&it, &id, "MonitorDualRead").await;
    let cancel = it.call("POST", &format!("/migrations/{id}/cancel"));
    cancel.send().await.expect_error(409, "wrong-phase");
    let stale = it.call("POST", &format!("/migrations/{id}/reverse"));
    let stale = stale.header("if-match", "\"999\"").send().await;
    stale.expect_error(412, "changed-meanwhile");
    it.act(&format!("/migrations/{id}/reverse")).await;
    assert_eq!(over(&it, &id).await["status"], "reversed");
    assert_eq!(find_shard(&it, "acme").await, here);
}

#[tokio::test]
async fn a_repeated_request_returns_the_same_migration() {
    let it = Instance::start().await;
    voted(&it, "acme", 10).await;
    let [to, other] = elsewhere(&it, "acme").await;
    let send = async |to: &str| {
        let call = it.call("POST", "/tenants/acme/move");
        let body = json!({"toShardID": to, "windowMs": 0});
        let call = call.header("idempotency-key", "retry-1").json(&body);
        call.send().await
    };
    let first = send(&to).await.expect(202);
    let id = text(&first["migrationID"]);
    over(&it, &id).await;
    // The repeated request gets the first answer, although the slice has moved since.
    let again = send(&to).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.expect(202), first);
    send(&other).await.expect_error(422, "idempotency-mismatch");
    assert_eq!(it.all("/migrations").await.len(), 1);
}

#[tokio::test]
async fn migrations_are_listed_newest_first_in_pages() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    it.tenant("other").await;
    let mut made = Vec::new();
    for round in 0..5 {
        let tenant = if round == 2 { "other" } else { "acme" };
        let [to, _] = elsewhere(&it, tenant).await;
        let id = moved(&it, tenant, json!({"toShardID": to, "windowMs": 0})).await;
        over(&it, &id).await;
        made.push(id);
    }
    let [to, _] = elsewhere(&it, "other").await;
    let open = moved(&it, "other", json!({"toShardID": to})).await;
    reaches(&it, &open, "MonitorDualRead").await;
    made.push(open.clone());
    made.reverse();
    let listed = async |query: &str| {
        let found = it.get(&format!("/migrations{query}")).await;
        let items = found["items"].as_array().unwrap().clone();
        let ids = items.iter().map(|item| text(&item["migrationID"]));
        (ids.collect::<Vec<_>>(), found["nextCursor"].clone())
    };
    assert_eq!(listed("").await.0, made);
    let mut paged = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let (ids, next) = listed(&query).await;
        assert!(ids.len() <= 2);
        paged.extend(ids);
        match next.as_str() {
            Some(cursor) => query = format!("?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(paged, made);
    assert_eq!(listed("?open=true").await.0, made[..1]);
    assert_eq!(listed("?open=false").await.0, made[1..]);
    assert_eq!(listed("?status=completed").await.0, made[1..]);
    assert_eq!(listed("?status=running").await.0, made[..1]);
    assert_eq!(listed("?status=reversed").await.0, [""; 0]);
    assert_eq!(
        listed("?tenant=other").await.0,
        [open.clone(), made[3].clone()]
    );
    let to = format!("?tenant=other&open=true&to={to}");
    assert_eq!(listed(&to).await.0, [open]);
}

#[tokio::test]
async fn a_migration_waits_for_approval_and_can_be_cancelled() {
    let options = InstanceOptions {
        config: Some("[moves]\napproval_above_rows = 5\n".to_owned()),
        ..InstanceOptions::default()
    };
    let it = Instance::with(options).await;
    voted(&it, "acme", 20).await;
    let here = find_shard(&it, "acme").await;
    let [to, _] = elsewhere(&it, "acme").await;
    let body = json!({"toShardID": to, "windowMs": 0});
    let id = moved(&it, "acme", body.clone()).await;
    let waiting = eventually("it waits", async || {
        let found = it.get(&format!("/migrations/{id}")).await;
        (found["status"] == "waiting").then_some(found)
    })
    .await;
    assert_eq!(waiting["phase"], "PlanMove", "{waiting}");
    let why = text(&waiting["waitingFor"]);
    assert!(why.contains("approve"), "{why}");
    let cancelled = it.call(
        "POST",
        &format!("/migrations/{id}/cancel?reason=not%20today"),
    );
    cancelled.send().await.expect(200);
    let ended = over(&it, &id).await;
    assert_eq!(ended["status"], "cancelled", "{ended}");
    assert_eq!(find_shard(&it, "acme").await, here);

    let id = moved(&it, "acme", body).await;
    it.act(&format!("/migrations/{id}/pause")).await;
    it.act(&format!("/migrations/{id}/approve")).await;
    let paused = it.get(&format!("/migrations/{id}")).await;
    assert_eq!(paused["status"], "waiting", "{paused}");
    it.act(&format!("/migrations/{id}/resume")).await;
    assert_eq!(over(&it, &id).await["status"], "completed");
    assert_eq!(find_shard(&it, "acme").await, to);
}

#[tokio::test]
async fn a_migration_is_managed_from_the_command_line() {
    let it = Instance::start().await;
    voted(&it, "acme", 50).await;
    let here = find_shard(&it, "acme").await;
    let [to, other] = elsewhere(&it, "acme").await;
    let dry = run(&it, &["tenant", "move", "acme", "--to", &to, "--dry-run"]).await;
    assert_eq!(dry.code, Some(0), "{dry:?}");
    assert!(dry.stdout.contains("cutting over"), "{dry:?}");
    for (to, code) in [
        (&here, "already-there"),
        (&"none".to_owned(), "shard-not-found"),
    ] {
        let refused = run(&it, &["tenant", "move", "acme", "--to", to, "--json"]).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains(code), "{refused:?}");
    }
    // Wait for the end, which prints only the last body.
    let waited = ["tenant", "move", "acme", "--to", &to, "--window", "1s"];
    let waited = [&waited[..], &["--reason", "a trial", "--wait", "--json"]].concat();
    let done = run(&it, &waited).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let done = parsed(&done);
    assert_eq!(done["status"], "completed");
    assert_eq!(done["reason"], "a trial");
    let id = text(&done["migrationID"]);
    let shown = parsed(&run(&it, &["migration", "show", &id, "--json"]).await);
    for member in [
        "migrationID",
        "tenantID",
        "fromShardID",
        "toShardID",
        "status",
        "phase",
    ] {
        assert!(shown[member].is_string(), "{member}: {shown}");
    }
    assert!(shown["pauseMs"].is_u64() && shown["progress"].is_object());
    let listed = parsed(&run(&it, &["migration", "list", "--json"]).await);
    assert_eq!(listed["items"][0], shown);

    // The audit of the tenant's history finds no violation.
    let audited = run(&it, &["migration", "audit", "--json"]).await;
    assert_eq!(audited.code, Some(0), "{audited:?}");
    let audited = parsed(&audited);
    let of = |member: &str| audited["items"][0][member].clone();
    assert_eq!(of("faults"), json!([]), "{audited}");
    assert_eq!(of("changes")["committed"], 1, "{audited}");
    let unknown = run(&it, &["migration", "audit", "nobody"]).await;
    assert_eq!(unknown.code, Some(1), "{unknown:?}");

    // Its certificate verifies, and a changed one does not.
    let printed = run(&it, &["migration", "certificate", &id]).await;
    let file = it.home().join("certificate.json");
    std::fs::write(&file, &printed.stdout).unwrap();
    let key = text(&it.get("/certificate-key").await["publicKey"]);
    let verify = ["migration", "verify-certificate", "certificate.json"];
    let good = run(&it, &[&verify[..], &["--public-key", &key]].concat()).await;
    assert_eq!(good.code, Some(0), "{good:?}");
    let plain = run(&it, &verify).await;
    assert!(plain.stdout.contains(&key), "{plain:?}");
    let forged = printed
        .stdout
        .replace("\"duplicates\":0", "\"duplicates\":1");
    assert_ne!(forged, printed.stdout);
    std::fs::write(&file, forged).unwrap();
    let bad = run(&it, &verify).await;
    assert_eq!(bad.code, Some(1), "{bad:?}");
    assert!(bad.stderr.contains("signature"), "{bad:?}");

    // A reversed migration did not complete; a watch shows its end.
    let begun = ["tenant", "move", "acme", "--to", &other, "--json"];
    let id = text(&parsed(&run(&it, &begun).await)["migrationID"]);
    let mut watch = Process::spawn(&mut command(&it, &["migration", "watch", &id]));
    reaches(&it, &id, "MonitorDualRead").await;
    let back = run(&it, &["migration", "reverse", &id, "--reason", "too far"]).await;
    assert_eq!(back.code, Some(0), "{back:?}");
    let watched = watch.wait_for_end().await;
    assert_eq!(watched.code, Some(1), "{watched:?}");
    for reply in ["pause ", "is reversed", "certificate of"] {
        assert!(watched.stdout.contains(reply), "{reply}: {watched:?}");
    }
    assert_eq!(find_shard(&it, "acme").await, to);
    let shown = run(&it, &["tenant", "show", "acme"]).await;
    assert!(shown.stdout.contains("was moved back here"), "{shown:?}");
}

#[tokio::test]
async fn a_watch_and_a_migration_survive_kill_9() {
    let mut it = Instance::start().await;
    voted(&it, "acme", 50).await;
    let [to, _] = elsewhere(&it, "acme").await;
    let id = moved(&it, "acme", json!({"toShardID": to, "windowMs": 4_000})).await;
    reaches(&it, &id, "MonitorDualRead").await;
    let mut watch = Process::spawn(&mut command(&it, &["migration", "watch", &id]));
    eventually("the watch's first line", async || {
        watch.stdout().contains("phase: window").then_some(())
    })
    .await;
    let key = it.get("/certificate-key").await;
    it.kill9();
    let it = it.restart().await;
    let watched = watch.wait_for_end().await;
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert!(watched.stdout.contains("reconnected"), "{watched:?}");
    let done = it.get(&format!("/migrations/{id}")).await;
    assert_eq!(done["status"], "completed", "{done}");
    // The signing key survives the process, too.
    assert_eq!(it.get("/certificate-key").await, key);
    assert_eq!(done["certificate"]["publicKey"], key["publicKey"]);
}

/// An instance in which one migration at a time copies or is in its window.
async fn start_with_one_window() -> Instance {
    let one = "[moves]\nwindows_max = 1\n".to_owned();
    Instance::with(InstanceOptions {
        config: Some(one),
        ..InstanceOptions::default()
    })
    .await
}

/// Waits until one migration is in its window and the next one waits for its end; returns both.
async fn one_in_its_window_and_one_waiting(it: &Instance) -> [String; 2] {
    let (first, second) = eventually("a window and a wait", async || {
        let open = it.all("/migrations?open=true").await;
        let in_window = |one: &&Value| one["phase"] == "MonitorDualRead";
        let waits = |one: &&Value| {
            let why = one["waitingFor"].as_str().unwrap_or_default();
            why.starts_with("a window to end: the maximum of 1")
        };
        let id = |one: &Value| text(&one["migrationID"]);
        let first = open.iter().find(in_window).map(id)?;
        Some((first, open.iter().find(waits).map(id)?))
    })
    .await;
    [first, second]
}

/// A second drain of a shard has other terms. They apply from then on, and migrations of the first
/// drain are not repeated.
#[tokio::test]
async fn a_second_drain_replaces_the_first() {
    let it = start_with_one_window().await;
    for n in 0..6 {
        it.tenant(&format!("tenant-{n}")).await;
    }
    voted(&it, "acme", 20).await;
    let shard = find_shard(&it, "acme").await;
    let held = it.get(&format!("/shards/{shard}")).await["slices"].clone();
    let off = run(&it, &["shard", "drain", &shard, "--cancel"]).await;
    assert!(off.stdout.contains("has no drain to cancel"), "{off:?}");
    let first = ["shard", "drain", &shard, "--yes", "--concurrency", "1"];
    let begun = run(&it, &[&first[..], &["--window", "sync:1h"]].concat()).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    let firsts = one_in_its_window_and_one_waiting(&it).await;
    let shown = run(&it, &["shard", "show", &shard, "--json"]).await;
    let drain = &parsed(&shown)["drain"];
    assert_eq!(drain["status"], "running", "{shown:?}");
    assert_eq!(drain["leaving"], 2, "{shown:?}");
    let again = ["shard", "drain", &shard, "--yes", "--window", "0s"];
    let begun = run(&it, &again).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    // The first drain's migrations keep their terms; all others have the second's.
    for first in &firsts {
        reaches(&it, first, "MonitorDualRead").await;
        it.act(&format!("/migrations/{first}/complete")).await;
    }
    eventually("it is empty", async || {
        (it.get(&format!("/shards/{shard}/drain")).await["status"] == "empty").then_some(())
    })
    .await;
    let moves = it.all("/migrations?status=completed").await;
    assert_eq!(moves.len() as u64, held.as_u64().unwrap(), "each once");
    for one in &moves {
        let is_first = firsts.contains(&text(&one["migrationID"]));
        let window = if is_first { 3_600_000 } else { 0 };
        assert_eq!(one["terms"]["windowMs"], window, "{one}");
        assert_eq!(one["terms"]["sync"] == true, is_first, "{one}");
    }
}

/// Outcomes are spelled as in JSON and as on the command line.
#[tokio::test]
async fn migrations_are_filtered_by_outcome() {
    let it = Instance::start().await;
    voted(&it, "acme", 5).await;
    for name in ["rolledBack", "rolled-back"] {
        let found = run(&it, &["migration", "list", "--status", name, "--json"]).await;
        assert_eq!(found.code, Some(0), "{found:?}");
    }
    let unknown = run(&it, &["migration", "list", "--status", "rolled"]).await;
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("rolledBack"), "{unknown:?}");
}

#[tokio::test]
async fn a_shard_is_drained_and_a_drain_is_cancelled() {
    let it = start_with_one_window().await;
    for n in 0..6 {
        it.tenant(&format!("tenant-{n}")).await;
    }
    voted(&it, "acme", 20).await;
    let shard = find_shard(&it, "acme").await;
    let drain = format!("/shards/{shard}/drain");
    // Without --yes the plan is only shown.
    let held = it.get(&format!("/shards/{shard}")).await["slices"]
        .as_u64()
        .unwrap();
    let shown = run(&it, &["shard", "drain", &shard]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("acme"), "{shown:?}");
    assert!(shown.stderr.contains("--yes"), "{shown:?}");
    let plan = it.get(&drain).await;
    assert_eq!(plan["status"], "no");
    assert_eq!(plan["plan"]["movesTotal"], held);
    assert!(plan["plan"]["price"]["rows"].as_u64().unwrap() >= 20);
    assert_eq!(it.all("/migrations").await.len(), 0);
    // A cancelled drain starts no more migrations; running ones continue.
    let begin = ["shard", "drain", &shard, "--yes", "--concurrency", "1"];
    let begun = run(&it, &[&begin[..], &["--reason", "new disks"]].concat()).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    let begun = one_in_its_window_and_one_waiting(&it).await;
    assert_eq!(it.get(&drain).await["status"], "running");
    let shown = run(&it, &["shard", "show", &shard]).await;
    assert!(shown.stdout.contains("draining"), "{shown:?}");
    let gone = it.call("DELETE", &format!("/shards/{shard}")).send().await;
    gone.expect_error(409, "shard-not-empty");
    let off = run(&it, &["shard", "drain", &shard, "--cancel"]).await;
    assert!(off.stdout.contains("accepts tenants again"), "{off:?}");
    assert_eq!(it.get(&drain).await["status"], "stopping");
    let open = it.all("/migrations?open=true").await;
    assert_eq!(open[0]["reason"], "new disks");
    for id in &begun {
        reaches(&it, id, "MonitorDualRead").await;
        it.act(&format!("/migrations/{id}/complete")).await;
        assert_eq!(over(&it, id).await["status"], "completed");
    }
    eventually("the drain ends", async || {
        (it.get(&drain).await["status"] == "no").then_some(())
    })
    .await;
    assert_eq!(it.all("/migrations").await.len(), 2);
    // After a complete drain the shard can be removed.
    let begin = ["shard", "drain", &shard, "--yes", "--window", "0s"];
    let begun = run(&it, &begin).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    eventually("it is empty", async || {
        (it.get(&drain).await["status"] == "empty").then_some(())
    })
    .await;
    assert_eq!(
        it.all("/migrations?status=completed").await.len() as u64,
        held
    );
    let gone = it.call("DELETE", &format!("/shards/{shard}")).send().await;
    assert_eq!(gone.status, 204, "{}", gone.text);
    // When the shard is in the fleet again, the tenants that belong on it are moved back.
    let again = json!({"shardID": shard, "url": "file:shards/another"});
    it.create("/shards", &again).await;
    let due = it.get("/rebalance").await["plan"]["totals"]["moves"]
        .as_u64()
        .unwrap();
    assert!(due > 0, "no tenant belongs there");
    let shown = run(&it, &["rebalance"]).await;
    assert!(shown.stdout.contains("plan:"), "{shown:?}");
    let begin = ["rebalance", "--yes", "--window", "sync:1s", "--json"];
    let begun = run(&it, &begin).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    eventually("no drift", async || {
        let body = it.get("/rebalance").await;
        let left = body["plan"]["totals"]["moves"] == 0;
        (left && body["planID"].is_null()).then_some(())
    })
    .await;
    assert_eq!(it.get("/placement/drift").await["movesTotal"], 0);
    assert_eq!(find_shard(&it, "acme").await, shard);
    let moves = it.all("/migrations?status=completed").await;
    let synced = moves.iter().filter(|one| one["terms"]["sync"] == true);
    assert_eq!(
        synced.count() as u64,
        due,
        "each on the terms that were asked for"
    );
}
