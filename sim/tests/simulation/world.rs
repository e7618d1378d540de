//! A world from a seed: set up, played through a storm or in fair weather,
//! brought to rest, and audited.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
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
    for (tenant_id, _) in &keys {
        let yard = Yard {
            registry: registry.clone(),
            nodes: nodes.clone(),
            rough: stormy,
        };
        let slice = SliceId {
            tenant_id: tenant_id.clone(),
            slice: 0,
        };
        stage::spawn(stage::WORLD, yard.clone().watch(slice.clone()));
        let operating = yard.operate(slice, chance::within(3, 7));
        ends.push(ended(async move {
            operating.await;
            Vec::new()
        }));
    }
    for number in 0..5 {
        let client = Client {
            number,
            booths: booths.clone(),
            routers: routers.clone(),
            rest_ms: length_ms / 20,
        };
        ends.push(ended(client.vote(voters(number, booths.len()))));
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
    let mut ledger = Ledger::new();
    for end in ends {
        let voters = timeout(REST, end).await;
        let voters = voters.expect("the world does not come to rest");
        for voter in voters.unwrap() {
            let poll = booths[voter.booth].poll;
            ledger.insert((poll, voter.name.clone()), voter);
        }
    }
    // What is on its way arrives, and changes nothing any more.
    sleep(Duration::from_secs(120)).await;
    note!("at rest");
    audit(&registry, &nodes, &booths, &ledger).await;
    // And all of it is on disk.
    for id in &shard_ids {
        nodes.crash(id, Crash::PowerLost);
        nodes.open(id);
    }
    audit(&registry, &nodes, &booths, &ledger).await;
}

/// Lets a task run and hands over what comes of it.
fn ended(play: impl Future<Output = Vec<Voter>> + Send + 'static) -> oneshot::Receiver<Vec<Voter>> {
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
            let body = json!({
                "items": ["a", "b", "c", "d"],
                "expirationTime": "2030-01-01T00:00:00Z",
                "voteChangeable": changeable,
                "choicesMax": choices,
            });
            let request = Request::builder()
                .method("POST")
                .uri("/polls")
                .header("x-api-key", key)
                .header("content-type", "application/json")
                .body(Body::from(body.to_string()))
                .unwrap();
            let made = told(router.ask(request).await.unwrap()).await;
            assert_eq!(made.status, 201, "{}", made.body);
            let items = made.body["items"].as_array().unwrap().iter();
            booths.push(Booth {
                tenant: tenant.clone(),
                key: key.clone(),
                poll: made.body["pollID"].as_str().unwrap().parse().unwrap(),
                items: items
                    .map(|item| item["itemID"].as_str().unwrap().parse().unwrap())
                    .collect(),
                rules: Rules {
                    changeable,
                    choices,
                },
            });
        }
    }
    booths
}

fn voters(client: usize, booths: usize) -> Vec<Voter> {
    (0..chance::within(6, 12))
        .map(|number| Voter {
            booth: chance::below(booths as u64) as usize,
            name: format!("c{client}v{number}"),
            row: Default::default(),
            or: None,
            made: 0,
            is_done: false,
        })
        .collect()
}
