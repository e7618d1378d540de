//! What the fleet does about a hotspot by itself, as its admin API tells it:
//! the finding, the plan, and what came of it. Nothing is asked for here.

use std::time::Duration;

use anyhow::Context;
use reqwest::Method;
use serde_json::Value;

use super::api::Api;
use super::story::Teller;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// So often until the hotspot loop is taken not to act: a minute and a half.
const ACT_LOOKS: usize = 360;
/// So often until a cure is taken not to have been judged: a minute.
const JUDGE_LOOKS: usize = 240;

/// A hotspot, and the move that was begun for it.
pub(super) struct Acted {
    pub(super) hotspot: String,
    pub(super) plan: String,
    pub(super) migration: String,
}

/// Waits for the finding, and for a move that follows from it. `None` when
/// nothing was done in time.
pub(super) async fn acts(api: &Api, teller: &Teller) -> anyhow::Result<Option<Acted>> {
    let mut told = Told::default();
    for _ in 0..ACT_LOOKS {
        tokio::time::sleep(LOOK).await;
        let Some(hotspot) = newest(api).await? else {
            continue;
        };
        told.about(&hotspot, teller);
        let Some(plan) = hotspot["planID"].as_str() else {
            continue;
        };
        teller.planned(plan);
        let shown = api
            .admin(Method::GET, &format!("/plans/{plan}"), None)
            .await?;
        if let Some(migration) = shown["migrationIDs"][0].as_str()
            && is_known(api, migration).await?
        {
            return Ok(Some(Acted {
                hotspot: text(&hotspot["hotspotID"]),
                plan: plan.to_owned(),
                migration: migration.to_owned(),
            }));
        }
    }
    Ok(None)
}

/// Whether a move is written down: a plan names its moves before they are.
async fn is_known(api: &Api, migration: &str) -> anyhow::Result<bool> {
    let page = api.admin(Method::GET, "/migrations", None).await?;
    let moves = page["items"].as_array().context("moves")?;
    Ok(moves.iter().any(|it| it["migrationID"] == migration))
}

/// The hotspot that was found last.
async fn newest(api: &Api) -> anyhow::Result<Option<Value>> {
    let page = api.admin(Method::GET, "/hotspots?limit=1", None).await?;
    Ok(page["items"].get(0).cloned())
}

/// What was told of a finding: each thing once.
#[derive(Default)]
struct Told {
    seen: bool,
    diagnosed: bool,
}

impl Told {
    fn about(&mut self, hotspot: &Value, teller: &Teller) {
        let letter = hotspot["letter"].as_str().unwrap_or_default();
        teller.found(hotspot["hotspotID"].as_str().unwrap_or_default());
        // Once it is planned, the letter names the move that is planned.
        let is_planned = hotspot["cure"] == "move" && hotspot["planID"].is_string();
        if is_planned && !self.diagnosed {
            self.diagnosed = true;
            let said = format!("{}. {}", part(letter, "Cause"), part(letter, "Cure"));
            teller.begin("diagnosis", &said);
            teller.quote(letter);
        } else if !self.seen && !self.diagnosed {
            let shard = text(&hotspot["shardIDs"][0]);
            let said = format!("{shard} is hot; the hotspot loop looks whether it lasts");
            teller.begin("diagnosis", &said);
        }
        self.seen = true;
    }
}

/// What a letter says under one of its titles: the first line of it.
fn part<'a>(letter: &'a str, title: &str) -> &'a str {
    let line = letter.lines().find_map(|line| line.strip_prefix(title));
    line.unwrap_or_default().trim()
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Judged {
    /// Whether the hotspot is over.
    pub(super) over: bool,
    /// What the fleet says of its plan: `helped`, `didNotHelp` or `unknown`;
    /// none when there was no plan, or it is not judged yet.
    pub(super) verdict: Option<String>,
}

/// Waits until the hotspot is over and its plan is judged, and tells how it
/// stands when that takes too long.
pub(super) async fn judged(api: &Api, acted: &Acted) -> anyhow::Result<Judged> {
    let mut judged = Judged::default();
    for _ in 0..JUDGE_LOOKS {
        let path = format!("/hotspots/{}", acted.hotspot);
        let hotspot = api.admin(Method::GET, &path, None).await?;
        let path = format!("/plans/{}", acted.plan);
        let plan = api.admin(Method::GET, &path, None).await?;
        judged = Judged {
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

/// How full each shard is, in percent of what it can take, by the load that
/// the fleet measured; the emptiest first.
pub(super) async fn fills(api: &Api) -> anyhow::Result<Vec<(String, u64)>> {
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

/// How full one of them is.
pub(super) fn of(fills: &[(String, u64)], shard: &str) -> u64 {
    let mut found = fills.iter().filter(|(id, _)| id == shard);
    found.next().map_or(0, |(_, fill)| *fill)
}

/// Why nothing is done about a shard, in the fleet's words.
pub(super) async fn why_not(api: &Api, shard: &str) -> anyhow::Result<String> {
    let path = format!("/shards/{shard}/why-not");
    let told = api.admin(Method::GET, &path, None).await?;
    Ok(text(&told["answer"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn cause_and_cure_are_found_in_a_letter() {
        let letter = "Finding   shard-1: hot\nCause     Tenant a/0 alone uses 60 %\n\
                      Cure      Move a/0 to shard-2\n          and so on\n";
        assert_eq!(part(letter, "Cause"), "Tenant a/0 alone uses 60 %");
        assert_eq!(part(letter, "Cure"), "Move a/0 to shard-2");
        assert_eq!(part(letter, "Nothing"), "");
    }
}
