//! Crashes, stops and takeovers: engines that end, and engines that continue their
//! work.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ballast_state_machines::core::{ExecutionStatus, RunActivity};
use ballast_state_machines::engine::{
    Engine, EngineSettings, ExecutionDetails, HandlerRegistry, ManualEngineClock, StartError,
    TaskContext, TaskError,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::world::{
    START_MS, TestEnvironment, begin, history, is_doing, receive, until, wait_for_end,
    wait_for_engine_loops, within,
};

fn one_task() -> Value {
    json!({"StartAt": "T", "States": {"T": {"Type": "Task", "Resource": "work", "End": true}}})
}

/// A handler that sends its key and runs until it is cancelled, then succeeds or
/// fails.
fn endless(ends_well: bool) -> (HandlerRegistry, mpsc::UnboundedReceiver<String>) {
    let (tell, said) = mpsc::unbounded_channel();
    let work = move |_: Value, context: TaskContext| {
        let tell = tell.clone();
        async move {
            tell.send(context.idempotency_key().to_owned()).unwrap();
            context.cancelled().await;
            let _ = tell.send("cancelled".to_owned());
            match ends_well {
                true => Ok("in time"),
                false => Err(TaskError::new("Given.Up", "it was cancelled")),
            }
        }
    };
    (HandlerRegistry::new().with_function("work", work), said)
}

async fn quick(_: Value, context: TaskContext) -> Result<String, TaskError> {
    Ok(context.idempotency_key().to_owned())
}

pub(crate) async fn a_task_in_flight_is_run_again(env: impl TestEnvironment) {
    let (registry, mut said) = endless(true);
    let engine = env.engine(registry.clone()).await;
    let id = begin(&engine, &one_task(), json!({})).await;
    let first = receive(&mut said).await;
    for _ in 0..3 {
        drop(engine.clone());
    }
    engine.kill().await;
    let engine = env.engine(registry).await;
    // The handler may still send "cancelled" before it is dropped.
    let again = loop {
        let heard = receive(&mut said).await;
        if heard != "cancelled" {
            break heard;
        }
    };
    assert_eq!(again, first);
    engine.kill().await;
    let engine = env
        .engine(HandlerRegistry::new().with_function("work", quick))
        .await;
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.output, Some(json!(first)));
    history(&engine, &id).await;
}

/// A task's timeout counts from its order, whichever engine runs it.
pub(crate) async fn a_crash_does_not_extend_a_timeout(env: impl TestEnvironment) {
    let (registry, mut said) = endless(true);
    let engine = env.engine(registry.clone()).await;
    let mut definition = one_task();
    definition["States"]["T"]["TimeoutSeconds"] = json!(6);
    definition["States"]["T"]["HeartbeatSeconds"] = json!(5);
    let id = begin(&engine, &definition, json!({})).await;
    receive(&mut said).await;
    env.clock().advance_ms(1_000);
    engine.kill().await;
    env.clock().advance_ms(9_000);
    let engine = env.engine(registry).await;
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.summary.status, ExecutionStatus::Failed);
    assert_eq!(ended.error.as_deref(), Some("States.Timeout"));
    assert_eq!(ended.summary.ended_at_ms, Some(START_MS + 10_000));
}

/// The heartbeat timeout starts over when a new engine begins the task: no
/// heartbeat could arrive while no engine ran it.
pub(crate) async fn a_crash_restarts_the_heartbeat_timeout(env: impl TestEnvironment) {
    let (registry, mut said) = endless(true);
    let engine = env.engine(registry.clone()).await;
    let mut definition = one_task();
    definition["States"]["T"]["TimeoutSeconds"] = json!(60);
    definition["States"]["T"]["HeartbeatSeconds"] = json!(5);
    let id = begin(&engine, &definition, json!({})).await;
    receive(&mut said).await;
    engine.kill().await;
    env.clock().advance_ms(30_000);
    let engine = env.engine(registry).await;
    while receive(&mut said).await == "cancelled" {}
    env.clock().advance_ms(5_000);
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.error.as_deref(), Some("States.Timeout"));
    assert_eq!(ended.summary.ended_at_ms, Some(START_MS + 35_000));
}

