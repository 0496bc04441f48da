//! Who talks to whom: what an endpoint calls a peer.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

/// A peer: a transport and where the other end of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// CoAP over UDP (RFC 7252). Made with [`from`](Self::from), so that one peer has one name.
    Udp(SocketAddr),
    /// CoAP over DTLS (RFC 7252 §9): one session with who is there. What begins with one session ends with it, so another with
    /// the same address is another peer.
    Dtls(SocketAddr, SessionNumber),
}

/// Tells the sessions of a socket apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionNumber(pub(super) u32);

impl Address {
    /// The address as a socket takes it: one of IPv4 in an IPv6 socket is a mapped one.
    pub(crate) fn socket_addr(self) -> SocketAddr {
        let (Self::Udp(address) | Self::Dtls(address, _)) = self;
        address
    }

    /// The address as users know it: one of IPv4 looks like one.
    #[inline]
    pub(crate) fn canonical(self) -> SocketAddr {
        let address = self.socket_addr();
        let mapped = match address {
            SocketAddr::V6(v6) => v6.ip().to_ipv4_mapped(),
            SocketAddr::V4(_) => None,
        };
        mapped.map_or(address, |v4| (v4, address.port()).into())
    }

    /// This session with who is there.
    pub(crate) fn secured(self, session: SessionNumber) -> Self {
        Self::Dtls(self.socket_addr(), session)
    }

    /// Whatever session leads there, where they need not be told apart.
    pub(crate) fn of_any_session(self) -> Self {
        self.secured(SessionNumber(0))
    }

    pub(crate) fn is_secured(self) -> bool {
        matches!(self, Self::Dtls(..))
    }

    /// The prefix that it counts in where sources share something bounded: /16 of IPv4 and /32 of IPv6, the largest that
    /// one operator usually has. So an attacker whose network lets no foreign source address out (BCP 38) is one of many.
    pub(crate) fn prefix(self) -> u64 {
        match self.canonical().ip() {
            IpAddr::V4(address) => u64::from(u32::from(address) >> 16),
            IpAddr::V6(address) => 1 << 32 | (u128::from(address) >> 96) as u64,
        }
    }

    /// The host of its [prefix](Self::prefix) that it is at: an address of IPv4, and a /64 of IPv6, of which a host may have all addresses.
    pub(crate) fn host(self) -> u64 {
        match self.canonical().ip() {
            IpAddr::V4(address) => u32::from(address).into(),
            IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
        }
    }
}

impl From<SocketAddr> for Address {
    /// The flow label says nothing of who the peer is (RFC 6437 §2), so it is left out.
    fn from(mut address: SocketAddr) -> Self {
        if let SocketAddr::V6(v6) = &mut address {
            v6.set_flowinfo(0);
        }
        Self::Udp(address)
    }
}

/// In few pieces: it is hashed for each datagram.
impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if let Self::Dtls(_, session) = self {
            session.hash(state);
        }
        match self.socket_addr() {
            SocketAddr::V4(address) => {
                state.write_u64(u64::from(u32::from(*address.ip())) << 16 | u64::from(address.port()));
            }
            SocketAddr::V6(address) => {
                state.write_u128(u128::from(*address.ip()));
                state.write_u64(1 << 63 | u64::from(address.scope_id()) << 16 | u64::from(address.port()));
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.canonical().fmt(f)
    }
}

/// What a driver is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It sends requests; those that it gets find no resource.
    Client,
    /// It answers requests, and sends some if it is asked to.
    Server,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, SocketAddrV6};

    #[test]
    fn a_peer_is_the_same_whatever_its_flow_label_but_not_in_another_zone() {
        let address =
            |flow, zone| Address::from(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 5683, flow, zone)));
        assert_eq!(address(0, 0), address(7, 0));
        assert_ne!(address(0, 1), address(0, 2));
    }

    #[test]
    fn a_mapped_address_is_shown_as_one_of_ipv4() {
        let address = Address::from("[::ffff:192.0.2.1]:5683".parse::<SocketAddr>().expect("an address"));
        assert_eq!(address.to_string(), "192.0.2.1:5683");
        assert!(address.socket_addr().is_ipv6());
    }
}
