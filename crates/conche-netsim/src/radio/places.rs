//! Assignment of stations to nodes.

use super::neighbours::Station;
use crate::NodeId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places(Vec<(NodeId, Station)>);

impl Places {
    /// Assigns the stations 0, 1, 2, ... to these nodes. Nodes beyond the last station number get
    /// none.
    pub(crate) fn new(nodes: impl Iterator<Item = NodeId>) -> Self {
        let mut places: Vec<(NodeId, Station)> = nodes.zip(0..Station::MAX).collect();
        places.sort_unstable();
        Self(places)
    }

    /// Returns the first station of a node.
    pub(crate) fn of(&self, node: NodeId) -> Option<Station> {
        let first = self.0.partition_point(|(of, _)| *of < node);
        self.0.get(first).filter(|(of, _)| *of == node).map(|(_, station)| *station)
    }
}
