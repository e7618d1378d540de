//! A world from a seed: set up, played through a storm or in fair weather,
//! brought to rest, and audited.

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
use crate::book::{Booth, Ledger, Rules, Voter};
use crate::chair::{Chair, Held, made, new_poll};
use crate::chance::{self, Drawn};
use crate::clients::{Client, told};
use crate::moves::{Yard, settings};
use crate::nemesis::Nemesis;
use crate::nodes::Nodes;
use crate::registry::Far;
use crate::routers::RouterProcess;
use crate::trace::{self, Counts, SimClock, note, now_ms};
use crate::{stage, weather};

/// How long everything may take to come to rest after a storm.
const REST: Duration = Duration::from_secs(900);

/// Plays a world; the hash of its trace, and what was counted.
pub(crate) fn play(seed: u64, prints: bool) -> (u64, Counts) {
    chance::begin(seed);
    trace::begin(prints);
    stage::run(run(seed));
    trace::end()
}

async fn run(seed: u64) {
    weather::always_fair();
    let shard_ids: Vec<ShardId> = (1..=chance::within(3, 4))
        .map(|number| format!("shard-{number}").parse().unwrap())
        .collect();
    let registry = Far::start();
    let nodes = Nodes::start(&shard_ids);
    let routers: Vec<_> = (0..2)
        .map(|number| RouterProcess::start(number, &registry, &nodes))
        .collect();
    let keys = settle(&registry, &shard_ids).await;
    let booths = Arc::new(polls(&keys, &routers[0]).await);
    note!("seed {seed}: {} tenants", keys.len());

    // A quarter of all worlds has no storm: then nothing may fail at all.
    let stormy = chance::happens(750);
    let length_ms = chance::within(4_000, 20_000);
    if stormy {
        weather::storm();
    }
    let mut ends = Vec::new();
    let client = |number| Client {
        number,
        booths: booths.clone(),
        routers: routers.clone(),
        rest_ms: length_ms / 20,
    };
    for (number, (tenant, key)) in keys.iter().enumerate() {
        let yard = Yard {
            registry: registry.clone(),
            nodes: nodes.clone(),
            rough: stormy,
        };
        let slice = SliceId {
            tenant_id: tenant.clone(),
            slice: 0,
        };
        stage::spawn(stage::WORLD, yard.clone().watch(slice.clone()));
        let operating = yard.operate(slice, chance::within(3, 7));
        ends.push(ended(async move {
            operating.await;
            Vec::new()
        }));
        let chair = Chair {
            tenant: tenant.clone(),
            key: key.clone(),
            client: client(100 + number),
        };
        ends.push(ended(chair.hold(chance::within(0, 2))));
    }
    for number in 0..5 {
        let voting = client(number).vote(voters(number, booths.len()));
        let booths = booths.clone();
        ends.push(ended(async move {
            let voters = voting.await.into_iter();
            let held = voters.map(|voter| (booths[voter.booth].clone(), vec![voter]));
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
    let (mut ledger, mut all) = (Ledger::new(), booths.to_vec());
    for end in ends {
        let held = timeout(REST, end).await;
        let held = held.expect("the world does not come to rest");
        for (booth, voters) in held.unwrap() {
            for voter in voters {
                ledger.insert((booth.poll, voter.name.clone()), voter);
            }
            if !all.iter().any(|known| known.poll == booth.poll) {
                all.push(booth);
            }
        }
    }
    // What is on its way arrives, and changes nothing any more.
    sleep(Duration::from_secs(120)).await;
    note!("at rest");
    audit(&registry, &nodes, &all, &ledger).await;
    // And all of it is on disk.
    for id in &shard_ids {
        nodes.crash(id, Crash::PowerLost);
        nodes.open(id);
    }
    audit(&registry, &nodes, &all, &ledger).await;
}

/// Lets a task run and hands over what comes of it.
fn ended(play: impl Future<Output = Vec<Held>> + Send + 'static) -> oneshot::Receiver<Vec<Held>> {
    let (sender, receiver) = oneshot::channel();
    stage::spawn(stage::WORLD, async move {
        let _ = sender.send(play.await);
    });
    receiver
}

/// Shards, tenants and keys, by the product's own control plane.
async fn settle(registry: &Far, shard_ids: &[ShardId]) -> Vec<(TenantId, String)> {
    let near = Arc::new(registry.near().unwrap());
    let plane = ControlPlane::open(near, Arc::new(SimClock), Arc::new(Drawn), settings());
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

/// Polls of every kind, made through a router.
async fn polls(keys: &[(TenantId, String)], router: &RouterProcess) -> Vec<Booth> {
    let mut booths = Vec::new();
    for (tenant, key) in keys {
        for (changeable, choices) in [(true, 1), (false, 1), (true, 3)] {
            let rules = Rules {
                changeable,
                choices,
            };
            let answer = router.ask(new_poll(key, rules, None)).await;
            let told = told(answer.unwrap()).await;
            booths.push(made(tenant, key, rules, &told));
        }
    }
    booths
}

fn voters(client: usize, booths: usize) -> Vec<Voter> {
    (0..chance::within(6, 12))
        .map(|number| {
            let booth = chance::below(booths as u64) as usize;
            Voter::new(booth, format!("c{client}v{number}"))
        })
        .collect()
}
