//! Assignment of stations to nodes.

use crate::NodeId;
use crate::ids::Station;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StationMap(Vec<(NodeId, Station)>);

impl StationMap {
    /// Assigns stations 0, 1, 2, ... to these nodes; nodes beyond the last number get none.
    pub(crate) fn new(nodes: impl Iterator<Item = NodeId>) -> Self {
        let mut stations: Vec<(NodeId, Station)> = nodes.zip(0..Station::MAX).collect();
        stations.sort_unstable();
        Self(stations)
    }

    pub(crate) fn of(&self, node: NodeId) -> Option<Station> {
        let first = self.0.partition_point(|(of, _)| *of < node);
        self.0.get(first).filter(|(of, _)| *of == node).map(|(_, station)| *station)
    }
}
