//! Kills a process that runs 200 executions, each with a child, again and again at
//! random moments. Every history must be consistent, and every execution must end as
//! its input says. Ten kills, or a hundred with `BALLAST_TEST_LONG=1`.

mod worker;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use ballast_state_machines::core::{HistoryEvent, HistoryType};
use ballast_state_machines::store::{
    ExecutionQuery, ExecutionRow, ExecutionStore, HistoryQuery, SqliteStore, StoredStatus,
};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

const MANY: u64 = 200;

/// How long the last worker may take to finish all executions.
const WORKER_DEADLINE: Duration = Duration::from_secs(120);

/// Makes this program the worker process, on this file.
const FILE: &str = "BALLAST_TEST_KILLED_FILE";

fn start(file: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::worker_process", "--nocapture"])
        .env(FILE, file)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// The worker process. Does nothing unless [`start`] started it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process() {
    if let Some(file) = std::env::var_os(FILE) {
        worker::run(Path::new(&file), MANY).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_survive_random_kills() {
    let is_long = std::env::var("BALLAST_TEST_LONG").is_ok_and(|value| value == "1");
    let kills: u64 = if is_long { 100 } else { 10 };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("executions.db");
    let mut killed = 0;
    while killed < kills {
        let mut worker = start(&file);
        // Different moments, from startup to the middle of the work.
        let moment = Duration::from_millis(10 + killed * 7_919 % 230);
        if tokio::time::timeout(moment, worker.wait()).await.is_ok() {
            // The worker has finished everything: start over with a new file.
            check(&file).await;
            for name in ["executions.db", "executions.db-wal", "executions.db-shm"] {
                let _ = std::fs::remove_file(directory.path().join(name));
            }
            continue;
        }
        worker.kill().await.unwrap();
        killed += 1;
    }
    let mut worker = start(&file);
    let ended = tokio::time::timeout(WORKER_DEADLINE, worker.wait()).await;
    let ended = ended.expect("the last worker did not finish all executions in time");
    assert!(ended.unwrap().success());
    check(&file).await;
}

async fn check(file: &Path) {
    let store = SqliteStore::open(file).await.unwrap();
    for number in 0..MANY {
        let id = format!("counting:{number}");
        let found = store.get(&id).await.unwrap().expect("it was started");
        let outcome: Value = serde_json::from_str(&found.outcome.unwrap()).unwrap();
        if number % 5 == 0 {
            assert_eq!(found.row.status, StoredStatus::Failed, "{id}");
            assert_eq!(outcome["error"], json!("As.Asked"));
        } else {
            assert_eq!(found.row.status, StoredStatus::Succeeded, "{id}");
            let output = json!({"n": 10, "fails": false, "items": [2 * number, 2, 4],
                "child": {"output": 4 * number}, "answer": "yes"});
            assert_eq!(outcome["output"], output);
        }
        let query = HistoryQuery {
            after: None,
            newest_first: false,
            limit: 1_000,
        };
        let page = store.history(&id, &query).await.unwrap().unwrap();
        assert!(!page.more);
        let events = page.events.iter();
        let events = events.map(|event| serde_json::from_str(event).unwrap());
        check_history(&events.collect::<Vec<HistoryEvent>>());
    }
    let children = ExecutionQuery {
        workflow: Some("doubling".to_owned()),
        ..ExecutionQuery::newest(1_000)
    };
    let children = store.list(&children).await.unwrap();
    assert_eq!(children.len() as u64, MANY, "one for each");
    let well = |row: &ExecutionRow| row.status == StoredStatus::Succeeded;
    assert!(children.iter().all(well));
    store.close().await;
}

/// Checks the history of ten turns, one of them retried, three items, a child and a
/// callback: each task has one result, however often it ran.
fn check_history(history: &[HistoryEvent]) {
    for (index, event) in history.iter().enumerate() {
        assert_eq!(event.id, index as u64 + 1);
        assert!(event.previous_event_id < event.id);
        assert!(index == 0 || event.at_ms >= history[index - 1].at_ms);
    }
    let count = |kind| history.iter().filter(|event| event.kind == kind).count();
    assert_eq!(count(HistoryType::ExecutionStarted), 1);
    assert_eq!(count(HistoryType::TaskScheduled), 16);
    assert_eq!(count(HistoryType::TaskStarted), 16);
    assert_eq!(count(HistoryType::TaskSucceeded), 15);
    assert_eq!(count(HistoryType::TaskFailed), 1);
    // A child may end before its submission is recorded.
    assert!((1..=2).contains(&count(HistoryType::TaskSubmitted)));
    assert_eq!(count(HistoryType::WaitStateEntered), 1);
    assert_eq!(count(HistoryType::MapIterationSucceeded), 3);
}
