//! Renders hotspots and plans.

use ballast_domain::Timestamp;
use ballast_hotspot_detector::rules::test::RuleTestReport;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::output::Screen;
use crate::table::{Table, moment, sanitize};

/// A hotspot from the API.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HotspotBody {
    #[serde(rename = "hotspotID")]
    hotspot_id: String,
    status: String,
    since: Timestamp,
    over_at: Option<Timestamp>,
    severity: String,
    #[serde(rename = "shardIDs")]
    shards: Vec<String>,
    cause: String,
    cure: String,
    why_not: Option<InactionBody>,
    #[serde(rename = "planID")]
    plan_id: Option<String>,
    letter: String,
}

#[derive(Debug, Deserialize)]
struct InactionBody {
    because: String,
    until: Option<Timestamp>,
}

/// Many hotspots.
pub(crate) fn hotspot_table(screen: &Screen, hotspots: &[HotspotBody]) -> String {
    let columns = [
        "hotspot", "status", "shard", "cause", "cure", "since", "plan", "why not",
    ];
    let mut table = Table::new(screen, &columns);
    for it in hotspots {
        let row = [
            it.hotspot_id.clone(),
            match it.status.as_str() {
                "open" => it.severity.clone(),
                other => other.to_owned(),
            },
            it.shards.join(" "),
            it.cause.clone(),
            it.cure.clone(),
            moment(screen, it.since),
            it.plan_id.clone().unwrap_or_default(),
            it.why_not
                .as_ref()
                .map_or_else(String::new, |why| why.because.clone()),
        ];
        match it.over_at {
            Some(_) => table.add_dimmed_row(row),
            None => table.add_row(row),
        }
    }
    table.render()
}

/// One hotspot.
pub(crate) fn describe_hotspot(screen: &Screen, it: &HotspotBody) -> String {
    let mut text = it.letter.trim_end().to_owned();
    let mut say = |title: &str, line: &str| {
        text.push_str(&format!("\n{title:10}{}", sanitize(line)));
    };
    if let Some(plan) = &it.plan_id {
        say("Plan", &format!("{plan} (ballast plan show {plan})"));
    }
    if let Some(why) = &it.why_not {
        let until = why
            .until
            .map_or_else(String::new, |until| format!(" (until {until})"));
        say("No action", &format!("{}{until}", why.because));
    }
    if let Some(over) = it.over_at {
        say("Over", &moment(screen, over));
    }
    text
}

/// Why nothing is done about a shard.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyNotBody {
    #[serde(rename = "shardID")]
    shard_id: String,
    answer: String,
    mode: String,
    heat: Option<f64>,
    rules: Vec<RuleStateBody>,
    hotspots: Vec<HotspotBody>,
    plans: Vec<String>,
    #[serde(default)]
    frozen: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct RuleStateBody {
    rule: String,
    words: String,
}

/// Why nothing is done about a shard, or what is.
pub(crate) fn describe_inaction(screen: &Screen, it: &WhyNotBody) -> String {
    let heat = it.heat.map_or("not measured".to_owned(), |heat| {
        format!("{:.0} %", heat * 100.0)
    });
    let head = format!("{}: heat {heat}, mode {}", it.shard_id, it.mode);
    let mut text = format!(
        "{}\n{}\n",
        screen.bold(&sanitize(&it.answer)),
        screen.dim(&head)
    );
    for standing in &it.rules {
        text.push_str(&format!(
            "\n  {:20} {}",
            standing.rule,
            sanitize(&standing.words)
        ));
    }
    for hotspot in &it.hotspots {
        text.push_str(&format!("\n\n{}", describe_hotspot(screen, hotspot)));
    }
    for plan in &it.plans {
        text.push_str(&format!("\n\n{}", sanitize(plan)));
    }
    for frozen in &it.frozen {
        text.push_str(&format!("\n\n{}", sanitize(frozen)));
    }
    text
}

/// A plan from the API.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanBody {
    #[serde(rename = "planID")]
    plan_id: String,
    status: String,
    made_at: Timestamp,
    #[serde(rename = "hotspotID")]
    hotspot_id: Option<String>,
    #[serde(rename = "shardIDs")]
    shards: Vec<String>,
    does: String,
    letter: String,
    #[serde(rename = "executionID")]
    execution_id: Option<String>,
    #[serde(rename = "migrationIDs", default)]
    migrations: Vec<String>,
    plan: Option<Value>,
    outcome: Option<Value>,
    note: Option<String>,
}

