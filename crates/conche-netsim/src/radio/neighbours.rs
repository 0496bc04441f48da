//! Each station's links above the interference floor.

use std::ops::Range;

use super::power::Power;
use crate::ids::Station;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RadioLink {
    pub(crate) to: Station,
    /// Above sensitivity; other links only interfere.
    pub(crate) decodable: bool,
    pub(crate) power: Power,
}

/// Decodable ones first per sender, which saves a test per link and frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours {
    links: Vec<RadioLink>,
    /// Each station's first link, and the end of the last.
    starts: Vec<u32>,
    /// Each station's first interfering link.
    interfering: Vec<u32>,
}

impl Neighbours {
    pub(crate) fn of_stations(stations: Vec<Vec<RadioLink>>) -> Self {
        let links = Vec::with_capacity(stations.iter().map(Vec::len).sum());
        let mut neighbours = Self { links, starts: vec![0], interfering: Vec::with_capacity(stations.len()) };
        stations.into_iter().for_each(|links| neighbours.add_station(links));
        neighbours
    }

    pub(crate) fn new(stations: usize, mut link: impl FnMut(Station, Station) -> Option<RadioLink>) -> Self {
        let stations = Station::try_from(stations).expect("the layout is checked");
        let mut neighbours = Self { links: Vec::new(), starts: vec![0], interfering: Vec::new() };
        for from in 0..stations {
            let links = (0..stations).filter(|to| *to != from).filter_map(|to| link(from, to));
            neighbours.add_station(links.collect());
        }
        neighbours
    }

    pub(crate) fn from(&self, station: Station) -> impl Iterator<Item = (u32, RadioLink)> + '_ {
        let (start, end) = (self.starts[usize::from(station)], self.starts[usize::from(station) + 1]);
        (start..end).zip(self.links[start as usize..end as usize].iter().copied())
    }

    pub(crate) fn decodable(&self, station: Station) -> Range<u32> {
        self.starts[usize::from(station)]..self.interfering[usize::from(station)]
    }

    pub(crate) fn interfering(&self, station: Station) -> &[RadioLink] {
        let (start, end) = (self.interfering[usize::from(station)], self.starts[usize::from(station) + 1]);
        &self.links[start as usize..end as usize]
    }

    pub(crate) fn link(&self, number: u32) -> RadioLink {
        self.links[number as usize]
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = RadioLink> + '_ {
        self.links.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    fn add_station(&mut self, mut links: Vec<RadioLink>) {
        let number = |links: usize| u32::try_from(links).expect("fewer than 2^32 links fit into memory");
        // Stable, to keep receiver order.
        links.sort_by_key(|link| !link.decodable);
        self.interfering.push(number(self.links.len() + links.partition_point(|link| link.decodable)));
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
        let interfering: Vec<Station> = neighbours.interfering(0).iter().map(|link| link.to).collect();
        assert_eq!((decodable, interfering), (vec![2, 4], vec![1, 3]));
        assert_eq!(neighbours.from(3).map(|(_, link)| link.to).collect::<Vec<_>>(), [0, 2, 4, 1]);
    }
}
