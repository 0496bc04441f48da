//! Who talks to whom: what an endpoint on a socket calls a peer.

use std::net::{IpAddr, SocketAddr};

/// What an endpoint calls a peer: the other end, and which of our own addresses it talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    /// The other end.
    pub(crate) peer: SocketAddr,
    /// Our own address, where a socket has several and the peer chose one of them; otherwise the operating system
    /// chooses.
    pub(crate) local: Option<IpAddr>,
}

/// What a driver is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It sends requests; those that it gets find no resource.
    Client,
    /// It answers requests.
    Server,
}
