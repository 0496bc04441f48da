//! Stations: their positions and nodes.

use crate::NodeId;
use crate::ids::Station;

/// A position in the plane.
///
/// ```toml
/// position = [3, 4.5]
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// East coordinate in metres.
    pub x_m: f64,
    /// North coordinate in metres.
    pub y_m: f64,
}

impl Position {
    /// Creates a position in metres.
    #[must_use]
    pub const fn metres(x_m: f64, y_m: f64) -> Self {
        Self { x_m, y_m }
    }

    /// Creates a position at this distance, and angle in radians from east towards north.
    #[must_use]
    pub fn polar(distance_m: f64, angle: f64) -> Self {
        Self::metres(distance_m * libm::cos(angle), distance_m * libm::sin(angle))
    }

    /// Returns the distance to another position in metres.
    #[must_use]
    pub fn distance_m(self, other: Self) -> f64 {
        libm::hypot(self.x_m - other.x_m, self.y_m - other.y_m)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StationMap(Vec<(NodeId, Station)>);

impl StationMap {
    /// Nodes beyond the last number get none.
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
