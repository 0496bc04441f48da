//! Path state: the peers that share it ([`Sharing`]), and its file ([`PathStore`]).

mod store;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use conche_proto::PathKey;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::address::Address;
use crate::prefixes::Prefixes;
pub(crate) use store::PathStore;

/// By default peers of one IPv4 address, or one IPv6 /64, share a path.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    pub(crate) on: bool,
    /// Leading address bits that peers of a path share.
    lengths: Prefixes<u8>,
}

const DEFAULTS: [(IpNet, u8); 5] = [
    (IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)), 32),
    (IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)), 64),
    // NAT64: all IPv4 hosts share one /64 (RFC 6052 §2.1), or a few (RFC 8215).
    (IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96)), 128),
    (IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48)), 128),
    // Teredo: a server and all its clients share a /64 (RFC 4380 §4).
    (IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32)), 128),
];

impl Default for Sharing {
    fn default() -> Self {
        Self { on: true, lengths: DEFAULTS.into_iter().collect() }
    }
}

impl Sharing {
    pub(crate) fn set_length(&mut self, prefix: IpNet, length: u8) {
        self.lengths.set(prefix, length);
    }

    /// Returns a length that exceeds its prefix's address length.
    pub(crate) fn impossible(&self) -> Option<(IpNet, u8)> {
        let mut lengths = self.lengths.iter().map(|(prefix, length)| (prefix, *length));
        lengths.find(|(prefix, length)| *length > prefix.max_prefix_len())
    }

    /// Returns `None` for multicast groups, which many paths lead to.
    pub(crate) fn path(&self, peer: &Address) -> Option<PathKey> {
        let peer = peer.canonical();
        let address = peer.ip();
        let length = *self.lengths.of(address).filter(|_| !address.is_multicast())?;
        Some(match peer {
            SocketAddr::V4(peer) => {
                PathKey::new(peer.ip().to_ipv6_mapped().into(), MAPPED_LENGTH.saturating_add(length))
            }
            SocketAddr::V6(peer) if peer.ip().is_unicast_link_local() => {
                PathKey::new(in_its_zone(peer), length.max(ZONE_LENGTH))
            }
            SocketAddr::V6(peer) => PathKey::new((*peer.ip()).into(), length),
        })
    }
}

/// RFC 4291 §2.5.5.2.
const MAPPED_LENGTH: u8 = 96;

/// A link-local prefix of this length contains the whole zone.
const ZONE_LENGTH: u8 = 64;

/// Puts the zone into bits that are otherwise zero (RFC 4291 §2.5.6): the same link-local address
/// is another host on another interface.
fn in_its_zone(peer: SocketAddrV6) -> u128 {
    let interface_id = u128::from(*peer.ip()) & u128::from(u64::MAX);
    LINK_LOCAL | u128::from(peer.scope_id()) << 64 | interface_id
}

/// Its interface index is valid only until the next boot.
fn is_link_local(key: PathKey) -> bool {
    Ipv6Addr::from(key.prefix()).is_unicast_link_local()
}

/// fe80::
const LINK_LOCAL: u128 = 0xfe80 << 112;

/// An IPv4 path becomes an IPv4 prefix.
fn prefix_of(key: PathKey) -> Option<IpNet> {
    let address = Ipv6Addr::from(key.prefix());
    let (address, length) = match (address.to_ipv4_mapped(), key.length().checked_sub(MAPPED_LENGTH)) {
        (Some(v4), Some(length)) => (IpAddr::V4(v4), length),
        _ => (IpAddr::V6(address), key.length()),
    };
    IpNet::new(address, length).ok()
}

