//! Renders a simulation: what would have been found in recorded load, and the effect of changes; as
//! text and JSON.

use std::collections::BTreeMap;

use ballast_domain::ShardId;
use ballast_hotspot_detector::diagnose::report::format_report;
use ballast_hotspot_detector::plan::TimeSpan;
use ballast_hotspot_detector::rules::test::RuleTestReport;
use ballast_hotspot_detector::whatif::{ReplayReport, WhatIfReport};
use serde_json::{Value, json};

use super::hotspots;
use crate::table::count_noun;

/// Outcome.
pub(crate) struct SimulationReport<'a> {
    /// The effect of the changes.
    pub(crate) answer: &'a WhatIfReport,
    /// What the rules found.
    pub(crate) rules: &'a RuleTestReport,
    /// What was diagnosed.
    pub(crate) replayed: &'a ReplayReport,
    /// The busiest window of each shard.
    pub(crate) busiest: &'a BTreeMap<ShardId, TimeSpan>,
    /// Cures that the plan assumes to be done.
    pub(crate) counted_on: &'a [String],
}

/// For programs.
pub(crate) fn simulation_json(came: &SimulationReport<'_>) -> String {
    let findings: Vec<Value> = came
        .replayed
        .found
        .iter()
        .map(|found| {
            json!({
                "from": found.from,
                "until": found.until,
                "isDue": found.is_due,
                "finding": found.finding,
                "letter": format_report(&found.finding),
            })
        })
        .collect();
    let report_text = json!({
        "found": hotspots::report_json(came.rules),
        "findings": findings,
        "findingsLeftOut": came.replayed.left_out,
        "busiest": came.busiest,
        "countedOn": came.counted_on,
        "answer": came.answer,
    });
    report_text.to_string()
}

/// For people.
pub(crate) fn simulation_text(came: &SimulationReport<'_>) -> String {
    let (rules, replayed) = (came.rules, came.replayed);
    let fired: Vec<_> = rules.rules.iter().filter(|rule| rule.fired > 0).collect();
    let mut report_text = match fired.is_empty() {
        true => format!(
            "No rule fired in {}.\n",
            count_noun(rules.samples as u64, "sample")
        ),
        false => String::new(),
    };
    for rule in fired {
        report_text.push_str(&format!(
            "Rule {} fired {}.\n",
            rule.rule,
            count_noun(rule.fired as u64, "time")
        ));
    }
    for found in &replayed.found {
        let (from, until) = (found.from, found.until);
        let due = match found.is_due {
            true => "cure due",
            false => "reported only",
        };
        report_text.push_str(&format!(
            "\nFrom {from} to {until}, {due}:\n{}",
            format_report(&found.finding)
        ));
    }
    if replayed.left_out > 0 {
        report_text.push_str(&format!(
            "\n{} not shown.\n",
            count_noun(replayed.left_out as u64, "more finding")
        ));
    }
    report_text.push_str("\nThe plan is for the busiest window of each shard:\n");
    for (shard, span) in came.busiest {
        report_text.push_str(&format!("  {shard} {} to {}\n", span.from, span.until));
    }
    for cure in came.counted_on {
        report_text.push_str(&format!("It assumes that this is done first: {cure}.\n"));
    }
    report_text.push_str(&format!("\n{}", came.answer));
    report_text
}
