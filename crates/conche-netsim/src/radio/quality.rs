//! Packet reception ratios of a radio network, computed or measured.

use thiserror::Error;

use super::stations::StationMap;
use crate::NodeId;
use crate::ids::Station;

/// Packet reception ratios between stations, without interference.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkQuality {
    nodes: Vec<NodeId>,
    station_map: StationMap,
    /// Per sender, in node order.
    ratios: Vec<Vec<(Station, f64)>>,
}

/// Why a matrix of ratios is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum QualityError {
    /// It has the wrong size.
    #[error("the matrix of packet reception ratios must have a row and a column for each of the {0} stations")]
    Matrix(usize),
    /// There are more than 65535 stations.
    #[error("{0} stations; a radio network has at most 65535")]
    TooManyStations(usize),
    /// An entry is not a ratio.
    #[error("a packet reception ratio is {0}, but it must be between 0 and 1")]
    Ratio(f64),
}

impl LinkQuality {
    /// Creates a matrix of measured ratios: rows are senders, columns receivers, in the order of
    /// `nodes`.
    ///
    /// # Errors
    /// If the size is wrong, nodes exceed 65535, or an entry is not between 0 and 1.
    pub fn new(nodes: Vec<NodeId>, ratios: Vec<Vec<f64>>) -> Result<Self, QualityError> {
        if ratios.len() != nodes.len() || ratios.iter().any(|row| row.len() != nodes.len()) {
            return Err(QualityError::Matrix(nodes.len()));
        }
        if nodes.len() > usize::from(Station::MAX) {
            return Err(QualityError::TooManyStations(nodes.len()));
        }
        match ratios.iter().flatten().find(|ratio| !(0.0..=1.0).contains(*ratio)) {
            Some(ratio) => Err(QualityError::Ratio(*ratio)),
            None => Ok(Self::of_neighbours(
                nodes,
                ratios
                    .into_iter()
                    .map(|row| (0..Station::MAX).zip(row).filter(|(_, ratio)| *ratio > 0.0).collect())
                    .collect(),
            )),
        }
    }

    pub(crate) fn of_neighbours(nodes: Vec<NodeId>, ratios: Vec<Vec<(Station, f64)>>) -> Self {
        let station_map = StationMap::new(nodes.iter().copied());
        Self { nodes, station_map, ratios }
    }

    /// Returns the nodes in row order.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Returns the ratio from one node to another; 0 if either has no station.
    #[must_use]
    pub fn ratio(&self, from: NodeId, to: NodeId) -> f64 {
        match (self.position(from), self.position(to)) {
            (Some(from), Some(to)) => self.between(from, to),
            _ => 0.0,
        }
    }

    pub(crate) fn position(&self, node: NodeId) -> Option<Station> {
        self.station_map.of(node)
    }

    pub(crate) fn between(&self, from: Station, to: Station) -> f64 {
        let row = self.received_from(from);
        row.binary_search_by_key(&to, |(receiver, _)| *receiver).map_or(0.0, |place| row[place].1)
    }

    pub(crate) fn received_from(&self, from: Station) -> &[(Station, f64)] {
        &self.ratios[usize::from(from)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_that_is_no_matrix_of_ratios_is_refused() {
        let nodes = vec![NodeId(3), NodeId(5)];
        let quality = |ratios| LinkQuality::new(nodes.clone(), ratios);
        assert_eq!(quality(vec![vec![0.0; 2]]), Err(QualityError::Matrix(2)));
        assert_eq!(quality(vec![vec![0.0, 1.5], vec![0.0; 2]]), Err(QualityError::Ratio(1.5)));
        let measured = quality(vec![vec![0.0, 0.9], vec![0.8, 0.0]]).expect("it is one");
        let ratio = |from, to| measured.ratio(NodeId(from), NodeId(to));
        assert_eq!((ratio(3, 5), ratio(5, 3), ratio(3, 4)), (0.9, 0.8, 0.0));
    }
}