impl PlanBody {
    fn moves(&self) -> String {
        let moves = self
            .plan
            .as_ref()
            .and_then(|plan| plan["totals"]["moves"].as_u64());
        moves.map_or_else(String::new, |moves| moves.to_string())
    }
}

/// Many plans.
pub(crate) fn plan_table(screen: &Screen, plans: &[PlanBody]) -> String {
    let columns = [
        "plan", "status", "action", "#moves", "shards", "created", "hotspot", "note",
    ];
    let mut table = Table::new(screen, &columns);
    for plan in plans {
        table.add_row([
            plan.plan_id.clone(),
            plan.status.clone(),
            plan.does.clone(),
            plan.moves(),
            plan.shards.join(" "),
            moment(screen, plan.made_at),
            plan.hotspot_id.clone().unwrap_or_default(),
            plan.note.clone().unwrap_or_default(),
        ]);
    }
    table.render()
}

/// One plan.
pub(crate) fn describe_plan(screen: &Screen, plan: &PlanBody) -> String {
    let mut text = screen.bold(&format!("{}: {}", plan.plan_id, plan.status));
    if let Some(note) = &plan.note {
        text.push_str(&format!("\n{}", sanitize(note)));
    }
    text.push_str(&format!("\n\n{}", plan.letter.trim_end()));
    if let Some(outcome) = &plan.outcome {
        text.push_str(&format!("\n\n{}", describe_outcome(screen, outcome)));
    }
    let mut next = Vec::new();
    if plan.status == "proposed" {
        next.push(format!("approve it: ballast plan approve {}", plan.plan_id));
    }
    if let Some(execution) = &plan.execution_id {
        next.push(format!(
            "its execution: ballast execution watch {execution}"
        ));
    }
    if let Some(first) = plan.migrations.first() {
        next.push(format!("its moves: ballast migration show {first}"));
    }
    if let Some(hotspot) = &plan.hotspot_id {
        next.push(format!("its hotspot: ballast hotspot show {hotspot}"));
    }
    for line in next {
        text.push_str(&format!("\n{}", screen.dim(&line)));
    }
    text
}

fn format_measure(measure: &str, value: f64) -> String {
    match measure {
        "storage" => super::load::format_bytes(value),
        _ => format!("{value:.1}/s"),
    }
}

/// Predicted and measured load.
fn describe_outcome(screen: &Screen, outcome: &Value) -> String {
    let mut table = Table::new(screen, &["shard", "measure", "#predicted", "#measured"]);
    let none = Vec::new();
    for shard in outcome["shards"].as_array().unwrap_or(&none) {
        for measure in ["votes", "queries", "storage"] {
            let of = |part: &str| shard[part][measure].as_f64().unwrap_or(0.0);
            let (predicted, measured) = (of("predicted"), of("measured"));
            if predicted > 0.0 || measured > 0.0 {
                table.add_row([
                    shard["shardID"].as_str().unwrap_or_default().to_owned(),
                    measure.to_owned(),
                    format_measure(measure, predicted),
                    format_measure(measure, measured),
                ]);
            }
        }
    }
    let error = outcome["meanError"].as_f64();
    let error = error.map_or_else(String::new, |error| {
        format!("\nmean prediction error: {:.0} %", error * 100.0)
    });
    format!("{}\n{}{error}", screen.bold("Outcome"), table.render())
}

/// A plan after its approval or rejection.
pub(crate) fn describe_decision(_: &Screen, plan: &PlanBody) -> String {
    format!("{} is {}", plan.plan_id, plan.status)
}

/// What rules found, as JSON.
pub(crate) fn report_json(report: &RuleTestReport) -> Value {
    let rules = report.rules.iter().map(|rule| {
        let firings = rule.firings.iter().map(|firing| {
            json!({
                "subject": firing.subject, "since": firing.since, "at": firing.at,
                "until": firing.until, "evidence": firing.evidence,
            })
        });
        json!({
            "rule": &*rule.rule, "fired": rule.fired, "whyNot": rule.why_not,
            "firings": firings.collect::<Vec<_>>(),
        })
    });
    json!({
        "from": report.span.map(|(from, _)| from), "to": report.span.map(|(_, to)| to),
        "samples": report.samples, "refused": report.refused,
        "rules": rules.collect::<Vec<_>>(),
    })
}
