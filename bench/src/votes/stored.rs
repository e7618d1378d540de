//! What a vote costs when many votes are stored already, and what a restart, a voter in
//! memory and a vote on disk cost.
//!
//! The shards are open at the same time and cast by turns. Each restart happens in a
//! process of its own, after the shard was closed; its files are still in the page cache.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::engine::{self, Engine};
use super::rounds::{Contender as _, Entry, measure, median};
use super::work::{Shape, Work};
use crate::options::Options;
use crate::stopwatch::{Stopwatch, resident_bytes};
use crate::table::{Table, ratio, thousands};

const SHAPE: Shape = Shape {
    batch: 1_024,
    calls: 16,
    items: super::ITEMS,
};
/// Votes prepared at once while a shard is filled.
const FILL: u64 = 1_000 * 1_024;
/// Votes of a round: few compared with the stored ones.
const ROUND: usize = 100 * 1_024;
const RESTARTS: usize = 3;

/// The cost of a restart.
struct Restart {
    seconds: f64,
    resident: u64,
    voters: u64,
}

/// Prints the tables.
pub(super) async fn run(directory: &Path, options: &Options) -> anyhow::Result<()> {
    let mut engines = Vec::new();
    let mut filled = Vec::new();
    for size in &options.stored {
        let place = directory.join(format!("stored-{size}"));
        let mut engine = Engine::open(&place).await?;
        filled.push(fill(&mut engine, *size).await?);
        engine.settle().await?;
        engines.push(engine);
    }
    let entries = engines.iter_mut().zip(&options.stored);
    let entries = entries.map(|(engine, size)| Entry {
        contender: engine,
        shape: SHAPE,
        stored: *size,
        most: ROUND,
    });
    let figures = measure(entries.collect()).await?;
    drop(engines);

    let mut table = Table::new(&[
        "votes stored",
        "votes /s",
        "ratio",
        "CPU µs per vote",
        "while filling /s",
        "restart",
        "resident bytes per voter",
        "disk bytes per vote",
    ]);
    let first = figures.first().map_or(f64::NAN, |first| first.rate);
    for ((size, figures), filled) in options.stored.iter().zip(&figures).zip(filled) {
        let place = directory.join(format!("stored-{size}"));
        let bytes = disk_bytes(&place)?;
        let restarts = (0..RESTARTS).map(|_| restart(&place));
        let restarts: Vec<Restart> = restarts.collect::<Result<_, _>>()?;
        let voters = restarts.last().map_or(1, |last| last.voters.max(1));
        let seconds = median(restarts.iter().map(|one| one.seconds).collect());
        let resident = median(restarts.iter().map(|one| one.resident as f64).collect());
        table.row([
            thousands(*size),
            thousands(figures.rate as u64),
            ratio(figures.rate, first),
            format!("{:.2}", figures.cpu_us),
            thousands(filled as u64),
            format!("{seconds:.2} s"),
            format!("{:.1}", resident / voters as f64),
            format!("{:.1}", bytes as f64 / voters as f64),
        ]);
        if options.keep.is_none() {
            std::fs::remove_dir_all(place)?;
        }
    }
    table.print("Votes stored already, batches of 1,024");
    Ok(())
}

/// Casts this many votes, and returns how many per second.
async fn fill(engine: &mut Engine, size: u64) -> anyhow::Result<f64> {
    let (mut first, mut seconds) = (0, 0.0);
    while first < size {
        let votes = FILL.min(size - first);
        let work = Work {
            shape: SHAPE,
            first,
            votes: votes as usize,
        };
        seconds += engine.cast(&work).await?.wall.as_secs_f64();
        first += votes;
    }
    Ok(size as f64 / seconds)
}

fn disk_bytes(directory: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(directory)? {
        sum += entry?.metadata()?.len();
    }
    Ok(sum)
}

/// Opens the shard in a process of its own.
fn restart(directory: &Path) -> anyhow::Result<Restart> {
    let mut again = Command::new(std::env::current_exe()?);
    again.args(["--inner", "reopen"]).arg(directory);
    let output = again
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "the shard could not be reopened");
    let told = String::from_utf8(output.stdout)?;
    let mut words = told.split_whitespace();
    let mut next = || words.next().context("the restart printed too few figures");
    Ok(Restart {
        seconds: next()?.parse()?,
        resident: next()?.parse()?,
        voters: next()?.parse()?,
    })
}

/// The process that opens a shard. Prints how long that took in seconds, by how much the
/// resident memory grew, and the number of voters in memory.
pub(crate) async fn reopen(directory: &Path) -> anyhow::Result<()> {
    let before = resident_bytes();
    let watch = Stopwatch::start();
    let (shard, voters) = engine::reopen(directory).await?;
    let seconds = watch.elapsed().as_secs_f64();
    let grown = resident_bytes().saturating_sub(before);
    println!("{seconds} {grown} {voters}");
    drop(shard);
    Ok(())
}
