//! What happens, chapter by chapter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::Method;
use serde_json::{Value, json};

use super::api::Api;
use super::crowd::Crowd;
use super::house::House;
use super::people::Tenant;
use super::story::Teller;

/// How often a move is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// The longest that a move may take.
const MOVE_LOOKS: usize = 3_000;

/// What has come of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Ended {
    pub(super) kills: u32,
    pub(super) moves: u32,
    pub(super) pause_ms: Option<u64>,
    pub(super) longest_pause_ms: Option<u64>,
    pub(super) tenant: Option<String>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) migration: Option<String>,
}

/// The whole story.
pub(super) async fn play(
    house: &mut House,
    api: &Api,
    crowd: &Arc<Crowd>,
    teller: &Teller,
    pace: Duration,
    chaos: u32,
) -> anyhow::Result<Ended> {
    let mut ended = Ended::default();
    let many = crowd.tenants.len();
    teller.begin(
        "people",
        &format!("{many} tenants on six shards; most votes go to a few of them"),
    );
    tokio::time::sleep(pace).await;

    // Somebody whom nobody had on the list.
    let star = crowd.tenants.get(many / 2).context("a tenant")?.clone();
    let before = rates(api, crowd, pace / 4).await?;
    crowd.send_to(Some(star.clone()));
    teller.begin("crowd", &format!("everybody votes at {}", star.id));
    tokio::time::sleep(pace).await;

    let (from, after) = diagnose(api, crowd, teller, &star, &before, pace / 4).await?;
    let to = coolest(&after, &from)?;
    let id = begin(api, &star, &to, "a flash crowd").await?;
    teller.moving(&id, None);
    teller.begin(
        "move",
        &format!("{} goes {from} → {to} while it is being voted on", star.id),
    );
    until(api, teller, &id, |body| {
        body["phase"] == "WaitForSync" && copied(body) > 0
    })
    .await?;
    let body = shown(api, &id).await?;
    kill(house, teller, "kill", &body).await?;
    let body = until(api, teller, &id, is_over).await?;
    ended.note(&body, &star, &from, &to, &id);
    let now = rates(api, crowd, pace / 4).await?;
    teller.moving(&id, ended.pause_ms);
    let rate = |rates: &BTreeMap<String, u64>| rates.get(&from).copied().unwrap_or(0);
    let told = format!(
        "{} is on {to}; nobody could vote for {} ms. {from} is down from {} to {} votes per second",
        star.id,
        ended.pause_ms.unwrap_or(0),
        rate(&after),
        rate(&now)
    );
    teller.begin("gone", &told);
    tokio::time::sleep(pace / 2).await;
    for round in 1..=chaos {
        chaotic(house, api, teller, &star, round, &mut ended).await?;
    }
    crowd.send_to(None);
    ended.kills = house.kills;
    Ok(ended)
}

/// Votes per second, shard by shard: those that were acknowledged.
async fn rates(api: &Api, crowd: &Crowd, span: Duration) -> anyhow::Result<BTreeMap<String, u64>> {
    let places = places(api, crowd).await?;
    let sums = || {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (tenant, shard) in crowd.tenants.iter().zip(&places) {
            let votes: u64 = tenant
                .items
                .iter()
                .map(|item| item.acknowledged.load(Ordering::SeqCst))
                .sum();
            *sums.entry(shard.clone()).or_default() += votes;
        }
        sums
    };
    let first = sums();
    let ms = u64::try_from(span.as_millis()).unwrap_or(1).max(1);
    tokio::time::sleep(span).await;
    let second = sums();
    let rate = |(shard, votes): (String, u64)| {
        let before = first.get(&shard).copied().unwrap_or(0);
        (shard, (votes - before) * 1_000 / ms)
    };
    Ok(second.into_iter().map(rate).collect())
}

