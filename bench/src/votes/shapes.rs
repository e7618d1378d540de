//! The embedded engine, compared with the bare log, Redis and PostgreSQL.

use std::path::Path;

use super::engine::Engine;
use super::rounds::{Contender, Entry, Figures, measure};
use super::work::Shape;
use super::{ITEMS, Servers, bare, postgres, redis};
use crate::table::{Table, ratio, thousands};

const BATCHES: [usize; 4] = [1, 64, 1_024, 8_192];
const CALLS: usize = 16;

/// The measurements of one shape. A missing server has no figures; others have the
/// figures of each way to use them.
struct ShapeMeasurements {
    engine: Figures,
    bare: Figures,
    redis: Vec<Figures>,
    postgres: Vec<Figures>,
}

/// The faster of two ways.
fn best(ways: &[Figures]) -> Option<f64> {
    ways.iter().map(|way| way.rate).reduce(f64::max)
}

fn cell(figure: Option<f64>, write: impl FnOnce(f64) -> String) -> String {
    figure.map_or_else(|| "—".to_owned(), write)
}

/// Prints the tables.
pub(super) async fn run(directory: &Path, servers: &Servers) -> anyhow::Result<()> {
    let mut measured = Vec::new();
    for batch in BATCHES {
        measured.push((batch, measure_batch(directory, servers, batch).await?));
    }
    rates(&measured).print("Durable votes per second, each counted once");
    ways(&measured).print("Redis and PostgreSQL, each way to ask them: votes per second");
    cpu(&measured).print("Processor time per vote, µs");
    Ok(())
}

async fn measure_batch(
    directory: &Path,
    servers: &Servers,
    batch: usize,
) -> anyhow::Result<ShapeMeasurements> {
    let shape = Shape {
        batch,
        calls: CALLS,
        items: ITEMS,
    };
    servers.clear().await?;
    let place = directory.join(format!("engine-{batch}"));
    let mut engine = Engine::open(&place).await?;
    let mut bare = bare::Log::open(&directory.join("bare"))?;
    let mut redis = Vec::new();
    for way in [redis::SendMode::Pipeline, redis::SendMode::Script] {
        if let Some(server) = &servers.redis {
            redis.push(server.contender(way, 0)?);
        }
    }
    let mut postgres = Vec::new();
    for way in [
        postgres::CounterLayout::Plain,
        postgres::CounterLayout::Spread,
    ] {
        if let Some(server) = &servers.postgres {
            postgres.push(server.contender(way, 0));
        }
    }
    let mut contenders: Vec<&mut dyn Contender> = vec![&mut engine, &mut bare];
    contenders.extend(redis.iter_mut().map(|one| one as &mut dyn Contender));
    contenders.extend(postgres.iter_mut().map(|one| one as &mut dyn Contender));
    let entries = contenders.into_iter().map(|one| Entry::fresh(one, shape));
    let mut figures = measure(entries.collect()).await?.into_iter();
    let measured = ShapeMeasurements {
        engine: figures.next().unwrap_or(Figures::NONE),
        bare: figures.next().unwrap_or(Figures::NONE),
        redis: figures.by_ref().take(redis.len()).collect(),
        postgres: figures.collect(),
    };
    drop(engine);
    std::fs::remove_dir_all(place)?;
    Ok(measured)
}

fn rates(measured: &[(usize, ShapeMeasurements)]) -> Table {
    let mut table = Table::new(&[
        "votes per call",
        "calls at once",
        "embedded /s",
        "bare log /s",
        "share",
        "Redis /s",
        "ratio",
        "PostgreSQL /s",
        "ratio",
    ]);
    for (batch, one) in measured {
        let (ours, bare) = (one.engine.rate, one.bare.rate);
        let (redis, postgres) = (best(&one.redis), best(&one.postgres));
        table.row([
            thousands(*batch as u64),
            CALLS.to_string(),
            thousands(ours as u64),
            thousands(bare as u64),
            ratio(ours, bare),
            cell(redis, |rate| thousands(rate as u64)),
            cell(redis, |rate| ratio(ours, rate)),
            cell(postgres, |rate| thousands(rate as u64)),
            cell(postgres, |rate| ratio(ours, rate)),
        ]);
    }
    table
}

fn ways(measured: &[(usize, ShapeMeasurements)]) -> Table {
    let mut table = Table::new(&[
        "votes per call",
        "Redis, a script per vote",
        "a script per call",
        "PostgreSQL, a row per item",
        "ten rows per item",
    ]);
    for (batch, one) in measured {
        let mut cells = vec![thousands(*batch as u64)];
        for ways in [&one.redis, &one.postgres] {
            for place in 0..2 {
                let rate = ways.get(place).map(|way| way.rate);
                cells.push(cell(rate, |rate| thousands(rate as u64)));
            }
        }
        table.row(cells);
    }
    table
}

fn cpu(measured: &[(usize, ShapeMeasurements)]) -> Table {
    let mut table = Table::new(&[
        "votes per call",
        "embedded, with its callers",
        "Redis, the server alone",
        "PostgreSQL, the server alone",
    ]);
    let least = |ways: &[Figures]| ways.iter().map(|way| way.cpu_us).reduce(f64::min);
    for (batch, one) in measured {
        let write = |us: f64| format!("{us:.2}");
        table.row([
            thousands(*batch as u64),
            write(one.engine.cpu_us),
            cell(least(&one.redis), write),
            cell(least(&one.postgres), write),
        ]);
    }
    table
}
