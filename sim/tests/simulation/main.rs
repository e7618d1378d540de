//! Simulates whole worlds from seeds: the product's routers, workers and shards on a
//! simulated clock, network and disks.
//!
//! ```text
//!   world       set up, run, brought to rest, audited
//!   scheduler   all tasks on one thread, in an order that the seed decides
//!   chance, trace, weather                    randomness, trace, fate of messages
//!   nodes, net, registry, routers             the processes and the network between them
//!   clients, poll_manager, moves, records     voters, poll owners, operators and workers
//!   nemesis     injected faults               bugs     planted bugs
//!   book        the answers to clients        audit    what must be stored
//! ```
//! How to run it, and what it shows: `sim/README.md`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::print_stdout, reason = "a run tells its seeds")]

mod audit;
mod book;
mod bugs;
mod chance;
mod clients;
mod moves;
mod nemesis;
mod net;
mod nodes;
mod poll_manager;
mod records;
mod registry;
mod routers;
mod scheduler;
mod trace;
mod weather;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bugs::Bug;
use trace::Counts;

/// Seeds that failed once, which run first.
const STORED_SEEDS: &str = include_str!("../../seeds.txt");

fn stored_seeds() -> impl Iterator<Item = u64> {
    let lines = STORED_SEEDS
        .lines()
        .map(|line| line.split('#').next().unwrap().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| line.parse().unwrap())
}

/// Runs a world, and returns why it failed if it did.
fn attempt(seed: u64, bug: Option<Bug>) -> Result<(u64, Counts), String> {
    bugs::set(bug);
    let played = catch_unwind(AssertUnwindSafe(|| world::play(seed, false)));
    bugs::set(None);
    played.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let word = || panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(word).unwrap_or_else(|| "a panic".to_owned())
    })
}

/// Runs worlds on every core, in the order of their seeds, until one fails.
fn play_all(seeds: &[u64], bug: Option<Bug>) -> Result<Counts, (u64, String)> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Ok(Counts::default()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let played = attempt(*seed, bug);
                    let mut found = found.lock().unwrap();
                    match (&mut *found, played) {
                        (Ok(all), Ok((_, counts))) => *all += counts,
                        (Ok(_), Err(why)) => *found = Err((*seed, why)),
                        (Err(_), _) => return,
                    }
                }
            });
        }
    });
    found.into_inner().unwrap()
}

#[test]
#[allow(clippy::disallowed_methods, reason = "it tells its own pace")]
fn every_world_comes_to_rest_with_nothing_lost() {
    if let Some(seed) = trace::replayed_seed() {
        let (hash, counts) = world::play(seed, true);
        println!("seed {seed}: trace {hash:016x}, {counts:?}");
        return;
    }
    let many = match std::env::var_os("BALLAST_TEST_LONG") {
        Some(_) => 10_000,
        None => 200,
    };
    let first = std::env::var("BALLAST_SIM_FIRST")
        .ok()
        .and_then(|first| first.parse().ok());
    let first = first.unwrap_or(1);
    let seeds: Vec<u64> = stored_seeds().chain(first..first + many).collect();
    let began = std::time::Instant::now();
    match play_all(&seeds, None) {
        Ok(counts) => {
            let took = began.elapsed().as_secs_f64();
            let (many, pace) = (seeds.len(), seeds.len() as f64 / took);
            println!("{many} seeds, {pace:.1} a second: {counts:?}");
        }
        Err((seed, why)) => panic!(
            "seed {seed}: {why}\nBALLAST_SIM_SEED={seed} cargo test -p ballast-sim \
             --features faults --test simulation every_world -- --nocapture"
        ),
    }
}

/// A seed has the same trace in this process and in another.
#[test]
fn a_seed_is_a_trace() {
    if trace::replayed_seed().is_some() {
        return;
    }
    for seed in 1..=12 {
        let (hash, _) = world::play(seed, false);
        assert_eq!(world::play(seed, false).0, hash, "seed {seed}");
        let other = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "every_world_comes_to_rest_with_nothing_lost"])
            .arg("--nocapture")
            .env("BALLAST_SIM_SEED", seed.to_string())
            .output()
            .unwrap();
        let told = String::from_utf8(other.stdout).unwrap();
        let trace = format!("seed {seed}: trace {hash:016x},");
        assert!(told.contains(&trace), "{trace} {told:?}");
    }
}

/// Seeds within which each planted bug must be found.
const WITHIN: u64 = 400;

/// Each planted bug is found.
#[test]
fn planted_bugs_are_found() {
    if trace::replayed_seed().is_some() {
        return;
    }
    silence_expected_panics();
    let seeds: Vec<u64> = (1..=WITHIN).collect();
    let mut missed = Vec::new();
    for bug in bugs::ALL {
        match play_all(&seeds, Some(bug)) {
            Ok(_) => missed.push(bug),
            Err((seed, why)) => println!("{bug:?}: seed {seed}: {}", first_line(&why)),
        }
    }
    assert_eq!(missed, [], "not found within {WITHIN} seeds");
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}

/// Suppresses the output of expected panics.
fn silence_expected_panics() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !bugs::is_any_planted() {
            told(panic);
        }
    }));
}
