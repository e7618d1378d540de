//! Follows what the fleet does about a hotspot by itself, through the admin API: the finding, the
//! plan and the outcome. Read-only.

use std::time::Duration;

use anyhow::Context;
use reqwest::Method;
use serde_json::Value;

use super::api::FleetApi;
use super::story::StoryWriter;

/// How often the admin API is polled.
const LOOK: Duration = Duration::from_millis(250);
/// Polls until the demo assumes that the loop does not act: 90 seconds.
const ACT_LOOKS: usize = 360;
/// Polls until the demo stops waiting for a verdict: a minute.
const JUDGE_LOOKS: usize = 240;

/// A hotspot, and the migration that its plan started.
pub(super) struct HotspotMove {
    pub(super) hotspot: String,
    pub(super) plan: String,
    pub(super) migration: String,
}

/// Waits for a hotspot and the migration of its plan. `None` if nothing happens in time.
pub(super) async fn wait_for_action(
    api: &FleetApi,
    teller: &StoryWriter,
) -> anyhow::Result<Option<HotspotMove>> {
    let mut reported = ReportedFindings::default();
    for _ in 0..ACT_LOOKS {
        tokio::time::sleep(LOOK).await;
        let Some(hotspot) = newest_hotspot(api).await? else {
            continue;
        };
        let Some(plan) = hotspot["planID"].as_str() else {
            reported.report_hotspot(&hotspot, teller);
            continue;
        };
        teller.record_plan(plan);
        let shown = api
            .admin(Method::GET, &format!("/plans/{plan}"), None)
            .await?;
        reported.report_plan(&hotspot, &shown, teller);
        if let Some(migration) = shown["migrationIDs"][0].as_str()
            && is_known(api, migration).await?
        {
            return Ok(Some(HotspotMove {
                hotspot: text(&hotspot["hotspotID"]),
                plan: plan.to_owned(),
                migration: migration.to_owned(),
            }));
        }
    }
    Ok(None)
}

/// Whether the migration exists: a plan names its migrations before they are created.
async fn is_known(api: &FleetApi, migration: &str) -> anyhow::Result<bool> {
    let page = api.admin(Method::GET, "/migrations", None).await?;
    let moves = page["items"].as_array().context("moves")?;
    Ok(moves.iter().any(|it| it["migrationID"] == migration))
}

/// The newest hotspot.
async fn newest_hotspot(api: &FleetApi) -> anyhow::Result<Option<Value>> {
    let page = api.admin(Method::GET, "/hotspots?limit=1", None).await?;
    Ok(page["items"].get(0).cloned())
}

/// What was reported of a hotspot: each thing once.
#[derive(Default)]
struct ReportedFindings {
    seen: bool,
    diagnosed: bool,
}

impl ReportedFindings {
    fn report_hotspot(&mut self, hotspot: &Value, teller: &StoryWriter) {
        teller.record_hotspot(&text(&hotspot["hotspotID"]));
        if !std::mem::replace(&mut self.seen, true) {
            let shard = text(&hotspot["shardIDs"][0]);
            let said = format!("{shard} is hot; the hotspot loop checks whether it lasts");
            teller.begin("diagnosis", &said);
        }
    }

    /// Reports the cause, and the migrations that the plan makes of it: the diagnosis
    /// itself may have had another target in mind, before the planner weighed all shards.
    fn report_plan(&mut self, hotspot: &Value, plan: &Value, teller: &StoryWriter) {
        teller.record_hotspot(&text(&hotspot["hotspotID"]));
        if std::mem::replace(&mut self.diagnosed, true) {
            return;
        }
        let letter = text(&hotspot["letter"]);
        let cause = report_section(&letter, "Cause");
        let said = format!("{cause}. {}", describe_plan(plan));
        teller.begin("diagnosis", &said);
        teller.quote(&text(&plan["letter"]));
    }
}

