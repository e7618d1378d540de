//! Builds the graph of a definition.

use std::collections::BTreeMap;

use petgraph::graph::{DiGraph, NodeIndex};

use super::{Graph, GraphEdge, GraphNode};
use crate::language::model::{Definition, Machine, NextState, State, StateKind};

pub(super) fn build_graph(definition: &Definition) -> Graph {
    let mut building = GraphBuilder {
        graph: DiGraph::new(),
        by_name: BTreeMap::new(),
    };
    building.add_nodes(definition.machine(), None);
    building.add_edges(definition.machine());
    Graph {
        start: building.node(definition.start_at()),
        graph: building.graph,
        by_name: building.by_name,
    }
}

struct GraphBuilder {
    graph: DiGraph<GraphNode, GraphEdge>,
    by_name: BTreeMap<String, NodeIndex>,
}

impl GraphBuilder {
    fn node(&self, name: &str) -> Option<NodeIndex> {
        self.by_name.get(name).copied()
    }

    /// Adds all nodes before any edge, since edges may lead to later states.
    fn add_nodes(&mut self, machine: &Machine, within: Option<&GraphNode>) {
        for state in machine.states() {
            let node = GraphNode {
                name: state.name.clone(),
                kind: state.kind.as_str(),
                path: state.path.clone(),
                within: within.map(|outer| outer.name.clone()),
                is_end: state.is_end(),
                is_caught: !state.catch().is_empty() || within.is_some_and(|outer| outer.is_caught),
                waits: contains_wait(state),
            };
            let index = self.graph.add_node(node.clone());
            self.by_name.insert(state.name.clone(), index);
            for inner in state.machines() {
                self.add_nodes(inner, Some(&node));
            }
        }
    }

    fn add_edges(&mut self, machine: &Machine) {
        for state in machine.states() {
            for (edge, target) in transitions(state) {
                self.add_edge(&state.name, target, edge);
            }
            for (index, inner) in state.machines().iter().enumerate() {
                let edge = match state.kind {
                    StateKind::Map(_) => GraphEdge::Item,
                    _ => GraphEdge::Branch(index),
                };
                self.add_edge(&state.name, inner.start_at(), edge);
                self.add_edges(inner);
            }
        }
    }

    fn add_edge(&mut self, from: &str, to: &str, edge: GraphEdge) {
        if let (Some(from), Some(to)) = (self.node(from), self.node(to)) {
            self.graph.add_edge(from, to, edge);
        }
    }
}

fn contains_wait(state: &State) -> bool {
    matches!(state.kind, StateKind::Wait(_))
        || state
            .machines()
            .iter()
            .any(|inner| inner.states().iter().any(contains_wait))
}

/// The transitions of a state within its machine, in the order of the definition.
pub(in crate::language) fn transitions(state: &State) -> Vec<(GraphEdge, &str)> {
    let mut found = Vec::new();
    if let StateKind::Choice(choice) = &state.kind {
        for (index, rule) in choice.rules.iter().enumerate() {
            let words = rule.comment.as_ref().unwrap_or(&rule.summary);
            found.push((GraphEdge::Choice(index, words.clone()), rule.next.as_str()));
        }
        if let Some(default) = &choice.default {
            found.push((GraphEdge::Default, default.as_str()));
        }
    }
    if let Some(NextState::State(next)) = state.next() {
        found.push((GraphEdge::Next, next.as_str()));
    }
    for (index, catcher) in state.catch().iter().enumerate() {
        let edge = GraphEdge::Catch(index, catcher.errors.clone());
        found.push((edge, catcher.next.as_str()));
    }
    found
}
