//! Renders a placement explanation: a sentence, the shards as bars, the margin in words, and
//! changes that would move the tenant, with commands to copy.

use ballast_domain::Timestamp;
use ballast_domain::placement::{Explanation, ShardExplanation};
use ballast_domain::shard::Pressure;

use super::chart::{self, Bar, BarKind};
use crate::output::Screen;
use crate::table::{moment_long, sanitize};

/// Number of shards to draw; the rest is counted.
const SHARDS_SHOWN: usize = 12;
/// Number of changes to list.
const CHANGES_SHOWN: usize = 6;

/// The whole explanation.
pub(crate) fn explain_text(
    screen: &Screen,
    explanation: &Explanation,
    at: Option<Timestamp>,
    all: bool,
) -> String {
    let mut parts = Vec::new();
    if let Some(at) = at {
        parts.push(screen.dim(&format!("As of {}:", moment_long(screen, at))));
    }
    let headline = chart::wrap_words(
        &sanitize(&headline(explanation, at.is_some())),
        screen.width,
    );
    parts.push(screen.bold(&headline.join("\n")));
    parts.push(shard_bars(screen, explanation, at.is_some(), all));
    parts.extend(
        describe_margin(explanation)
            .map(|words| chart::wrap_words(&words, screen.width).join("\n")),
    );
    parts.push(list_changes(screen, explanation, at.is_some(), all));
    parts.join("\n\n")
}

fn headline(explanation: &Explanation, past: bool) -> String {
    let (is, belongs, may) = if past {
        ("was", "belonged", "might")
    } else {
        ("is", "belongs", "may")
    };
    let subject = match explanation.slice {
        0 => explanation.tenant_id.to_string(),
        slice => format!("slice {slice} of {}", explanation.tenant_id),
    };
    let because = &explanation.because;
    match (&explanation.shard_id, &explanation.preferred_shard_id) {
        (Some(shard), Some(preferred)) if shard == preferred => {
            format!("{subject} {is} on {shard}, and {belongs} there: {because}.")
        }
        (Some(shard), Some(preferred)) => format!(
            "{subject} {is} on {shard}, but {belongs} on {preferred} and {is} due to move there: {because}."
        ),
        (Some(shard), None) => format!("{subject} {is} on {shard}, but {because}."),
        (None, Some(preferred)) => {
            format!("{subject} {is} not placed; it {belongs} on {preferred}: {because}.")
        }
        (None, None) => {
            format!("{subject} {is} not placed, and no shard {may} hold it: {because}.")
        }
    }
}

fn shard_bars(screen: &Screen, explanation: &Explanation, past: bool, all: bool) -> String {
    if explanation.shards.is_empty() {
        return "The fleet has no shards.".to_owned();
    }
    let is_named = |shard: &ShardExplanation| {
        let id = Some(&shard.shard_id);
        id == explanation.shard_id.as_ref() || id == explanation.preferred_shard_id.as_ref()
    };
    let shown: Vec<&ShardExplanation> = explanation
        .shards
        .iter()
        .enumerate()
        .filter(|(place, shard)| all || *place < SHARDS_SHOWN || is_named(shard))
        .map(|(_, shard)| shard)
        .collect();
    let drawn: Vec<Bar> = shown
        .iter()
        .map(|shard| shard_bar(explanation, shard, past))
        .collect();
    let mut text = chart::draw_bars(screen, &drawn);
    let rest = explanation.shards.len() - shown.len();
    if rest > 0 {
        let more = format!("    … and {rest} more; --all shows them");
        text.push_str(&format!("\n{}", screen.dim(&more)));
    }
    text
}

