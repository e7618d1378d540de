//! Journey: a closed poll is archived. Its application notices nothing, the backup contains the
//! file, and a damaged or missing file is reported.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::polls::{Application, TestPoll};
use crate::support::process::ballast;
use crate::support::{Instance, InstanceOptions, Process, ProcessExit, in_ms, text, token_file};
use ballast_domain::ShardId;
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_vote_shard::FencedSlice;
use ballast_vote_shard::archive::{ArchiveDirectory as _, LocalArchives, Unthrottled, backfill};
use ballast_vote_shard::embedded::EmbeddedShard;
use ballast_vote_shard::embedded::disk::RealDisk;
use ballast_vote_shard::testing::{SeedEntropy, SteppedClock};
use serde_json::json;

async fn run(arguments: &[&str], paths: &[&Path]) -> ProcessExit {
    let mut command = ballast();
    let mut process = Process::spawn(command.args(arguments).args(paths).arg("--json"));
    process.wait_for_end().await
}

/// Archives acme's closed polls in the data directory of a stopped instance.
async fn archive(data: &Path, shard: &str) {
    let id: ShardId = shard.parse().unwrap();
    let opened = EmbeddedShard::open(
        shard,
        Arc::new(RealDisk::open(&data.join("shards").join(shard)).unwrap()),
        ballast_vote_shard::embedded::ShardOptions::default(),
        Arc::new(SteppedClock::new(in_ms(0).unix_ms())),
        Arc::new(SeedEntropy(7.into())),
    );
    let opened = opened.unwrap();
    let archives = LocalArchives::new(data.join("archive"));
    let at = FencedSlice {
        slice: SliceId {
            tenant_id: "acme".parse().unwrap(),
            slice: 0,
        },
        epoch: Epoch::FIRST,
    };
    let archive = archives.archive(&id).unwrap();
    let report = backfill(&opened, &archive, &at, 1, &mut Unthrottled).await;
    let report = report.unwrap();
    assert_eq!((report.polls, report.rows), (1, 3));
}

/// The only file below a directory.
fn only_file(directory: &Path) -> PathBuf {
    let entries: Vec<_> = std::fs::read_dir(directory).unwrap().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    let path = entries[0].as_ref().unwrap().path();
    match path.is_dir() {
        true => only_file(&path),
        false => path,
    }
}

/// Everything that an application can request from its poll.
async fn read_results(app: &Application, poll: &TestPoll) -> Vec<(u16, String)> {
    let mut answers = Vec::new();
    for path in ["/export", "/voters/ada", "/voters/nobody"] {
        let answer = app.call("GET", &poll.path(path)).send().await;
        answers.push((answer.status, answer.text));
    }
    for voter in ["bob", "late"] {
        let answer = app.vote(poll, 0, voter).await;
        answers.push((answer.status, answer.text));
    }
    answers.push((200, app.newest(poll).await["total"].to_string()));
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archived_poll_stays_readable_and_is_backed_up() {
    let mut it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let shard = text(&it.get("/tenants/acme").await["slices"][0]["shardID"]);
    let poll = app.poll(json!({})).await;
    for voter in ["ada", "bob", "cyd"] {
        app.vote(&poll, 0, voter).await.expect(200);
    }
    let closing = app.call("POST", &poll.path("/close")).send();
    closing.await.expect(200);
    let before = read_results(&app, &poll).await;
    assert_eq!(before[0].1.lines().count(), 3, "{before:?}");
    assert!(before[3].1.contains("already"), "{before:?}");
    it.kill9();
    let data = it.home().join("data");
    archive(&data, &shard).await;
    let it = it.restart().await;
    let app = Application {
        router: it.router.clone(),
        ..app
    };
    assert_eq!(read_results(&app, &poll).await, before);
    // A backup contains the file, and reports damage to it.
    let scratch = tempfile::tempdir().unwrap();
    let backup = scratch.path().join("backup");
    let made = run(&["backup", "create", "--data-dir"], &[&data, &backup]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let verified = run(&["backup", "verify"], &[&backup]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let home = Arc::new(tempfile::tempdir().unwrap());
    let restored = run(&["restore"], &[&backup, &home.path().join("data")]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    let copy = only_file(&backup.join("archive"));
    let whole = std::fs::read(&copy).unwrap();
    let mut rotten = whole.clone();
    rotten[40] ^= 1;
    std::fs::write(&copy, rotten).unwrap();
    let verified = run(&["backup", "verify"], &[&backup]).await;
    assert_eq!(verified.code, Some(1), "{verified:?}");
    let name = copy.file_name().unwrap().to_str().unwrap();
    assert!(verified.stdout.contains(name), "{verified:?}");
    // A restored instance serves the same.
    std::fs::copy(token_file(it.home()), token_file(home.path())).unwrap();
    let again = Instance::within(home, InstanceOptions::default()).await;
    let app_again = Application {
        http: app.http.clone(),
        router: again.router.clone(),
        key: app.key.clone(),
    };
    assert_eq!(read_results(&app_again, &poll).await, before);
    // Without the file, requests fail and a backup is reported as incomplete.
    std::fs::remove_file(only_file(&data.join("archive"))).unwrap();
    app.vote(&poll, 0, "bob")
        .await
        .expect_error(503, "archive-unavailable");
    let export = app.call("GET", &poll.path("/export")).send().await;
    export.expect_error(503, "archive-unavailable");
    assert_eq!(app.newest(&poll).await["total"], 3);
    let partly = scratch.path().join("partly");
    let made = run(&["backup", "create", "--data-dir"], &[&data, &partly]).await;
    assert_eq!(made.code, Some(1), "{made:?}");
}
