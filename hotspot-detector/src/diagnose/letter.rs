//! A finding as a good doctor would write it: what was found, what shows it,
//! what it comes from, what to do, what to expect, and what if it does not help.

use super::cure::{Cause, Cure};
use super::finding::Finding;
use crate::detect::Hotspot;
use crate::words::{bytes, duration, list, percent, rounded};

/// Writes a finding for people.
#[must_use]
pub fn letter(finding: &Finding) -> String {
    let mut parts = vec![
        part("Finding", &found(finding)),
        part("Evidence", &finding.evidence),
        part("Cause", &[cause(&finding.cause)]),
        part("Cure", &cures(finding)),
    ];
    if !finding.expected.is_empty() {
        parts.push(part("Expected", &expected(finding)));
    }
    let other: Vec<_> = finding
        .rejected
        .iter()
        .map(|rejected| format!("{}: {}", rejected.cure, rejected.because))
        .collect();
    if !other.is_empty() {
        parts.push(part("Not this", &other));
    }
    parts.push(part("If not", std::slice::from_ref(&finding.otherwise)));
    parts.join("")
}

/// A heading and its lines, set in.
fn part(title: &str, lines: &[String]) -> String {
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let title = if at == 0 { title } else { "" };
        text.push_str(&format!("{title:10}{}\n", upper(line)));
    }
    text
}

fn upper(line: &str) -> String {
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

fn found(finding: &Finding) -> Vec<String> {
    let shards: Vec<_> = finding.shards.iter().map(ToString::to_string).collect();
    if finding.hotspots.is_empty() {
        return vec![format!(
            "seen on {} while looking for the cause of its hotspot",
            list(&shards)
        )];
    }
    finding.hotspots.iter().take(5).map(hotspot).collect()
}

fn hotspot(hotspot: &Hotspot) -> String {
    let numbers: Vec<_> = hotspot
        .now
        .iter()
        .map(|reading| format!("{} {}", reading.name, reading.shown))
        .collect();
    format!(
        "{}: rule {} holds since {} ({})",
        hotspot.subject,
        hotspot.rule,
        hotspot.since,
        numbers.join(", ")
    )
}

fn cause(cause: &Cause) -> String {
    match cause {
        Cause::AbusiveKey { key, tenant, .. } => format!("key {key} of {tenant} floods the shard"),
        Cause::HotCounter { item, lanes, .. } => format!(
            "the counter of {} ({}) takes as many votes as its {lanes} lanes can",
            item.item, item.slice.tenant_id
        ),
        Cause::CoolCounter { item, lanes, .. } => {
            format!(
                "the counter of {} has cooled and keeps {lanes} lanes",
                item.item
            )
        }
        Cause::SkewedLanes { item, .. } => {
            format!(
                "the voters of {} are not spread over its lanes as they should be",
                item.item
            )
        }
        Cause::HotTenant { slice, share, .. } => {
            format!("tenant {slice} alone uses {} of the shard", percent(*share))
        }
        Cause::UnfairTenant { slice, share, .. } => {
            format!(
                "tenant {slice} has {} of the shard, more than its part",
                percent(*share)
            )
        }
        Cause::WarmTenants { tenants, .. } => {
            format!("{tenants} warm tenants together, none of them alone")
        }
        Cause::RegionFull {
            whole_fleet: true, ..
        } => "the whole fleet is full".to_owned(),
        Cause::RegionFull { region, .. } => format!("all shards of region {region} are warm"),
        Cause::SickShard { .. } => "the shard itself is slow, not its tenants busy".to_owned(),
        Cause::Spike { .. } => "a spike, as far as can be told yet".to_owned(),
        Cause::Borne { fill } => format!(
            "a load that is borne: {} of what there may be",
            percent(*fill)
        ),
        Cause::Unexplained => "nothing that was measured explains it".to_owned(),
    }
}

fn cures(finding: &Finding) -> Vec<String> {
    let mut said = vec![cure_in_words(&finding.cure)];
    if let Some(why_not) = &finding.why_not {
        let until = why_not
            .until
            .map_or(String::new(), |until| format!(" (until {until})"));
        said.push(format!("not now: {}{until}", why_not.because));
    }
    said
}

/// What a cure does, in a sentence.
#[must_use]
pub fn cure_in_words(cure: &Cure) -> String {
    match cure {
        Cure::Throttle { key, to, .. } => {
            format!("let {key} through {} times a second", rounded(*to))
        }
        Cure::Lanes { item, from, to } => {
            format!(
                "give the counters of {} {to} lanes instead of {from}",
                item.poll
            )
        }
        Cure::Move {
            slices,
            bytes: stored,
            price_ms,
            ..
        } => {
            let named: Vec<_> = slices
                .iter()
                .map(|placed| format!("{} to {}", placed.slice, placed.to))
                .collect();
            format!(
                "move {}: {}, about {}",
                list(&named),
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
                "split {slice} into {parts} parts, about {}",
                duration(*price_ms as f64)
            )
        }
        Cure::AddShards { region, count: 1 } => format!("add a shard to {region}"),
        Cure::AddShards { region, count } => format!("add {count} shards to {region}"),
        Cure::Wait { until } => format!("wait; look again by {until}"),
        Cure::Nothing => "nothing that Ballast can do by itself".to_owned(),
    }
}

fn expected(finding: &Finding) -> Vec<String> {
    let effects = finding.expected.iter().enumerate().take(6);
    effects
        .map(|(at, effect)| {
            let what = effect
                .dimension
                .map_or("waiting", |dimension| dimension.name());
            let (before, after) = (percent(effect.before), percent(effect.after));
            match finding.cure {
                Cure::Lanes { .. } => {
                    format!("the busiest lane goes from {before} to {after} of what one takes")
                }
                Cure::AddShards { .. } if at == 0 => format!(
                    "all shards of the region together go from {before} to {after} ({what})"
                ),
                _ => format!("{} goes from {before} to {after} ({what})", effect.shard),
            }
        })
        .collect()
}
