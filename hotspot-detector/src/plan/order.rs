//! Dependencies between migrations: a migration into a shard without room waits for
//! migrations out of it.

use std::collections::BTreeMap;

use petgraph::Direction;
use petgraph::algo::toposort;
use petgraph::graph::{DiGraph, NodeIndex};

use super::amount::Amount;
use super::draft::{DraftMove, PlanDraft};

/// For each step, the steps that must have ended before it begins, and the length of the
/// longest such chain.
pub(super) struct Order {
    pub(super) waits_for: Vec<Vec<u32>>,
    pub(super) waves: Vec<u32>,
}

/// The dependencies of the steps. Even if every step begins as early as allowed, no
/// migration puts a shard over its limit: an arrival counts from its beginning, a departure
/// from its end, and each arrival waits for as many earlier departures as it needs in
/// addition to all earlier arrivals.
pub(super) fn order(draft: &PlanDraft<'_>, steps: &[DraftMove]) -> Order {
    let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(steps.len(), 0);
    let nodes: Vec<NodeIndex> = steps.iter().map(|_| graph.add_node(())).collect();
    let mut shards: BTreeMap<u32, ShardEvents> = BTreeMap::new();
    let mut last_of: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        let amount = &draft.demand[step.slice as usize];
        // A slice's second migration follows its first.
        if let Some(first) = last_of.insert(step.slice, at) {
            graph.add_edge(nodes[first], nodes[at], ());
        }
        let place = &draft.places[step.to as usize];
        let events = shards
            .entry(step.to)
            .or_insert_with(|| ShardEvents::new(&place.before));
        events.load = events.load.plus(amount);
        let needed = events.needed(&place.limit, draft, steps);
        for gone in &events.departures[..needed] {
            graph.update_edge(nodes[*gone], nodes[at], ());
        }
        let before = &draft.places[step.from as usize].before;
        let events = shards
            .entry(step.from)
            .or_insert_with(|| ShardEvents::new(before));
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
    // Edges go from earlier to later steps, so there is no cycle.
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

/// The arrivals and departures of one shard.
struct ShardEvents {
    /// The initial load plus all arrivals.
    load: Amount,
    departures: Vec<usize>,
}

impl ShardEvents {
    fn new(before: &Amount) -> Self {
        Self {
            load: *before,
            departures: Vec::new(),
        }
    }

    /// How many departures must have ended for the load to fit.
    fn needed(&self, limit: &Amount, draft: &PlanDraft<'_>, steps: &[DraftMove]) -> usize {
        let mut load = self.load;
        for (count, gone) in self.departures.iter().enumerate() {
            if load.within(limit) {
                return count;
            }
            load = load.minus(&draft.demand[steps[*gone].slice as usize]);
        }
        self.departures.len()
    }
}
