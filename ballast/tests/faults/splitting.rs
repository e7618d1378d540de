//! Journey: a tenant is split into slices and merged again under load. No request fails, and no
//! vote is lost or counted twice, even if the process is killed in between.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::polls::{Application, TestPoll};
use crate::support::process::ballast;
use crate::support::{
    HttpAnswer, Instance, InstanceOptions, Process, ProcessExit, eventually, text,
};
use serde_json::{Value, json};

const POLLS: usize = 12;

async fn ask(it: &Instance, verb: &str, body: Value) -> HttpAnswer {
    let call = it.call("POST", &format!("/tenants/acme/{verb}"));
    call.json(&body).send().await
}

/// Requests another number of slices, and waits until it is reached.
async fn cut(it: &Instance, verb: &str, body: Value) -> Value {
    ask(it, verb, body).await.expect(202);
    wait_until_cut(it).await
}

/// Waits until no split or merge is running, and returns the tenant.
async fn wait_until_cut(it: &Instance) -> Value {
    eventually("the slices are cut", async || {
        let tenant = it.get("/tenants/acme").await;
        tenant["slicing"].is_null().then_some(tenant)
    })
    .await
}

fn slices(tenant: &Value) -> Vec<(u64, String)> {
    let slices = tenant["slices"].as_array().unwrap().iter();
    slices
        .map(|slice| (slice["slice"].as_u64().unwrap(), text(&slice["shardID"])))
        .collect()
}

/// Waits until none of the tenant's slices moves.
async fn wait_until_no_migrations(it: &Instance) -> Value {
    eventually("nothing moves", async || {
        let tenant = it.get("/tenants/acme").await;
        let open = it.get("/migrations?tenant=acme&open=true").await;
        let still = tenant["slices"].as_array().unwrap().iter();
        let still = still.into_iter().all(|slice| slice["moving"].is_null());
        (still && open["items"] == json!([])).then_some(tenant)
    })
    .await
}

async fn polls(application: &Application) -> Vec<TestPoll> {
    let mut polls = Vec::new();
    for _ in 0..POLLS {
        polls.push(application.poll(json!({})).await);
    }
    polls
}

/// Voters under constant load, some with single votes, some with streams. Every vote must be
/// answered with `counted`.
struct VoterLoad {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl VoterLoad {
    fn begin(application: &Arc<Application>, polls: &Arc<Vec<TestPoll>>) -> Self {
        let (stop, sent) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let mut tasks = Vec::new();
        for voter in 0..6 {
            let (application, polls) = (application.clone(), polls.clone());
            let (stop, sent) = (stop.clone(), sent.clone());
            tasks.push(tokio::spawn(async move {
                for round in 0_usize.. {
                    if stop.load(Ordering::Acquire) {
                        return;
                    }
                    let name = format!("v-{voter}-{round}");
                    match voter % 2 {
                        0 => one(&application, &polls[round % POLLS], &name).await,
                        _ => many(&application, &polls, &name).await,
                    }
                    let votes = if voter % 2 == 0 { 1 } else { POLLS };
                    sent.fetch_add(votes as u64, Ordering::AcqRel);
                }
            }));
        }
        Self { stop, sent, tasks }
    }

    /// Waits until `votes` more votes are counted.
    async fn more(&self, votes: u64) {
        let from = self.sent.load(Ordering::Acquire);
        eventually("votes are counted", async || {
            let now = self.sent.load(Ordering::Acquire);
            (now >= from + votes).then_some(())
        })
        .await;
    }