/// The shard that each tenant is on, in the tenants' order.
async fn places(api: &Api, crowd: &Crowd) -> anyhow::Result<Vec<String>> {
    let mut known = BTreeMap::new();
    let mut cursor = String::new();
    loop {
        let page = api
            .admin(Method::GET, &format!("/tenants?limit=1000{cursor}"), None)
            .await?;
        for tenant in page["items"].as_array().context("tenants")? {
            let shard = tenant["slices"][0]["shardID"].as_str().unwrap_or_default();
            known.insert(
                tenant["tenantID"].as_str().unwrap_or_default().to_owned(),
                shard.to_owned(),
            );
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let place = |tenant: &Arc<Tenant>| known.get(&tenant.id).cloned().unwrap_or_default();
    Ok(crowd.tenants.iter().map(place).collect())
}

async fn diagnose(
    api: &Api,
    crowd: &Crowd,
    teller: &Teller,
    star: &Tenant,
    before: &BTreeMap<String, u64>,
    span: Duration,
) -> anyhow::Result<(String, BTreeMap<String, u64>)> {
    let votes = |tenant: &Tenant| -> u64 {
        tenant
            .items
            .iter()
            .map(|item| item.acknowledged.load(Ordering::SeqCst))
            .sum()
    };
    let first = votes(star);
    let after = rates(api, crowd, span).await?;
    let own = (votes(star) - first) * 1_000 / u64::try_from(span.as_millis()).unwrap_or(1).max(1);
    let hottest = after.iter().max_by_key(|(_, rate)| **rate);
    let (shard, rate) = hottest.context("a shard")?;
    let told = format!(
        "{shard} went from {} to {rate} votes per second; {own} of them are for {}: moving it helps",
        before.get(shard).copied().unwrap_or(0),
        star.id
    );
    teller.begin("diagnosis", &told);
    Ok((shard.clone(), after))
}

fn coolest(rates: &BTreeMap<String, u64>, but: &str) -> anyhow::Result<String> {
    let others = rates.iter().filter(|(shard, _)| *shard != but);
    let coolest = others.min_by_key(|(_, rate)| **rate);
    Ok(coolest.context("another shard")?.0.clone())
}

async fn begin(api: &Api, star: &Tenant, to: &str, reason: &str) -> anyhow::Result<String> {
    let path = format!(
        "/tenants/{}/move?reason={}",
        star.id,
        reason.replace(' ', "%20")
    );
    let begun = api
        .admin(Method::POST, &path, Some(&json!({ "toShardID": to })))
        .await?;
    Ok(begun["migrationID"].as_str().context("a move")?.to_owned())
}

async fn shown(api: &Api, id: &str) -> anyhow::Result<Value> {
    api.admin(Method::GET, &format!("/migrations/{id}"), None)
        .await
}

fn copied(body: &Value) -> u64 {
    body["progress"]["done"].as_u64().unwrap_or(0)
}

fn is_over(body: &Value) -> bool {
    matches!(
        body["status"].as_str(),
        Some("completed" | "rolledBack" | "reversed" | "cancelled")
    )
}

/// Looks at a move until it is so; one that is over is as far as it gets.
async fn until(
    api: &Api,
    teller: &Teller,
    id: &str,
    is: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    for _ in 0..MOVE_LOOKS {
        let body = shown(api, id).await?;
        teller.moving(id, body["pauseMs"].as_u64());
        if is(&body) || is_over(&body) {
            return Ok(body);
        }
        tokio::time::sleep(LOOK).await;
    }
    bail!("the move {id} takes too long")
}

async fn kill(
    house: &mut House,
    teller: &Teller,
    chapter: &str,
    body: &Value,
) -> anyhow::Result<()> {
    let phase = body["phase"].as_str().unwrap_or("?");
    let done = copied(body);
    house.kill().await?;
    teller.begin(
        chapter,
        &format!("killed in {phase}, {done} rows copied; starting it again"),
    );
    house.start().await?;
    teller.begin(
        chapter,
        &format!("killed in {phase}, {done} rows copied; it is back, and goes on where it was"),
    );
    Ok(())
}

/// One more move, with a kill in the middle of it.
async fn chaotic(
    house: &mut House,
    api: &Api,
    teller: &Teller,
    star: &Tenant,
    round: u32,
    ended: &mut Ended,
) -> anyhow::Result<()> {
    let placement = api
        .admin(
            Method::GET,
            &format!("/tenants/{}/placement", star.id),
            None,
        )
        .await?;
    let from = placement["shardID"].as_str().context("a place")?.to_owned();
    let shards = api.admin(Method::GET, "/shards", None).await?;
    let shards = shards["items"].as_array().context("shards")?.iter();
    let others: Vec<&str> = shards
        .filter_map(|shard| shard["shardID"].as_str())
        .filter(|id| *id != from)
        .collect();
    let place = usize::try_from(round).unwrap_or(0) % others.len().max(1);
    let to = (*others.get(place).context("another shard")?).to_owned();
    let id = begin(api, star, &to, "chaos").await?;
    teller.moving(&id, None);
    teller.begin("chaos", &format!("round {round}: {from} → {to}"));
    // Each round is killed in another phase.
    let phases = [
        "WaitForSync",
        "VerifyConsistency",
        "MonitorDualRead",
        "CleanupOldShard",
        "PlanMove",
    ];
    let phase = phases[place % phases.len()];
    let body = until(api, teller, &id, |body| body["phase"] == phase).await?;
    kill(house, teller, "chaos", &body).await?;
    let body = until(api, teller, &id, is_over).await?;
    let moved = body["status"] == "completed";
    if moved {
        ended.moves += 1;
    }
    ended.longest_pause_ms = ended.longest_pause_ms.max(body["pauseMs"].as_u64());
    Ok(())
}

impl Ended {
    fn note(&mut self, body: &Value, star: &Tenant, from: &str, to: &str, id: &str) {
        self.moves += u32::from(body["status"] == "completed");
        self.pause_ms = body["pauseMs"].as_u64();
        self.longest_pause_ms = self.longest_pause_ms.max(self.pause_ms);
        self.tenant = Some(star.id.clone());
        self.from = Some(from.to_owned());
        self.to = Some(to.to_owned());
        self.migration = Some(id.to_owned());
    }
}
