//! Reachability in a graph, along its edges or against them.

use petgraph::graph::NodeIndex;
use petgraph::visit::{Bfs, GraphRef, IntoNeighbors, IntoNeighborsDirected, Reversed, Visitable};

use super::Nodes;

/// The nodes that are reachable from the start nodes, including those.
pub(in crate::language) fn reachable_from<G>(
    graph: G,
    start: impl IntoIterator<Item = NodeIndex>,
) -> Nodes
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

/// The nodes that can reach one of the end nodes, including those.
pub(in crate::language) fn nodes_reaching<G>(
    graph: G,
    ends: impl IntoIterator<Item = NodeIndex>,
) -> Nodes
where
    G: GraphRef + Visitable<NodeId = NodeIndex> + IntoNeighborsDirected,
{
    reachable_from(Reversed(graph), ends)
}
