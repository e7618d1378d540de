//! Placing one new slice, compared with the crate `hrw-hash` with the same weights.
//!
//! `hrw-hash` supports weights but no rules, and returns all nodes in order; its first
//! node is the placement. The bare loop is the minimum of weighted rendezvous hashing: a
//! draw and a logarithm for each shard, no rules, no preference, no explanation. Both are
//! measured so that neither a slow nor a minimal reference distorts the comparison.

use std::hint::black_box;
use std::time::Duration;

use ballast_domain::placement::{
    PlacementFleet, PlacementShard, PlacementSubject, decide, draw, score, slice_hash,
};
use ballast_domain::shard::Shard;
use ballast_domain::tenant::Tenant;
use hrw_hash::{HrwNode, HrwNodes};

use crate::sample;
use crate::stopwatch::{Samples, Stopwatch};
use crate::table::{Table, ratio, thousands};

/// Slices placed in one round, and rounds of each contender.
const SLICES: usize = 2_000;
const ROUNDS: usize = 31;
/// The weights, assigned in turn; whole numbers, as the reference requires.
const WEIGHTS: [f64; 4] = [1.0, 2.0, 4.0, 7.0];

/// A node of the reference.
#[derive(PartialEq, Eq, Hash)]
struct Node {
    name: String,
    capacity: usize,
}

impl HrwNode for Node {
    fn capacity(&self) -> usize {
        self.capacity
    }
}

/// Prints the table.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut table = Table::new(&[
        "shards",
        "ballast",
        "hrw-hash",
        "ballast / hrw-hash",
        "bare loop",
        "ballast / bare",
    ]);
    let home = [sample::shard(0, "local", 1.0)?];
    let tenants = (0..SLICES).map(|n| sample::tenant(n, &home));
    let tenants: Vec<Tenant> = tenants.collect::<Result<_, _>>()?;
    for shards in [10, 100, 1_000] {
        let fleet = (0..shards).map(|n| sample::shard(n, "local", WEIGHTS[n % WEIGHTS.len()]));
        let fleet: Vec<Shard> = fleet.collect::<Result<_, _>>()?;
        let [ours, reference, bare] = measure(&fleet, &tenants);
        table.row([
            thousands(shards as u64),
            format!("{ours:.0} ns"),
            format!("{reference:.0} ns"),
            ratio(ours, reference),
            format!("{bare:.0} ns"),
            ratio(ours, bare),
        ]);
    }
    table.print("placement: one new slice, median time");
    Ok(())
}

/// Nanoseconds per placement for each contender, by turns, so that noise affects all of
/// them.
fn measure(shards: &[Shard], tenants: &[Tenant]) -> [f64; 3] {
    let views = shards.iter().map(|shard| PlacementShard::new(shard, 0));
    let fleet = PlacementFleet::new(views.collect());
    let nodes = HrwNodes::new(shards.iter().map(|shard| Node {
        name: shard.shard_id.to_string(),
        capacity: shard.weight as usize,
    }));
    let mut samples = [const { Samples::new() }; 3];
    for _ in 0..ROUNDS {
        samples[0].add(timed(tenants, |tenant| {
            decide(&fleet, &PlacementSubject::unplaced(tenant, 0)).shard_id
        }));
        samples[1].add(timed(tenants, |tenant| {
            nodes.sorted(&tenant.tenant_id.as_str()).next()
        }));
        samples[2].add(timed(tenants, |tenant| bare_loop(&fleet, tenant)));
    }
    samples.map(|samples| samples.median().as_nanos() as f64 / tenants.len() as f64)
}

fn timed<T>(tenants: &[Tenant], mut place: impl FnMut(&Tenant) -> T) -> Duration {
    let watch = Stopwatch::start();
    for tenant in tenants {
        black_box(place(black_box(tenant)));
    }
    watch.elapsed()
}

fn bare_loop(fleet: &PlacementFleet, tenant: &Tenant) -> usize {
    let slice = slice_hash(&tenant.tenant_id, 0);
    let mut best = (f64::NEG_INFINITY, 0);
    for (place, shard) in fleet.shards().iter().enumerate() {
        let score = score(shard.weight, draw(slice, shard.hash));
        if score > best.0 {
            best = (score, place);
        }
    }
    best.1
}
