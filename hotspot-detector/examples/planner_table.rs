//! Compares the planner with greedy rebalancers by size, in the style of Citus', on the same
//! random fleets: the table of `docs/planning.md`.
//!
//! ```sh
//! cargo run --release -p ballast-hotspot-detector --example planner_table
//! ```
//! The first greedy rebalancer knows only sizes: it repeatedly moves a tenant from the fullest
//! shard to the emptiest, as long as that makes the two more equal, until every shard is
//! within a tenth of the mean. The second one knows more than Citus': it considers every
//! dimension, relieves only shards over their limit, to the same goal as the planner, and
//! moves the largest tenant that fits. The planner also runs with a fixed cost of 256 MiB per
//! migration: fewer migrations, a few more bytes.

#![allow(clippy::print_stdout, reason = "it prints a table")]

use ballast_hotspot_detector::fleet::{FleetShape, Generator};
use ballast_hotspot_detector::plan::{FleetSnapshot, PlanTerms, Prices, plan};
use ballast_hotspot_detector::resources::Resources;

/// The result of a rebalancer.
#[derive(Default, Clone, Copy)]
struct RebalanceResult {
    moves: usize,
    bytes: u64,
    over: usize,
    fullest: f64,
    /// The fullest shard relative to the mean, in its fullest dimension.
    imbalance: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "| tenants × shards | over | planner | planner, fewer moves | by size | by load, to the goal |"
    );
    println!("|---|---|---|---|---|---|");
    let shapes = [
        ("100 × 8", 100, 8, 0.5, 0.40),
        ("1,000 × 10", 1_000, 10, 0.5, 0.42),
        ("10,000 × 50", 10_000, 50, 0.6, 0.42),
        ("10,000 × 50, steep", 10_000, 50, 0.75, 0.38),
        ("50,000 × 200", 50_000, 200, 0.6, 0.42),
    ];
    for (name, tenants, shards, skew, fill) in shapes {
        let mut sums = [RebalanceResult::default(); 4];
        let (mut over, mut bound) = (0, 0);
        const SEEDS: u64 = 5;
        for seed in 1..=SEEDS {
            let shape = FleetShape {
                seed,
                tenants,
                shards,
                skew,
                fill,
                ..FleetShape::default()
            };
            let at = shape.start.plus_seconds((3 * 24 + 14) * 3_600);
            let fleet = Generator::new(shape)?.fleet(at);
            let made = plan(&fleet, &PlanTerms::default());
            over += made.totals.over_before;
            bound += made.totals.bytes_at_least;
            let mine = measured(
                &made.applied_to(&fleet),
                made.moves.len(),
                made.totals.bytes,
            );
            let terms = PlanTerms {
                prices: Prices {
                    bytes_per_move: 256 << 20,
                    ..Prices::default()
                },
                ..PlanTerms::default()
            };
            let made = plan(&fleet, &terms);
            let fewer = measured(
                &made.applied_to(&fleet),
                made.moves.len(),
                made.totals.bytes,
            );
            let all = [mine, fewer, by_size(&fleet), by_load(&fleet)];
            for (sum, did) in sums.iter_mut().zip(all) {
                sum.moves += did.moves;
                sum.bytes += did.bytes;
                sum.over += did.over;
                sum.fullest += did.fullest;
                sum.imbalance += did.imbalance / SEEDS as f64;
            }
        }
        let cells = sums.map(|did| {
            format!(
                "{} over, {} moves, {:.0} GB = {:.2} × bound, max/mean {:.2}",
                did.over,
                did.moves,
                did.bytes as f64 / 1e9,
                did.bytes as f64 / bound.max(1) as f64,
                did.imbalance
            )
        });
        println!("| {name} | {over} | {} |", cells.join(" | "));
    }
    Ok(())
}

/// The shards' loads, and which slices each has.
struct State<'a> {
    fleet: &'a FleetSnapshot,
    load: Vec<Resources>,
    on: Vec<Vec<usize>>,
}

impl<'a> State<'a> {
    fn from_fleet(fleet: &'a FleetSnapshot) -> Self {
        let index: std::collections::HashMap<_, _> = fleet
            .shards
            .iter()
            .enumerate()
            .map(|(at, shard)| (shard.id(), at))
            .collect();
        let mut state = Self {
            fleet,
            load: vec![Resources::default(); fleet.shards.len()],
            on: vec![Vec::new(); fleet.shards.len()],
        };
        for (slice, held) in fleet.slices.iter().enumerate() {
            let at = index[&held.shard_id];
            state.load[at] += held.demand;
            state.on[at].push(slice);
        }
        state
    }

