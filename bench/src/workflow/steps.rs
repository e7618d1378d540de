//! Durable steps per second, and time per step, for one execution and for many concurrent
//! ones.

use std::path::Path;
use std::time::Duration;

use super::disk::Disk;
use super::world::World;
use crate::stopwatch::{Samples, cpu_time};
use crate::table::{Table, ratio, thousands};

/// Concurrent executions, the steps of each, and how often they run one after the other.
/// A history ends at 25,000 events, and a step adds seven.
const SIZES: [(usize, u64, usize); 3] = [(1, 200, 20), (100, 500, 1), (1_000, 100, 1)];
/// Each size is measured this often, by turns; the median is printed.
const ROUNDS: usize = 3;

/// Syncs of each kind per measurement, twice.
const SYNCS: usize = 200;

struct StepMeasurements {
    rate: f64,
    laps: Samples,
    /// What the disk did between the runs.
    disk: Disk,
    cpu_us: f64,
    entries_per_step: f64,
    events_per_step: f64,
}

/// Prints the tables.
pub(super) async fn run(directory: &Path) -> anyhow::Result<()> {
    let mut measured: Vec<Vec<StepMeasurements>> = SIZES.iter().map(|_| Vec::new()).collect();
    for round in 0..ROUNDS {
        for ((executions, steps, runs), all) in SIZES.into_iter().zip(&mut measured) {
            let path = directory.join(format!("steps-{executions}-{round}.db"));
            all.push(measure(&path, executions, steps, runs).await?);
        }
    }
    let middle = measured.into_iter().filter_map(|mut all| {
        all.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        let middle = all.len() / 2;
        all.into_iter().nth(middle)
    });
    print(&middle.collect::<Vec<_>>());
    Ok(())
}

/// Runs executions, and syncs the disk in between, so that other load on the machine
/// affects both alike.
async fn measure(
    path: &Path,
    executions: usize,
    steps: u64,
    runs: usize,
) -> anyhow::Result<StepMeasurements> {
    let world = World::open(path, executions * runs).await?;
    let mut disk = Disk::open(&path.with_extension("syncs"))?;
    let (mut took, mut cpu) = (Duration::ZERO, Duration::ZERO);
    for run in 0..runs {
        disk.sync(SYNCS / runs)?;
        let before = cpu_time();
        took += world.run(run * executions, executions, steps).await?;
        cpu += cpu_time().saturating_sub(before);
    }
    disk.sync(SYNCS / runs)?;
    let all = (executions * runs) as f64 * steps as f64;
    world.engine.stop().await;
    let (entries, events) = world.lengths(0).await?;
    let measured = StepMeasurements {
        rate: all / took.as_secs_f64(),
        laps: world.laps(),
        disk,
        cpu_us: cpu.as_secs_f64() * 1e6 / all,
        entries_per_step: entries as f64 / steps as f64,
        events_per_step: events as f64 / steps as f64,
    };
    world.close().await;
    Ok(measured)
}

fn print(measured: &[StepMeasurements]) {
    let mut times = Table::new(&[
        "executions at once",
        "steps /s",
        "step, median",
        "p99",
        "sync at the end, median",
        "p99",
        "sync in place, median",
        "p99",
        "step / sync at the end",
        "step / sync in place",
    ]);
    let mut costs = Table::new(&[
        "executions at once",
        "CPU µs per step",
        "journal entries per step",
        "history events per step",
        "steps per sync in place",
    ]);
    for ((executions, ..), one) in SIZES.into_iter().zip(measured) {
        let figures = [&one.laps, &one.disk.growing, &one.disk.in_place];
        let [step, growing, in_place] = figures.map(|samples| samples.median().as_secs_f64());
        let cells = figures.map(|samples| [samples.median(), samples.quantile(0.99)].map(micros));
        let mut row = vec![thousands(executions as u64), thousands(one.rate as u64)];
        row.extend(cells.into_iter().flatten());
        row.extend([ratio(step, growing), ratio(step, in_place)]);
        times.row(row);
        costs.row([
            thousands(executions as u64),
            format!("{:.0}", one.cpu_us),
            format!("{:.2}", one.entries_per_step),
            format!("{:.2}", one.events_per_step),
            format!("{:.2}", one.rate * in_place),
        ]);
    }
    times.print("workflow: durable steps, compared with 4 KiB written and synced on the same disk between the runs");
    costs.print("workflow: what a step costs");
}

fn micros(time: Duration) -> String {
    format!("{:.0} µs", time.as_secs_f64() * 1e6)
}
