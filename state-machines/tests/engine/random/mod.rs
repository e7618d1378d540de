//! Random machines must end the same on the durable engine, which is killed again and again
//! or whose store fails, as in a plain loop over the core, which keeps nothing.
//!
//! If the order of task results decides the outcome, any order's outcome is correct: such
//! machines are only checked for a consistent history. The others must give the same output,
//! byte for byte.

mod failing;
mod faulty;
mod handlers;
mod reference;

use std::sync::Arc;

use ballast_state_machines::engine::{Engine, EngineSettings, ExecutionDetails};
use ballast_state_machines::language::Definition;
use ballast_state_machines::store::{HistoryQuery, MemoryStore};
use ballast_state_machines::testing::{case_count, random_machine};
use proptest::prelude::*;
use serde_json::json;

use super::paused::{self, PausedClock};
use handlers::RandomHandler;
use reference::{ReferenceOutcome, only_outcome};

async fn durably(definition: &Definition, seed: u64, deadly: u64) -> (ExecutionDetails, u64) {
    let (registry, mut dying) = RandomHandler::registry(definition, seed, deadly);
    let store = MemoryStore::new();
    let clock = Arc::new(PausedClock::new());
    let settings = EngineSettings {
        random_seed: Arc::new(move || seed),
        ..EngineSettings::default()
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
            ended = paused::wait_for_end(&engine, &id) => break ended,
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

async fn check_history(engine: &Engine, id: &str, ended: &ExecutionDetails) {
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
    #![proptest_config(ProptestConfig::with_cases(case_count(200)))]

    #[test]
    fn machines_end_as_if_nothing_had_happened(seed: u64, deadly in 1u64..6) {
        let text = random_machine(seed).to_string();
        let definition = Definition::parse(&text).unwrap();
        let (ended, deaths) = paused::run(durably(&definition, seed, deadly));
        prop_assert!(deaths < 1_000);
        if let Some(expected) = only_outcome(&definition, seed, 0) {
            let end = ReferenceOutcome {
                status: ended.summary.status,
                output: ended.output,
                error: ended.error,
            };
            prop_assert_eq!(end, expected, "after {} deaths", deaths);
        }
    }
}

/// The comparison would prove little if most machines were left out.
#[test]
fn most_machines_have_one_outcome() {
    let compared = (0..200).filter(|seed| {
        let definition = Definition::parse(&random_machine(*seed).to_string()).unwrap();
        only_outcome(&definition, *seed, 0).is_some()
    });
    let compared = compared.count();
    assert!(compared > 100, "{compared} of 200");
}
