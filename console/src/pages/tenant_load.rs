//! A tenant's load now and over the last hours, and its usage and cost by day.
//! Both are read from the load record, which takes time, so the page loads them
//! after it is shown.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::load::current::{LoadFilter, TenantLoadBody};
use ballast_control_plane::load::history::{self, LoadHistoryBody, ShardPoint, TimeRange};
use ballast_control_plane::load::usage::{self, UsageBody};
use ballast_control_plane::tenants;
use ballast_domain::tenant::Tenant;
use ballast_domain::{Result, TenantId};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{links, load};
use crate::console::Console;
use crate::fields::Fields;
use crate::page::error::ErrorPage;
use crate::page::format::{bytes, nothing, number, whole};
use crate::page::layout::Page;
use crate::page::part::PartOnly;
use crate::session::Visitor;

/// Days of usage shown.
const DAYS: i64 = 30;
/// The selectable time spans, in minutes.
const SPANS: [(&str, i64); 4] = [
    ("15 minutes", 15),
    ("hour", 60),
    ("6 hours", 360),
    ("day", 1_440),
];

/// The tenant's current and recent load.
pub(super) async fn charts(
    State(console): State<Console>,
    visitor: Visitor,
    alone: PartOnly,
    Path(id): Path<String>,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let plane = &console.plane;
    let tenant = tenants::get(plane, &links::parse_path_id(&id)?)
        .await?
        .value;
    let part = match plane.load_monitor() {
        None => not_measured(),
        Some(load) => {
            let stretch = load::time_range(&console, &params)?;
            let now = load
                .current_load(&tenant_filter(&tenant.tenant_id))
                .tenants
                .into_iter()
                .next();
            let own = history::show(plane, stretch, None, tenant_filter(&tenant.tenant_id)).await?;
            let there = match shard_filter(&tenant) {
                Some(filter) => {
                    Some(history::show(plane, stretch, Some(own.step_ms), filter).await?)
                }
                None => None,
            };
            let minutes = params.optional("minutes")?.unwrap_or(60);
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

/// The tenant's usage by day.
pub(super) async fn days(
    State(console): State<Console>,
    visitor: Visitor,
    alone: PartOnly,
    Path(id): Path<String>,
) -> Result<Response, ErrorPage> {
    let plane = &console.plane;
    let id: TenantId = links::parse_path_id(&id)?;
    tenants::get(plane, &id).await?;
    let part = match plane.load_monitor() {
        None => not_measured(),
        Some(_) => {
            let from = plane.now().plus_seconds(-DAYS * 86_400);
            let stretch = TimeRange::new(plane, Some(from), None)?;
            usage_table(&usage::show(plane, stretch, Some(id.clone())).await?)
        }
    };
    let title = format!("Usage of {id}");
    let page = Page::new(&console, &visitor, &title);
    Ok(alone.show(page, &crumb(&id), &part))
}

fn crumb(id: &TenantId) -> Markup {
    html! { a href="/console/tenants" { "Tenants" } " / " (links::tenant(id)) }
}

fn not_measured() -> Markup {
    nothing(
        "Load is not measured.",
        &html! { "Set " code { "load.measure" } " in the configuration, and restart." },
    )
}

fn tenant_filter(tenant: &TenantId) -> LoadFilter {
    LoadFilter {
        tenant: Some(tenant.clone()),
        ..LoadFilter::default()
    }
}

/// The first shard that the tenant is on: its samples say when anything was
/// measured, and how long calls took there.
fn shard_filter(tenant: &Tenant) -> Option<LoadFilter> {
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
        return html! { p class="muted" { "No load right now." } };
    };
    let rates = &now.rates;
    html! {
        dl class="strip" {
            div { dt { "Votes per second" } dd { (number(whole(rates.votes_per_second))) } }
            div { dt { "Queries per second" } dd { (number(whole(rates.queries_per_second))) } }
            div { dt { "Share of its shard" } dd { (whole(rates.heat * 100.0)) " %" } }
            div { dt { "Storage" } dd { @match rates.storage_bytes {
                Some(stored) => { (bytes(whole(stored))) } None => { "—" }
            } } }
            div { dt { "Latency" } dd { @match &now.latency {
                Some(latency) => {
                    (ms(latency.p50)) " " small { "p50" } " · "
                    (ms(latency.p99)) " " small { "p99" }
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

fn drawn(own: &LoadHistoryBody, there: Option<&LoadHistoryBody>) -> Markup {
    let Some(points) = own.tenants.first().map(|series| &series.points) else {
        return nothing(
            "No load in this time.",
            &html! { "Votes and queries are shown here as they arrive." },
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
    // A time at which the shard was measured without this tenant counts as zero load.
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
        (load::chart_or_empty("tenant-rates", &rates))
        @if let Some(latencies) = latencies(on_shard) {
            h3 { "Latency on its shard, p99 (ms)" }
            (load::chart_or_empty("tenant-latency", &latencies))
        }
    }
}

/// The latencies on its shard, if any calls were made.
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

fn usage_table(body: &UsageBody) -> Markup {
    if body.rows.is_empty() {
        return nothing(
            &format!("No usage is recorded for the last {DAYS} days."),
            &html! { "Each day with votes, queries or stored data gets a row." },
        );
    }
    let priced = body.prices.as_object().is_some_and(|prices| {
        let mut prices = prices.values().filter_map(Value::as_f64);
        prices.any(|price| price > 0.0)
    });
    html! {
        div class="scroll" role="region" aria-label="Usage by day" tabindex="0" {
            table {
                thead { tr {
                    th { "Day" } th class="num" { "Votes" } th class="num" { "Queries" }
                    th class="num" { "Storage × hours" } th class="num" { "Migrated" }
                    @if priced { th class="num" { "Cost" } }
                } }
                tbody {
                    @for row in body.rows.iter().rev() {
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
            "Days are in UTC. "
            @if !priced { "Set " code { "load.price_per_million_votes" } " and the other prices to see costs." }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_domain::Timestamp;

    #[test]
    fn a_tenant_without_load_gets_a_note_and_no_chart() {
        let empty = LoadHistoryBody {
            from: Timestamp::from_unix_ms(0),
            to: Timestamp::from_unix_ms(1),
            step_ms: 1,
            shards: Vec::new(),
            tenants: Vec::new(),
        };
        let shown = drawn(&empty, None).into_string();
        assert!(shown.contains("No load in this time."));
        assert!(!shown.contains("data-series"));
        assert!(strip(None).into_string().contains("No load right now"));
    }
}