fn shard_bar(explanation: &Explanation, shard: &ShardExplanation, past: bool) -> Bar {
    let id = Some(&shard.shard_id);
    let kind = if id == explanation.preferred_shard_id.as_ref() {
        BarKind::Winner
    } else if shard.vetoes.is_empty() && !shard.passed_over {
        BarKind::Rival
    } else {
        BarKind::Out
    };
    let mut notes = Vec::new();
    let here = id == explanation.shard_id.as_ref();
    let place = match (here, kind, past) {
        (true, _, false) => Some("it is here"),
        (true, _, true) => Some("it was here"),
        (false, BarKind::Winner, false) => Some("it belongs here"),
        (false, BarKind::Winner, true) => Some("it belonged here"),
        _ => None,
    };
    notes.extend(place.map(str::to_owned));
    if let Some(pin) = &shard.pinned {
        let reason = pin.reason.as_ref();
        let reason = reason
            .map(|reason| format!(" ({reason})"))
            .unwrap_or_default();
        notes.push(sanitize(&format!("pinned by {}{reason}", pin.actor)));
    }
    notes.extend(shard.vetoes.iter().map(|veto| sanitize(&veto.message)));
    if shard.passed_over {
        notes.push("passed over: it was filling up when the slice was placed".to_owned());
    }
    if shard.secondary && shard.vetoes.is_empty() {
        notes.push(format!("secondary region {}", shard.region));
    }
    if shard.pressure == Pressure::Busy {
        notes.push("filling up".to_owned());
    }
    // Omit the default weight.
    if shard.weight != 1.0 {
        notes.push(format!("weight {}", shard.weight));
    }
    Bar {
        name: shard.shard_id.to_string(),
        value: shard.score,
        kind,
        notes,
    }
}

fn describe_margin(explanation: &Explanation) -> Option<String> {
    let preferred = explanation.preferred_shard_id.as_ref()?;
    let (Some(margin), Some(other)) = (explanation.margin, &explanation.runner_up_shard_id) else {
        return Some(format!(
            "No other shard may hold it, so {preferred} has no rival."
        ));
    };
    let rival = explanation
        .shards
        .iter()
        .find(|shard| shard.shard_id == *other)?;
    let distance = chart::format_score(margin.abs());
    if margin < 0.0 {
        let pinned = explanation
            .shards
            .iter()
            .any(|shard| shard.pinned.is_some());
        let decided = if pinned { "the pin" } else { "a rule" };
        return Some(format!(
            "By score alone {other} would win by {distance}; {decided} decided for {preferred}."
        ));
    }
    let lead = margin * 100.0 / rival.score;
    Some(match lead {
        lead if lead >= 300.0 => format!(
            "{preferred} won by {distance}: {:.0} times the score of {other}.",
            lead / 100.0 + 1.0
        ),
        lead if lead < 1.0 => {
            format!("{preferred} won narrowly: by {distance}, a {lead:.2} % lead over {other}.")
        }
        lead => format!("{preferred} won by {distance}, a {lead:.0} % lead over {other}."),
    })
}

