//! A world from a seed: set up, run with or without injected faults (a storm), brought to
//! rest, and audited.

use std::sync::Arc;
use std::time::Duration;

use ballast_control_plane::intent::Intent;
use ballast_control_plane::keys::{self, NewKey};
use ballast_control_plane::{ControlPlane, shards, tenants};
use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, TenantId};
use ballast_vote_shard::embedded::disk::Crash;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::audit::audit;
use crate::book::{Ledger, Rules, TestPoll, Voter};
use crate::chance::{self, SeededEntropy};
use crate::clients::{Client, read_response};
use crate::moves::{MigrationDriver, settings};
use crate::nemesis::Nemesis;
use crate::nodes::Nodes;
use crate::poll_manager::{FinishedPoll, PollManager, new_poll, to_test_poll};
use crate::registry::RemoteRegistry;
use crate::routers::RouterProcess;
use crate::trace::{self, Counts, SimClock, note, now_ms};
use crate::{scheduler, weather};

/// How long a world may take to come to rest after a storm.
const REST: Duration = Duration::from_secs(900);

/// Runs a world, and returns the hash of its trace and its counts.
pub(crate) fn play(seed: u64, prints: bool) -> (u64, Counts) {
    chance::begin(seed);
    trace::begin(prints);
    scheduler::run(run(seed));
    trace::end()
}

async fn run(seed: u64) {
    weather::always_fair();
    let shard_ids: Vec<ShardId> = (1..=chance::within(3, 4))
        .map(|number| format!("shard-{number}").parse().unwrap())
        .collect();
    let registry = RemoteRegistry::start();
    let nodes = Nodes::start(&shard_ids);
    let routers: Vec<_> = (0..2)
        .map(|number| RouterProcess::start(number, &registry, &nodes))
        .collect();
    let keys = create_fleet(&registry, &shard_ids).await;
    let test_polls = Arc::new(create_polls(&keys, &routers[0]).await);
    note!("seed {seed}: {} tenants", keys.len());

    // A quarter of the worlds has no storm: then no request may fail.
    let stormy = chance::happens(750);
    let length_ms = chance::within(4_000, 20_000);
    if stormy {
        weather::storm();
    }
    let mut ends = Vec::new();
    let client = |number| Client {
        number,
        test_polls: test_polls.clone(),
        routers: routers.clone(),
        rest_ms: length_ms / 20,
    };
    for (number, (tenant, key)) in keys.iter().enumerate() {
        let driver = MigrationDriver {
            registry: registry.clone(),
            nodes: nodes.clone(),
            rough: stormy,
        };
        let slice = SliceId {
            tenant_id: tenant.clone(),
            slice: 0,
        };
        scheduler::spawn(
            scheduler::WORLD,
            driver.clone().unseal_periodically(slice.clone()),
        );
        let operating = driver.operate(slice, chance::within(3, 7));
        ends.push(run_in_background(async move {
            operating.await;
            Vec::new()
        }));
        let chair = PollManager {
            tenant: tenant.clone(),
            key: key.clone(),
            client: client(100 + number),
        };
        ends.push(run_in_background(chair.hold(chance::within(0, 2))));
    }
    for number in 0..5 {
        let voting = client(number).vote(voters(number, test_polls.len()));
        let test_polls = test_polls.clone();
        ends.push(run_in_background(async move {
            let voters = voting.await.into_iter();
            let held = voters.map(|voter| (test_polls[voter.test_poll].clone(), vec![voter]));
            held.collect()
        }));
    }
    let nemesis = Nemesis {
        nodes: nodes.clone(),
        registry: registry.clone(),
        routers,
    };
    if stormy {
        nemesis.rage(now_ms() + length_ms).await;
        note!("fair weather");
        weather::fair();
    }
    let (mut ledger, mut all) = (Ledger::new(), test_polls.to_vec());
    for end in ends {
        let held = timeout(REST, end).await;
        let held = held.expect("the world does not come to rest");
        for (test_poll, voters) in held.unwrap() {
            for voter in voters {
                ledger.insert((test_poll.poll, voter.name.clone()), voter);
            }
            if !all.iter().any(|known| known.poll == test_poll.poll) {
                all.push(test_poll);
            }
        }
    }
    // Messages in flight arrive, and change nothing.
    sleep(Duration::from_secs(120)).await;
    note!("at rest");
    audit(&registry, &nodes, &all, &ledger).await;
    // Everything is on disk, too.
    for id in &shard_ids {
        nodes.crash(id, Crash::PowerLost);
        nodes.open(id);
    }
    audit(&registry, &nodes, &all, &ledger).await;
}

/// Runs a task in the background, and returns a receiver for its result.
fn run_in_background(
    play: impl Future<Output = Vec<FinishedPoll>> + Send + 'static,
) -> oneshot::Receiver<Vec<FinishedPoll>> {
    let (sender, receiver) = oneshot::channel();
    scheduler::spawn(scheduler::WORLD, async move {
        let _ = sender.send(play.await);
    });
    receiver
}

/// Creates shards, tenants and keys through the product's control plane.
async fn create_fleet(registry: &RemoteRegistry, shard_ids: &[ShardId]) -> Vec<(TenantId, String)> {
    let near = Arc::new(registry.direct().unwrap());
    let plane = ControlPlane::open(
        near,
        Arc::new(SimClock),
        Arc::new(SeededEntropy),
        settings(),
    );
    let plane = plane.await.unwrap();
    let intent = Intent::ballast("simulation", "a world begins");
    for id in shard_ids {
        let new = serde_json::from_value(json!({ "shardID": id })).unwrap();
        shards::add(&plane, &intent, &new).await.unwrap();
    }
    let mut all = Vec::new();
    for number in 0..chance::within(1, 3) {
        let new = json!({ "tenantID": format!("tenant-{number}") });
        let new = serde_json::from_value(new).unwrap();
        let tenant = tenants::create(&plane, &intent, new).await.unwrap();
        let id = tenant.value.tenant_id;
        let key = keys::create(&plane, &intent, &id, &NewKey::default()).await;
        all.push((id, key.unwrap().key));
    }
    all
}

/// Creates polls of every kind through a router.
async fn create_polls(keys: &[(TenantId, String)], router: &RouterProcess) -> Vec<TestPoll> {
    let mut test_polls = Vec::new();
    for (tenant, key) in keys {
        for (changeable, choices) in [(true, 1), (false, 1), (true, 3)] {
            let rules = Rules {
                changeable,
                choices,
            };
            let answer = router.ask(new_poll(key, rules, None)).await;
            let response = read_response(answer.unwrap()).await;
            test_polls.push(to_test_poll(tenant, key, rules, &response));
        }
    }
    test_polls
}

fn voters(client: usize, test_polls: usize) -> Vec<Voter> {
    (0..chance::within(6, 12))
        .map(|number| {
            let test_poll = chance::below(test_polls as u64) as usize;
            Voter::new(test_poll, format!("c{client}v{number}"))
        })
        .collect()
}
