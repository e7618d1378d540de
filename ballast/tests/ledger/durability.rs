//! Journey: kill -9 in a burst of creates. Acknowledged ones are stored as answered, nothing is
//! stored partially, and retries of the rest with the same `Idempotency-Key` create each of them
//! once.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Call, HttpAnswer, Instance, eventually, run_concurrently, text};
use serde_json::{Value, json};

const WORKERS: usize = 32;
const BURST: usize = 600;

/// One create: its path and body; its `Idempotency-Key` is its name.
#[derive(Clone)]
struct Create {
    name: String,
    path: String,
    body: Value,
}

/// The creates of a round: tenants, keys of an existing tenant, a few shards.
fn burst(round: usize) -> Vec<Create> {
    let create = |number: usize| {
        let name = format!("r{round}-{number}");
        let (path, body) = match number % 20 {
            0 => ("/shards".to_owned(), json!({ "shardID": name })),
            1..=8 => (
                format!("/tenants/{}/keys", anchor(round)),
                json!({ "name": name }),
            ),
            _ => ("/tenants".to_owned(), json!({ "tenantID": name })),
        };
        Create { name, path, body }
    };
    (0..BURST).map(create).collect()
}

/// The tenant that has a round's keys.
fn anchor(round: usize) -> String {
    format!("anchor-{round}")
}

fn call(it: &Instance, create: &Create) -> Call {
    it.call("POST", &create.path)
        .header("idempotency-key", &create.name)
        .json(&create.body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_creates_survive_kill_9() {
    let long = std::env::var("BALLAST_TEST_LONG").is_ok_and(|value| value == "1");
    let rounds = if long { 30 } else { 3 };
    let mut it = Instance::start().await;
    let mut lost = 0;
    for round in 0..rounds {
        it.tenant(&anchor(round)).await;
        let creates = burst(round);
        let answers = send_and_kill(&mut it, &creates, 60 + 110 * (round as u64 % 4)).await;
        it = it.restart().await;
        lost += answers.iter().filter(|answer| answer.is_none()).count();
        for (create, answer) in creates.iter().zip(&answers) {
            if let Some(answer) = answer {
                assert_eq!(answer.status, 201, "{}: {}", create.name, answer.text);
                assert_stored_as_answered(&it, create, &answer.body).await;
            }
        }
        assert_nothing_is_partial(&it).await;
        send_again(&it, round, &creates, &answers).await;
        assert_nothing_is_partial(&it).await;
    }
    assert!(lost > 0, "no burst was interrupted: nothing was tested");
}

/// Sends all creates and kills the process in the middle.
async fn send_and_kill(
    it: &mut Instance,
    creates: &[Create],
    after: u64,
) -> Vec<Option<HttpAnswer>> {
    let before = it.newest_event().await;
    let calls: Vec<_> = creates
        .iter()
        .map(|create| std::sync::Mutex::new(Some(call(it, create))))
        .collect();
    let calls = std::sync::Arc::new(calls);
    let sending = tokio::spawn(run_concurrently(WORKERS, creates.len(), move |number| {
        let call = calls[number].lock().unwrap().take().unwrap();
        // Refused because the process is busy: retried like a lost one.
        async move { call.try_send().await.filter(|answer| answer.status != 503) }
    }));
    eventually("a part of the burst", async || {
        (it.newest_event().await >= before + after).then_some(())
    })
    .await;
    it.kill9();
    sending.await.unwrap()
}

async fn assert_stored_as_answered(it: &Instance, create: &Create, answered: &Value) {
    match create.path.as_str() {
        "/tenants" => {
            let shown = it.get(&format!("/tenants/{}", create.name)).await;
            assert_eq!(shown, *answered);
        }
        "/shards" => {
            let mut shown = it.get(&format!("/shards/{}", create.name)).await;
            // Tenants may have been placed on it since.
            shown["slices"] = json!(0);
            assert_eq!(shown, *answered);
        }
        _ => {
            let mut shown = it.get(&format!("/keys/{}", text(&answered["keyID"]))).await;
            let secret = text(&answered["key"]);
            shown["key"] = json!(secret);
            shown.as_object_mut().unwrap().remove("lastUsedAt");
            assert_eq!(as_map(&shown), as_map(answered));
            let resolved = it.resolve(&secret).await.expect(200);
            assert_eq!(resolved["tenantID"], answered["tenantID"]);
        }
    }
}

fn as_map(value: &Value) -> BTreeMap<String, Value> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Checks that every tenant has its slice on an existing shard, and that the shards' counts match.
async fn assert_nothing_is_partial(it: &Instance) {
    let tallies = it.slices_per_shard().await;
    let mut counted: BTreeMap<String, u64> = tallies.keys().map(|id| (id.clone(), 0)).collect();
    for tenant in it.all("/tenants").await {
        let slices = tenant["slices"].as_array().unwrap();
        assert_eq!(slices.len(), 1, "{tenant}");
        let shard = text(&slices[0]["shardID"]);
        *counted.get_mut(&shard).expect("a shard that exists") += 1;
    }
    assert_eq!(tallies, counted);
    for (shard, count) in &tallies {
        let listed = it.all(&format!("/tenants?shard={shard}")).await;
        assert_eq!(listed.len() as u64, *count, "{shard}");
    }
}

/// Repeats every create twice: acknowledged ones get the same answer, lost ones happen once,
/// whether they were committed or not.
async fn send_again(
    it: &Instance,
    round: usize,
    creates: &[Create],
    answers: &[Option<HttpAnswer>],
) {
    let known_before: BTreeSet<String> = key_ids(it, round).await;
    for (create, answer) in creates.iter().zip(answers) {
        let again = call(it, create).send().await;
        assert_eq!(again.status, 201, "{}: {}", create.name, again.text);
        if let Some(first) = answer {
            assert_eq!(again.body, first.body, "{}", create.name);
            assert_eq!(again.header("idempotency-replayed"), "true");
        }
        // An answer replayed after the crash belongs to a committed create, and its secret works.
        if create.path.ends_with("/keys") {
            let id = text(&again.body["keyID"]);
            let replayed = again.header("idempotency-replayed") == "true";
            assert_eq!(known_before.contains(&id), replayed, "{}", create.name);
            it.resolve(&text(&again.body["key"])).await.expect(200);
        }
        let third = call(it, create).send().await;
        assert_eq!(third.body, again.body, "{}", create.name);
    }
    let mut named = BTreeMap::<String, usize>::new();
    for key in keys(it, round).await {
        *named.entry(text(&key["name"])).or_default() += 1;
    }
    for create in creates
        .iter()
        .filter(|create| create.path.ends_with("/keys"))
    {
        assert_eq!(named.get(&create.name), Some(&1), "{}", create.name);
    }
}

async fn keys(it: &Instance, round: usize) -> Vec<Value> {
    it.all(&format!("/keys?tenant={}", anchor(round))).await
}

async fn key_ids(it: &Instance, round: usize) -> BTreeSet<String> {
    let keys = keys(it, round).await;
    keys.iter().map(|key| text(&key["keyID"])).collect()
}
