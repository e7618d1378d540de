//! Random machines end the same on the durable engine, which is killed again
//! and again, and in a plain loop over the core, which forgets everything.
//!
//! Where the order of answers decides the outcome, any order's outcome is
//! right: such machines are only checked for a legal history. The others must
//! agree to the last byte of their output.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod paused;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast_state_machines::core::{
    At, Begin, Effect, Event, Execution, Limits, RunTask, Status, TaskId, apply,
};
use ballast_state_machines::engine::{
    Answer, Description, Engine, Handler, Registry, Settings, TaskContext, TaskError,
};
use ballast_state_machines::language::Definition;
use ballast_state_machines::store::{HistoryQuery, MemoryStore};
use ballast_state_machines::testing::{answer, cases, machine};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use paused::{Paused, START_MS};

/// How an execution ended.
#[derive(Debug, Clone, PartialEq)]
struct End {
    status: Status,
    output: Option<Value>,
    error: Option<String>,
}

/// Runs a machine with nothing but the core. Of what is due at the same time,
/// `pick` says which comes first.
fn reference(definition: &Definition, seed: u64, pick: impl Fn(usize) -> usize) -> End {
    let mut execution = Execution::default();
    let mut now = START_MS;
    let mut due: Vec<(i64, Event)> = vec![(now, Event::Begun(Box::new(begin(seed))))];
    while !execution.status().is_ended() {
        let first = due.iter().map(|(at, _)| *at).min().unwrap();
        let together: Vec<usize> = (0..due.len()).filter(|at| due[*at].0 == first).collect();
        let (at_ms, event) = due.remove(together[pick(together.len())]);
        now = now.max(at_ms);
        let outcome = apply(definition, &mut execution, At::new(event, now));
        for effect in outcome.effects {
            match effect {
                Effect::RunTask(order) => {
                    let event = answer(seed, &order);
                    let waits = match &event {
                        Event::TaskTimedOut { .. } => order.timeout_ms.or(order.heartbeat_ms),
                        _ => None,
                    };
                    due.push((now + waits.unwrap_or(0), event));
                }
                Effect::SetTimer { timer, at_ms } => due.push((at_ms, Event::TimerFired { timer })),
                Effect::Continue { turn } => due.push((now, Event::Continued { turn })),
                // What comes of them is ignored.
                Effect::StopTask { .. } | Effect::StopTimer { .. } | Effect::Ended => {}
            }
        }
    }
    End {
        status: execution.status(),
        output: execution.output().cloned(),
        error: execution.error().map(str::to_owned),
    }
}

fn begin(seed: u64) -> Begin {
    Begin {
        execution_id: "w:1".to_owned(),
        name: "1".to_owned(),
        machine: "w".to_owned(),
        role: String::new(),
        input: json!({"v": seed % 10}),
        at_ms: START_MS,
        seed,
        limits: Limits::default(),
    }
}

/// The outcome, if the order does not decide it.
fn only_outcome(definition: &Definition, seed: u64) -> Option<End> {
    // Tasks that are run again take their time again.
    if definition.timeout_seconds().is_some() {
        return None;
    }
    let first = reference(definition, seed, |_| 0);
    let last = reference(definition, seed, |count| count - 1);
    let middle = reference(definition, seed, |count| count / 2);
    (first == last && last == middle).then_some(first)
}

/// Answers as the reference does; now and then the engine dies of it.
struct Random {
    seed: u64,
    /// Of so many tasks, one kills its engine the first time.
    deadly: u64,
    ran: Mutex<HashSet<String>>,
    die: mpsc::UnboundedSender<()>,
}

