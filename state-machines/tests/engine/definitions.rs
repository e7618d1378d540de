//! The built-in workflows on the durable engine with test handlers. Each completes,
//! completes when every task runs twice, and takes the drawn path when any of its
//! tasks fails.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast_state_machines::core::{ExecutionStatus, HistoryEvent};
use ballast_state_machines::definitions::{self, BuiltInWorkflow};
use ballast_state_machines::engine::{
    Engine, EngineSettings, ExecutionDetails, Handler, HandlerRegistry, TaskContext, TaskError,
    TaskOutcome,
};
use ballast_state_machines::store::{HistoryQuery, MemoryStore};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::paused::{self, PausedClock, START_MS};

/// What happens to an execution's tasks.
#[derive(Clone, Copy, Default)]
struct TaskPlan<'a> {
    /// The tasks of these states fail.
    fails: &'a [&'a str],
    /// Every task kills its engine at the first run.
    dies: bool,
}

/// The result of a task. It depends only on state and input, so a repeated run
/// returns the same.
fn good(state: &str, input: &Value) -> Value {
    let moves = json!([{"name": "a", "input": {}}, {"name": "b", "input": {}}]);
    match state {
        "PlanMove" => json!({"ready": !input["plan"].is_null(), "askAgainSeconds": 60}),
        "WaitForSync" => {
            json!({"caughtUp": !input["sync"]["caughtUp"].is_null(), "askAgainSeconds": 5})
        }
        "VerifyConsistency" => json!({"consistent": true}),
        "UpdateTenantRouting" => {
            json!({"committed": !input["cutover"].is_null(), "askAgainSeconds": 1})
        }
        "MonitorDualRead" => match input["dualRead"]["verdict"].is_null() {
            true => json!({"verdict": "wait", "askAgainSeconds": 3_600}),
            false => json!({"verdict": "over"}),
        },
        "Rollback" => json!({"reversed": false, "reason": "a step failed"}),
        "PlanDrain" => json!({"empty": !input["moves"].is_null(), "moves": moves,
            "atOnce": 1, "askAgainSeconds": 5}),
        "PlanRebalance" => json!({"moves": moves, "atOnce": 2, "askAgainSeconds": 5,
            "judgeAfterSeconds": 60,
            "verdict": if input["plan"].is_null() { "open" } else { "approved" }}),
        _ => json!({}),
    }
}

struct PlannedHandler {
    fails: Vec<String>,
    dies: bool,
    runs: Mutex<HashMap<String, u64>>,
    tries: Mutex<HashMap<String, u64>>,
    die: mpsc::UnboundedSender<()>,
}

#[async_trait]
impl Handler for PlannedHandler {
    async fn run(&self, input: Value, context: &TaskContext) -> Result<TaskOutcome, TaskError> {
        let key = context.idempotency_key().to_owned();
        let is_first = {
            let mut runs = self.runs.lock().unwrap();
            let count = runs.entry(key).or_default();
            *count += 1;
            *count == 1
        };
        if is_first {
            let mut tries = self.tries.lock().unwrap();
            *tries.entry(context.state().to_owned()).or_default() += 1;
        }
        if self.dies && is_first {
            self.die.send(()).unwrap();
            std::future::pending::<()>().await;
        }
        let mut failing = self.fails.iter();
        if failing.any(|state| state == context.state()) {
            return Err(TaskError::new("Test.Broken", "it was planned"));
        }
        Ok(TaskOutcome::Done(good(context.state(), &input)))
    }
}

struct RunReport {
    ended: ExecutionDetails,
    entered: Vec<String>,
    runs: HashMap<String, u64>,
    /// The number of tasks of each state, however often each ran.
    tries: HashMap<String, u64>,
}

fn run(known: BuiltInWorkflow, plan: TaskPlan<'_>) -> RunReport {
    paused::run(play(known, plan))
}

async fn play(known: BuiltInWorkflow, plan: TaskPlan<'_>) -> RunReport {
    let (die, mut dying) = mpsc::unbounded_channel();
    let work = Arc::new(PlannedHandler {
        fails: plan.fails.iter().map(|state| (*state).to_owned()).collect(),
        dies: plan.dies,
        runs: Mutex::default(),
        tries: Mutex::default(),
        die,
    });
    let definitions = definitions::ALL.map(|known| known.definition().unwrap());
    let resources = definitions.iter();
    let resources = resources.flat_map(|definition| HandlerRegistry::new().missing(definition));
    let registry = resources.fold(HandlerRegistry::new(), |registry, name| {
        registry.with_handler(name, work.clone())
    });
    let (store, clock) = (MemoryStore::new(), Arc::new(PausedClock::new()));
    let settings = EngineSettings {
        random_seed: Arc::new(|| 7),
        ..EngineSettings::default()
    };
    let open = async || {
        let (store, registry) = (Arc::new(store.clone()), registry.clone());
        let engine = Engine::new(store, registry, clock.clone(), settings.clone());
        engine.await.unwrap()
    };
    let mut engine = open().await;
    for BuiltInWorkflow { name, text } in definitions::ALL {
        engine.deploy(name, text).await.unwrap();
    }
    let id = engine.start(known.name, "1", json!({})).await.unwrap();
    let ended = loop {
        tokio::select! {
            ended = paused::wait_for_end(&engine, &id) => break ended,
            Some(()) = dying.recv() => {
                engine.kill().await;
                engine = open().await;
            }
        }
    };
    assert!(ended.summary.started_at_ms >= START_MS);
    let query = HistoryQuery {
        after: None,
        newest_first: false,
        limit: 1_000,
    };
    let page = engine.history(&id, &query).await.unwrap().unwrap();
    let entered = page
        .events
        .iter()
        .filter(|event| event.kind.details_name() == "stateEnteredEventDetails");
    let entered = entered.filter_map(HistoryEvent::name).map(str::to_owned);
    RunReport {
        ended,
        entered: entered.collect(),
        runs: work.runs.lock().unwrap().clone(),
        tries: work.tries.lock().unwrap().clone(),
    }
}

