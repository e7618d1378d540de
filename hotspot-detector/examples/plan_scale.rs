//! Measures the time and memory of a plan: the figures of `docs/planning.md`.
//!
//! ```sh
//! cargo run --release -p ballast-hotspot-detector --example plan_scale -- 1000000 1000
//! ```
//! With `add-shard` after the numbers it simulates one more shard.

#![allow(clippy::print_stdout, reason = "it prints a table")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::time::Instant;

use ballast_hotspot_detector::fleet::{FleetShape, Generator, SliceSpread};
use ballast_hotspot_detector::plan::{FleetSnapshot, PlanTerms, plan};
use ballast_hotspot_detector::whatif::{FleetChange, simulate_changes};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let adds = words.iter().any(|word| word == "add-shard");
    let numbers = words.iter().filter(|word| *word != "add-shard");
    let mut numbers = numbers.map(|word| word.parse::<f64>());
    let tenants = numbers.next().transpose()?.unwrap_or(100_000.0) as u64;
    let shards = numbers.next().transpose()?.unwrap_or(100.0) as u32;
    let fill = numbers.next().transpose()?.unwrap_or(0.40);
    let skew = numbers.next().transpose()?.unwrap_or(0.5);
    let shape = FleetShape {
        tenants,
        shards,
        fill,
        regions: 3,
        zones: 2,
        zoned: 0.1,
        permitted: 0.1,
        dialled: 0.02,
        skew,
        spread: if adds {
            SliceSpread::ByScore
        } else {
            SliceSpread::AtRandom
        },
        ..FleetShape::default()
    };
    // A Wednesday, two in the afternoon, after half a year.
    let at = shape
        .start
        .plus_seconds((26 * 7 * 24 + 3 * 24 + 14) * 3_600);
    let begun = Instant::now();
    let fleet = Generator::new(shape)?.fleet(at);
    println!("fleet     {tenants} tenants, {shards} shards, fill {fill}, skew {skew}");
    println!("made in   {:?}, {} MiB", begun.elapsed(), memory_mib());
    if adds {
        return add_shard(&fleet);
    }
    let begun = Instant::now();
    let made = plan(&fleet, &PlanTerms::default());
    let took = begun.elapsed();
    let totals = &made.totals;
    println!("planned   {took:?}, {} MiB at most", memory_mib());
    println!("moves     {}", totals.moves);
    println!(
        "bytes     {} (at least {})",
        totals.bytes, totals.bytes_at_least
    );
    println!("over      {} -> {}", totals.over_before, totals.over_after);
    println!(
        "fullest   {:.3} -> {:.3}",
        totals.fullest_before, totals.fullest_after
    );
    for missing in &made.missing {
        println!("missing   {} in {}", missing.shards, missing.region);
    }
    let begun = Instant::now();
    let again = plan(&made.applied_to(&fleet), &PlanTerms::default());
    println!(
        "again     {} moves, {:?} with a copy of the fleet",
        again.moves.len(),
        begun.elapsed()
    );
    Ok(())
}

fn add_shard(fleet: &FleetSnapshot) -> Result<(), Box<dyn std::error::Error>> {
    let change = FleetChange::AddShard {
        shard_id: "shard-new".parse()?,
        like: fleet.shards[0].id().clone(),
        region: None,
    };
    let begun = Instant::now();
    let answer = simulate_changes(fleet, &PlanTerms::default(), &[change])?;
    println!(
        "what if   {:?}, {} MiB at most",
        begun.elapsed(),
        memory_mib()
    );
    println!(
        "moves     {} without, {} with",
        answer.without.moves, answer.plan.totals.moves
    );
    Ok(())
}

/// The peak memory of the process, if the system reports it.
fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1_024
}
