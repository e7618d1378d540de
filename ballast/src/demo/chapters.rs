//! Runs the demo, chapter by chapter.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::Method;
use serde_json::{Value, json};

use super::api::FleetApi;
use super::crowd::Voters;
use super::fleet::DemoFleet;
use super::people::DemoTenant;
use super::size::SHARD_VOTES;
use super::story::StoryWriter;
use super::watch::{self, HotspotMove};

/// How long it copies before it is killed; the copy takes some seconds in total.
const MIDDLE: Duration = Duration::from_secs(1);
/// How often the migration is polled.
const LOOK: Duration = Duration::from_millis(100);
/// The window over which load is measured: the short window of the rules.
const WINDOW: Duration = Duration::from_secs(4);
/// Maximum number of polls of one migration.
const MOVE_LOOKS: usize = 3_000;

/// The result of the demo.
#[derive(Debug, Clone, Default)]
pub(super) struct DemoResult {
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
    /// What moved the tenant: `hotspots` or `hand`.
    pub(super) moved_by: Option<&'static str>,
    pub(super) verdict: Option<String>,
    /// Utilisation of the hot shard before and after, in percent.
    pub(super) fill: Option<(u64, u64)>,
}

/// Plays all chapters.
pub(super) async fn play_chapters(
    fleet: &mut DemoFleet,
    api: &FleetApi,
    crowd: &Arc<Voters>,
    star: &Arc<DemoTenant>,
    teller: &StoryWriter,
    pace: Duration,
    chaos: u32,
) -> anyhow::Result<DemoResult> {
    let mut ended = DemoResult::default();
    let many = crowd.tenants.len();
    teller.begin(
        "people",
        &format!(
            "{many} tenants on six shards, each rated at {SHARD_VOTES} votes/s; most votes go to \
             a few tenants, many of them on {}",
            star.shard
        ),
    );
    tokio::time::sleep(pace).await;

    // The crowd comes to a tenant that was quiet so far.
    crowd.send_to(Some(star.clone()));
    let output = format!(
        "everybody votes at {}, which is also on {}",
        star.id, star.shard
    );
    teller.begin("crowd", &output);
    let acted = watch::wait_for_action(api, teller).await?;
    let id = match &acted {
        Some(acted) => acted.migration.clone(),
        None => start_move_by_hand(api, teller, star).await?,
    };
    teller.record_migration(&id, None);
    let body = fetch_migration(api, &id).await?;
    ended.record_migration(&body, acted.as_ref());
    let before = watch::shard_fills(api).await?;
    teller.begin("move", &ended.describe_move("while votes arrive"));
    wait_for_phase(api, teller, &id, |body| body["phase"] == "WaitForSync").await?;
    tokio::time::sleep(MIDDLE).await;
    let body = fetch_migration(api, &id).await?;
    kill_and_restart(fleet, teller, "kill", &body).await?;
    let body = wait_for_phase(api, teller, &id, has_ended).await?;
    ended.record_migration(&body, acted.as_ref());
    teller.record_migration(&id, ended.pause_ms);
    show_relief(api, teller, &before, acted.as_ref(), &mut ended).await?;
    tokio::time::sleep(pace / 2).await;
    if chaos > 0 {
        // The hotspot loop must not move the same tenant meanwhile.
        fleet.stop_hotspot_actions().await?;
    }
    for round in 1..=chaos {
        run_chaos_round(fleet, api, teller, star, round, &mut ended).await?;
    }
    crowd.send_to(None);
    Ok(ended)
}

/// Starts the migration by hand, because the hotspot loop did not act in time.
async fn start_move_by_hand(
    api: &FleetApi,
    teller: &StoryWriter,
    star: &DemoTenant,
) -> anyhow::Result<String> {
    let why = watch::explain_inaction(api, &star.shard).await?;
    let fills = watch::shard_fills(api).await?;
    let emptiest = fills.iter().map(|(id, _)| id).find(|id| **id != star.shard);
    let to = emptiest.context("another shard")?;
    let output = format!(
        "the hotspot loop has not acted in time, so the demo starts the migration by hand. \
         {} is at {} %, and this is what the loop says: {why}",
        star.shard,
        watch::fill_of(&fills, &star.shard)
    );
    teller.begin("diagnosis", &output);
    start_move(api, star, to, "a flash crowd").await
}

