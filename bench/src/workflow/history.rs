//! What a step costs after a long history.

use std::path::Path;
use std::time::Duration;

use super::world::World;
use crate::stopwatch::Samples;
use crate::table::{Table, ratio, thousands};

/// The length of the history, in events, when a step is measured.
const LENGTHS: [u64; 3] = [10, 1_000, 10_000];
/// Steps around each length that are measured in one execution.
const STEPS: u64 = 100;
/// Executions of each kind, by turns.
const ROUNDS: usize = 5;

/// Prints the table.
pub(super) async fn run(directory: &Path) -> anyhow::Result<()> {
    let short = 3;
    // One long execution per round, and enough short ones for as many samples.
    let shorts = STEPS as usize / 2;
    let world = World::open(&directory.join("history.db"), ROUNDS * (shorts + 1)).await?;
    let mut samples = LENGTHS.map(|_| Samples::new());
    let mut next = 0;
    for _ in 0..ROUNDS {
        for _ in 0..shorts {
            world.run(next, 1, short).await?;
            add(&mut samples[0], &world.step_times(next), 0, short);
            next += 1;
        }
        let last = LENGTHS[2] / EVENTS_PER_STEP + STEPS;
        world.run(next, 1, last).await?;
        let laps = world.step_times(next);
        for (length, samples) in LENGTHS.into_iter().zip(&mut samples).skip(1) {
            let from = length / EVENTS_PER_STEP - STEPS / 2;
            add(samples, &laps, from, from + STEPS);
        }
        next += 1;
    }
    world.close().await;
    print(&samples);
    Ok(())
}

/// The events that a step of the loop adds to the history: a task entered, scheduled,
/// started, succeeded and exited, a Choice entered and exited.
const EVENTS_PER_STEP: u64 = 7;

fn add(samples: &mut Samples, laps: &[Duration], from: u64, to: u64) {
    let (from, to) = (from as usize, (to as usize).min(laps.len()));
    for lap in laps.get(from..to).unwrap_or_default() {
        samples.add(*lap);
    }
}

fn print(samples: &[Samples]) {
    let mut table = Table::new(&["events before", "step, median", "p99", "ratio"]);
    let first = samples
        .first()
        .map_or(f64::NAN, |first| first.median().as_secs_f64());
    for (length, samples) in LENGTHS.into_iter().zip(samples) {
        let micros = |time: Duration| format!("{:.0} µs", time.as_secs_f64() * 1e6);
        table.row([
            thousands(length),
            micros(samples.median()),
            micros(samples.quantile(0.99)),
            ratio(samples.median().as_secs_f64(), first),
        ]);
    }
    table.print("workflow: a step of one execution, by the length of its history");
}
