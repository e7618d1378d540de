//! Renders load, usage and forecasts.

use ballast_domain::Timestamp;
use serde::Deserialize;

use crate::output::Screen;
use crate::table::{Table, count_noun, moment, sanitize};

/// The body of `GET /load`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoadBody {
    at: Option<Timestamp>,
    window_ms: u64,
    shards: Vec<ShardLoad>,
    tenants: Vec<TenantLoad>,
    tenants_total: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rates {
    heat: f64,
    votes_per_second: f64,
    queries_per_second: f64,
    bytes_per_second: f64,
    storage_bytes: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShardLoad {
    #[serde(rename = "shardID")]
    shard_id: String,
    #[serde(flatten)]
    rates: Rates,
    fullest: Option<String>,
    vote_latency: Option<Latency>,
    query_latency: Option<Latency>,
    slices: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TenantLoad {
    #[serde(rename = "tenantID")]
    tenant_id: String,
    #[serde(flatten)]
    rates: Rates,
    latency: Option<Latency>,
    slices: Vec<SliceLoad>,
}

#[derive(Debug, Deserialize)]
struct SliceLoad {
    #[serde(rename = "shardID")]
    shard_id: String,
}

#[derive(Debug, Deserialize)]
struct Latency {
    p99: f64,
}

/// The current load.
pub(crate) fn current_load(screen: &Screen, load: &LoadBody) -> String {
    let Some(at) = load.at else {
        return "No measurements yet; try again in a few seconds.".to_owned();
    };
    let window = load.window_ms / 1_000;
    let head = format!("{} (over {window} s)", moment(screen, at));
    let mut text = format!("{}\n\n{}", screen.dim(&head), shard_loads(screen, load));
    if !load.tenants.is_empty() {
        let shown = load.tenants.len() as u64;
        text.push_str(&format!("\n\n{}", tenant_loads(screen, load)));
        if shown < load.tenants_total {
            let more = format!(
                "{shown} of {} tenants, the hottest first",
                load.tenants_total
            );
            text.push_str(&format!("\n{}", screen.dim(&more)));
        }
    }
    text
}

fn shard_loads(screen: &Screen, load: &LoadBody) -> String {
    let mut shards = Table::new(
        screen,
        &[
            "shard",
            "#heat",
            "fullest",
            "#votes/s",
            "#queries/s",
            "#vote p99",
            "#query p99",
            "#stored",
            "#bytes/s",
            "#slices",
        ],
    );
    for shard in &load.shards {
        let rates = &shard.rates;
        shards.add_row([
            shard.shard_id.clone(),
            format_percent(rates.heat),
            shard.fullest.clone().unwrap_or_default(),
            format_rate(rates.votes_per_second),
            format_rate(rates.queries_per_second),
            format_latency(shard.vote_latency.as_ref()),
            format_latency(shard.query_latency.as_ref()),
            rates.storage_bytes.map_or_else(String::new, format_bytes),
            format_bytes(rates.bytes_per_second),
            shard.slices.to_string(),
        ]);
    }
    shards.render()
}

fn tenant_loads(screen: &Screen, load: &LoadBody) -> String {
    let mut tenants = Table::new(
        screen,
        &[
            "tenant",
            "#heat",
            "on",
            "#votes/s",
            "#queries/s",
            "#p99",
            "#stored",
        ],
    );
    for tenant in &load.tenants {
        let rates = &tenant.rates;
        let on: Vec<_> = tenant
            .slices
            .iter()
            .map(|it| it.shard_id.as_str())
            .collect();
        tenants.add_row([
            tenant.tenant_id.clone(),
            format_percent(rates.heat),
            on.join(" "),
            format_rate(rates.votes_per_second),
            format_rate(rates.queries_per_second),
            format_latency(tenant.latency.as_ref()),
            rates.storage_bytes.map_or_else(String::new, format_bytes),
        ]);
    }
    tenants.render()
}

/// What tenants used.
#[derive(Debug, Deserialize)]
pub(crate) struct UsageBody {
    rows: Vec<UsageRow>,
    more: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageRow {
    day: String,
    #[serde(rename = "tenantID")]
    tenant_id: String,
    votes: f64,
    queries: f64,
    byte_hours: f64,
    bytes_moved: f64,
    cost: f64,
}

/// What tenants used, day by day.
pub(crate) fn usage_table(screen: &Screen, usage: &UsageBody) -> String {
    let columns = [
        "day",
        "tenant",
        "#votes",
        "#queries",
        "#stored (mean)",
        "#moved",
        "#cost",
    ];
    let mut table = Table::new(screen, &columns);
    for row in &usage.rows {
        table.add_row([
            row.day.clone(),
            row.tenant_id.clone(),
            format!("{:.0}", row.votes),
            format!("{:.0}", row.queries),
            format_bytes(row.byte_hours / 24.0),
            format_bytes(row.bytes_moved),
            format!("{:.4}", row.cost),
        ]);
    }
    let mut text = table.render();
    if usage.more {
        text.push_str(&format!(
            "\n{}",
            screen.dim("… more rows: choose fewer days")
        ));
    }
    text
}

/// The forecast of shard utilisation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForecastBody {
    days: u32,
    outlooks: Vec<ShardOutlook>,
    #[serde(default)]
    needed: Vec<ShardsNeeded>,
    unknown: Vec<MissingForecast>,
    too_little: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShardsNeeded {
    #[serde(rename = "regionID")]
    region_id: String,
    dimension: String,
    have: usize,
    expected: usize,
    at_most: usize,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShardOutlook {
    #[serde(rename = "shardID")]
    shard_id: String,
    dimension: String,
    share: f64,
    full_in: Option<DayRange>,
}

#[derive(Debug, Deserialize)]
struct DayRange {
    earliest: f64,
    expected: Option<f64>,
    latest: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MissingForecast {
    #[serde(rename = "shardID")]
    shard_id: String,
    dimension: String,
    because: String,
}

/// When shards will exceed their limits.
pub(crate) fn forecast_table(screen: &Screen, forecast: &ForecastBody) -> String {
    if let Some(too_little) = &forecast.too_little {
        let next = "It is recorded while Ballast runs: look again then, or see what is used now \
                    (ballast load show).";
        return format!("{}\n{}", sanitize(too_little), screen.dim(next));
    }
    let mut table = Table::new(screen, &["shard", "resource", "#now", "over its limit in"]);
    let horizon = format!("more than {}", count_noun(forecast.days.into(), "day"));
    for outlook in &forecast.outlooks {
        let when = match &outlook.full_in {
            None => horizon.clone(),
            Some(full) => {
                let expected = full.expected.map_or(horizon.clone(), format_days);
                let latest = full
                    .latest
                    .map_or(format!("more than {}", forecast.days), |days| {
                        format!("{days:.0}")
                    });
                format!("{expected} ({:.0} to {latest})", full.earliest)
            }
        };
        let now = format_percent(outlook.share);
        table.add_row([
            outlook.shard_id.clone(),
            outlook.dimension.clone(),
            now,
            when,
        ]);
    }
    for it in &forecast.unknown {
        let because = it.because.clone();
        table.add_dimmed_row([
            it.shard_id.clone(),
            it.dimension.clone(),
            String::new(),
            because,
        ]);
    }
    let mut text = table.render();
    for needed in &forecast.needed {
        let line = format!(
            "{} has {} and needs {} in {}, at most {} ({})",
            needed.region_id,
            count_noun(needed.have as u64, "shard"),
            needed.expected,
            count_noun(forecast.days.into(), "day"),
            needed.at_most,
            needed.dimension
        );
        text.push_str(&format!("\n{}", sanitize(&line)));
    }
    text
}

/// `1 day`, `12 days`.
fn format_days(days: f64) -> String {
    count_noun(days.round().max(0.0) as u64, "day")
}

fn format_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn format_rate(rate: f64) -> String {
    match rate {
        rate if rate <= 0.0 => "0".to_owned(),
        rate if rate < 10.0 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    }
}

fn format_latency(latency: Option<&Latency>) -> String {
    latency.map_or_else(String::new, |latency| match latency.p99 {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 10_000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.0} s", ms / 1_000.0),
    })
}

/// `1.2 GiB`.
pub(crate) fn format_bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = bytes;
    let mut unit = 0;
    while amount >= 1_024.0 && unit + 1 < units.len() {
        amount /= 1_024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{amount:.0} B"),
        _ => format!("{amount:.1} {}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_told_in_few_characters() {
        assert_eq!(format_bytes(512.0), "512 B");
        assert_eq!(format_bytes(1_536.0), "1.5 KiB");
        assert_eq!(format_bytes(3.0 * (1_u64 << 30) as f64), "3.0 GiB");
        assert_eq!(
            (format_rate(0.0), format_rate(1.25), format_rate(1234.4)),
            ("0".into(), "1.2".into(), "1234".into())
        );
        assert_eq!(format_percent(0.874), "87 %");
    }
}
