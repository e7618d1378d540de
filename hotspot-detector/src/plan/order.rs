//! Which moves wait for which: a move into a shard that has no room yet waits
//! for those that leave it.

use std::collections::BTreeMap;

use petgraph::Direction;
use petgraph::algo::toposort;
use petgraph::graph::{DiGraph, NodeIndex};

use super::amount::Amount;
use super::world::{Step, World};

/// For each step, the steps that must have ended before it begins, and how many
/// of them one after the other.
pub(super) struct Order {
    pub(super) waits_for: Vec<Vec<u32>>,
    pub(super) waves: Vec<u32>,
}

/// The order that the steps need. Whatever begins as soon as it may, no shard
/// is over its limit for a move: an arrival counts from its beginning and a
/// departure from its end, and each arrival waits for as many of the earlier
/// departures as it needs with all the earlier arrivals there.
pub(super) fn order(world: &World<'_>, steps: &[Step]) -> Order {
    let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(steps.len(), 0);
    let nodes: Vec<NodeIndex> = steps.iter().map(|_| graph.add_node(())).collect();
    let mut shards: BTreeMap<u32, Events> = BTreeMap::new();
    let mut last_of: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        let amount = &world.demand[step.slice as usize];
        // A slice's second move follows its first.
        if let Some(first) = last_of.insert(step.slice, at) {
            graph.add_edge(nodes[first], nodes[at], ());
        }
        let place = &world.places[step.to as usize];
        let events = shards
            .entry(step.to)
            .or_insert_with(|| Events::new(&place.before));
        events.load = events.load.plus(amount);
        let needed = events.needed(&place.limit, world, steps);
        for gone in &events.departures[..needed] {
            graph.update_edge(nodes[*gone], nodes[at], ());
        }
        let before = &world.places[step.from as usize].before;
        let events = shards
            .entry(step.from)
            .or_insert_with(|| Events::new(before));
        events.departures.push(at);
    }
    let waits_for: Vec<Vec<u32>> = nodes
        .iter()
        .map(|node| {
            let before = graph.neighbors_directed(*node, Direction::Incoming);
            let mut before: Vec<u32> = before.map(|node| node.index() as u32).collect();
            before.sort_unstable();
            before.dedup();
            before
        })
        .collect();
    // Edges go from earlier to later, so there is no circle to be found.
    let sorted = toposort(&graph, None).unwrap_or(nodes);
    let mut waves = vec![0; steps.len()];
    for node in sorted {
        let before = waits_for[node.index()].iter();
        waves[node.index()] = before
            .map(|at| waves[*at as usize] + 1)
            .max()
            .unwrap_or_default();
    }
    Order { waits_for, waves }
}

/// What happens on one shard.
struct Events {
    /// What was there at first and all that has arrived.
    load: Amount,
    departures: Vec<usize>,
}

impl Events {
    fn new(before: &Amount) -> Self {
        Self {
            load: *before,
            departures: Vec::new(),
        }
    }

    /// How many of the departures must have ended for all that is there to fit.
    fn needed(&self, limit: &Amount, world: &World<'_>, steps: &[Step]) -> usize {
        let mut load = self.load;
        for (count, gone) in self.departures.iter().enumerate() {
            if load.within(limit) {
                return count;
            }
            load = load.minus(&world.demand[steps[*gone].slice as usize]);
        }
        self.departures.len()
    }
}
