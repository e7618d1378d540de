//! No hot partition: all votes on one item, compared with votes spread over many.

use std::path::{Path, PathBuf};

use super::engine::Engine;
use super::rounds::{Contender, Entry, Figures, measure};
use super::work::Shape;
use super::{ITEMS, Servers, postgres, redis};
use crate::table::{Table, ratio, thousands};

const BATCHES: [usize; 3] = [1, 64, 1_024];
const CALLS: usize = 16;

/// Prints the table.
pub(super) async fn run(directory: &Path, servers: &Servers) -> anyhow::Result<()> {
    let many = format!("{} items /s", thousands(ITEMS));
    let mut table = Table::new(&[
        "",
        "votes per call",
        "one item /s",
        &many,
        "ratio",
        "CPU µs, one item",
        "CPU µs, many",
    ]);
    for batch in BATCHES {
        for (name, [one, spread]) in measure_batch(directory, servers, batch).await? {
            table.row([
                name.to_owned(),
                thousands(batch as u64),
                thousands(one.rate as u64),
                thousands(spread.rate as u64),
                ratio(one.rate, spread.rate),
                format!("{:.2}", one.cpu_us),
                format!("{:.2}", spread.cpu_us),
            ]);
        }
    }
    table.print("All votes on one item, compared with votes spread over many");
    Ok(())
}

/// A contender twice: for one item, and for many.
type Pair = (&'static str, [Box<dyn Contender>; 2]);

/// The figures of all contenders with one item and with many, measured by turns.
async fn measure_batch(
    directory: &Path,
    servers: &Servers,
    batch: usize,
) -> anyhow::Result<Vec<(&'static str, [Figures; 2])>> {
    servers.clear().await?;
    let places = [1, ITEMS].map(|items| directory.join(format!("spread-{items}")));
    let mut pairs = pairs(&places, servers).await?;
    let mut entries = Vec::new();
    for (_, pair) in &mut pairs {
        for (contender, items) in pair.iter_mut().zip([1, ITEMS]) {
            let shape = Shape {
                batch,
                calls: CALLS,
                items,
            };
            entries.push(Entry::fresh(contender.as_mut(), shape));
        }
    }
    let figures = measure(entries).await?;
    let names: Vec<&str> = pairs.iter().map(|(name, _)| *name).collect();
    drop(pairs);
    for place in places {
        std::fs::remove_dir_all(place)?;
    }
    let twos = figures.chunks(2).map(|two| [two[0], two[1]]);
    Ok(names.into_iter().zip(twos).collect())
}

async fn pairs(places: &[PathBuf; 2], servers: &Servers) -> anyhow::Result<Vec<Pair>> {
    let [one, many] = places;
    let engines: [Box<dyn Contender>; 2] = [
        Box::new(Engine::open(one).await?),
        Box::new(Engine::open(many).await?),
    ];
    let mut pairs: Vec<Pair> = vec![("embedded", engines)];
    if let Some(redis) = &servers.redis {
        let way = redis::SendMode::Pipeline;
        let (one, many) = (redis.contender(way, 0)?, redis.contender(way, 1)?);
        pairs.push(("Redis", [Box::new(one), Box::new(many)]));
    }
    if let Some(postgres) = &servers.postgres {
        for (name, way) in [
            ("PostgreSQL, a row per item", postgres::CounterLayout::Plain),
            (
                "PostgreSQL, ten rows per item",
                postgres::CounterLayout::Spread,
            ),
        ] {
            let (one, many) = (postgres.contender(way, 0), postgres.contender(way, 1));
            pairs.push((name, [Box::new(one), Box::new(many)]));
        }
    }
    Ok(pairs)
}
