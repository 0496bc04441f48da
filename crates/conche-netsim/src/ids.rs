//! Identifiers of objects, numbered in order of creation.

use std::fmt;

/// A node, and its host's address as endpoints see it; or an [address](crate::wired::Addresses) of
/// a NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// A unidirectional link of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub(crate) u32);

/// A radio network of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RadioId(pub(crate) u16);

/// A packet sent by a host; unique in the run, except for duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketId(pub(crate) u64);

/// 16 bits keep events small.
pub(crate) type Station = u16;

/// The standard's short broadcast address (§7.2.1.4).
pub(crate) const BROADCAST: Station = Station::MAX;

pub(crate) type QueueIndex = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) network: u16,
    pub(crate) from: Station,
    pub(crate) to: Station,
}

impl NodeId {
    /// All stations in range, for [`Port::transmit`](crate::host::Port::transmit).
    pub const BROADCAST: Self = Self(u32::MAX);

    /// Returns the number, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the number as a `u32`.
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        self.0
    }
}

impl LinkId {
    /// Returns the number, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl RadioId {
    /// Returns the number, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl PacketId {
    /// Returns the number, from 0.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}", self.0)
    }
}

impl fmt::Display for RadioId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "radio network {}", self.0)
    }
}

impl fmt::Display for PacketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {}", self.0)
    }
}
