//! A definition as a graph: states are nodes, transitions are edges.
//!
//! The states of nested machines are nodes too; an edge enters each nested machine,
//! none leaves it. The graph is a [`petgraph`] graph, so callers can run other
//! algorithms on it.

pub(super) mod build;
pub(super) mod reach;

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{EdgeFiltered, EdgeRef, IntoNodeReferences, NodeFiltered};

use super::model::Definition;
use super::pointer::Pointer;
use super::problem::{DefinitionProblem, ProblemCode};

/// Builds the graph of a definition.
#[derive(Debug, Clone)]
pub struct Graph {
    graph: DiGraph<GraphNode, GraphEdge>,
    by_name: BTreeMap<String, NodeIndex>,
    start: Option<NodeIndex>,
}

/// A node: a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphNode {
    /// Its name.
    pub name: String,
    /// Its `Type`.
    pub kind: &'static str,
    /// Its location in the definition, as a JSON pointer.
    pub path: String,
    /// The state whose nested machine it belongs to; none at the top level.
    pub within: Option<String>,
    /// Whether it ends its machine.
    pub is_end: bool,
    /// Whether it or an enclosing state catches errors.
    pub is_caught: bool,
    /// Whether it is a Wait or contains one.
    pub waits: bool,
}

/// An edge: a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphEdge {
    /// `Next`.
    Next,
    /// A rule of a Choice: its index from 0, and its short text.
    Choice(usize, String),
    /// The `Default` of a Choice.
    Default,
    /// A catcher: its index from 0, and its errors.
    Catch(usize, Vec<String>),
    /// The entry of a branch of a Parallel, by index from 0.
    Branch(usize),
    /// The entry of the processor of a Map.
    Item,
}

impl GraphEdge {
    /// Whether it enters a nested machine of its source state.
    pub fn enters(&self) -> bool {
        matches!(self, Self::Branch(_) | Self::Item)
    }
}

impl Graph {
    /// Builds the graph of a definition.
    pub fn from_definition(definition: &Definition) -> Self {
        build::build_graph(definition)
    }

    /// The nodes and edges.
    pub fn inner(&self) -> &DiGraph<GraphNode, GraphEdge> {
        &self.graph
    }

    /// The state that an execution starts with.
    pub fn start(&self) -> Option<NodeIndex> {
        self.start
    }

    /// Finds a state by its name.
    pub fn node(&self, name: &str) -> Option<NodeIndex> {
        self.by_name.get(name).copied()
    }

    /// The unreachable states. A checked definition has none.
    pub fn unreachable(&self) -> Vec<&GraphNode> {
        let reached = reach::reachable_from(&self.graph, self.start);
        self.select_nodes(|index, _| !reached.contains(&index))
    }

    /// The states that cannot reach an end of their machine.
    pub fn without_way_out(&self) -> Vec<&GraphNode> {
        let own = EdgeFiltered::from_fn(&self.graph, |edge| !edge.weight().enters());
        let ends = self
            .graph
            .node_indices()
            .filter(|index| self.graph[*index].is_end);
        let ending = reach::nodes_reaching(&own, ends);
        self.select_nodes(|index, _| !ending.contains(&index))
    }

    /// The cycles without a Wait, which may run as busy loops. The states of each
    /// are in the order of the definition; cycles that share a state are merged.
    pub fn cycles_without_wait(&self) -> Vec<Vec<&GraphNode>> {
        let own = EdgeFiltered::from_fn(&self.graph, |edge| !edge.weight().enters());
        let busy = NodeFiltered::from_fn(&own, |index| !self.graph[index].waits);
        // Not Tarjan's algorithm: petgraph's version recurses once per state and
        // would overflow the stack on a long definition.
        let mut cycles: Vec<Vec<NodeIndex>> = kosaraju_scc(&busy)
            .into_iter()
            .filter(|states| match states.as_slice() {
                [one] => self.graph.edges(*one).any(|edge| edge.target() == *one),
                _ => true,
            })
            .collect();
        // Node indexes follow the order of the definition.
        for cycle in &mut cycles {
            cycle.sort();
        }
        cycles.sort();
        cycles
            .into_iter()
            .map(|cycle| cycle.into_iter().map(|index| &self.graph[index]).collect())
            .collect()
    }

    /// The Tasks whose failure neither they nor an enclosing state catches.
    pub fn tasks_without_catch(&self) -> Vec<&GraphNode> {
        self.select_nodes(|_, node| node.kind == "Task" && !node.is_caught)
    }

    /// The warnings. States without a way to an end are reported while the
    /// definition is parsed.
    pub(super) fn warnings(&self) -> Vec<DefinitionProblem> {
        let at = |node: &GraphNode| Pointer::root().join(&node.path);
        let cycles = self.cycles_without_wait();
        let cycles = cycles.iter().filter_map(|cycle| {
            let names: Vec<String> = cycle
                .iter()
                .map(|node| format!("{:?}", node.name))
                .collect();
            let message = format!(
                "a cycle without a Wait may run as a busy loop; put a Wait between {}",
                names.join(", ")
            );
            Some(DefinitionProblem::new(
                &at(cycle.first()?),
                ProblemCode::CycleWithoutWait,
                message,
            ))
        });
        let uncaught = self.tasks_without_catch().into_iter().map(|node| {
            let message = "when this Task fails, so does the execution; add a \"Catch\" here, or to a Parallel or Map around it";
            DefinitionProblem::new(&at(node), ProblemCode::TaskWithoutCatch, message)
        });
        cycles.chain(uncaught).collect()
    }

    fn select_nodes(&self, wanted: impl Fn(NodeIndex, &GraphNode) -> bool) -> Vec<&GraphNode> {
        self.graph
            .node_references()
            .filter(|(index, node)| wanted(*index, node))
            .map(|(_, node)| node)
            .collect()
    }
}

/// A set of nodes.
pub(super) type Nodes = BTreeSet<NodeIndex>;
