//! A definition becomes a graph.

use std::collections::BTreeMap;

use petgraph::graph::{DiGraph, NodeIndex};

use super::{Edge, Graph, Node};
use crate::language::model::{Definition, Kind, Machine, Next, State};

pub(super) fn graph(definition: &Definition) -> Graph {
    let mut building = Building {
        graph: DiGraph::new(),
        by_name: BTreeMap::new(),
    };
    building.nodes(definition.machine(), None);
    building.edges(definition.machine());
    Graph {
        start: building.node(definition.start_at()),
        graph: building.graph,
        by_name: building.by_name,
    }
}

struct Building {
    graph: DiGraph<Node, Edge>,
    by_name: BTreeMap<String, NodeIndex>,
}

impl Building {
    fn node(&self, name: &str) -> Option<NodeIndex> {
        self.by_name.get(name).copied()
    }

    /// All nodes first, so that edges may lead to states written later.
    fn nodes(&mut self, machine: &Machine, within: Option<&Node>) {
        for state in machine.states() {
            let node = Node {
                name: state.name.clone(),
                kind: state.kind.as_str(),
                path: state.path.clone(),
                within: within.map(|outer| outer.name.clone()),
                is_end: state.is_end(),
                is_caught: !state.catch().is_empty() || within.is_some_and(|outer| outer.is_caught),
                waits: waits(state),
            };
            let index = self.graph.add_node(node.clone());
            self.by_name.insert(state.name.clone(), index);
            for inner in state.machines() {
                self.nodes(inner, Some(&node));
            }
        }
    }

    fn edges(&mut self, machine: &Machine) {
        for state in machine.states() {
            for (edge, target) in transitions(state) {
                self.edge(&state.name, target, edge);
            }
            for (index, inner) in state.machines().iter().enumerate() {
                let edge = match state.kind {
                    Kind::Map(_) => Edge::Item,
                    _ => Edge::Branch(index),
                };
                self.edge(&state.name, inner.start_at(), edge);
                self.edges(inner);
            }
        }
    }

    fn edge(&mut self, from: &str, to: &str, edge: Edge) {
        if let (Some(from), Some(to)) = (self.node(from), self.node(to)) {
            self.graph.add_edge(from, to, edge);
        }
    }
}

fn waits(state: &State) -> bool {
    matches!(state.kind, Kind::Wait(_))
        || state
            .machines()
            .iter()
            .any(|inner| inner.states().iter().any(waits))
}

/// Where a state may lead within its machine, in the order of writing.
pub(in crate::language) fn transitions(state: &State) -> Vec<(Edge, &str)> {
    let mut found = Vec::new();
    if let Kind::Choice(choice) = &state.kind {
        for (index, rule) in choice.rules.iter().enumerate() {
            let words = rule.comment.as_ref().unwrap_or(&rule.summary);
            found.push((Edge::Choice(index, words.clone()), rule.next.as_str()));
        }
        if let Some(default) = &choice.default {
            found.push((Edge::Default, default.as_str()));
        }
    }
    if let Some(Next::State(next)) = state.next() {
        found.push((Edge::Next, next.as_str()));
    }
    for (index, catcher) in state.catch().iter().enumerate() {
        let edge = Edge::Catch(index, catcher.errors.clone());
        found.push((edge, catcher.next.as_str()));
    }
    found
}
