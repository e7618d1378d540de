//! A SQLite registry with few tenants, compared with one with many: the same query should
//! cost the same in both.

mod fill;
mod questions;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::Context;
use ballast_control_plane::registry::sqlite::SqliteRegistry;
use ballast_domain::{Clock, Timestamp};
use questions::Answer;

use crate::options::Options;
use crate::sample;
use crate::stopwatch::{Samples, Stopwatch, resident_bytes};
use crate::table::{Table, ratio, thousands};

/// The small number of tenants.
const FEW: usize = 10_000;

/// A clock that advances by a millisecond whenever it is read.
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The measurements of one registry.
struct RegistryMeasurements {
    side: Side,
    creates_per_second: f64,
    disk_bytes: u64,
    resident_bytes: u64,
    open: Samples,
}

/// An open registry and how many tenants it has.
struct Side {
    registry: SqliteRegistry,
    tenants: usize,
}

/// Prints the tables.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let temporary = tempfile::tempdir().context("make a directory")?;
    let directory = options.keep.as_deref().unwrap_or(temporary.path());
    let few = measure(FEW.min(options.tenants), directory).await?;
    let many = measure(options.tenants, directory).await?;
    print_sizes(&few, &many);
    let answers = questions::ask([&few.side, &many.side]).await?;
    print_latencies(&few, &many, &answers);
    few.side.registry.close().await;
    many.side.registry.close().await;
    Ok(())
}

/// Fills a registry and measures its queries.
async fn measure(tenants: usize, directory: &Path) -> anyhow::Result<RegistryMeasurements> {
    let path = directory.join(format!("registry-{tenants}.db"));
    let resident_before = resident_bytes();

    let registry = open(&path).await?;
    let watch = Stopwatch::start();
    fill::fill(&registry, tenants).await?;
    let creates_per_second = tenants as f64 / watch.elapsed().as_secs_f64();
    registry.close().await;
    let disk_bytes = std::fs::metadata(&path).context("look at the file")?.len();

    let mut opening = Samples::new();
    for _ in 0..10 {
        let watch = Stopwatch::start();
        let registry = open(&path).await?;
        opening.add(watch.elapsed());
        registry.close().await;
    }
    let registry = open(&path).await?;
    questions::warm_up(&registry, tenants).await?;
    Ok(RegistryMeasurements {
        side: Side { registry, tenants },
        resident_bytes: resident_bytes().saturating_sub(resident_before),
        creates_per_second,
        disk_bytes,
        open: opening,
    })
}

async fn open(path: &Path) -> anyhow::Result<SqliteRegistry> {
    let clock = Arc::new(Ticking(AtomicI64::new(sample::AT.unix_ms())));
    Ok(SqliteRegistry::open(path, clock).await?)
}

fn print_sizes(few: &RegistryMeasurements, many: &RegistryMeasurements) {
    let mut table = Table::new(&["", &heading(few), &heading(many), "ratio"]);
    let mut row = |label: &str, of: &dyn Fn(&RegistryMeasurements) -> f64, unit: &str| {
        let (few, many) = (of(few), of(many));
        let figure = |figure: f64| match figure {
            small if small < 100.0 => format!("{small:.2}{unit}"),
            large => format!("{}{unit}", thousands(large as u64)),
        };
        table.row([
            label.to_owned(),
            figure(few),
            figure(many),
            ratio(many, few),
        ]);
    };
    row(
        "creates per second, one per commit",
        &|one| one.creates_per_second,
        "",
    );
    row(
        "bytes on disk per tenant",
        &|one| one.disk_bytes as f64 / one.side.tenants as f64,
        "",
    );
    row(
        "resident memory grown, all in all",
        &|one| one.resident_bytes as f64 / 1e6,
        " MB",
    );
    row(
        "resident bytes grown per tenant",
        &|one| one.resident_bytes as f64 / one.side.tenants as f64,
        "",
    );
    row("open", &|one| millis(one.open.median()), " ms");
    table.print("registry: size");
}

fn print_latencies(few: &RegistryMeasurements, many: &RegistryMeasurements, answers: &[Answer]) {
    let (few_head, many_head) = (heading(few), heading(many));
    let mut table = Table::new(&["", &few_head, "p99", &many_head, "p99", "ratio of medians"]);
    for (label, [few, many]) in answers {
        let format_latency = |samples: &Samples| {
            [samples.median(), samples.quantile(0.99)]
                .map(|time| format!("{:.1} µs", time.as_secs_f64() * 1e6))
        };
        let [few_median, few_p99] = format_latency(few);
        let [many_median, many_p99] = format_latency(many);
        table.row([
            (*label).to_owned(),
            few_median,
            few_p99,
            many_median,
            many_p99,
            ratio(millis(many.median()), millis(few.median())),
        ]);
    }
    table.print("registry: latency, median and 99th percentile");
}

fn heading(measured: &RegistryMeasurements) -> String {
    format!("{} tenants", thousands(measured.side.tenants as u64))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
