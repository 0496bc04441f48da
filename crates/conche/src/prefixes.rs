//! [`Prefixes`]: values by address prefix.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

#[cfg(any(feature = "dtls", feature = "oscore"))]
pub(crate) fn everywhere() -> [IpNet; 2] {
    [ipnet::Ipv4Net::default().into(), ipnet::Ipv6Net::default().into()]
}

#[derive(Clone, Debug)]
pub(crate) struct Prefixes<T> {
    values: Vec<T>,
    places: PrefixIndex,
}

#[derive(Clone, Debug, Default)]
struct PrefixIndex {
    by_prefix: BTreeMap<IpNet, usize>,
    /// Longest first, for IPv4 and IPv6.
    lengths: [BTreeSet<Reverse<u8>>; 2],
}

impl PrefixIndex {
    fn of_prefix(&mut self, prefix: IpNet) -> usize {
        let next = self.by_prefix.len();
        self.lengths[usize::from(prefix.network().is_ipv6())].insert(Reverse(prefix.prefix_len()));
        // Host bits are ignored.
        *self.by_prefix.entry(prefix.trunc()).or_insert(next)
    }

    fn of(&self, address: IpAddr) -> Option<usize> {
        let mut lengths = self.lengths[usize::from(address.is_ipv6())].iter();
        lengths.find_map(|&Reverse(length)| self.by_prefix.get(&IpNet::new(address, length).ok()?.trunc()).copied())
    }
}

impl<T> Default for Prefixes<T> {
    fn default() -> Self {
        Self { values: Vec::new(), places: PrefixIndex::default() }
    }
}

impl<T> Prefixes<T> {
    pub(crate) fn set(&mut self, prefix: IpNet, value: T) {
        let place = self.places.of_prefix(prefix);
        match self.values.get_mut(place) {
            Some(old) => *old = value,
            None => self.values.push(value),
        }
    }

    /// `address` must not be IPv4-mapped.
    pub(crate) fn of(&self, address: IpAddr) -> Option<&T> {
        self.values.get(self.places.of(address)?)
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpNet, &T)> {
        self.places.by_prefix.iter().filter_map(|(prefix, place)| Some((*prefix, self.values.get(*place)?)))
    }

    pub(crate) fn try_map<U, E>(&self, make: impl FnMut(&T) -> Result<U, E>) -> Result<Prefixes<U>, E> {
        let values = self.values.iter().map(make).collect::<Result<_, E>>()?;
        Ok(Prefixes { values, places: self.places.clone() })
    }
}

impl<T> FromIterator<(IpNet, T)> for Prefixes<T> {
    fn from_iter<I: IntoIterator<Item = (IpNet, T)>>(entries: I) -> Self {
        let mut prefixes = Self::default();
        entries.into_iter().for_each(|(prefix, value)| prefixes.set(prefix, value));
        prefixes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_decides_and_a_value_is_set_anew() {
        let net = |text: &str| text.parse::<IpNet>().expect("a prefix");
        let mut prefixes: Prefixes<u8> = [("0.0.0.0/0", 0), ("10.9.8.7/8", 1), ("10.1.0.0/16", 2), ("::/0", 3)]
            .map(|(prefix, value)| (net(prefix), value))
            .into_iter()
            .collect();
        prefixes.set(net("10.1.2.3/32"), 4);
        prefixes.set(net("10.0.0.0/8"), 5);
        let of = |text: &str| prefixes.of(text.parse().expect("an address")).copied();
        for (address, value) in [("10.1.2.3", 4), ("10.1.2.4", 2), ("10.2.0.0", 5), ("11.0.0.0", 0), ("2001:db8::1", 3)]
        {
            assert_eq!(of(address), Some(value), "{address}");
        }
        assert_eq!((prefixes.len(), Prefixes::<u8>::default().of(IpAddr::from([10, 0, 0, 1]))), (5, None));
    }
}