    fn fill(&self, at: usize) -> f64 {
        self.load[at].fill(&self.fleet.shards[at].capacity).1
    }

    fn stored(&self, at: usize) -> f64 {
        self.load[at].storage / self.fleet.shards[at].capacity.storage
    }

    fn shift(&mut self, slice: usize, from: usize, to: usize) -> u64 {
        let demand = self.fleet.slices[slice].demand;
        self.load[from] -= demand;
        self.load[to] += demand;
        self.on[from].retain(|held| *held != slice);
        self.on[to].push(slice);
        self.fleet.slices[slice].bytes
    }

    fn did(&self, moves: usize, bytes: u64) -> RebalanceResult {
        let fills: Vec<f64> = (0..self.load.len()).map(|at| self.fill(at)).collect();
        let fullest = fills.iter().copied().fold(0.0, f64::max);
        let over = fills.iter().zip(&self.fleet.shards);
        RebalanceResult {
            moves,
            bytes,
            over: over
                .filter(|(fill, shard)| **fill > shard.limit + 1e-9)
                .count(),
            fullest,
            imbalance: fullest / (fills.iter().sum::<f64>() / fills.len() as f64),
        }
    }
}

fn measured(fleet: &FleetSnapshot, moves: usize, bytes: u64) -> RebalanceResult {
    State::from_fleet(fleet).did(moves, bytes)
}

/// Sizes alone, to within a tenth of the mean.
fn by_size(fleet: &FleetSnapshot) -> RebalanceResult {
    const THRESHOLD: f64 = 0.1;
    let mut state = State::from_fleet(fleet);
    let shards = 0..fleet.shards.len();
    let mean = shards.clone().map(|at| state.stored(at)).sum::<f64>() / fleet.shards.len() as f64;
    let (mut moves, mut bytes) = (0, 0);
    loop {
        let by = |one: &usize, two: &usize| state.stored(*one).total_cmp(&state.stored(*two));
        let (Some(from), Some(to)) = (shards.clone().max_by(by), shards.clone().min_by(by)) else {
            break;
        };
        let high = state.stored(from) > mean * (1.0 + THRESHOLD);
        let low = state.stored(to) < mean * (1.0 - THRESHOLD);
        if !high && !low {
            break;
        }
        // The largest that leaves the target below where the source was.
        let gap = state.stored(from) - state.stored(to);
        let share =
            |slice: &usize| fleet.slices[*slice].demand.storage / fleet.shards[to].capacity.storage;
        let fits = state.on[from]
            .iter()
            .copied()
            .filter(|slice| share(slice) < gap);
        let Some(slice) = fits.max_by(|one, two| share(one).total_cmp(&share(two))) else {
            break;
        };
        bytes += state.shift(slice, from, to);
        moves += 1;
    }
    state.did(moves, bytes)
}

/// Every dimension, from those that were over their limit until they are at their
/// goal: the largest tenant that the emptiest has room for.
fn by_load(fleet: &FleetSnapshot) -> RebalanceResult {
    let mut state = State::from_fleet(fleet);
    let (mut moves, mut bytes) = (0, 0);
    let mut done: Vec<bool> = (0..fleet.shards.len())
        .map(|at| state.fill(at) <= fleet.shards[at].limit)
        .collect();
    loop {
        let shards = 0..fleet.shards.len();
        let by = |one: &usize, two: &usize| state.fill(*one).total_cmp(&state.fill(*two));
        let over = |at: &usize| !done[*at] && state.fill(*at) > fleet.shards[*at].goal;
        let Some(from) = shards.clone().filter(over).max_by(by) else {
            break;
        };
        let Some(to) = shards.clone().min_by(by) else {
            break;
        };
        let share = |slice: &usize| {
            let demand = fleet.slices[*slice].demand;
            demand.fill(&fleet.shards[to].capacity).1
        };
        let fits = state.on[from].iter().copied().filter(|slice| {
            let then = state.load[to] + fleet.slices[*slice].demand;
            then.fill(&fleet.shards[to].capacity).1 <= fleet.shards[to].goal
        });
        match fits.max_by(|one, two| share(one).total_cmp(&share(two))) {
            Some(slice) => {
                bytes += state.shift(slice, from, to);
                moves += 1;
            }
            None => done[from] = true,
        }
    }
    state.did(moves, bytes)
}
