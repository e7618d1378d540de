//! What happens, chapter by chapter.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::Method;
use serde_json::{Value, json};

use super::api::Api;
use super::crowd::Crowd;
use super::house::House;
use super::people::Tenant;
use super::size::SHARD_VOTES;
use super::story::Teller;
use super::watch::{self, Acted};

/// How long it copies before it is killed: it takes some seconds in all.
const MIDDLE: Duration = Duration::from_secs(1);
/// How often a move is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// The window over which load is told: as long as the short one of the rules.
const WINDOW: Duration = Duration::from_secs(4);
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
    pub(super) hotspot: Option<String>,
    pub(super) plan: Option<String>,
    /// Who had it moved: `hotspots` or `hand`.
    pub(super) moved_by: Option<&'static str>,
    pub(super) verdict: Option<String>,
    /// How full the hot shard was and is, in percent.
    pub(super) fill: Option<(u64, u64)>,
}

/// The whole story.
pub(super) async fn play(
    house: &mut House,
    api: &Api,
    crowd: &Arc<Crowd>,
    star: &Arc<Tenant>,
    teller: &Teller,
    pace: Duration,
    chaos: u32,
) -> anyhow::Result<Ended> {
    let mut ended = Ended::default();
    let many = crowd.tenants.len();
    teller.begin(
        "people",
        &format!(
            "{many} tenants on six shards, each taken to manage {SHARD_VOTES} votes a second; \
             most votes go to a few tenants, many of them on {}",
            star.shard
        ),
    );
    tokio::time::sleep(pace).await;

    // Somebody whom nobody had on the list.
    crowd.send_to(Some(star.clone()));
    let told = format!(
        "everybody votes at {}, which is on {} too",
        star.id, star.shard
    );
    teller.begin("crowd", &told);
    let acted = watch::acts(api, teller).await?;
    let id = match &acted {
        Some(acted) => acted.migration.clone(),
        None => by_hand(api, teller, star).await?,
    };
    teller.moving(&id, None);
    let body = shown(api, &id).await?;
    ended.note(&body, acted.as_ref());
    let before = watch::fills(api).await?;
    teller.begin("move", &ended.way("while it is being voted on"));
    until(api, teller, &id, |body| body["phase"] == "WaitForSync").await?;
    tokio::time::sleep(MIDDLE).await;
    let body = shown(api, &id).await?;
    kill(house, teller, "kill", &body).await?;
    let body = until(api, teller, &id, is_over).await?;
    ended.note(&body, acted.as_ref());
    teller.moving(&id, ended.pause_ms);
    gone(api, teller, &before, acted.as_ref(), &mut ended).await?;
    tokio::time::sleep(pace / 2).await;
    if chaos > 0 {
        // Two who move the same tenant would stand in each other's way.
        house.only_observe().await?;
    }
    for round in 1..=chaos {
        chaotic(house, api, teller, star, round, &mut ended).await?;
    }
    crowd.send_to(None);
    Ok(ended)
}

/// The hotspot loop has not acted in time: the story says so, and goes on.
async fn by_hand(api: &Api, teller: &Teller, star: &Tenant) -> anyhow::Result<String> {
    let why = watch::why_not(api, &star.shard).await?;
    let fills = watch::fills(api).await?;
    let emptiest = fills.iter().map(|(id, _)| id).find(|id| **id != star.shard);
    let to = emptiest.context("another shard")?;
    let told = format!(
        "the hotspot loop has not acted in time, so the move is begun by hand. \
         {} is at {} %, and this is what the loop says: {why}",
        star.shard,
        watch::of(&fills, &star.shard)
    );
    teller.begin("diagnosis", &told);
    begin(api, star, to, "a flash crowd").await
}

/// The last chapter: whether it helped, by what the fleet measured.
async fn gone(
    api: &Api,
    teller: &Teller,
    before: &[(String, u64)],
    acted: Option<&Acted>,
    ended: &mut Ended,
) -> anyhow::Result<()> {
    teller.begin("gone", "waiting until it is measured whether it helped");
    let judged = match acted {
        Some(acted) => watch::judged(api, acted).await?,
        None => watch::Judged::default(),
    };
    // What was measured before a kill says nothing of now.
    tokio::time::sleep(WINDOW).await;
    let now = watch::fills(api).await?;
    let [from, to] = [&ended.from, &ended.to].map(|shard| shard.clone().unwrap_or_default());
    let fill = (watch::of(before, &from), watch::of(&now, &from));
    let hotspot = match (acted.is_some(), judged.over) {
        (true, true) => "the hotspot is over",
        (true, false) => "the hotspot is NOT over yet",
        (false, _) => "nobody judges a move by hand",
    };
    let verdict = match judged.verdict.as_deref() {
        Some("helped") => ", and the loop finds that its move helped",
        Some("didNotHelp") => ", and the loop finds that its move did not help",
        Some(_) => ", and the loop cannot tell whether its move helped",
        None => "",
    };
    let told = format!(
        "{} is on {to}; nobody could vote for {} ms. {from} went from {} % to {} % of what \
         it can take, {to} is at {} %: {hotspot}{verdict}",
        ended.tenant.as_deref().unwrap_or("it"),
        ended.pause_ms.unwrap_or(0),
        fill.0,
        fill.1,
        watch::of(&now, &to),
    );
    teller.begin("gone", &told);
    ended.verdict = judged.verdict;
    ended.fill = Some(fill);
    Ok(())
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
    let killed = match copied(body) {
        0 => format!("killed in {phase}"),
        rows => format!("killed in {phase}, {rows} rows copied"),
    };
    house.kill().await?;
    teller.begin(chapter, &format!("{killed}; starting it again"));
    house.start().await?;
    let told = format!("{killed}; it is back, and goes on where it was");
    teller.begin(chapter, &told);
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
    /// Notes a move as it is told.
    fn note(&mut self, body: &Value, acted: Option<&Acted>) {
        let text = |key: &str| body[key].as_str().map(str::to_owned);
        self.moves = u32::from(body["status"] == "completed");
        self.pause_ms = body["pauseMs"].as_u64();
        self.longest_pause_ms = self.longest_pause_ms.max(self.pause_ms);
        self.tenant = text("tenantID");
        self.from = text("fromShardID");
        self.to = text("toShardID");
        self.migration = text("migrationID");
        self.hotspot = acted.map(|acted| acted.hotspot.clone());
        self.plan = acted.map(|acted| acted.plan.clone());
        self.moved_by = Some(match acted {
            Some(_) => "hotspots",
            None => "hand",
        });
    }

    /// Who goes where.
    fn way(&self, how: &str) -> String {
        let known = |it: &Option<String>| it.clone().unwrap_or_else(|| "?".to_owned());
        let by = match &self.plan {
            Some(plan) => format!("{plan} moves"),
            None => "by hand:".to_owned(),
        };
        format!(
            "{by} {} {} → {} {how}",
            known(&self.tenant),
            known(&self.from),
            known(&self.to)
        )
    }
}
