//! Names of the things in a simulation: small numbers, given in order of creation.

use std::fmt;

/// A node of the topology. It is also the address of the host on it, so it is what endpoints know each other by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// A unidirectional link of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub(crate) u32);

/// A radio network of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RadioId(pub(crate) u16);

/// A packet that a host sent; no other packet of the run has the same number, except a duplicate made by a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketId(pub(crate) u64);

impl NodeId {
    /// Everyone in reach: what a frame is for that [`Port::transmit`](crate::host::Port::transmit) sends to no node alone.
    /// It is the number of no node.
    pub const BROADCAST: Self = Self(u32::MAX);

    /// The node's number: 0 for the first one that was added to the topology.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The same number, for compact storage.
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        self.0
    }
}

impl LinkId {
    /// The link's number: 0 for the first one that was added to the topology.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl RadioId {
    /// The radio network's number: 0 for the first one that was added to the topology.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl PacketId {
    /// The packet's number: 0 for the first one that was sent in a run.
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