/// The Task states, and where their errors lead.
fn tasks(known: BuiltInWorkflow) -> Vec<(String, String)> {
    let source: Value = serde_json::from_str(known.text).unwrap();
    let mut found = Vec::new();
    collect(&source["States"], &mut found);
    found
}

fn collect(states: &Value, found: &mut Vec<(String, String)>) {
    for (name, state) in states.as_object().unwrap() {
        if state["Type"] == "Task" {
            let catch = state["Catch"][0]["Next"].as_str().unwrap();
            found.push((name.clone(), catch.to_owned()));
        }
        if state["Type"] == "Map" {
            collect(&state["ItemProcessor"]["States"], found);
        }
    }
}

#[test]
fn they_complete() {
    for known in definitions::ALL {
        let report = run(known, TaskPlan::default());
        assert_eq!(
            report.ended.summary.status,
            ExecutionStatus::Succeeded,
            "{}",
            known.name
        );
        // Two migrations.
        let moves = ["MoveSlice", "RunMove"].map(|state| report.tries.get(state).copied());
        let moves = moves.into_iter().flatten().collect::<Vec<_>>();
        let expected = if known.name == "move-tenant" {
            vec![]
        } else {
            vec![2]
        };
        assert_eq!(moves, expected, "{}", known.name);
        for (task, _) in tasks(known) {
            let is_entered = report.entered.contains(&task);
            assert_eq!(is_entered, task != "Rollback", "{} {task}", known.name);
        }
    }
}

#[test]
fn they_complete_when_every_task_is_run_twice() {
    for known in definitions::ALL {
        let once = run(known, TaskPlan::default());
        let dies = TaskPlan {
            dies: true,
            ..TaskPlan::default()
        };
        let twice = run(known, dies);
        assert_eq!(twice.ended.output, once.ended.output);
        assert_eq!(twice.entered, once.entered);
        assert_eq!(twice.runs.len(), once.runs.len());
        assert!(twice.runs.values().all(|count| *count >= 2));
    }
}

#[test]
fn they_unwind_as_drawn_when_a_task_fails() {
    for known in definitions::ALL {
        for (task, caught) in tasks(known) {
            if task == "Rollback" {
                continue;
            }
            for dies in [false, true] {
                let fails = &[task.as_str()];
                let report = run(known, TaskPlan { fails, dies });
                let at = report.entered.iter().position(|state| *state == task);
                let next = &report.entered[at.unwrap() + 1..];
                assert!(next.contains(&caught), "{} {task}: {next:?}", known.name);
                // A failed migration leaves its slice where it was; the others
                // continue.
                let goes_on = caught == "NoteFailure";
                let ended_well = report.ended.summary.status == ExecutionStatus::Succeeded;
                assert_eq!(ended_well, goes_on, "{} {task}", known.name);
            }
        }
    }
}

#[test]
fn before_the_point_of_no_return_a_move_is_rolled_back() {
    let known = BuiltInWorkflow::find("move-tenant").unwrap();
    for task in [
        "PlanMove",
        "EnsureParquetBackfill",
        "CreateDataSyncTask",
        "WaitForSync",
        "VerifyConsistency",
        "UpdateTenantRouting",
    ] {
        let fails = &[task];
        let report = run(known, TaskPlan { fails, dies: false });
        let at = report
            .entered
            .iter()
            .position(|state| state == task)
            .unwrap();
        assert_eq!(
            report.entered[at + 1..],
            ["Rollback", "HowItWentBack", "MoveRolledBack"],
            "{task}"
        );
        assert_eq!(
            report.ended.error.as_deref(),
            Some("Ballast.MoveRolledBack")
        );
        assert_eq!(report.ended.cause.as_deref(), Some("a step failed"));
    }
}

/// A rollback is retried a hundred times. Then the execution fails with the
/// rollback's error, for an operator to look at.
#[test]
fn a_rollback_that_fails_is_stuck_and_says_so() {
    let known = BuiltInWorkflow::find("move-tenant").unwrap();
    for task in ["WaitForSync", "UpdateTenantRouting"] {
        for dies in [false, true] {
            let fails = &[task, "Rollback"];
            let report = run(known, TaskPlan { fails, dies });
            let at = report
                .entered
                .iter()
                .position(|state| state == task)
                .unwrap();
            assert_eq!(
                report.entered[at + 1..],
                ["Rollback", "RollbackStuck"],
                "{task}"
            );
            assert_eq!(report.ended.error.as_deref(), Some("Ballast.RollbackStuck"));
            assert_eq!(report.ended.cause.as_deref(), Some("it was planned"));
            assert_eq!(report.ended.summary.status, ExecutionStatus::Failed);
            let tries = report.tries.get("Rollback").copied();
            assert_eq!(tries, Some(101), "{task}");
        }
    }
}
