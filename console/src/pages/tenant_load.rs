//! What a tenant uses: now, over the last hours, and day by day with what that
//! costs. Both are read from the record of load, so they follow after the page.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::load::history::{self, LoadHistory, ShardPoint, Stretch};
use ballast_control_plane::load::now::{LoadFilter, TenantLoadBody};
use ballast_control_plane::load::usage::{self, UsageBody};
use ballast_control_plane::tenants;
use ballast_domain::tenant::Tenant;
use ballast_domain::{Result, TenantId};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{load, names};
use crate::console::Console;
use crate::fields::Fields;
use crate::page::error::Broken;
use crate::page::layout::Page;
use crate::page::part::Alone;
use crate::page::words::{bytes, nothing, number, whole};
use crate::session::Visitor;

/// Days that are told.
const DAYS: i64 = 30;
/// What can be looked at, in minutes.
const SPANS: [(&str, i64); 4] = [
    ("15 minutes", 15),
    ("hour", 60),
    ("6 hours", 360),
    ("day", 1_440),
];

/// What it uses now and has used of late.
pub(super) async fn charts(
    State(console): State<Console>,
    visitor: Visitor,
    alone: Alone,
    Path(id): Path<String>,
    asked: Fields,
) -> Result<Response, Broken> {
    let plane = &console.plane;
    let tenant = tenants::get(plane, &names::named(&id)?).await?.value;
    let part = match plane.load() {
        None => not_measured(),
        Some(load) => {
            let stretch = load::stretch(&console, &asked)?;
            let now = load.now(&of(&tenant.tenant_id)).tenants.into_iter().next();
            let own = history::show(plane, stretch, None, of(&tenant.tenant_id)).await?;
            let there = match there(&tenant) {
                Some(filter) => {
                    Some(history::show(plane, stretch, Some(own.step_ms), filter).await?)
                }
                None => None,
            };
            let minutes = asked.optional("minutes")?.unwrap_or(60);
            html! {
                (spans(&tenant.tenant_id, minutes))
                (strip(now.as_ref()))
                (drawn(&own, there.as_ref()))
            }
        }
    };
    let title = format!("Load of {}", tenant.tenant_id);
    let page = Page::new(&console, &visitor, &title).with_charts();
    Ok(alone.show(page, &crumb(&tenant.tenant_id), &part))
}

/// What it used, day by day.
pub(super) async fn days(
    State(console): State<Console>,
    visitor: Visitor,
    alone: Alone,
    Path(id): Path<String>,
) -> Result<Response, Broken> {
    let plane = &console.plane;
    let id: TenantId = names::named(&id)?;
    tenants::get(plane, &id).await?;
    let part = match plane.load() {
        None => not_measured(),
        Some(_) => {
            let from = plane.now().plus_seconds(-DAYS * 86_400);
            let stretch = Stretch::new(plane, Some(from), None)?;
            used(&usage::show(plane, stretch, Some(id.clone())).await?)
        }
    };
    let title = format!("Usage of {id}");
    let page = Page::new(&console, &visitor, &title);
    Ok(alone.show(page, &crumb(&id), &part))
}

fn crumb(id: &TenantId) -> Markup {
    html! { a href="/console/tenants" { "Tenants" } " / " (names::tenant(id)) }
}

fn not_measured() -> Markup {
    nothing(
        "Load is not measured.",
        &html! { "Set " code { "load.measure" } " in the configuration, and restart." },
    )
}

fn of(tenant: &TenantId) -> LoadFilter {
    LoadFilter {
        tenant: Some(tenant.clone()),
        ..LoadFilter::default()
    }
}

/// The shard that it is on, or the first of them: it tells when anything was
/// measured at all, and how long calls took there.
fn there(tenant: &Tenant) -> Option<LoadFilter> {
    let slice = tenant.slices.first()?;
    Some(LoadFilter {
        shard: Some(slice.shard_id.clone()),
        tenant: None,
        tenants_max: Some(1),
    })
}

fn spans(id: &TenantId, minutes: i64) -> Markup {
    html! {
        nav class="row small" aria-label="Span" {
            @for (name, length) in SPANS {
                a href=(format!("/console/tenants/{id}/load?minutes={length}"))
                    aria-current=[(length == minutes).then_some("true")] { "last " (name) }
            }
        }
    }
}

fn strip(now: Option<&TenantLoadBody>) -> Markup {
    let Some(now) = now else {
        return html! { p class="muted" { "It does nothing right now." } };
    };
    let rates = &now.rates;
    html! {
        dl class="strip" {
            div { dt { "Votes per second" } dd { (number(whole(rates.votes_per_second))) } }
            div { dt { "Queries per second" } dd { (number(whole(rates.queries_per_second))) } }
            div { dt { "Of its shard" } dd { (whole(rates.heat * 100.0)) " %" } }
            div { dt { "Stored" } dd { @match rates.storage_bytes {
                Some(stored) => { (bytes(whole(stored))) } None => { "—" }
            } } }
            div { dt { "Calls take" } dd { @match &now.latency {
                Some(latency) => {
                    (ms(latency.p50)) " " small { "half of them" } " · "
                    (ms(latency.p99)) " " small { "99 %" }
                }
                None => { "—" }
            } } }
        }
    }
}

