//! Who hears whom: for each station, the links to all that its signal reaches above the interference floor.

use std::ops::Range;

use super::power::Power;

/// A station's number within its radio network. 16 bits, so that an event of the radio is no larger than the others.
pub(crate) type Station = u16;

/// Everyone in reach: 0xffff, the standard's short broadcast address (§7.2.1.4). It is the number of no station.
pub(crate) const BROADCAST: Station = Station::MAX;

/// From one station to another that hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RadioLink {
    /// The one that hears.
    pub(crate) to: Station,
    /// Its frames can be received, not only disturb.
    pub(crate) decodable: bool,
    /// How strong the signal is there.
    pub(crate) power: Power,
}

/// The links of all stations, those of one station side by side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours {
    links: Vec<RadioLink>,
    /// Where the links of each station begin, and at last where those of the last one end.
    starts: Vec<u32>,
}

impl Neighbours {
    /// The links of each station, in the order of those that hear it.
    pub(crate) fn of_stations(stations: Vec<Vec<RadioLink>>) -> Self {
        let mut neighbours = Self { links: Vec::with_capacity(stations.iter().map(Vec::len).sum()), starts: vec![0] };
        for links in stations {
            neighbours.links.extend(links);
            neighbours.end_station();
        }
        neighbours
    }

    /// Asks for each ordered pair whether there is a link.
    pub(crate) fn new(stations: usize, mut link: impl FnMut(Station, Station) -> Option<RadioLink>) -> Self {
        let stations = Station::try_from(stations).expect("the layout is checked");
        let mut neighbours = Self { links: Vec::new(), starts: vec![0] };
        for from in 0..stations {
            neighbours.links.extend((0..stations).filter(|to| *to != from).filter_map(|to| link(from, to)));
            neighbours.end_station();
        }
        neighbours
    }

    /// The links from a station, with their numbers.
    pub(crate) fn from(&self, station: Station) -> impl Iterator<Item = (u32, RadioLink)> + '_ {
        let numbers = self.numbers(station);
        let links = &self.links[numbers.start as usize..numbers.end as usize];
        numbers.zip(links.iter().copied())
    }

    /// The numbers of the links from a station.
    pub(crate) fn numbers(&self, station: Station) -> Range<u32> {
        self.starts[usize::from(station)]..self.starts[usize::from(station) + 1]
    }

    /// The link of this number.
    pub(crate) fn link(&self, number: u32) -> RadioLink {
        self.links[number as usize]
    }

    /// All links in the order of their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = RadioLink> + '_ {
        self.links.iter().copied()
    }

    /// How many links there are.
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    fn end_station(&mut self) {
        self.starts.push(u32::try_from(self.links.len()).expect("fewer than 2^32 links fit into memory"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_station_has_the_links_that_were_given() {
        let odd_sum = |from: Station, to: Station| {
            let power = Power::units(u64::from(10 * from + to));
            ((from + to) % 2 == 1).then_some(RadioLink { to, decodable: true, power })
        };
        let neighbours = Neighbours::new(4, odd_sum);
        let of = |station| neighbours.from(station).map(|(number, link)| (number, link.to)).collect::<Vec<_>>();
        assert_eq!(
            [of(0), of(1), of(2), of(3)],
            [[(0, 1), (1, 3)], [(2, 0), (3, 2)], [(4, 1), (5, 3)], [(6, 0), (7, 2)]]
        );
        assert_eq!(neighbours.len(), 8);
    }
}
