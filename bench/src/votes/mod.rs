//! Durable votes, each counted once: the embedded engine beside the bare log
//! (the same bytes appended and synced, nothing else).

mod bare;
mod engine;

use std::path::Path;

use crate::options::Options;
use crate::stopwatch::Stopwatch;
use crate::table::{Table, ratio, thousands};

/// Votes per call, and calls at the same time.
const SHAPES: [(usize, usize); 4] = [(1, 16), (64, 16), (1_024, 4), (8_192, 4)];
/// Rounds of each contender; the middle one counts.
const ROUNDS: usize = 5;

/// Prints the tables.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    let directory = options.keep.as_deref().unwrap_or(place.path());
    shapes(directory).await?;
    Ok(())
}

async fn shapes(directory: &Path) -> anyhow::Result<()> {
    let mut table = Table::new(&[
        "votes per call",
        "calls at once",
        "embedded /s",
        "bare log /s",
        "share",
    ]);
    for (batch, calls) in SHAPES {
        let contender = engine::Contender::open(&directory.join(format!("engine-{batch}"))).await?;
        let mut bare = bare::Log::open(&directory.join(format!("bare-{batch}")))?;
        let votes = (batch * calls * 50).clamp(5_000, 1_000_000);
        let (mut ours, mut floor) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let ballots = contender.ballots(round, votes, batch, 1_000);
            let watch = Stopwatch::start();
            contender.cast(ballots, calls).await?;
            ours.push(votes as f64 / watch.elapsed().as_secs_f64());
            let watch = Stopwatch::start();
            bare.append(votes / batch, batch * engine::VOTE_BYTES)?;
            floor.push(votes as f64 / watch.elapsed().as_secs_f64());
        }
        let (ours, floor) = (median(ours), median(floor));
        table.row([
            thousands(batch as u64),
            calls.to_string(),
            thousands(ours as u64),
            thousands(floor as u64),
            ratio(ours, floor),
        ]);
    }
    table.print("Durable votes per second, each counted once");
    Ok(())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
