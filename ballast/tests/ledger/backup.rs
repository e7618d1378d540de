//! Journey: a backup is made while the ledger's clients vote, verified, restored and started. It
//! contains every vote acknowledged before it began once, and its contents match its manifest.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::ledger::audit::{AuditScope, audit};
use crate::ledger::history::{History, VoteOutcome};
use crate::ledger::random::SeededRandom;
use crate::ledger::world::LedgerWorld;
use crate::ledger::{LedgerPlan, Run};
use crate::support::moves::{find_shard, show_migration};
use crate::support::polls::Application;
use crate::support::process::ballast;
use crate::support::{Instance, InstanceOptions, Process, text, token_file};
use serde_json::{Value, json};

/// Runs a command that must succeed, and returns the JSON it printed.
async fn run_for_json(arguments: &[&str], paths: &[&Path]) -> Value {
    let mut command = ballast();
    let mut process = Process::spawn(command.args(arguments).args(paths).arg("--json"));
    let ended = process.wait_for_end().await;
    assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

fn sum(manifest: &Value, what: &str) -> u64 {
    let shards = manifest["shards"].as_array().unwrap().iter();
    shards.map(|shard| shard[what].as_u64().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_made_while_votes_arrive_holds_every_acknowledged_vote_once() {
    let plan = LedgerPlan {
        seed: SeededRandom::seed(),
        kills: 0,
        votes: 0,
        between: (2_000, 4_000),
        clients: (96, 24),
        think: Duration::ZERO,
        expires_in_ms: 5_000,
        tears_one_in: 2,
        recovery: Duration::from_secs(60),
        options: InstanceOptions::default(),
    };
    let mut random = SeededRandom::new(plan.seed, 3);
    let mut run = Run::start(plan).await;
    let scratch = tempfile::tempdir().unwrap();
    let mut backups = Vec::new();
    for round in 0..3 {
        run.await_votes().await;
        let backup = scratch.path().join(format!("backup-{round}"));
        let answered_before = run.shared.history.now().tick;
        let data = run.world.data_dir();
        let made = run_for_json(&["backup", "create", "--data-dir"], &[&data, &backup]).await;
        let scope = AuditScope {
            answered_before,
            sent_before: run.shared.history.now().tick,
        };
        let verified = run_for_json(&["backup", "verify"], &[&backup]).await;
        assert_eq!(verified["manifest"], made);
        backups.push((backup, made, scope));
        // The next backup is made right after a crash.
        assert!(run.kill_and_restart().await);
    }
    run.stop_clients().await;
    for (backup, made, scope) in backups {
        check_restored(&run, &backup, &made, scope, &mut random).await;
    }
    let report = run.end().await;
    assert!(report.findings.is_empty(), "{report:#?}");
}

/// Restores the backup and checks all of it.
async fn check_restored(
    run: &Run,
    backup: &Path,
    made: &Value,
    scope: AuditScope,
    random: &mut SeededRandom,
) {
    let home = Arc::new(tempfile::tempdir().unwrap());
    let data = home.path().join("data");
    run_for_json(&["restore"], &[backup, &data]).await;
    let again = ballast().arg("restore").args([backup, &data]).output();
    let why = String::from_utf8_lossy(&again.unwrap().stderr).into_owned();
    assert!(why.contains("is not empty"), "{why}");
    for shard in made["shards"].as_array().unwrap() {
        let directory = data.join(shard["directory"].as_str().unwrap());
        let seen = run_for_json(&["shard", "verify"], &[&directory]).await;
        for what in ["polls", "voters", "votes", "digest"] {
            assert_eq!(seen[what], shard[what], "{what}");
        }
    }
    // The registry has the admin's token, but not the token file.
    let token = run.world.data_dir().with_file_name("token");
    std::fs::copy(token, token_file(home.path())).unwrap();
    let world = LedgerWorld::start_in(home, InstanceOptions::default(), random).await;
    let router = &world.instance().router;
    let shared = &run.shared;
    let applications = shared.applications.iter().map(|application| Application {
        http: application.http.clone(),
        router: router.clone(),
        key: application.key.clone(),
    });
    let applications: Vec<Application> = applications.collect();
    let found = audit(&shared.history, &applications, scope, random).await;
    let findings = shared.history.findings();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    assert_eq!(found, (sum(made, "voters"), sum(made, "votes")));
    check_repeated_votes(&shared.history, &applications, scope).await;
}

/// A vote that was counted before the backup began and is repeated at the restored instance gets
/// its first answer, from a later epoch.
async fn check_repeated_votes(history: &History, applications: &[Application], scope: AuditScope) {
    let poll = &history.polls[0];
    let counted: Vec<_> = poll
        .pages()
        .iter()
        .filter_map(|(voter, page)| {
            let first = page.attempts.first()?;
            let answered = first.answered?.tick < scope.answered_before;
            let counted =
                matches!(first.outcome, VoteOutcome::Applied(Some(1))) && voter.is_ascii();
            (answered && counted).then(|| (voter.clone(), first.ask))
        })
        .take(50)
        .collect();
    assert!(!counted.is_empty());
    for (voter, ask) in counted {
        let Some(request) = ask.request else { continue };
        let call = applications[0].call("PATCH", &poll.poll.vote(ask.item));
        let name = crate::ledger::clients::request_name(&voter, request);
        let call = call.header("idempotency-key", &name);
        let again = call.header("voter-id", &voter).send().await;
        assert_eq!(again.header("etag"), "\"1\"", "{}", again.text);
        let epoch: u64 = again.header("ballast-epoch").parse().unwrap();
        assert!(epoch > 1, "routers of the original instance are not fenced");
        assert_eq!(again.expect(200)["outcome"], "counted");
    }
}

#[tokio::test]
async fn a_half_restored_directory_is_not_started() {
    let home = Arc::new(tempfile::tempdir().unwrap());
    let data = home.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("restoring"), "").unwrap();
    let launched = Instance::launch(home, InstanceOptions::default(), "127.0.0.1:0").await;
    let Err(ended) = launched else {
        panic!("it started");
    };
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("a restore did not finish"),
        "{ended:?}"
    );
}

/// Copies the files of a registry from one directory to another.
fn bring_registry(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in ["registry.db", "registry.db-wal", "registry.db-shm"] {
        let (from, to) = (from.join(name), to.join(name));
        match from.exists() {
            true => drop(std::fs::copy(from, to).unwrap()),
            false => drop(std::fs::remove_file(to)),
        }
    }
}

/// An old copy of the registry replaces the current one: votes are refused until the newer one is
/// back, instead of being stored where no route leads to them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_registry_under_newer_shards_accepts_no_votes_and_is_reported() {
    let mut it = Instance::with(InstanceOptions {
        config: Some("[router]\nhold_max = \"300ms\"\n".to_owned()),
        ..InstanceOptions::default()
    })
    .await;
    let application = Application::create(&it, "acme").await;
    let poll = application.poll(json!({})).await;
    application.vote(&poll, 0, "ada").await.expect(200);
    let data = it.home().join("data");
    let (old, new) = (it.home().join("old"), it.home().join("new"));
    it.kill9();
    bring_registry(&data, &old);
    it = it.restart().await;
    let ahead = async |it: &Instance| {
        let reply = it.route("GET", "/metrics").send().await.text;
        let line = reply
            .lines()
            .find(|line| line.starts_with("ballast_epochs_ahead_total "));
        line.unwrap()
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let to = ["shard-1", "shard-2"];
    let to = to[usize::from(find_shard(&it, "acme").await == to[0])];
    let body = json!({ "toShardID": to, "windowMs": 0 });
    let begun = it
        .call("POST", "/tenants/acme/move")
        .json(&body)
        .send()
        .await;
    let id = text(&begun.expect(202)["migrationID"]);
    show_migration(&it, &id, "it is moved", |found| {
        found["status"] == "completed"
    })
    .await;
    application.vote(&poll, 1, "bob").await.expect(200);
    assert_eq!(ahead(&it).await, 0);

    it.kill9();
    bring_registry(&data, &new);
    bring_registry(&old, &data);
    it = it.restart().await;
    application
        .vote(&poll, 1, "cyd")
        .await
        .expect_error(503, "unavailable");
    assert_eq!(ahead(&it).await, 1);

    it.kill9();
    bring_registry(&new, &data);
    it = it.restart().await;
    application.vote(&poll, 1, "cyd").await.expect(200);
    assert_eq!(application.newest(&poll).await["total"], 3);
    assert_eq!(ahead(&it).await, 0);
}

/// A shard may be outside the data directory: its files stay in place, and the backup has a copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_outside_the_data_directory_is_backed_up_unchanged() {
    let it = Instance::start().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let directory = elsewhere.path().join("far");
    let url = format!("file:{}", directory.display());
    let far = serde_json::json!({ "shardID": "far", "url": url, "weight": 1_000_000.0 });
    it.create("/shards", &far).await;
    let acme = Application::create(&it, "acme").await;
    let placed = it.get("/tenants/acme").await;
    assert_eq!(placed["slices"][0]["shardID"], "far");
    let poll = acme.poll(serde_json::json!({})).await;
    for voter in ["a", "b", "c"] {
        acme.vote(&poll, 0, voter).await.expect(200);
    }
    let data = it.home().join("data");
    let backup = elsewhere.path().join("backup");
    let manifest = run_for_json(&["backup", "create", "--data-dir"], &[&data, &backup]).await;
    assert_eq!(sum(&manifest, "votes"), 3);
    assert!(std::fs::read_dir(&directory).unwrap().count() > 0);
    acme.vote(&poll, 0, "d").await.expect(200);
    let restored = elsewhere.path().join("restored");
    run_for_json(&["restore"], &[&backup, &restored]).await;
    assert_eq!(
        acme.newest(&poll).await["total"],
        4,
        "the original continues"
    );
    let verified = run_for_json(&["shard", "verify"], &[&restored.join("shards/far")]).await;
    assert_eq!(verified["votes"], 3);
}

