//! Load over time: charts, and a heat map with one row per shard.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use ballast_control_plane::load::current::LoadFilter;
use ballast_control_plane::load::history::{self, LoadHistoryBody, ShardPoint, TimeRange};
use ballast_domain::{Result, Timestamp};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::console::Console;
use crate::fields::Fields;
use crate::live::{PeriodicSource, ViewerAccess, stream_updates};
use crate::page::error::ErrorPage;
use crate::page::format::{counted, nothing};
use crate::page::layout::Page;
use crate::session::Visitor;

/// Shards per chart, hottest first.
const LINES: usize = 8;
/// Rows of the heat map.
const ROWS: usize = 60;
/// The selectable time spans: name and length in minutes.
const SPANS: [(&str, i64); 5] = [
    ("15 minutes", 15),
    ("hour", 60),
    ("6 hours", 360),
    ("day", 1_440),
    ("week", 10_080),
];
/// Width of a column and height of a row of the heat map, in SVG units.
const COLUMN: usize = 10;
const ROW: usize = 16;
/// Height of a row on the page, equal to its label's height.
const ROW_PIXELS: usize = 20;

/// The time range that a request asks for.
pub(super) fn time_range(console: &Console, params: &Fields) -> Result<TimeRange> {
    let minutes: i64 = params.optional("minutes")?.unwrap_or(60);
    let to: Option<Timestamp> = params.optional("to")?;
    let end = to.unwrap_or_else(|| console.plane.now());
    let from = params.optional("from")?;
    let begin = end.unix_ms().saturating_sub(minutes.saturating_mul(60_000));
    let from = from.unwrap_or(Timestamp::from_unix_ms(begin));
    TimeRange::new(&console.plane, Some(from), to)
}

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let past = load_history(&console, &params).await?;
    let minutes: i64 = params.optional("minutes")?.unwrap_or(60);
    let main = html! {
        div class="head" {
            h1 { "Load" }
            div class="grow" {}
            nav class="row" aria-label="Span" {
                @for (name, length) in SPANS {
                    a class="button" href=(format!("/console/load?minutes={length}"))
                        aria-current=[(length == minutes).then_some("true")] { "last " (name) }
                }
                a class="button" href="/console/replay" { "Replay" }
            }
        }
        section class="card" aria-labelledby="heat" {
            h2 id="heat" { "Heat by shard" }
            div id="load-heat" { (heat_map(&past)) }
        }
        br;
        div class="grid" id="load-charts" { (charts(&past)) }
    };
    let page = Page::new(&console, &visitor, "Load").with_charts();
    // A range in the past does not change.
    let page = match params.filled("to") {
        Some(_) => page,
        None => page.live(format!(
            "/console/live/load?{}",
            params.query_with("to", None)
        )),
    };
    Ok(page.show(&main))
}

/// Live updates: the longer the range, the less often it is redrawn.
pub(super) async fn live(
    State(console): State<Console>,
    visitor: Visitor,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let minutes: u64 = params.optional("minutes")?.unwrap_or(60);
    let every = Duration::from_secs((minutes / 6).clamp(5, 300));
    let params = Arc::new((console.clone(), params));
    let source = PeriodicSource::new(every, move || {
        let params = params.clone();
        async move {
            let past = load_history(&params.0, &params.1).await.ok()?;
            Some(vec![
                ("load-heat", heat_map(&past)),
                ("load-charts", charts(&past)),
            ])
        }
    });
    stream_updates(&console, ViewerAccess::Session(visitor.session), source)
}

async fn load_history(console: &Console, params: &Fields) -> Result<LoadHistoryBody> {
    let filter = LoadFilter {
        shard: None,
        tenant: None,
        tenants_max: Some(1),
    };
    let stretch = time_range(console, params)?;
    history::show(&console.plane, stretch, None, filter).await
}