fn list_changes(screen: &Screen, explanation: &Explanation, past: bool, all: bool) -> String {
    let title = if past {
        "What would have moved it"
    } else {
        "What would move it"
    };
    let mut lines = vec![screen.bold(title)];
    if explanation.would_move.is_empty() {
        let no_rival = "only a change of the fleet or of the tenant's rules";
        lines.push(format!("  {no_rival}"));
    }
    let most = if all { usize::MAX } else { CHANGES_SHOWN };
    for change in explanation.would_move.iter().take(most) {
        let width = screen.width.saturating_sub(4).max(20);
        for (place, part) in chart::wrap_words(&sanitize(&change.sentence), width)
            .iter()
            .enumerate()
        {
            lines.push(format!("  {} {part}", if place == 0 { "•" } else { " " }));
        }
        // A past explanation has no commands.
        if !change.command.is_empty() && !past {
            lines.push(format!("      {}", screen.cyan(&sanitize(&change.command))));
        }
    }
    let rest = explanation.would_move.len().saturating_sub(most);
    if rest > 0 {
        lines.push(screen.dim(&format!("  … and {rest} more; --all shows them")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shard(id: &str, score: f64, more: Value) -> Value {
        let mut shard = json!({
            "shardID": id, "score": score, "draw": 0.5, "weight": 1.0, "region": "local",
            "zones": [], "state": "active", "pressure": "calm", "slices": 2_500,
            "maxSlices": 1_000_000, "vetoes": [], "pinned": null, "passedOver": false,
            "secondary": false,
        });
        for (name, value) in more.as_object().unwrap() {
            shard[name] = value.clone();
        }
        shard
    }

    fn explanation(more: Value) -> Explanation {
        let mut explanation = json!({
            "tenantID": "acme", "slice": 0, "shardID": "shard-3", "preferredShardID": "shard-3",
            "because": "shard-3 has the highest score of the shards that may hold it",
            "margin": 0.41, "runnerUpShardID": "shard-1",
            "shards": [
                shard("shard-3", 1.48, json!({})),
                shard("shard-1", 1.07, json!({"pressure": "busy"})),
                shard("shard-2", 0.21, json!({})),
                shard("shard-5", 1.9, json!({"passedOver": true})),
                shard("shard-4", 0.45, json!({"state": "draining", "region": "us", "vetoes": [
                    {"code": "region", "message": "stands in us; strict residency with home local forbids it"},
                    {"code": "state", "message": "is draining"},
                ]})),
            ],
            "wouldMove": [
                {"change": "weight", "shardID": "shard-1", "from": 1.0, "to": 1.384, "toShardID": "shard-1",
                 "sentence": "raise the weight of shard-1 from 1 to 1.384 (+38.4 %): it goes to shard-1",
                 "command": "ballast shard weight shard-1 1.384"},
                {"change": "state", "shardID": "shard-3", "to": "draining", "toShardID": "shard-1",
                 "sentence": "drain shard-3: it goes to shard-1",
                 "command": "ballast shard state shard-3 draining"},
            ],
        });
        for (name, value) in more.as_object().unwrap() {
            explanation[name] = value.clone();
        }
        serde_json::from_value(explanation).unwrap()
    }

    #[test]
    fn a_tenant_at_home() {
        insta::assert_snapshot!(explain_text(
            &Screen::plain(),
            &explanation(json!({})),
            None,
            false
        ));
    }

    #[test]
    fn a_pinned_tenant_two_hours_ago() {
        let pin = json!({
            "shardID": "shard-2", "actor": {"name": "root"}, "reason": "beside its sister",
            "at": "2026-11-16T08:00:00Z",
        });
        let explanation = explanation(json!({
            "preferredShardID": "shard-2", "margin": -1.27, "runnerUpShardID": "shard-3",
            "because": "root pinned it to shard-2 (beside its sister)",
            "shards": [
                shard("shard-3", 1.48, json!({})),
                shard("shard-2", 0.21, json!({"pinned": pin, "weight": 2.0})),
            ],
        }));
        let screen = Screen::plain();
        let at = Timestamp::from_unix_ms(screen.now.unix_ms() - 7_200_000);
        insta::assert_snapshot!(explain_text(&screen, &explanation, Some(at), false));
    }

    #[test]
    fn a_tenant_that_nothing_can_hold() {
        let explanation = explanation(json!({
            "preferredShardID": null, "margin": null, "runnerUpShardID": null, "wouldMove": [],
            "because": "no shard may hold it: every one is vetoed",
            "shards": [shard("shard-3", 0.3, json!({"state": "down", "vetoes": [
                {"code": "state", "message": "is down"},
            ]}))],
        }));
        insta::assert_snapshot!(explain_text(&Screen::plain(), &explanation, None, false));
    }

    #[test]
    fn a_hundred_shards_are_a_dozen_lines() {
        let shards: Vec<Value> = (1..=100)
            .map(|n| shard(&format!("shard-{n}"), 10.0 / f64::from(n), json!({})))
            .collect();
        let explanation = explanation(json!({"shards": shards, "shardID": "shard-90"}));
        let screen = Screen::plain();
        let short = explain_text(&screen, &explanation, None, false);
        assert!(short.contains("… and 87 more; --all shows them"), "{short}");
        assert!(short.contains("shard-90"), "where it is, is always shown");
        assert!(
            explain_text(&screen, &explanation, None, true)
                .lines()
                .count()
                > 100
        );
    }

    #[test]
    fn nothing_is_wider_than_the_terminal() {
        for width in [60, 80, 120] {
            let screen = Screen {
                width,
                ..Screen::plain()
            };
            let drawn = explain_text(&screen, &explanation(json!({})), None, true);
            for line in drawn.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}
