//! Peer addresses as the endpoint keys them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// CoAP over UDP (RFC 7252). [`from`](Self::from) normalizes the address.
    Udp(SocketAddr),
    /// CoAP over DTLS (RFC 7252 §9). Another session with the same address is another peer.
    Dtls(SocketAddr, SessionNumber),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionNumber(pub(crate) u32);

impl Address {
    /// IPv4 addresses are mapped in an IPv6 socket.
    pub(crate) fn socket_addr(self) -> SocketAddr {
        let (Self::Udp(address) | Self::Dtls(address, _)) = self;
        address
    }

    /// Mapped addresses as IPv4.
    #[inline]
    pub(crate) fn canonical(self) -> SocketAddr {
        let address = self.socket_addr();
        let mapped = match address {
            SocketAddr::V6(v6) => v6.ip().to_ipv4_mapped(),
            SocketAddr::V4(_) => None,
        };
        mapped.map_or(address, |v4| (v4, address.port()).into())
    }

    pub(crate) fn secured(self, session: SessionNumber) -> Self {
        Self::Dtls(self.socket_addr(), session)
    }

    pub(crate) fn of_any_session(self) -> Self {
        self.secured(SessionNumber(0))
    }

    pub(crate) fn is_secured(self) -> bool {
        matches!(self, Self::Dtls(..))
    }

    /// Returns the prefix for fair shares of bounded state: /16 for IPv4 and /32 for IPv6, the
    /// largest that one operator usually has. An attacker behind a filter for forged sources (BCP
    /// 38) counts as one.
    pub(crate) fn prefix(self) -> u64 {
        match self.canonical().ip() {
            IpAddr::V4(address) => u64::from(u32::from(address) >> 16),
            IpAddr::V6(address) => 1 << 32 | (u128::from(address) >> 96) as u64,
        }
    }

    /// Returns the host within its [prefix](Self::prefix): an IPv4 address, or an IPv6 /64.
    pub(crate) fn host(self) -> u64 {
        match self.canonical().ip() {
            IpAddr::V4(address) => u32::from(address).into(),
            IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
        }
    }
}

impl From<SocketAddr> for Address {
    /// Drops the flow label, which does not identify the peer (RFC 6437 §2).
    fn from(mut address: SocketAddr) -> Self {
        if let SocketAddr::V6(v6) = &mut address {
            v6.set_flowinfo(0);
        }
        Self::Udp(address)
    }
}

/// Uses few writes, since it runs for each datagram.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, SocketAddrV6};

    #[test]
    fn peer_addresses_ignore_the_flow_label_but_not_the_zone() {
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