/// The last chapter: shows whether it helped, by the fleet's measurements.
async fn show_relief(
    api: &FleetApi,
    teller: &StoryWriter,
    before: &[(String, u64)],
    acted: Option<&HotspotMove>,
    ended: &mut DemoResult,
) -> anyhow::Result<()> {
    teller.begin("gone", "measuring whether it helped");
    let judged = match acted {
        Some(acted) => watch::wait_for_outcome(api, acted).await?,
        None => watch::CureOutcome::default(),
    };
    // Measurements from before a kill are stale.
    tokio::time::sleep(WINDOW).await;
    let now = watch::shard_fills(api).await?;
    let [from, to] = [&ended.from, &ended.to].map(|shard| shard.clone().unwrap_or_default());
    let fill = (watch::fill_of(before, &from), watch::fill_of(&now, &from));
    let hotspot = match (acted.is_some(), judged.over) {
        (true, true) => "the hotspot is over",
        (true, false) => "the hotspot is NOT over yet",
        (false, _) => "a migration by hand is not judged",
    };
    let verdict = match judged.verdict.as_deref() {
        Some("helped") => ", and the loop reports that its plan helped",
        Some("didNotHelp") => ", and the loop reports that its plan did not help",
        Some(_) => ", and the loop cannot tell whether its plan helped",
        None => "",
    };
    let output = format!(
        "{} is on {to}. Write pause: {} ms. {from} went from {} % to {} % of capacity, \
         {to} is at {} %: {hotspot}{verdict}",
        ended.tenant.as_deref().unwrap_or("it"),
        ended.pause_ms.unwrap_or(0),
        fill.0,
        fill.1,
        watch::fill_of(&now, &to),
    );
    teller.begin("gone", &output);
    ended.verdict = judged.verdict;
    ended.fill = Some(fill);
    Ok(())
}

async fn start_move(
    api: &FleetApi,
    star: &DemoTenant,
    to: &str,
    reason: &str,
) -> anyhow::Result<String> {
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

async fn fetch_migration(api: &FleetApi, id: &str) -> anyhow::Result<Value> {
    api.admin(Method::GET, &format!("/migrations/{id}"), None)
        .await
}

fn rows_copied(body: &Value) -> u64 {
    body["progress"]["done"].as_u64().unwrap_or(0)
}

fn has_ended(body: &Value) -> bool {
    matches!(
        body["status"].as_str(),
        Some("completed" | "rolledBack" | "reversed" | "cancelled")
    )
}

/// Polls a migration until `is` holds or it has ended.
async fn wait_for_phase(
    api: &FleetApi,
    teller: &StoryWriter,
    id: &str,
    is: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    for _ in 0..MOVE_LOOKS {
        let body = fetch_migration(api, id).await?;
        teller.record_migration(id, body["pauseMs"].as_u64());
        if is(&body) || has_ended(&body) {
            return Ok(body);
        }
        tokio::time::sleep(LOOK).await;
    }
    bail!("migration {id} takes too long")
}

async fn kill_and_restart(
    fleet: &mut DemoFleet,
    teller: &StoryWriter,
    chapter: &str,
    body: &Value,
) -> anyhow::Result<()> {
    let phase = ballast_cli::phase_label(body["phase"].as_str().unwrap_or("?"));
    let killed = match rows_copied(body) {
        0 => format!("killed while {phase}"),
        rows => format!("killed while {phase}, {rows} rows copied"),
    };
    fleet.kill().await?;
    teller.begin(chapter, &format!("{killed}; restarting"));
    fleet.start().await?;
    let output = format!("{killed}; restarted, the migration continues");
    teller.begin(chapter, &output);
    Ok(())
}

/// Runs one more migration, with a kill in the middle.
async fn run_chaos_round(
    fleet: &mut DemoFleet,
    api: &FleetApi,
    teller: &StoryWriter,
    star: &DemoTenant,
    round: u32,
    ended: &mut DemoResult,
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
    let id = start_move(api, star, &to, "chaos").await?;
    teller.record_migration(&id, None);
    teller.begin("chaos", &format!("round {round}: {from} → {to}"));
    // Each round kills in another phase.
    let phases = [
        "WaitForSync",
        "VerifyConsistency",
        "MonitorDualRead",
        "CleanupOldShard",
        "PlanMove",
    ];
    let phase = phases[place % phases.len()];
    let body = wait_for_phase(api, teller, &id, |body| body["phase"] == phase).await?;
    kill_and_restart(fleet, teller, "chaos", &body).await?;
    let body = wait_for_phase(api, teller, &id, has_ended).await?;
    let moved = body["status"] == "completed";
    if moved {
        ended.moves += 1;
    }
    ended.longest_pause_ms = ended.longest_pause_ms.max(body["pauseMs"].as_u64());
    Ok(())
}

impl DemoResult {
    /// Records the state of a migration.
    fn record_migration(&mut self, body: &Value, acted: Option<&HotspotMove>) {
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

    /// Describes the migration.
    fn describe_move(&self, how: &str) -> String {
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
