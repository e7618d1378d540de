//! Many waiting executions: half wait for a time, half for an external answer. Measures
//! their cost while they wait, and a start with them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, ensure};
use ballast_state_machines::engine::{
    Engine, EngineSettings, HandlerRegistry, SystemClock, TaskContext,
};
use ballast_state_machines::store::SqliteStore;
use serde_json::{Value, json};

use crate::stopwatch::{Stopwatch, resident_bytes, threads};
use crate::table::{Table, thousands};

const SIZES: [usize; 2] = [100, 10_000];

const WAITS: &str = r#"{"StartAt": "Rest", "States": {
    "Rest": {"Type": "Wait", "Seconds": 86400, "Next": "Done"},
    "Done": {"Type": "Succeed"}}}"#;
const ASKS: &str = r#"{"StartAt": "Ask", "States": {
    "Ask": {"Type": "Task", "Resource": "ask.waitForTaskToken",
            "Parameters": {"token.$": "$$.Task.Token"}, "End": true}}}"#;
const QUICK: &str = r#"{"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}"#;

/// Prints the table.
pub(super) async fn run(directory: &Path) -> anyhow::Result<()> {
    let mut table = Table::new(&[
        "waiting",
        "started /s",
        "in memory",
        "store open",
        "engine runs",
        "first execution ended",
        "resident memory grown",
        "threads",
    ]);
    for size in SIZES {
        let path = directory.join(format!("waiting-{size}.db"));
        let (rate, held) = fill(&path, size).await?;
        let told = restart(&path)?;
        let [opened, runs, ended, grown, threads] = told.as_slice() else {
            anyhow::bail!("the restart printed {told:?}");
        };
        let millis = |seconds: &f64| format!("{:.1} ms", seconds * 1e3);
        table.row([
            thousands(size as u64),
            thousands(rate as u64),
            held.to_string(),
            millis(opened),
            millis(runs),
            millis(ended),
            format!("{:.1} MB", grown / 1e6),
            format!("{threads:.0}"),
        ]);
    }
    table.print("workflow: executions that wait, and a start with them");
    Ok(())
}

/// Starts executions that will wait. Returns how many per second, and how many of them
/// are in memory once all wait.
async fn fill(path: &Path, size: usize) -> anyhow::Result<(f64, usize)> {
    let (engine, store) = open(path).await?;
    engine.deploy("waits", WAITS).await?;
    engine.deploy("asks", ASKS).await?;
    engine.deploy("quick", QUICK).await?;
    let watch = Stopwatch::start();
    let all = Arc::new(tokio::sync::Semaphore::new(1_000));
    let mut starts = tokio::task::JoinSet::new();
    for number in 0..size {
        let (engine, turn) = (engine.clone(), Arc::clone(&all).acquire_owned().await?);
        starts.spawn(async move {
            let workflow = if number % 2 == 0 { "waits" } else { "asks" };
            let started = engine
                .start(workflow, &format!("run-{number}"), json!({}))
                .await;
            drop(turn);
            started
        });
    }
    while let Some(started) = starts.join_next().await {
        started??;
    }
    let rate = size as f64 / watch.elapsed().as_secs_f64();
    while engine.held_count() > 0 {
        tokio::task::yield_now().await;
    }
    let held = engine.held_count();
    engine.stop().await;
    store.close().await;
    Ok((rate, held))
}

async fn open(path: &Path) -> anyhow::Result<(Engine, SqliteStore)> {
    let store = SqliteStore::open(path).await?;
    let engine = start(&store).await?;
    Ok((engine, store))
}

async fn start(store: &SqliteStore) -> anyhow::Result<Engine> {
    let ask = |_: Value, _: TaskContext| async { Ok(Value::Null) };
    let registry = HandlerRegistry::new().with_function("ask.waitForTaskToken", ask);
    let (store, clock) = (Arc::new(store.clone()), Arc::new(SystemClock));
    Ok(Engine::new(store, registry, clock, EngineSettings::default()).await?)
}

/// Measures a start in a process of its own, and returns its output.
fn restart(path: &Path) -> anyhow::Result<Vec<f64>> {
    let mut again = Command::new(std::env::current_exe()?);
    again.args(["--inner", "reopen-workflows"]).arg(path);
    let output = again
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "the store could not be reopened");
    let told = String::from_utf8(output.stdout)?;
    let figures = told.split_whitespace().map(str::parse);
    figures
        .collect::<Result<_, _>>()
        .context("read the figures")
}

/// The process that starts with waiting executions. Prints how long it took until the
/// store was open, the engine ran and a new execution had ended, by how much the resident
/// memory grew, and the number of threads.
pub(crate) async fn reopen(path: &Path) -> anyhow::Result<()> {
    let before = resident_bytes();
    let watch = Stopwatch::start();
    let store = SqliteStore::open(path).await?;
    let opened = watch.elapsed().as_secs_f64();
    let engine = start(&store).await?;
    let runs = watch.elapsed().as_secs_f64();
    let name = format!("at-{}", std::process::id());
    let id = engine.start("quick", &name, json!({})).await?;
    engine.wait_for_end(&id).await?;
    let ended = watch.elapsed().as_secs_f64();
    let grown = resident_bytes().saturating_sub(before);
    println!("{opened} {runs} {ended} {grown} {}", threads());
    engine.stop().await;
    store.close().await;
    Ok(())
}
