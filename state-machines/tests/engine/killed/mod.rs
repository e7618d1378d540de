//! A process that runs 200 executions, each with a child of its own, is killed
//! again and again, at random moments: every history is legal, and every end is
//! as its input demands.
//! Ten kills, or a hundred with `BALLAST_TEST_LONG=1`.

mod worker;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use ballast_state_machines::core::{HistoryEvent, HistoryType};
use ballast_state_machines::store::{HistoryQuery, Query, Row, SqliteStore, Status, Store};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

const MANY: u64 = 200;

/// Says to this very program that it is to be the process, and on which file.
const FILE: &str = "BALLAST_TEST_KILLED_FILE";

fn start(file: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "killed::the_process_that_is_killed",
            "--nocapture",
        ])
        .env(FILE, file)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Nothing, unless [`start`] has started it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_that_is_killed() {
    if let Some(file) = std::env::var_os(FILE) {
        worker::run(Path::new(&file), MANY).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_it_goes_on() {
    let is_long = std::env::var("BALLAST_TEST_LONG").is_ok_and(|value| value == "1");
    let kills: u64 = if is_long { 100 } else { 10 };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("executions.db");
    let mut killed = 0;
    while killed < kills {
        let mut worker = start(&file);
        // Moments that differ, from its first breath to the middle of its work.
        let moment = Duration::from_millis(10 + killed * 7_919 % 230);
        if tokio::time::timeout(moment, worker.wait()).await.is_ok() {
            // All is done already: begin with another file.
            check(&file).await;
            for name in ["executions.db", "executions.db-wal", "executions.db-shm"] {
                let _ = std::fs::remove_file(directory.path().join(name));
            }
            continue;
        }
        worker.kill().await.unwrap();
        killed += 1;
    }
    let ended = start(&file).wait().await.unwrap();
    assert!(ended.success());
    check(&file).await;
}

async fn check(file: &Path) {
    let store = SqliteStore::open(file).await.unwrap();
    for number in 0..MANY {
        let id = format!("counting:{number}");
        let found = store.get(&id).await.unwrap().expect("it was started");
        let outcome: Value = serde_json::from_str(&found.outcome.unwrap()).unwrap();
        if number % 5 == 0 {
            assert_eq!(found.row.status, Status::Failed, "{id}");
            assert_eq!(outcome["error"], json!("As.Asked"));
        } else {
            assert_eq!(found.row.status, Status::Succeeded, "{id}");
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
    let children = Query {
        workflow: Some("doubling".to_owned()),
        ..Query::newest(1_000)
    };
    let children = store.list(&children).await.unwrap();
    assert_eq!(children.len() as u64, MANY, "one for each");
    let well = |row: &Row| row.status == Status::Succeeded;
    assert!(children.iter().all(well));
    store.close().await;
}

/// Ten turns, one of them tried twice, three items, a child and a question:
/// each task answered once, however often it was run.
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
    // A child may have ended before it is written down that it was started.
    assert!((1..=2).contains(&count(HistoryType::TaskSubmitted)));
    assert_eq!(count(HistoryType::WaitStateEntered), 1);
    assert_eq!(count(HistoryType::MapIterationSucceeded), 3);
}