fn ms(ms: f64) -> String {
    match ms {
        ..10.0 => format!("{ms:.1} ms"),
        _ => format!("{ms:.0} ms"),
    }
}

fn drawn(own: &LoadHistory, there: Option<&LoadHistory>) -> Markup {
    let Some(points) = own.tenants.first().map(|series| &series.points) else {
        return nothing(
            "It did nothing in this time.",
            &html! { "Votes and queries are drawn here as they come." },
        );
    };
    let on_shard: &[ShardPoint] = there
        .and_then(|there| there.shards.first())
        .map_or(&[], |shard| &shard.points);
    let used: BTreeMap<i64, _> = points
        .iter()
        .map(|it| (it.at.unix_ms(), it.rates))
        .collect();
    let measured = on_shard.iter().map(|point| point.at.unix_ms());
    let mut times: Vec<i64> = measured.chain(used.keys().copied()).collect();
    times.sort_unstable();
    times.dedup();
    // Where the shard was measured and the tenant was not seen, it did nothing.
    let votes = |time: &i64| used.get(time).map_or(0.0, |rates| rates.votes_per_second);
    let queries = |time: &i64| used.get(time).map_or(0.0, |rates| rates.queries_per_second);
    let rates = series(
        &["votes", "queries"],
        &times,
        json!([
            times.iter().map(votes).collect::<Vec<_>>(),
            times.iter().map(queries).collect::<Vec<_>>(),
        ]),
    );
    html! {
        h3 { "Votes and queries per second" }
        (load::drawn("tenant-rates", &rates))
        @if let Some(latencies) = latencies(on_shard) {
            h3 { "On its shard, 99 % within, in ms" }
            (load::drawn("tenant-latency", &latencies))
        }
    }
}

/// How long calls take on its shard, where any were made.
fn latencies(points: &[ShardPoint]) -> Option<Value> {
    let line = |of: fn(&ShardPoint) -> Option<f64>| points.iter().map(of).collect::<Vec<_>>();
    let votes = line(|point| point.vote_latency.map(|latency| latency.p99));
    let queries = line(|point| point.query_latency.map(|latency| latency.p99));
    let known = votes.iter().chain(&queries).any(Option::is_some);
    let times: Vec<i64> = points.iter().map(|point| point.at.unix_ms()).collect();
    known.then(|| series(&["votes", "queries"], &times, json!([votes, queries])))
}

fn series(labels: &[&str], times: &[i64], lines: Value) -> Value {
    json!({
        "labels": labels,
        "x": times.iter().map(|ms| ms / 1_000).collect::<Vec<_>>(),
        "y": lines,
    })
}

fn used(told: &UsageBody) -> Markup {
    if told.rows.is_empty() {
        return nothing(
            &format!("Nothing is recorded of the last {DAYS} days."),
            &html! { "Every day on which it votes, asks or stores gets a row." },
        );
    }
    let priced = told.prices.as_object().is_some_and(|prices| {
        let mut prices = prices.values().filter_map(Value::as_f64);
        prices.any(|price| price > 0.0)
    });
    html! {
        div class="scroll" role="region" aria-label="Usage by day" tabindex="0" {
            table {
                thead { tr {
                    th { "Day" } th class="num" { "Votes" } th class="num" { "Queries" }
                    th class="num" { "Stored × hours" } th class="num" { "Moved" }
                    @if priced { th class="num" { "Cost" } }
                } }
                tbody {
                    @for row in told.rows.iter().rev() {
                        tr {
                            td class="nowrap" { (row.day) }
                            td class="num" { (number(whole(row.usage.votes))) }
                            td class="num" { (number(whole(row.usage.queries))) }
                            td class="num" { (bytes(whole(row.usage.byte_hours))) " h" }
                            td class="num" { (bytes(whole(row.usage.bytes_moved))) }
                            @if priced { td class="num" { (format!("{:.4}", row.cost)) } }
                        }
                    }
                }
            }
        }
        p class="small muted" {
            "Days are UTC. "
            @if !priced { "Without prices (" code { "load.price_per_million_votes" } " and the others) nothing costs anything." }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_domain::Timestamp;

    #[test]
    fn a_tenant_that_did_nothing_has_words_and_no_chart() {
        let empty = LoadHistory {
            from: Timestamp::from_unix_ms(0),
            to: Timestamp::from_unix_ms(1),
            step_ms: 1,
            shards: Vec::new(),
            tenants: Vec::new(),
        };
        let shown = drawn(&empty, None).into_string();
        assert!(shown.contains("It did nothing in this time."));
        assert!(!shown.contains("data-series"));
        assert!(strip(None).into_string().contains("nothing right now"));
    }
}