    async fn end(self) -> u64 {
        self.stop.store(true, Ordering::Release);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.sent.load(Ordering::Acquire)
    }
}

async fn one(application: &Application, poll: &TestPoll, name: &str) {
    let counted = application.vote(poll, 0, name).await.expect(200);
    assert_eq!(counted["outcome"], "counted", "{counted}");
}

async fn many(application: &Application, polls: &[TestPoll], name: &str) {
    let lines: String = polls.iter().map(|poll| poll.line(1, name)).collect();
    for outcome in application.send_lines(lines).await {
        assert_eq!(outcome["outcome"], "counted", "{outcome}");
    }
}

async fn totals(application: &Application, polls: &[TestPoll]) -> u64 {
    let mut sum = 0;
    for poll in polls {
        let newest = application.newest(poll).await;
        sum += newest["total"].as_u64().unwrap();
    }
    sum
}

async fn listed(application: &Application) -> BTreeSet<String> {
    let found = application.get("/polls").await;
    let items = found["items"].as_array().unwrap().iter();
    items.map(|poll| text(&poll["pollID"])).collect()
}

/// The voters in a poll's export.
async fn exported(application: &Application, poll: &TestPoll) -> Vec<String> {
    let call = application.call("GET", &poll.path("/export"));
    let answer = call.send().await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let rows = answer.text.lines();
    let mut voters: Vec<String> = rows
        .map(|row| text(&serde_json::from_str::<Value>(row).unwrap()["voterID"]))
        .collect();
    voters.sort();
    voters
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_split_spread_and_merged_under_load() {
    let it = Instance::start().await;
    let application = Arc::new(Application::create(&it, "acme").await);
    let polls = Arc::new(polls(&application).await);
    let ids: BTreeSet<String> = polls.iter().map(|poll| poll.id.clone()).collect();
    let home = slices(&it.get("/tenants/acme").await)[0].1.clone();
    let mut live = application.watch(&polls[0], None).await;
    let crowd = VoterLoad::begin(&application, &polls);
    crowd.more(50).await;
    // In place: four slices on one shard, all with new numbers.
    let tenant = cut(&it, "split", json!({"into": 4, "stay": true})).await;
    let own = |numbers: std::ops::Range<u64>| -> Vec<(u64, String)> {
        numbers.map(|number| (number, home.clone())).collect()
    };
    assert_eq!(slices(&tenant), own(1..5));
    crowd.more(50).await;
    assert_eq!(listed(&application).await, ids);
    // One of them moves, like any slice.
    let others: Vec<String> = (1..=4).map(|n| format!("shard-{n}")).collect();
    let to = others.iter().find(|id| **id != home).unwrap();
    let body = json!({"toShardID": to, "slice": 2, "windowMs": 0});
    ask(&it, "move", body).await.expect(202);
    crowd.more(50).await;
    wait_until_no_migrations(&it).await;
    crowd.more(50).await;
    // Slices on different shards are not merged, and the error says what to do.
    let problem = ask(&it, "merge", json!({}))
        .await
        .expect_error(409, "slices-refused");
    let command = format!("ballast tenant move acme --slice 2 --to {home}");
    assert!(text(&problem["next"]).contains(&command), "{problem}");
    let body = json!({"toShardID": home, "slice": 2, "windowMs": 0});
    ask(&it, "move", body).await.expect(202);
    crowd.more(50).await;
    wait_until_no_migrations(&it).await;
    let tenant = cut(&it, "merge", json!({})).await;
    assert_eq!(slices(&tenant), own(5..6));
    crowd.more(50).await;
    let sent = crowd.end().await;
    assert_eq!(totals(&application, &polls).await, sent);
    assert_eq!(listed(&application).await, ids);
    // The viewer received all results across all cuts and migrations.
    let newest = application.newest(&polls[0]).await;
    live.total(newest["total"].as_u64().unwrap()).await;
    // There are as many rows as votes, and no voter twice.
    let mut rows = 0;
    for poll in polls.iter() {
        let voters = exported(&application, poll).await;
        let distinct: BTreeSet<&String> = voters.iter().collect();
        assert_eq!(distinct.len(), voters.len());
        rows += voters.len() as u64;
    }
    assert_eq!(rows, sent);
    // Without a slice in the request, the only slice is meant.
    let body = json!({"toShardID": to, "windowMs": 0, "dryRun": true});
    let plan = ask(&it, "move", body).await.expect(200);
    assert_eq!(plan["slice"], 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slices_that_belong_elsewhere_are_moved_there() {
    let config = "[moves]\nwindow = \"0s\"\n".to_owned();
    let it = Instance::with(InstanceOptions {
        config: Some(config),
        ..InstanceOptions::default()
    })
    .await;
    let application = Arc::new(Application::create(&it, "acme").await);
    let polls = Arc::new(polls(&application).await);
    let plan = ask(&it, "split", json!({"into": 8, "dryRun": true})).await;
    let plan = plan.expect(200);
    assert_eq!(plan["cuts"].as_array().unwrap().len(), 1);
    let planned = plan["moves"].as_array().unwrap().clone();
    assert!(!planned.is_empty(), "{plan}");
    assert_eq!(
        it.get("/tenants/acme").await["slices"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let crowd = VoterLoad::begin(&application, &polls);
    cut(&it, "split", json!({"into": 8})).await;
    crowd.more(50).await;
    let tenant = wait_until_no_migrations(&it).await;
    let sent = crowd.end().await;
    assert_eq!(totals(&application, &polls).await, sent);
    let now = slices(&tenant);
    assert_eq!(now.len(), 8);
    for it in planned {
        let slice = it["slice"].as_u64().unwrap();
        assert!(
            now.contains(&(slice, text(&it["toShardID"]))),
            "{it} {now:?}"
        );
    }
    // Split again, in place.
    let tenant = cut(&it, "split", json!({"into": 16, "stay": true})).await;
    assert_eq!(slices(&tenant).len(), 16);
    assert_eq!(totals(&application, &polls).await, sent);
    // A repeated creation finds its poll, however the tenant is split.
    let make = async || {
        let call = application
            .call("POST", "/polls")
            .header("idempotency-key", "once");
        let fields = json!({"items": [{"itemName": "a"}, {"itemName": "b"}],
            "expirationTime": "2099-01-01T00:00:00Z"});
        text(&call.json(&fields).send().await.expect(201)["pollID"])
    };
    let first = make().await;
    cut(&it, "split", json!({"into": 64, "stay": true})).await;
    assert_eq!(make().await, first);
}

#[tokio::test]
async fn invalid_splits_are_refused() {
    let it = Instance::start().await;
    let application = Application::create(&it, "acme").await;
    application.poll(json!({})).await;
    for (verb, into, status, code) in [
        ("split", 3, 422, "invalid-field"),
        ("split", 128, 422, "invalid-field"),
        ("split", 0, 422, "invalid-field"),
        ("split", 1, 409, "already-sliced"),
        ("merge", 1, 409, "already-sliced"),
        ("merge", 2, 409, "slices-refused"),
    ] {
        ask(&it, verb, json!({"into": into}))
            .await
            .expect_error(status, code);
    }
    cut(&it, "split", json!({"into": 4, "stay": true})).await;
    ask(&it, "split", json!({"into": 4}))
        .await
        .expect_error(409, "already-sliced");
    ask(&it, "split", json!({"into": 2}))
        .await
        .expect_error(409, "slices-refused");
    // A moving slice is not cut, and a slice that no longer exists is not moved.
    let tenant = it.get("/tenants/acme").await;
    let home = &slices(&tenant)[0].1;
    let to = if home == "shard-1" {
        "shard-2"
    } else {
        "shard-1"
    };
    let body = json!({"toShardID": to, "slice": 1});
    let begun = ask(&it, "move", body).await.expect(202);
    ask(&it, "merge", json!({}))
        .await
        .expect_error(409, "move-in-progress");
    ask(&it, "split", json!({"into": 8}))
        .await
        .expect_error(409, "move-in-progress");
    let gone = ask(&it, "move", json!({"toShardID": to, "slice": 0})).await;
    let problem = gone.expect_error(404, "not-found");
    assert!(text(&problem["next"]).contains("1, 2, 3, 4"), "{problem}");
    let id = text(&begun["migrationID"]);
    it.call("POST", &format!("/migrations/{id}/cancel"))
        .send()
        .await;
    wait_until_no_migrations(&it).await;
    cut(&it, "merge", json!({"into": 2})).await;
    let events = it.get("/events?limit=1000").await.to_string();
    for action in [
        "tenant.split",
        "tenant.merge",
        "tenant.recut.seal",
        "tenant.recut.cut",
    ] {
        assert!(events.contains(action), "{action}: {events}");
    }
}

/// Runs a command with the instance's address and token.
async fn run(it: &Instance, arguments: &[&str]) -> ProcessExit {
    let mut command = ballast();
    command
        .args(arguments)
        .current_dir(it.home())
        .env("BALLAST_URL", &it.admin)
        .env("BALLAST_TOKEN", &it.token);
    Process::spawn(&mut command).wait_for_end().await
}

#[tokio::test]
async fn operators_split_and_merge_from_the_command_line() {
    let it = Instance::start().await;
    let application = Application::create(&it, "acme").await;
    application.poll(json!({})).await;
    let dry = run(
        &it,
        &["tenant", "split", "acme", "--into", "2", "--dry-run"],
    )
    .await;
    assert_eq!(dry.code, Some(0), "{dry:?}");
    assert!(
        dry.stdout.contains("slice 0 becomes slices 1, 2"),
        "{dry:?}"
    );
    let split = ["tenant", "split", "acme", "--into", "2", "--stay", "--wait"];
    let done = run(&it, &split).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("acme has 2 slices: 1 on "), "{done:?}");
    let again = run(&it, &split).await;
    assert_eq!(again.code, Some(1), "{again:?}");
    for command in [
        &["tenant", "show", "acme"][..],
        &["placement", "show", "acme"],
        &["placement", "explain", "acme", "--slice", "2"],
    ] {
        let shown = run(&it, command).await;
        assert_eq!(shown.code, Some(0), "{shown:?}");
    }
    let merged = run(&it, &["tenant", "merge", "acme", "--wait"]).await;
    assert_eq!(merged.code, Some(0), "{merged:?}");
    assert!(
        merged.stdout.contains("acme has 1 slice: 3 on "),
        "{merged:?}"
    );
}

/// Every crash point of a cut.
const PLACES: [&str; 10] = [
    "cut \"Claim\"",
    "cut Claimed",
    "cut \"Tell\", Seal",
    "cut \"Told\", Seal",
    "cut \"Swap\", Some(Cut)",
    "cut \"Done\", Some(Cut)",
    "cut \"Tell\", Recut",
    "cut \"Told\", Recut",
    "cut \"Swap\", None",
    "cut \"Done\", None",
];

#[tokio::test]
async fn a_cut_survives_a_crash_at_every_point() {
    for place in PLACES {
        dies_at(place).await;
    }
}

async fn dies_at(place: &str) {
    let it = Instance::start().await;
    let application = Application::create(&it, "acme").await;
    let polls = polls(&application).await;
    for poll in &polls {
        one(&application, poll, "before").await;
    }
    let home = it.home_directory();
    drop(it);
    let doomed = InstanceOptions {
        env: vec![("BALLAST_DIE_AT".to_owned(), place.to_owned())],
        ..InstanceOptions::default()
    };
    let it = Instance::within(home.clone(), doomed).await;
    let call = it.call("POST", "/tenants/acme/split");
    let answer = call
        .json(&json!({"into": 4, "stay": true}))
        .try_send()
        .await;
    assert!(
        answer.is_none(),
        "the process did not die at {place}: {answer:?}"
    );
    drop(it);
    let it = Instance::within(home, InstanceOptions::default()).await;
    // Without another request, the recorded cut is completed.
    let tenant = eventually("the slices are cut", async || {
        let tenant = it.get("/tenants/acme").await;
        let done = tenant["slicing"].is_null() && slices(&tenant).len() == 4;
        done.then_some(tenant)
    })
    .await;
    let sealed = tenant["slices"].as_array().unwrap().iter();
    assert!(
        sealed
            .into_iter()
            .all(|slice| slice["sealingSince"].is_null())
    );
    let application = Application {
        router: it.router.clone(),
        http: it.http().clone(),
        ..application
    };
    for poll in &polls {
        let repeated = application.vote(poll, 1, "before").await;
        assert_eq!(repeated.status, 409, "{place}: {repeated:?}");
        one(&application, poll, "after").await;
    }
    let sum = totals(&application, &polls).await;
    assert_eq!(sum, 2 * POLLS as u64, "{place}");
}