fn key_of(prefix: IpNet) -> PathKey {
    match prefix {
        IpNet::V4(v4) => PathKey::new(v4.addr().to_ipv6_mapped().into(), MAPPED_LENGTH.saturating_add(v4.prefix_len())),
        IpNet::V6(v6) => PathKey::new(v6.addr().into(), v6.prefix_len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(sharing: &Sharing, peer: &str) -> Option<PathKey> {
        sharing.path(&Address::from(peer.parse::<SocketAddr>().expect("an address")))
    }

    fn share(sharing: &Sharing, one: &str, other: &str) -> bool {
        let [one, other] = [one, other].map(|peer| path(sharing, peer).expect("it has a path"));
        one == other
    }

    #[test]
    fn peers_of_one_ipv4_address_and_of_one_ipv6_64_are_of_one_path() {
        let sharing = Sharing::default();
        assert!(share(&sharing, "192.0.2.7:1", "192.0.2.7:2"));
        assert!(!share(&sharing, "192.0.2.7:1", "192.0.2.6:1"));
        assert!(share(&sharing, "[2001:db8:0:1::7]:1", "[2001:db8:0:1:f::8]:2"));
        assert!(!share(&sharing, "[2001:db8:0:1::7]:1", "[2001:db8:0:2::7]:1"));
    }

    #[test]
    fn a_mapped_address_is_of_the_path_of_its_ipv4_address() {
        let mut sharing = Sharing::default();
        assert!(share(&sharing, "[::ffff:192.0.2.7]:1", "192.0.2.7:2"));
        sharing.set_length("192.0.2.0/24".parse().expect("a prefix"), 24);
        assert!(share(&sharing, "[::ffff:192.0.2.7]:1", "192.0.2.9:2"));
    }

    #[test]
    fn a_link_local_peer_on_another_interface_is_of_another_path_however_short_paths_are() {
        let peer = |interface_id, zone| {
            let address = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, interface_id);
            Address::from(SocketAddr::V6(SocketAddrV6::new(address, 5683, 0, zone)))
        };
        let mut sharing = Sharing::default();
        for length in [64, 0, 128] {
            sharing.set_length("::/0".parse().expect("a prefix"), length);
            assert_ne!(sharing.path(&peer(1, 2)), sharing.path(&peer(1, 3)));
            assert_ne!(sharing.path(&peer(1, u32::MAX)), sharing.path(&peer(1, 0)));
            assert_eq!(sharing.path(&peer(1, 2)) == sharing.path(&peer(2, 2)), length < 128);
            assert!(sharing.path(&peer(1, u32::MAX)).is_some_and(is_link_local));
        }
    }

    #[test]
    fn hosts_behind_a_translator_or_a_teredo_server_are_of_paths_of_their_own() {
        let sharing = Sharing::default();
        assert!(!share(&sharing, "[64:ff9b::192.0.2.7]:1", "[64:ff9b::192.0.2.8]:1"));
        assert!(!share(&sharing, "[64:ff9b:1::7]:1", "[64:ff9b:1::8]:1"));
        assert!(!share(&sharing, "[2001:0:7::7]:1", "[2001:0:7::8]:1"));
    }

    #[test]
    fn a_group_has_no_path() {
        assert_eq!(path(&Sharing::default(), "224.0.1.187:5683"), None);
        assert_eq!(path(&Sharing::default(), "[ff02::fd]:5683"), None);
    }

    #[test]
    fn the_longest_matching_prefix_sets_the_path_length() {
        let mut sharing = Sharing::default();
        for (prefix, length) in [("0.0.0.0/0", 24), ("10.0.0.0/8", 16), ("2001:db8::/32", 48)] {
            sharing.set_length(prefix.parse().expect("a prefix"), length);
        }
        assert!(share(&sharing, "192.0.2.7:1", "192.0.2.6:1"));
        assert!(share(&sharing, "10.1.2.7:1", "10.1.3.6:1"));
        assert!(share(&sharing, "[2001:db8:0:1::7]:1", "[2001:db8:0:2::7]:1"));
        assert!(!share(&sharing, "[2001:db9:0:1::7]:1", "[2001:db9:0:2::7]:1"));
    }

    #[test]
    fn a_length_that_no_address_has_is_found() {
        let mut sharing = Sharing::default();
        assert_eq!(sharing.impossible(), None);
        let prefix = "10.0.0.0/8".parse().expect("a prefix");
        sharing.set_length(prefix, 33);
        assert_eq!(sharing.impossible(), Some((prefix, 33)));
    }

    #[test]
    fn a_path_is_the_one_that_its_prefix_names() {
        let sharing = Sharing::default();
        for (peer, prefix) in [("192.0.2.7:1", "192.0.2.7/32"), ("[2001:db8:0:1::7]:1", "2001:db8:0:1::/64")] {
            let key = path(&sharing, peer).expect("it has a path");
            let named = prefix_of(key).expect("a prefix");
            assert_eq!(named.to_string(), prefix);
            assert_eq!(key_of(named), key);
        }
    }
}
