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

/// The links of all stations, those of one station side by side: first those whose frames can be received, then those that
/// only disturb, so that the two are not told apart link by link for each frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours {
    links: Vec<RadioLink>,
    /// Where the links of each station begin, and at last where those of the last one end.
    starts: Vec<u32>,
    /// Where those of each station begin that only disturb.
    faint: Vec<u32>,
}

impl Neighbours {
    /// The links of each station, in the order of those that hear it.
    pub(crate) fn of_stations(stations: Vec<Vec<RadioLink>>) -> Self {
        let links = Vec::with_capacity(stations.iter().map(Vec::len).sum());
        let mut neighbours = Self { links, starts: vec![0], faint: Vec::with_capacity(stations.len()) };
        stations.into_iter().for_each(|links| neighbours.add_station(links));
        neighbours
    }

    /// Asks for each ordered pair whether there is a link.
    pub(crate) fn new(stations: usize, mut link: impl FnMut(Station, Station) -> Option<RadioLink>) -> Self {
        let stations = Station::try_from(stations).expect("the layout is checked");
        let mut neighbours = Self { links: Vec::new(), starts: vec![0], faint: Vec::new() };
        for from in 0..stations {
            let links = (0..stations).filter(|to| *to != from).filter_map(|to| link(from, to));
            neighbours.add_station(links.collect());
        }
        neighbours
    }

    /// The links from a station, with their numbers.
    pub(crate) fn from(&self, station: Station) -> impl Iterator<Item = (u32, RadioLink)> + '_ {
        let (start, end) = (self.starts[usize::from(station)], self.starts[usize::from(station) + 1]);
        (start..end).zip(self.links[start as usize..end as usize].iter().copied())
    }

    /// The numbers of those whose frames can be received.
    pub(crate) fn decodable(&self, station: Station) -> Range<u32> {
        self.starts[usize::from(station)]..self.faint[usize::from(station)]
    }

    /// Those that only disturb.
    pub(crate) fn faint(&self, station: Station) -> &[RadioLink] {
        let (start, end) = (self.faint[usize::from(station)], self.starts[usize::from(station) + 1]);
        &self.links[start as usize..end as usize]
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

    fn add_station(&mut self, mut links: Vec<RadioLink>) {
        let number = |links: usize| u32::try_from(links).expect("fewer than 2^32 links fit into memory");
        // Stable: among those that can receive it, stations come in their order.
        links.sort_by_key(|link| !link.decodable);
        self.faint.push(number(self.links.len() + links.partition_point(|link| link.decodable)));
        self.links.extend(links);
        self.starts.push(number(self.links.len()));
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

    #[test]
    fn those_that_only_disturb_come_last() {
        let even = |_, to: Station| Some(RadioLink { to, decodable: to.is_multiple_of(2), power: Power::units(1) });
        let neighbours = Neighbours::new(5, even);
        let decodable: Vec<Station> = neighbours.decodable(0).map(|number| neighbours.link(number).to).collect();
        let faint: Vec<Station> = neighbours.faint(0).iter().map(|link| link.to).collect();
        assert_eq!((decodable, faint), (vec![2, 4], vec![1, 3]));
        assert_eq!(neighbours.from(3).map(|(_, link)| link.to).collect::<Vec<_>>(), [0, 2, 4, 1]);
    }
}
