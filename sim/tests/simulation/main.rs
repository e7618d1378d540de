//! Whole worlds from seeds: the product's routers, workers and shards on a
//! simulated clock, network and disks.
//!
//! ```text
//!   cargo test -p ballast-sim --test simulation                    200 seeds
//!   BALLAST_TEST_LONG=1 cargo test -p ballast-sim --test simulation 10,000
//!   BALLAST_SIM_SEED=7 cargo test -p ballast-sim --test simulation one, told
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::print_stdout, reason = "a run tells its seeds")]

mod audit;
mod book;
mod bugs;
mod chair;
mod chance;
mod clients;
mod moves;
mod nemesis;
mod net;
mod nodes;
mod records;
mod registry;
mod routers;
mod stage;
mod trace;
mod weather;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bugs::Bug;
use trace::Counts;

/// Seeds that once failed: they are tried first.
const KEPT: &str = include_str!("../../seeds.txt");

fn kept() -> impl Iterator<Item = u64> {
    let lines = KEPT
        .lines()
        .map(|line| line.split('#').next().unwrap().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| line.parse().unwrap())
}

/// A world, and why it failed.
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

/// Plays worlds on every core, in the order of their seeds, until one fails.
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
fn every_world_comes_to_rest_with_nothing_lost() {
    if let Some(seed) = trace::replayed() {
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
    let seeds: Vec<u64> = kept().chain(first..first + many).collect();
    match play_all(&seeds, None) {
        Ok(counts) => println!("{} seeds: {counts:?}", seeds.len()),
        Err((seed, why)) => panic!(
            "seed {seed}: {why}\nBALLAST_SIM_SEED={seed} cargo test -p ballast-sim \
             --test simulation every_world -- --nocapture"
        ),
    }
}

/// One seed, one trace: in this process and in another.
#[test]
fn a_seed_is_a_trace() {
    if trace::replayed().is_some() {
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
    if trace::replayed().is_some() {
        return;
    }
    quietly();
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

/// Panics of worlds that are to fail are not told.
fn quietly() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !bugs::any() {
            told(panic);
        }
    }));
}
