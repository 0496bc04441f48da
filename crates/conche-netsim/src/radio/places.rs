//! Which station is whose.

use super::neighbours::Station;
use crate::NodeId;

/// The stations of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places(Vec<(NodeId, Station)>);

impl Places {
    /// These nodes have the stations 0, 1, 2, ...; what more there are have none.
    pub(crate) fn new(nodes: impl Iterator<Item = NodeId>) -> Self {
        let mut places: Vec<(NodeId, Station)> = nodes.zip(0..Station::MAX).collect();
        places.sort_unstable();
        Self(places)
    }

    /// The station of a node; of several the first.
    pub(crate) fn of(&self, node: NodeId) -> Option<Station> {
        let first = self.0.partition_point(|(of, _)| *of < node);
        self.0.get(first).filter(|(of, _)| *of == node).map(|(_, station)| *station)
    }
}
