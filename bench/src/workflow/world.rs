//! A loop of tasks that answer at once, and the times at which they ran.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use ballast_state_machines::engine::{
    Engine, EngineSettings, HandlerRegistry, SystemClock, TaskContext,
};
use ballast_state_machines::store::{ExecutionStore, SqliteStore};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::stopwatch::{Samples, Stopwatch};

const LOOP: &str = r#"{"StartAt": "Work", "States": {
    "Work": {"Type": "Task", "Resource": "work", "Next": "More"},
    "More": {"Type": "Choice", "Default": "Done",
             "Choices": [{"Variable": "$.left", "NumericGreaterThan": 0, "Next": "Work"}]},
    "Done": {"Type": "Succeed"}}}"#;

/// An engine on a SQLite file, with the loop deployed.
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) store: SqliteStore,
    book: Arc<Book>,
}

/// When the tasks of each execution ran.
struct Book {
    pages: Vec<Mutex<Page>>,
    running: AtomicU64,
    all_done: Notify,
}

/// The times between the tasks of one execution.
#[derive(Default)]
struct Page {
    last: Option<Stopwatch>,
    laps: Vec<Duration>,
}

impl World {
    /// Creates a store in a file of its own, for this many executions.
    pub(super) async fn open(path: &Path, executions: usize) -> anyhow::Result<Self> {
        let pages = (0..executions).map(|_| Mutex::default()).collect();
        let book = Arc::new(Book {
            pages,
            running: AtomicU64::new(0),
            all_done: Notify::new(),
        });
        let store = SqliteStore::open(path).await?;
        let pen = Arc::clone(&book);
        let registry =
            HandlerRegistry::new().with_function("work", move |input: Value, _: TaskContext| {
                let output = pen.worked(&input);
                async move { Ok(output) }
            });
        let engine = Engine::new(
            Arc::new(store.clone()),
            registry,
            Arc::new(SystemClock),
            EngineSettings::default(),
        )
        .await?;
        engine.deploy("loop", LOOP).await?;
        Ok(Self {
            engine,
            store,
            book,
        })
    }

    /// Runs executions concurrently, with this many steps each. Returns the time from the
    /// first start to the last task.
    pub(super) async fn run(
        &self,
        first: usize,
        count: usize,
        steps: u64,
    ) -> anyhow::Result<Duration> {
        self.book.running.store(count as u64, Ordering::Release);
        let watch = Stopwatch::start();
        let done = self.book.all_done.notified();
        let starts = (first..first + count).map(|number| {
            let engine = self.engine.clone();
            tokio::spawn(async move {
                let input = json!({"execution": number, "left": steps});
                engine.start("loop", &name(number), input).await
            })
        });
        let starts: Vec<_> = starts.collect();
        for start in starts {
            start.await??;
        }
        done.await;
        Ok(watch.elapsed())
    }

    /// The times between the tasks of all executions.
    pub(super) fn laps(&self) -> Samples {
        let mut samples = Samples::new();
        for number in 0..self.book.pages.len() {
            for lap in self.step_times(number) {
                samples.add(lap);
            }
        }
        samples
    }

    /// The times between the tasks of one execution, in order.
    pub(super) fn step_times(&self, number: usize) -> Vec<Duration> {
        let page = self.book.pages.get(number).map(lock);
        page.map(|page| page.laps.clone()).unwrap_or_default()
    }

    /// How many journal entries and history events an execution has.
    pub(super) async fn lengths(&self, number: usize) -> anyhow::Result<(u64, u64)> {
        let id = format!("loop:{}", name(number));
        let found = self.store.get(&id).await?.context("it is not there")?;
        Ok((found.row.next_seq - 1, found.row.next_history_id - 1))
    }

    pub(super) async fn close(self) {
        self.engine.stop().await;
        self.store.close().await;
    }
}

impl Book {
    /// Runs a task: records the time, and returns its answer.
    fn worked(&self, input: &Value) -> Value {
        let number = input["execution"].as_u64().unwrap_or_default();
        let left = input["left"].as_u64().unwrap_or(1).saturating_sub(1);
        if let Some(page) = self.pages.get(number as usize) {
            let mut page = lock(page);
            if let Some(last) = page.last.replace(Stopwatch::start()) {
                let lap = last.elapsed();
                page.laps.push(lap);
            }
        }
        if left == 0 && self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all_done.notify_one();
        }
        json!({"execution": number, "left": left})
    }
}

fn name(number: usize) -> String {
    format!("run-{number}")
}

fn lock(page: &Mutex<Page>) -> std::sync::MutexGuard<'_, Page> {
    page.lock().unwrap_or_else(PoisonError::into_inner)
}
