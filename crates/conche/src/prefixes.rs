//! [`Prefixes`]: what is said for address prefixes.

use std::cmp::Reverse;
use std::net::IpAddr;

use ipnet::IpNet;

/// Values for address prefixes, of which the longest decides.
#[derive(Clone, Debug)]
pub(crate) struct Prefixes<T> {
    /// Those of IPv4 first, and the longest.
    entries: Vec<(IpNet, T)>,
}

impl<T> Default for Prefixes<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T> Prefixes<T> {
    /// Sets the value of a prefix, instead of the one that it had.
    pub(crate) fn set(&mut self, prefix: IpNet, value: T) {
        // The bits after the prefix say nothing.
        let prefix = prefix.trunc();
        self.entries.retain(|(other, _)| *other != prefix);
        self.entries.push((prefix, value));
        self.entries.sort_by_key(|(prefix, _)| (prefix.network().is_ipv6(), Reverse(prefix.prefix_len())));
    }

    /// The value of the longest prefix that has this address, which is no IPv4-mapped one.
    pub(crate) fn of(&self, address: IpAddr) -> Option<&T> {
        self.entries.iter().find(|(prefix, _)| prefix.contains(&address)).map(|(_, value)| value)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpNet, &T)> {
        self.entries.iter().map(|(prefix, value)| (*prefix, value))
    }

    /// The same prefixes with what is made of their values.
    pub(crate) fn try_map<U, E>(&self, mut make: impl FnMut(&T) -> Result<U, E>) -> Result<Prefixes<U>, E> {
        let made = self.entries.iter().map(|(prefix, value)| Ok((*prefix, make(value)?)));
        Ok(Prefixes { entries: made.collect::<Result<_, E>>()? })
    }
}

impl<T> FromIterator<(IpNet, T)> for Prefixes<T> {
    fn from_iter<I: IntoIterator<Item = (IpNet, T)>>(entries: I) -> Self {
        let mut prefixes = Self::default();
        entries.into_iter().for_each(|(prefix, value)| prefixes.set(prefix, value));
        prefixes
    }
}