#[async_trait]
impl Handler for Random {
    async fn run(&self, input: Value, context: &TaskContext) -> Result<Answer, TaskError> {
        let key = context.idempotency_key().to_owned();
        let number: u64 = key.rsplit('#').next().unwrap().parse().unwrap();
        let is_first = self.ran.lock().unwrap().insert(key);
        if is_first && (number + self.seed).is_multiple_of(self.deadly) {
            self.die.send(()).unwrap();
            std::future::pending::<()>().await;
        }
        let order = RunTask {
            task: TaskId(number),
            resource: context.resource().to_owned(),
            input,
            token: String::new(),
            attempt: context.attempt(),
            state: context.state().to_owned(),
            iterations: context.iterations().to_vec(),
            timeout_ms: context.timeout_ms(),
            heartbeat_ms: context.heartbeat_ms(),
            credentials: None,
            waits_for_callback: false,
        };
        match answer(self.seed, &order) {
            Event::TaskSucceeded { output, .. } => Ok(Answer::Done(output)),
            Event::TaskFailed { error, cause, .. } => Err(TaskError { error, cause }),
            _ => {
                context.cancelled().await;
                Err(TaskError::new("Too.Late", "nobody hears it"))
            }
        }
    }
}

async fn durably(definition: &Definition, seed: u64, deadly: u64) -> (Description, u64) {
    let (die, mut dying) = mpsc::unbounded_channel();
    let handler = Arc::new(Random {
        seed,
        deadly,
        ran: Mutex::default(),
        die,
    });
    let missing = Registry::new().missing(definition).into_iter();
    let registry = missing.fold(Registry::new(), |registry, resource| {
        registry.handler(resource, handler.clone())
    });
    let store = MemoryStore::new();
    let clock = Arc::new(Paused::new());
    let settings = Settings {
        chance: Arc::new(move || seed),
        ..Settings::default()
    };
    let open = async || {
        let (store, registry) = (Arc::new(store.clone()), registry.clone());
        let engine = Engine::new(store, registry, clock.clone(), settings.clone());
        engine.await.unwrap()
    };
    let mut engine = open().await;
    let text = definition.source().to_string();
    engine.deploy("w", &text).await.unwrap();
    let input = json!({"v": seed % 10});
    let id = engine.start("w", "1", input).await.unwrap();
    let mut deaths = 0;
    let ended = loop {
        tokio::select! {
            ended = engine.ended(&id) => break ended.unwrap().unwrap(),
            Some(()) = dying.recv() => {
                deaths += 1;
                engine.kill().await;
                engine = open().await;
            }
        }
    };
    check_history(&engine, &id, &ended).await;
    (ended, deaths)
}

async fn check_history(engine: &Engine, id: &str, ended: &Description) {
    let mut next = 1;
    let mut after = None;
    loop {
        let query = HistoryQuery {
            after,
            newest_first: false,
            limit: 1_000,
        };
        let page = engine.history(id, &query).await.unwrap().unwrap();
        for event in &page.events {
            assert_eq!(event.id, next);
            assert!(event.previous_event_id < event.id);
            next += 1;
        }
        after = page.last_id;
        if !page.more {
            let last = page.events.last().unwrap().kind.as_str();
            assert!(last.starts_with("Execution"), "{last}");
            break;
        }
    }
    assert_eq!(ended.summary.history_len, next - 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(200)))]

    #[test]
    fn machines_end_as_if_nothing_had_happened(seed: u64, deadly in 1u64..6) {
        let text = machine(seed).to_string();
        let definition = Definition::parse(&text).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let (ended, deaths) = runtime.block_on(durably(&definition, seed, deadly));
        prop_assert!(deaths < 1_000);
        if let Some(expected) = only_outcome(&definition, seed) {
            let end = End {
                status: ended.summary.status,
                output: ended.output,
                error: ended.error,
            };
            prop_assert_eq!(end, expected, "after {} deaths", deaths);
        }
    }
}

/// The comparison would prove nothing if it were made for few machines.
#[test]
fn most_machines_have_one_outcome() {
    let compared = (0..200).filter(|seed| {
        let definition = Definition::parse(&machine(*seed).to_string()).unwrap();
        only_outcome(&definition, *seed).is_some()
    });
    let compared = compared.count();
    assert!(compared > 100, "{compared} of 200");
}
