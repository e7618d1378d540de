//! The workflows that come with Ballast, on the durable engine with handlers
//! of the tests: each completes, completes when every task is run twice, and
//! unwinds as it is drawn when a task fails, whichever it is.

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

use super::paused::{self, Paused, START_MS};

/// What happens to an execution's tasks.
#[derive(Clone, Copy, Default)]
struct Fate<'a> {
    /// The tasks of these states fail.
    fails: &'a [&'a str],
    /// The engine dies when a task is first run.
    dies: bool,
}

/// Answers by the state and what it is given, so that a task which is run
/// again answers alike.
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

struct Work {
    fails: Vec<String>,
    dies: bool,
    runs: Mutex<HashMap<String, u64>>,
    tries: Mutex<HashMap<String, u64>>,
    die: mpsc::UnboundedSender<()>,
}

#[async_trait]
impl Handler for Work {
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
        // A Task that starts an execution fails with it.
        let mut failing = self.fails.iter().map(|state| match state.as_str() {
            "MoveSlice" | "RunMove" => "PlanMove",
            state => state,
        });
        if failing.any(|state| state == context.state()) {
            return Err(TaskError::new("Test.Broken", "it was planned"));
        }
        Ok(TaskOutcome::Done(good(context.state(), &input)))
    }
}

struct Ran {
    ended: ExecutionDetails,
    entered: Vec<String>,
    runs: HashMap<String, u64>,
    /// How many tasks each state had, however often they were run.
    tries: HashMap<String, u64>,
}

fn run(known: BuiltInWorkflow, fate: Fate<'_>) -> Ran {
    paused::run(play(known, fate))
}

async fn play(known: BuiltInWorkflow, fate: Fate<'_>) -> Ran {
    let (die, mut dying) = mpsc::unbounded_channel();
    let work = Arc::new(Work {
        fails: fate.fails.iter().map(|state| (*state).to_owned()).collect(),
        dies: fate.dies,
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
    let (store, clock) = (MemoryStore::new(), Arc::new(Paused::new()));
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
            ended = engine.wait_for_end(&id) => break ended.unwrap().unwrap(),
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
    Ran {
        ended,
        entered: entered.collect(),
        runs: work.runs.lock().unwrap().clone(),
        tries: work.tries.lock().unwrap().clone(),
    }
}

/// The states whose work is a task, and where an error of theirs leads.
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
        let ran = run(known, Fate::default());
        assert_eq!(
            ran.ended.summary.status,
            ExecutionStatus::Succeeded,
            "{}",
            known.name
        );
        // Two moves, each an execution of its own.
        let moved = |name: &str| ran.runs.contains_key(&format!("move-tenant:{name}#1"));
        let moves = known.name != "move-tenant";
        assert_eq!((moved("a"), moved("b")), (moves, moves));
        for (task, _) in tasks(known) {
            let is_entered = ran.entered.contains(&task);
            assert_eq!(is_entered, task != "Rollback", "{} {task}", known.name);
        }
    }
}

#[test]
fn they_complete_when_every_task_is_run_twice() {
    for known in definitions::ALL {
        let once = run(known, Fate::default());
        let dies = Fate {
            dies: true,
            ..Fate::default()
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
                let ran = run(known, Fate { fails, dies });
                let at = ran.entered.iter().position(|state| *state == task);
                let next = &ran.entered[at.unwrap() + 1..];
                assert!(next.contains(&caught), "{} {task}: {next:?}", known.name);
                // A move that fails leaves its slice where it was; the others go on.
                let goes_on = caught == "NoteFailure";
                let ended_well = ran.ended.summary.status == ExecutionStatus::Succeeded;
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
        let ran = run(known, Fate { fails, dies: false });
        let at = ran.entered.iter().position(|state| state == task).unwrap();
        assert_eq!(
            ran.entered[at + 1..],
            ["Rollback", "HowItWentBack", "MoveRolledBack"],
            "{task}"
        );
        assert_eq!(ran.ended.error.as_deref(), Some("Ballast.MoveRolledBack"));
        assert_eq!(ran.ended.cause.as_deref(), Some("a step failed"));
    }
}

/// A rollback is tried a hundred times more; then it stands still for people to
/// look at, with what was wrong with the rollback.
#[test]
fn a_rollback_that_fails_is_stuck_and_says_so() {
    let known = BuiltInWorkflow::find("move-tenant").unwrap();
    for task in ["WaitForSync", "UpdateTenantRouting"] {
        for dies in [false, true] {
            let fails = &[task, "Rollback"];
            let ran = run(known, Fate { fails, dies });
            let at = ran.entered.iter().position(|state| state == task).unwrap();
            assert_eq!(
                ran.entered[at + 1..],
                ["Rollback", "RollbackStuck"],
                "{task}"
            );
            assert_eq!(ran.ended.error.as_deref(), Some("Ballast.RollbackStuck"));
            assert_eq!(ran.ended.cause.as_deref(), Some("it was planned"));
            assert_eq!(ran.ended.summary.status, ExecutionStatus::Failed);
            let tries = ran.tries.get("Rollback").copied();
            assert_eq!(tries, Some(101), "{task}");
        }
    }
}
