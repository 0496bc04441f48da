//! A radio network under construction.

use super::config::RadioConfig;
use super::network::RadioNetwork;
use super::station::Interface;
use crate::NodeId;
use crate::ids::Station;
use crate::radio::phy::SHR_PHR_OCTETS;
use crate::radio::{Air, AnyMedium, LinkQuality, Position, RadioError, StationMap};
use crate::rng::{Entity, Purpose, Streams};

#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) name: String,
    pub(crate) config: RadioConfig,
    /// Stations in the order of their numbers.
    pub(crate) stations: Vec<(NodeId, Position)>,
}

impl Layout {
    pub(crate) fn station_map(&self) -> StationMap {
        StationMap::new(self.stations.iter().map(|(node, _)| *node))
    }

    fn medium(&self, streams: &Streams) -> Result<AnyMedium, RadioError> {
        if Station::try_from(self.stations.len()).is_err() {
            return Err(RadioError::TooManyStations(self.stations.len()));
        }
        let positions: Vec<Position> = self.stations.iter().map(|(_, position)| *position).collect();
        self.config.medium.build(&positions, streams)
    }

    /// Returns the quality in the run with these streams, for this PSDU.
    pub(crate) fn quality(&self, streams: &Streams, psdu_octets: u8) -> Result<LinkQuality, RadioError> {
        let octets = SHR_PHR_OCTETS + u32::from(psdu_octets);
        let ratios = self.medium(streams)?.reception_ratios(self.stations.len(), octets);
        let nodes = self.stations.iter().map(|(node, _)| *node).collect();
        Ok(LinkQuality::of_neighbours(nodes, ratios))
    }

    pub(crate) fn build(&self, number: u16, streams: &Streams) -> Result<RadioNetwork, RadioError> {
        self.config.mac.check()?;
        let medium = self.medium(streams)?;
        let stream = |node, what: &str| {
            // A node may have stations in several networks.
            streams.stream(Entity::Node(node), Purpose::named(&format!("{what} {}", self.name)))
        };
        let air = Air::new(medium, self.stations.iter().map(|(node, _)| stream(*node, "reception")));
        let interface = |node| Interface::new(node, &self.config.mac, |purpose| stream(node, purpose));
        let interfaces = self.stations.iter().map(|(node, _)| interface(*node)).collect();
        Ok(RadioNetwork::new(number, self.config.mac, air, interfaces, self.station_map()))
    }
}