/// An empty directory is not mistaken for a shard without votes, and data of a newer format is not
/// backed up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_and_newer_directories_are_refused() {
    let refused = async |arguments: &[&str], paths: &[&Path]| {
        let mut command = ballast();
        let mut process = Process::spawn(command.args(arguments).args(paths));
        let ended = process.wait_for_end().await;
        assert_eq!(ended.code, Some(1), "{arguments:?}: {ended:?}");
        format!("{}{}", ended.stdout, ended.stderr)
    };
    let empty = tempfile::tempdir().unwrap();
    for verb in ["inspect", "verify"] {
        let reply = refused(&["shard", verb], &[empty.path()]).await;
        assert!(reply.contains("no shard files here"), "{reply}");
    }
    let it = Instance::start().await;
    let data = it.home().join("data");
    std::fs::write(data.join("format"), "999\n").unwrap();
    let backup = empty.path().join("backup");
    let reply = refused(&["backup", "create", "--data-dir"], &[&data, &backup]).await;
    assert!(reply.contains("format 999"), "{reply}");
    assert!(!backup.exists());
}

/// Executions that ran when the backup was made are aborted in the restored instance, because their
/// later effects never happened there; their records remain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_are_aborted_by_a_restore() {
    let it = Instance::start().await;
    let definition = serde_json::json!({"StartAt": "VoteRequest", "States": {"VoteRequest": {"Type": "Task",
        "Resource": "ballast:approval.waitForTaskToken", "End": true}}});
    let put = it.call("PUT", "/workflows/asking").json(&definition);
    put.send().await.expect(200);
    let body = serde_json::json!({"workflow": "asking", "name": "open"});
    it.create("/executions", &body).await;
    let scratch = tempfile::tempdir().unwrap();
    let (data, backup) = (it.home().join("data"), scratch.path().join("backup"));
    run_for_json(&["backup", "create", "--data-dir"], &[&data, &backup]).await;
    let home = Arc::new(tempfile::tempdir().unwrap());
    run_for_json(&["restore"], &[&backup, &home.path().join("data")]).await;
    std::fs::copy(token_file(it.home()), token_file(home.path())).unwrap();
    let restored = Instance::within(home, InstanceOptions::default()).await;
    // The restored instance signs certificates with the same key.
    let key = restored.get("/certificate-key").await;
    assert_eq!(key, it.get("/certificate-key").await);
    let ended = restored.call("GET", "/executions/asking:open/watch").send();
    let ended = ended.await.text;
    assert!(ended.contains("event: end"), "{ended}");
    let ended = restored.get("/executions/asking:open").await;
    assert_eq!(ended["status"], "ABORTED");
    let cause = ended["cause"].as_str().unwrap();
    assert!(cause.starts_with("restored from the backup of"), "{cause}");
    let open = it.get("/executions/asking:open").await;
    assert_eq!(open["status"], "RUNNING", "the original continues");
}