/// What a plan does: its migrations, or its own description of another cure.
fn describe_plan(plan: &Value) -> String {
    let moves = plan["plan"]["moves"].as_array();
    let moves = moves.into_iter().flatten().map(|planned| {
        let [tenant, from, to] =
            ["tenantID", "fromShardID", "toShardID"].map(|key| text(&planned[key]));
        format!("{tenant} from {from} to {to}")
    });
    let moves: Vec<_> = moves.collect();
    match moves.is_empty() {
        true => text(&plan["letter"])
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
        false => format!("The plan moves {}", moves.join(", ")),
    }
}

/// The first line of a section of the report.
fn report_section<'a>(letter: &'a str, title: &str) -> &'a str {
    let line = letter.lines().find_map(|line| line.strip_prefix(title));
    line.unwrap_or_default().trim()
}

/// Outcome.
#[derive(Debug, Clone, Default)]
pub(super) struct CureOutcome {
    /// Whether the hotspot is over.
    pub(super) over: bool,
    /// The verdict on the plan: `helped`, `didNotHelp` or `unknown`; none without a plan or before
    /// the verdict.
    pub(super) verdict: Option<String>,
}

/// Waits until the hotspot is over and its plan has a verdict; returns the state so far after a
/// timeout.
pub(super) async fn wait_for_outcome(
    api: &FleetApi,
    acted: &HotspotMove,
) -> anyhow::Result<CureOutcome> {
    let mut judged = CureOutcome::default();
    for _ in 0..JUDGE_LOOKS {
        let path = format!("/hotspots/{}", acted.hotspot);
        let hotspot = api.admin(Method::GET, &path, None).await?;
        let path = format!("/plans/{}", acted.plan);
        let plan = api.admin(Method::GET, &path, None).await?;
        judged = CureOutcome {
            over: hotspot["status"] == "over",
            verdict: plan["past"]["verdict"].as_str().map(str::to_owned),
        };
        if judged.over && judged.verdict.is_some() {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(judged)
}

/// The measured utilisation of each shard, in percent of its capacity; the emptiest first.
pub(super) async fn shard_fills(api: &FleetApi) -> anyhow::Result<Vec<(String, u64)>> {
    let load = api.admin(Method::GET, "/load?tenants=1", None).await?;
    let shards = load["shards"].as_array().context("shards")?.iter();
    let fill = |shard: &Value| {
        let votes = shard["votesPerSecond"].as_f64()?;
        let most = shard["capacity"]["votesPerSecond"].as_f64()?;
        let percent = (votes / most.max(1.0) * 100.0).round();
        Some((text(&shard["shardID"]), percent as u64))
    };
    let mut fills: Vec<_> = shards.filter_map(fill).collect();
    fills.sort_by_key(|(_, fill)| *fill);
    Ok(fills)
}

/// The utilisation of one shard.
pub(super) fn fill_of(fills: &[(String, u64)], shard: &str) -> u64 {
    let mut found = fills.iter().filter(|(id, _)| id == shard);
    found.next().map_or(0, |(_, fill)| *fill)
}

/// Why nothing is done about a shard.
pub(super) async fn explain_inaction(api: &FleetApi, shard: &str) -> anyhow::Result<String> {
    let path = format!("/shards/{shard}/why-not");
    let reported = api.admin(Method::GET, &path, None).await?;
    Ok(text(&reported["answer"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{describe_plan, report_section};

    #[test]
    fn the_story_names_the_target_of_the_plan() {
        let planned = json!({ "tenantID": "a", "fromShardID": "shard-6", "toShardID": "shard-5" });
        let plan = json!({ "letter": "Cure: …", "plan": { "moves": [planned] } });
        assert_eq!(
            describe_plan(&plan),
            "The plan moves a from shard-6 to shard-5"
        );
        let split = json!({ "letter": "Split a into 4.\nIt is too large." });
        assert_eq!(describe_plan(&split), "Split a into 4.");
    }

    #[test]
    fn cause_and_cure_are_found_in_a_letter() {
        let letter = "Finding   shard-1: hot\nCause     Tenant a alone uses 60 %\n\
                      Cure      Move a to shard-2\n          and so on\n";
        assert_eq!(report_section(letter, "Cause"), "Tenant a alone uses 60 %");
        assert_eq!(report_section(letter, "Cure"), "Move a to shard-2");
        assert_eq!(report_section(letter, "Nothing"), "");
    }
}