pub(crate) async fn a_lost_lease_stops_the_tasks(env: impl TestEnvironment) {
    let (registry, mut said) = endless(true);
    let slow = ManualEngineClock::starting_at(START_MS);
    let settings = EngineSettings {
        worker: "slow".to_owned(),
        ..EngineSettings::default()
    };
    let clock = Arc::new(slow.clone());
    let engine = Engine::new(env.store(), registry, clock, settings)
        .await
        .unwrap();
    let id = begin(&engine, &one_task(), json!({})).await;
    let key = receive(&mut said).await;
    // For the other engine, whose clock is ahead, the lease has expired.
    env.clock().advance_ms(EngineSettings::default().lease_ms);
    let other = env
        .engine(HandlerRegistry::new().with_function("work", quick))
        .await;
    let ended = wait_for_end(&other, &id).await;
    assert_eq!(ended.output, Some(json!(key)));
    wait_for_engine_loops(&slow).await;
    slow.advance_ms(EngineSettings::default().lease_ms);
    assert_eq!(receive(&mut said).await, "cancelled");
    until(&engine, &id, |seen| seen.is_ended()).await;
    assert_eq!(history(&engine, &id).await, history(&other, &id).await);
}

/// A task can read the remaining lease time, and renewals extend it.
pub(crate) async fn a_task_sees_the_remaining_lease_time(env: impl TestEnvironment) {
    let (show, mut shown) = mpsc::unbounded_channel::<TaskContext>();
    let work = move |_: Value, context: TaskContext| {
        let show = show.clone();
        async move {
            show.send(context.clone()).unwrap();
            context.cancelled().await;
            Ok::<_, TaskError>("in time")
        }
    };
    let engine = env
        .engine(HandlerRegistry::new().with_function("work", work))
        .await;
    begin(&engine, &one_task(), json!({})).await;
    let context = receive(&mut shown).await;
    let whole = EngineSettings::default().lease_ms;
    assert_eq!(context.lease_left_ms(), whole);
    let clock = env.clock();
    // The engine checks every `poll_ms` whether a third of the lease has passed.
    let before_renewal = whole / 3 - 1;
    wait_for_engine_loops(&clock).await;
    clock.advance_ms(before_renewal);
    wait_for_engine_loops(&clock).await;
    assert_eq!(context.lease_left_ms(), whole - before_renewal);
    clock.advance_ms(EngineSettings::default().poll_ms);
    wait_for_engine_loops(&clock).await;
    assert_eq!(context.lease_left_ms(), whole);
}

pub(crate) async fn a_stop_lets_tasks_finish(env: impl TestEnvironment) {
    for ends_well in [true, false] {
        let (registry, mut said) = endless(ends_well);
        let engine = env.engine(registry).await;
        engine.deploy("w", &one_task().to_string()).await.unwrap();
        let name = format!("well-{ends_well}");
        let id = engine.start("w", &name, json!({})).await.unwrap();
        let key = receive(&mut said).await;
        engine.stop().await;
        assert_eq!(receive(&mut said).await, "cancelled");
        assert!(engine.start("w", "more", json!({})).await.is_err());
        let seen = engine.get(&id).await.unwrap().unwrap();
        assert_eq!(seen.summary.worker, None);
        if ends_well {
            assert_eq!(seen.output, Some(json!("in time")));
        } else {
            // A task that gives up because the engine stops has not failed.
            assert!(is_doing(&seen, "T", RunActivity::Working));
            let engine = env
                .engine(HandlerRegistry::new().with_function("work", quick))
                .await;
            let ended = wait_for_end(&engine, &id).await;
            assert_eq!(ended.output, Some(json!(key)));
        }
    }
}

pub(crate) async fn an_execution_without_its_handler_waits(env: impl TestEnvironment) {
    let (registry, mut said) = endless(true);
    let engine = env.engine(registry).await;
    let id = begin(&engine, &one_task(), json!({})).await;
    receive(&mut said).await;
    engine.kill().await;
    let engine = env.engine(HandlerRegistry::new()).await;
    // The engine claims it, finds no handler, and leaves it alone.
    let claimed = async {
        loop {
            let seen = engine.get(&id).await.unwrap().unwrap();
            if seen.summary.worker.is_some() {
                break seen;
            }
            tokio::task::yield_now().await;
        }
    };
    let seen = within("the engine to claim the execution", claimed).await;
    assert_eq!(seen.summary.status, ExecutionStatus::Running);
    assert_eq!(engine.held_count(), 0);
    engine.kill().await;
    let engine = env
        .engine(HandlerRegistry::new().with_function("work", quick))
        .await;
    let ended = wait_for_end(&engine, &id).await;
    assert_eq!(ended.summary.status, ExecutionStatus::Succeeded);
}

