//! What can be reached in a graph, along its edges or against them.

use petgraph::graph::NodeIndex;
use petgraph::visit::{Bfs, GraphRef, IntoNeighbors, IntoNeighborsDirected, Reversed, Visitable};

use super::Nodes;

/// The nodes that can be reached from a start, itself among them.
pub(in crate::language) fn forward<G>(graph: G, start: impl IntoIterator<Item = NodeIndex>) -> Nodes
where
    G: GraphRef + Visitable<NodeId = NodeIndex> + IntoNeighbors,
{
    let mut reached = Nodes::new();
    for start in start {
        if reached.contains(&start) {
            continue;
        }
        let mut walk = Bfs::new(graph, start);
        while let Some(node) = walk.next(graph) {
            reached.insert(node);
        }
    }
    reached
}

/// The nodes from which one of the ends can be reached, these among them.
pub(in crate::language) fn backward<G>(graph: G, ends: impl IntoIterator<Item = NodeIndex>) -> Nodes
where
    G: GraphRef + Visitable<NodeId = NodeIndex> + IntoNeighborsDirected,
{
    forward(Reversed(graph), ends)
}