fn charts(past: &LoadHistoryBody) -> Markup {
    let plot = |id: &str, title: &str, of: fn(&ShardPoint) -> Option<f64>| {
        html! {
            section class="card w6" aria-labelledby=(id) {
                h2 id=(id) { (title) }
                (chart(past, &format!("{id}-chart"), of))
            }
        }
    };
    html! {
        (plot("votes", "Votes per second", |point| Some(point.rates.votes_per_second)))
        (plot("queries", "Queries per second", |point| Some(point.rates.queries_per_second)))
        (plot("vote-p99", "Vote latency, p99 (ms)", |point| point.vote_latency.map(|latency| latency.p99)))
        (plot("vote-p50", "Vote latency, p50 (ms)", |point| point.vote_latency.map(|latency| latency.p50)))
        (plot("query-p99", "Query latency, p99 (ms)", |point| point.query_latency.map(|latency| latency.p99)))
        (plot("storage", "Storage (MiB)", |point| point.rates.storage_bytes.map(|bytes| bytes / 1_048_576.0)))
        section class="card w6" aria-labelledby="skew" {
            h2 id="skew" { "Skew: busiest shard relative to the average" }
            (chart_or_empty("skew-chart", &skew(past)))
        }
        (plot("errors", "Errors per second", |point| Some(point.rates.errors_per_second)))
    }
}

/// A chart of one metric, with a line for each of the hottest shards.
pub(super) fn chart(
    past: &LoadHistoryBody,
    id: &str,
    of: impl Fn(&ShardPoint) -> Option<f64>,
) -> Markup {
    let mut shards: Vec<_> = past.shards.iter().collect();
    let hottest = |points: &[ShardPoint]| {
        points
            .iter()
            .map(|point| point.rates.heat)
            .fold(0.0, f64::max)
    };
    shards.sort_by(|one, two| hottest(&two.points).total_cmp(&hottest(&one.points)));
    shards.truncate(LINES);
    shards.sort_by(|one, two| one.shard_id.cmp(&two.shard_id));
    let times = times(past);
    let line = |points: &[ShardPoint]| -> Vec<Option<f64>> {
        let at = |time: &i64| points.iter().find(|point| point.at.unix_ms() == *time);
        times.iter().map(|time| at(time).and_then(&of)).collect()
    };
    let data = json!({
        "labels": shards.iter().map(|shard| shard.shard_id.as_str()).collect::<Vec<_>>(),
        "x": times.iter().map(|ms| ms / 1_000).collect::<Vec<_>>(),
        "y": shards.iter().map(|shard| line(&shard.points)).collect::<Vec<_>>(),
    });
    chart_or_empty(id, &data)
}

/// A chart, or a note that there is no data.
pub(super) fn chart_or_empty(id: &str, data: &Value) -> Markup {
    let empty = data["x"].as_array().is_none_or(Vec::is_empty);
    html! {
        @if empty { (nothing("No data recorded yet.", &html! {})) }
        @else {
            div class="chart" id=(id) data-series=(data.to_string()) {
                noscript { p class="small muted" { "Charts need JavaScript. " (newest(data)) } }
            }
        }
    }
}

/// The newest value of each line, for browsers without scripts.
fn newest(data: &Value) -> String {
    let labels = data["labels"].as_array().into_iter().flatten();
    let lines = data["y"].as_array().into_iter().flatten();
    let values = labels.zip(lines).filter_map(|(label, line)| {
        let last = line.as_array()?.iter().rev().find_map(Value::as_f64)?;
        Some(format!("{} {last:.1}", label.as_str()?))
    });
    format!("Newest: {}.", values.collect::<Vec<_>>().join(", "))
}

/// Every timestamp at which any shard has a point.
fn times(past: &LoadHistoryBody) -> Vec<i64> {
    let points = past.shards.iter().flat_map(|shard| &shard.points);
    let mut times: Vec<i64> = points.map(|point| point.at.unix_ms()).collect();
    times.sort_unstable();
    times.dedup();
    times
}

