//! A definition as a graph: states are nodes, transitions are edges.
//!
//! The states of machines within a state are nodes like all others; an edge
//! enters each such machine, none leaves it. The graph is [`petgraph`]'s, for
//! whoever wants to ask it more.

pub(super) mod build;
pub(super) mod reach;

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{EdgeFiltered, EdgeRef, IntoNodeReferences, NodeFiltered};

use super::model::Definition;
use super::pointer::Pointer;
use super::problem::{Code, Problem};

/// A definition, laid out as a graph.
#[derive(Debug, Clone)]
pub struct Graph {
    graph: DiGraph<Node, Edge>,
    by_name: BTreeMap<String, NodeIndex>,
    start: Option<NodeIndex>,
}

/// A state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its `Type`.
    pub kind: &'static str,
    /// Where it is written, as a JSON pointer.
    pub path: String,
    /// The state whose machine it is in; none at the top.
    pub within: Option<String>,
    /// Whether its machine ends with it.
    pub is_end: bool,
    /// Whether it, or a state around it, catches errors.
    pub is_caught: bool,
    /// Whether it waits: a Wait, or a state with a Wait within it.
    pub waits: bool,
}

/// A transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edge {
    /// `Next`.
    Next,
    /// A rule of a Choice, counted from 0, in a few words.
    Choice(usize, String),
    /// The `Default` of a Choice.
    Default,
    /// A catcher, counted from 0, and its errors.
    Catch(usize, Vec<String>),
    /// Into a branch of a Parallel, counted from 0.
    Branch(usize),
    /// Into the processor of a Map.
    Item,
}

impl Edge {
    /// Whether it enters a machine within the state it comes from.
    pub fn enters(&self) -> bool {
        matches!(self, Self::Branch(_) | Self::Item)
    }
}

impl Graph {
    /// The graph of a definition.
    pub fn of(definition: &Definition) -> Self {
        build::graph(definition)
    }

    /// The nodes and edges.
    pub fn inner(&self) -> &DiGraph<Node, Edge> {
        &self.graph
    }

    /// The state that an execution begins with.
    pub fn start(&self) -> Option<NodeIndex> {
        self.start
    }

    /// A state by its name.
    pub fn node(&self, name: &str) -> Option<NodeIndex> {
        self.by_name.get(name).copied()
    }

    /// The states that nothing leads to. A definition that was checked has
    /// none.
    pub fn unreachable(&self) -> Vec<&Node> {
        let reached = reach::forward(&self.graph, self.start);
        self.nodes(|index, _| !reached.contains(&index))
    }

    /// The states from which no end of their machine can be reached.
    pub fn without_way_out(&self) -> Vec<&Node> {
        let own = EdgeFiltered::from_fn(&self.graph, |edge| !edge.weight().enters());
        let ends = self
            .graph
            .node_indices()
            .filter(|index| self.graph[*index].is_end);
        let ending = reach::backward(&own, ends);
        self.nodes(|index, _| !ending.contains(&index))
    }

    /// The cycles whose states contain no Wait: they may turn as fast as the
    /// engine can. Each is given with its states in the order of writing, and
    /// cycles that share a state are given as one.
    pub fn cycles_without_wait(&self) -> Vec<Vec<&Node>> {
        let own = EdgeFiltered::from_fn(&self.graph, |edge| !edge.weight().enters());
        let busy = NodeFiltered::from_fn(&own, |index| !self.graph[index].waits);
        // Not Tarjan's: petgraph's calls itself once per state, and a long
        // definition would overflow the stack.
        let mut cycles: Vec<Vec<NodeIndex>> = kosaraju_scc(&busy)
            .into_iter()
            .filter(|states| match states.as_slice() {
                [one] => self.graph.edges(*one).any(|edge| edge.target() == *one),
                _ => true,
            })
            .collect();
        // Nodes are numbered in the order of writing.
        for cycle in &mut cycles {
            cycle.sort();
        }
        cycles.sort();
        cycles
            .into_iter()
            .map(|cycle| cycle.into_iter().map(|index| &self.graph[index]).collect())
            .collect()
    }

    /// The Tasks whose failure neither they nor a state around them catches.
    pub fn tasks_without_catch(&self) -> Vec<&Node> {
        self.nodes(|_, node| node.kind == "Task" && !node.is_caught)
    }

    /// What an author may regret. Ways that lead to no end are told while the
    /// definition is read.
    pub(super) fn warnings(&self) -> Vec<Problem> {
        let at = |node: &Node| Pointer::root().join(&node.path);
        let cycles = self.cycles_without_wait();
        let cycles = cycles.iter().filter_map(|cycle| {
            let names: Vec<String> = cycle
                .iter()
                .map(|node| format!("{:?}", node.name))
                .collect();
            let message = format!(
                "a cycle without a Wait may turn as fast as it can; put a Wait between {}",
                names.join(", ")
            );
            Some(Problem::new(
                &at(cycle.first()?),
                Code::CycleWithoutWait,
                message,
            ))
        });
        let uncaught = self.tasks_without_catch().into_iter().map(|node| {
            let message = "when this Task fails, so does the execution; add a \"Catch\" here, or to a Parallel or Map around it";
            Problem::new(&at(node), Code::TaskWithoutCatch, message)
        });
        cycles.chain(uncaught).collect()
    }

    fn nodes(&self, wanted: impl Fn(NodeIndex, &Node) -> bool) -> Vec<&Node> {
        self.graph
            .node_references()
            .filter(|(index, node)| wanted(*index, node))
            .map(|(_, node)| node)
            .collect()
    }
}

/// Nodes, for asking whether one is among them.
pub(super) type Nodes = BTreeSet<NodeIndex>;