/// Every task kills its engine at the first run and runs again in the next engine.
pub(crate) async fn running_every_task_twice_changes_nothing(env: impl TestEnvironment) {
    let definition = json!({"StartAt": "A", "States": {
        "A": {"Type": "Task", "Resource": "work", "Next": "P"},
        "P": {"Type": "Parallel", "Next": "W", "Branches": [
            {"StartAt": "B", "States": {"B": {"Type": "Task", "Resource": "work", "End": true}}},
            {"StartAt": "C", "States": {"C": {"Type": "Task", "Resource": "work", "End": true}}}]},
        "W": {"Type": "Wait", "Seconds": 60, "Next": "M"},
        "M": {"Type": "Map", "End": true, "ItemProcessor": {"StartAt": "D", "States": {
            "D": {"Type": "Task", "Resource": "work", "End": true}}}}}});
    let runs: Arc<Mutex<HashMap<String, u64>>> = Arc::default();
    let (die, mut dying) = mpsc::unbounded_channel();
    let counted = Arc::clone(&runs);
    let work = move |_: Value, context: TaskContext| {
        let key = context.idempotency_key().to_owned();
        let mut runs = counted.lock().unwrap();
        let count = runs.entry(key.clone()).or_default();
        *count += 1;
        let is_first = *count == 1;
        let die = die.clone();
        async move {
            if is_first {
                die.send(()).unwrap();
                std::future::pending::<()>().await;
            }
            Ok::<_, TaskError>(key)
        }
    };
    let registry = HandlerRegistry::new().with_function("work", work);
    let mut engine = env.engine(registry.clone()).await;
    let id = begin(&engine, &definition, json!({})).await;
    let clock: ManualEngineClock = env.clock();
    let ended = loop {
        let stands =
            |seen: &ExecutionDetails| seen.is_ended() || is_doing(seen, "W", RunActivity::Waiting);
        tokio::select! {
            seen = until(&engine, &id, stands) => {
                if seen.is_ended() {
                    break seen;
                }
                clock.advance_ms(60_000);
                until(&engine, &id, |seen| !is_doing(seen, "W", RunActivity::Waiting)).await;
            }
            Some(()) = dying.recv() => {
                engine.kill().await;
                engine = env.engine(registry.clone()).await;
            }
        }
    };
    assert_eq!(ended.output, Some(json!(["w:1#4", "w:1#5"])));
    history(&engine, &id).await;
    let runs = runs.lock().unwrap();
    assert_eq!(runs.len(), 5);
    assert!(runs.values().all(|count| *count >= 2), "{runs:?}");
}

/// A start during a stop is either refused, or durable and resumed by the next
/// engine. No call hangs.
pub(crate) async fn starts_during_a_stop_do_not_hang(env: impl TestEnvironment) {
    let registry = HandlerRegistry::new().with_function("work", quick);
    let mut started = Vec::new();
    let mut refused = 0;
    for round in 0..20 {
        let engine = env.engine(registry.clone()).await;
        engine.deploy("w", &one_task().to_string()).await.unwrap();
        let starts = (0..20).map(|number| {
            let engine = engine.clone();
            let name = format!("{round}-{number}");
            tokio::spawn(async move { engine.start("w", &name, json!({})).await })
        });
        let starts: Vec<_> = starts.collect();
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        engine.stop().await;
        assert_eq!(engine.held_count(), 0);
        for start in starts {
            match start.await.unwrap() {
                Ok(id) => started.push(id),
                Err(StartError::Stopping) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(started.len() + refused, 400);
    for id in &started {
        // The stop released all leases.
        let seen = env.store().get(id).await.unwrap().unwrap();
        assert_eq!(seen.row.worker, None);
    }
    let engine = env.engine(registry).await;
    for id in started {
        let ended = wait_for_end(&engine, &id).await;
        assert_eq!(ended.summary.status, ExecutionStatus::Succeeded);
    }
}