/// The busiest shard's votes per second relative to the average.
fn skew(past: &LoadHistoryBody) -> Value {
    let times = times(past);
    let at = |time: i64| {
        let rates = past.shards.iter().filter_map(|shard| {
            let point = shard
                .points
                .iter()
                .find(|point| point.at.unix_ms() == time)?;
            Some(point.rates.votes_per_second)
        });
        let rates: Vec<f64> = rates.collect();
        let sum: f64 = rates.iter().sum();
        let most = rates.iter().copied().fold(0.0, f64::max);
        let average = sum / crate::page::format::to_f64(rates.len().max(1) as u64);
        (average > 0.0).then_some(most / average)
    };
    let line: Vec<Option<f64>> = times.iter().map(|time| at(*time)).collect();
    json!({
        "labels": ["times the average"],
        "x": times.iter().map(|ms| ms / 1_000).collect::<Vec<_>>(),
        "y": [line],
    })
}

/// The heat map: a row per shard, a column per timestamp, coloured by heat.
pub(super) fn heat_map(past: &LoadHistoryBody) -> Markup {
    let times = times(past);
    if times.is_empty() {
        return nothing(
            "No load is recorded for this time.",
            &html! { "Load is recorded while Ballast runs." },
        );
    }
    let rows: Vec<_> = past.shards.iter().take(ROWS).collect();
    let (width, height) = (times.len() * COLUMN, rows.len() * ROW);
    html! {
        div class="heatmap" {
            ul class="labels" aria-hidden="true" { @for shard in &rows { li { (shard.shard_id) } } }
            svg viewBox=(format!("0 0 {width} {height}")) height=(rows.len() * ROW_PIXELS)
                preserveAspectRatio="none" role="img" aria-label="Heat of every shard over time" {
                @for (row, shard) in rows.iter().enumerate() {
                    @for point in &shard.points {
                        @if let Ok(column) = times.binary_search(&point.at.unix_ms()) {
                            rect class=(format!("h{}", heat_step(point.rates.heat))) x=(column * COLUMN) y=(row * ROW + 1)
                                width=(COLUMN) height=(ROW - 2)
                                data-tip=(format!("{} at {}: {:.0} % of capacity, {:.0} votes/s",
                                    shard.shard_id, point.at, point.rates.heat * 100.0, point.rates.votes_per_second)) {}
                        }
                    }
                }
            }
        }
        div class="axis" aria-hidden="true" {
            @for place in [0, times.len() / 2, times.len() - 1] {
                @if let Some(ms) = times.get(place) { span { (clock(*ms)) } }
            }
        }
        div class="key" {
            span { "0 % of capacity" }
            svg viewBox="0 0 168 10" aria-hidden="true" {
                @for step in 0..8 { rect class=(format!("h{step}")) x=(step * 21) width="21" height="10" {} }
            }
            span { "90 % or more" }
        }
        @if past.shards.len() > ROWS { p class="small muted" { "and " (counted((past.shards.len() - ROWS) as u64, "more shard")) } }
    }
}

/// `11-17 15:04 UTC`.
pub(super) fn clock(ms: i64) -> String {
    let text = Timestamp::from_unix_ms(ms).to_string();
    match (text.get(5..10), text.get(11..16)) {
        (Some(day), Some(time)) => format!("{day} {time} UTC"),
        _ => text,
    }
}

/// The colour step of a heat value; 1 is the whole capacity.
pub(super) fn heat_step(heat: f64) -> u8 {
    match heat {
        0.9.. => 7,
        0.8.. => 6,
        0.65.. => 5,
        0.5.. => 4,
        0.3.. => 3,
        0.1.. => 2,
        0.005.. => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_scripts_the_newest_values_are_shown() {
        let data = json!({ "labels": ["a", "b"], "x": [1, 2], "y": [[1.0, 2.5], [3.0, null]] });
        let shown = chart_or_empty("it", &data).into_string();
        assert!(shown.contains("<noscript>") && shown.contains("Newest: a 2.5, b 3.0."));
    }

    #[test]
    fn times_name_their_zone() {
        assert_eq!(clock(0), "01-01 00:00 UTC");
    }
}
