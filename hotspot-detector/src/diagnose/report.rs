//! The diagnosis report of a finding: hotspots, evidence, cause, cure, expected effect,
//! rejected cures, and what to do if the cure does not help.

use super::cure::{Cure, HotspotCause};
use super::finding::Finding;
use crate::detect::Hotspot;
use crate::format::{bytes, duration, list, percent, rounded};

/// Formats a finding for people.
#[must_use]
pub fn format_report(finding: &Finding) -> String {
    let mut parts = vec![
        section("Finding", &describe_hotspots(finding)),
        section("Evidence", &finding.evidence),
        section("Cause", &[describe_cause(&finding.cause)]),
        section("Cure", &describe_cures(finding)),
    ];
    if !finding.expected.is_empty() {
        parts.push(section("Expected", &describe_effects(finding)));
    }
    let other: Vec<_> = finding
        .rejected
        .iter()
        .map(|rejected| format!("{}: {}", rejected.cure, rejected.because))
        .collect();
    if !other.is_empty() {
        parts.push(section("Not this", &other));
    }
    parts.push(section("If not", std::slice::from_ref(&finding.otherwise)));
    parts.join("")
}

/// A heading with its indented lines.
fn section(title: &str, lines: &[String]) -> String {
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let title = if at == 0 { title } else { "" };
        text.push_str(&format!("{title:10}{}\n", capitalize(line)));
    }
    text
}

fn capitalize(line: &str) -> String {
    let is_name = line
        .split(' ')
        .next()
        .is_some_and(|word| word.contains(|c: char| "-/.".contains(c) || c.is_ascii_digit()));
    let mut letters = line.chars();
    match letters.next() {
        Some(first) if !is_name => first.to_uppercase().chain(letters).collect(),
        _ => line.to_owned(),
    }
}

fn describe_hotspots(finding: &Finding) -> Vec<String> {
    let shards: Vec<_> = finding.shards.iter().map(ToString::to_string).collect();
    if finding.hotspots.is_empty() {
        return vec![format!(
            "detected on {} while diagnosing its hotspot",
            list(&shards)
        )];
    }
    finding
        .hotspots
        .iter()
        .take(5)
        .map(describe_hotspot)
        .collect()
}

fn describe_hotspot(hotspot: &Hotspot) -> String {
    let numbers: Vec<_> = hotspot
        .now
        .iter()
        .map(|reading| format!("{} {}", reading.name, reading.shown))
        .collect();
    format!(
        "{}: rule {} has held since {} ({})",
        hotspot.subject,
        hotspot.rule,
        hotspot.since,
        numbers.join(", ")
    )
}

fn describe_cause(cause: &HotspotCause) -> String {
    match cause {
        HotspotCause::AbusiveKey { key, tenant, .. } => {
            format!("key {key} of {tenant} floods the shard")
        }
        HotspotCause::HotCounter { item, lanes, .. } => format!(
            "the counter of {} ({}) is at the limit of its {lanes} lanes",
            item.item, item.slice.tenant_id
        ),
        HotspotCause::CoolCounter { item, lanes, .. } => {
            format!(
                "the counter of {} has more lanes ({lanes}) than it needs",
                item.item
            )
        }
        HotspotCause::SkewedLanes { item, .. } => {
            format!(
                "the voters of {} are spread unevenly over its lanes",
                item.item
            )
        }
        HotspotCause::HotTenant { slice, share, .. } => {
            format!(
                "tenant {} alone uses {} of the shard's capacity",
                slice.label(),
                percent(*share)
            )
        }
        HotspotCause::UnfairTenant { slice, share, .. } => {
            format!(
                "tenant {} uses {} of the shard's capacity, more than its fair share",
                slice.label(),
                percent(*share)
            )
        }
        HotspotCause::WarmTenants { tenants, .. } => {
            format!("{tenants} warm tenants together, no single one")
        }
        HotspotCause::RegionFull {
            whole_fleet: true, ..
        } => "the whole fleet is full".to_owned(),
        HotspotCause::RegionFull { region, .. } => {
            format!("all shards of region {region} together are too full")
        }
        HotspotCause::SickShard { .. } => {
            "the shard itself is slow although its load is low".to_owned()
        }
        HotspotCause::Spike { .. } => "probably a spike".to_owned(),
        HotspotCause::WithinLimits { fill } => format!(
            "the load is within limits: {} of what is allowed",
            percent(*fill)
        ),
        HotspotCause::Unexplained => "no measurement explains it".to_owned(),
    }
}

fn describe_cures(finding: &Finding) -> Vec<String> {
    let mut lines = vec![describe_cure(&finding.cure)];
    if let Some(why_not) = &finding.why_not {
        let until = why_not
            .until
            .map_or(String::new(), |until| format!(" (until {until})"));
        lines.push(format!("not now: {}{until}", why_not.because));
    }
    lines
}

/// What a cure does, in one sentence.
#[must_use]
pub fn describe_cure(cure: &Cure) -> String {
    match cure {
        Cure::Throttle { key, to, .. } => {
            format!("throttle {key} to {} calls/s", rounded(*to))
        }
        Cure::Lanes { item, from, to } => {
            format!("change the lanes of {} from {from} to {to}", item.poll)
        }
        Cure::Move {
            slices,
            bytes: stored,
            price_ms,
            ..
        } => {
            let targets: Vec<_> = slices
                .iter()
                .map(|placed| format!("{} to {}", placed.slice.label(), placed.to))
                .collect();
            format!(
                "move {}: {}, about {}",
                list(&targets),
                bytes(*stored),
                duration(*price_ms as f64)
            )
        }
        Cure::Split {
            slice,
            parts,
            price_ms,
            ..
        } => {
            format!(
                "split {} into {parts} parts, about {}",
                slice.label(),
                duration(*price_ms as f64)
            )
        }
        Cure::AddShards { region, count: 1 } => format!("add a shard to {region}"),
        Cure::AddShards { region, count } => format!("add {count} shards to {region}"),
        Cure::Wait { until } => format!("wait; check again by {until}"),
        Cure::Nothing => "none that Ballast can apply by itself".to_owned(),
    }
}

fn describe_effects(finding: &Finding) -> Vec<String> {
    let effects = finding.expected.iter().enumerate().take(6);
    effects
        .map(|(at, effect)| {
            let what = effect
                .dimension
                .map_or("I/O wait", |dimension| dimension.name());
            let (before, after) = (percent(effect.before), percent(effect.after));
            match finding.cure {
                Cure::Lanes { .. } => {
                    format!("busiest lane: from {before} to {after} of its capacity")
                }
                Cure::AddShards { .. } if at == 0 => {
                    format!("all shards of the region together: from {before} to {after} ({what})")
                }
                _ => format!("{}: from {before} to {after} ({what})", effect.shard),
            }
        })
        .collect()
}
