//! Journey: a tenant with closed polls moves, and the process dies while it writes, copies and
//! removes their files. The application notices nothing: results, exports, single voters and late
//! votes get the same answers in the window, after it, and after a reversed migration.

use std::path::{Path, PathBuf};

use crate::support::polls::{Application, TestPoll};
use crate::support::{Instance, eventually, text};
use serde_json::{Value, json};

/// Where the process dies: while files are written and copied, before and after the cutover, and
/// before and after the source's files are removed.
const PLACES: [&str; 10] = [
    "paced archiving:1",
    "archived polls",
    "paced copying files:1",
    "brought files",
    "page Snapshot",
    "swapped Sealing",
    "swapped Window",
    "begin CleanupOldShard",
    "ordered Purge",
    "swap moving: None",
];
const VOTES: usize = 40;

/// An application's view of a closed poll: the answers to all requests.
async fn read_results(app: &Application, poll: &TestPoll) -> Vec<(u16, String)> {
    let mut answers = Vec::new();
    for path in ["", "/export", "/voters/voter-3", "/voters/nobody", "/votes"] {
        let call = app.call("GET", &poll.path(path));
        let answer = call.header("cache-control", "no-cache").send().await;
        // `asOf` differs between answers.
        let (text, _) = answer
            .text
            .split_once(r#","asOf":"#)
            .unwrap_or((&answer.text, ""));
        answers.push((answer.status, text.to_owned()));
    }
    for voter in ["voter-7", "late"] {
        let answer = app.vote(poll, 1, voter).await;
        answers.push((answer.status, answer.text));
    }
    answers
}

/// A closed poll with votes, and its application's view of it.
async fn closed(app: &Application) -> (TestPoll, Vec<(u16, String)>) {
    let poll = app.poll(json!({})).await;
    let lines = (0..VOTES).map(|n| poll.line(1, &format!("voter-{n}")));
    app.send_lines(lines.collect()).await;
    let closing = app.call("POST", &poll.path("/close")).send();
    closing.await.expect(200);
    let seen = read_results(app, &poll).await;
    assert_eq!(seen[1].1.lines().count(), VOTES, "{seen:?}");
    assert!(seen[5].1.contains("already"), "{seen:?}");
    assert_eq!(seen[6].0, 409, "{seen:?}");
    (poll, seen)
}

async fn find_shard(it: &Instance) -> String {
    let tenant = it.get("/tenants/acme").await;
    text(&tenant["slices"][0]["shardID"])
}

async fn elsewhere(it: &Instance) -> String {
    let here = find_shard(it).await;
    let mut all = (1..=4).map(|n| format!("shard-{n}"));
    all.find(|id| *id != here).unwrap()
}

async fn begun(it: &Instance, to: &str, window_ms: u64) -> String {
    let call = it.call("POST", "/tenants/acme/move");
    let body = json!({"toShardID": to, "windowMs": window_ms});
    text(&call.json(&body).send().await.expect(202)["migrationID"])
}

async fn until(it: &Instance, id: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || {
        let found = it.get(&format!("/migrations/{id}")).await;
        is(&found).then_some(found)
    })
    .await
}

async fn over(it: &Instance, id: &str, status: &str) -> Value {
    let ended = until(it, id, "its end", |found| found["ended"].is_object()).await;
    assert_eq!(ended["status"], status, "{ended}");
    ended
}

/// The files of a shard's closed polls.
fn files(it: &Instance, shard: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![it.home().join("data/archive").join(shard)]);
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        for path in entries.map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found
}

fn is_litter(file: &Path) -> bool {
    file.extension().is_none_or(|end| end != "parquet")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_polls_survive_moves_and_crashes() {
    let mut it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let mut polls = vec![closed(&app).await, closed(&app).await];
    for place in PLACES {
        // One more poll to archive each time, and two at first.
        polls.push(closed(&app).await);
        let (from, to) = (find_shard(&it).await, elsewhere(&it).await);
        it = it.restart_dying_at(Some(place)).await;
        let id = begun(&it, &to, 0).await;
        it.process().wait_for_end().await;
        it = it.restart_dying_at(None).await;
        let ended = over(&it, &id, "completed").await;
        for (poll, before) in &polls {
            assert_eq!(&read_results(&app, poll).await, before, "{place}");
        }
        let votes = &ended["certificate"]["votes"];
        assert_eq!(
            votes["acknowledged"],
            polls.len() * VOTES,
            "{place}: {ended}"
        );
        assert_eq!(votes["present"], polls.len() * VOTES, "{place}: {ended}");
        assert!(files(&it, &from).is_empty(), "{place}");
        let whole = files(&it, &to).into_iter().filter(|file| !is_litter(file));
        assert_eq!(whole.count(), polls.len(), "{place}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_polls_survive_the_window_and_a_reverse() {
    let mut it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let mut polls = vec![closed(&app).await, closed(&app).await];
    let (from, to) = (find_shard(&it).await, elsewhere(&it).await);
    let id = begun(&it, &to, 3_600_000).await;
    let in_window = |found: &Value| found["phase"] == "MonitorDualRead";
    until(&it, &id, "the window", in_window).await;
    assert_eq!(find_shard(&it).await, to);
    // This poll closes on the target, and returns as rows.
    polls.push(closed(&app).await);
    let same = async |app: &Application, when: &str| {
        for (poll, before) in &polls {
            assert_eq!(&read_results(app, poll).await, before, "{when}");
        }
    };
    same(&app, "in the window").await;
    it.kill9();
    it = it.restart_dying_at(Some("swapped -back")).await;
    same(&app, "after a crash in the window").await;
    let reverse = it.call("POST", &format!("/migrations/{id}/reverse"));
    reverse.send().await.expect(200);
    it.process().wait_for_end().await;
    it = it.restart_dying_at(None).await;
    over(&it, &id, "reversed").await;
    assert_eq!(find_shard(&it).await, from);
    same(&app, "after it was brought back").await;
    assert_eq!((files(&it, &from).len(), files(&it, &to).len()), (2, 0));
    // Move again: two files and one more.
    let id = begun(&it, &to, 0).await;
    over(&it, &id, "completed").await;
    same(&app, "there again").await;
    assert_eq!((files(&it, &from).len(), files(&it, &to).len()), (0, 3));
}
