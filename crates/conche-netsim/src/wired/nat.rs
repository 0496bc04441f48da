//! Network address translation (NAT) of UDP datagrams, as RFC 4787 describes it.
//!
//! A mapping gives a node behind a NAT one address toward all nodes outside (REQ-1). Datagrams from
//! the node refresh it (REQ-6); datagrams toward the node do not, although some NATs do so. After the
//! timeout, or when the NAT loses its state, the next datagram of the node gets a new address, and
//! datagrams to the old one are dropped. Filtering is endpoint-independent: any node may send to an
//! address.
//!
//! Not modelled: NATs behind NATs, and datagrams between nodes of one NAT by its addresses.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::packet::PacketMeta;
use crate::{Instant, NodeId};

/// Lower ports belong to services.
const FIRST_PORT: u16 = 1024;

/// The addresses of a topology: of nodes, and those that NATs give to nodes behind them.
///
/// Addresses of NATs are numbered after all nodes, so endpoints take each for a peer of its own.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    nodes: u32,
    /// Sorted by node.
    behind: Arc<[Behind]>,
}

#[derive(Clone, Copy, Debug)]
struct Behind {
    node: NodeId,
    nat: NodeId,
}

impl Addresses {
    /// `behind` has nodes and their NATs, sorted by node.
    pub(super) fn new(nodes: u32, behind: impl Iterator<Item = (NodeId, NodeId)>) -> Self {
        Self { nodes, behind: behind.map(|(node, nat)| Behind { node, nat }).collect() }
    }

    /// Returns the node that receives datagrams to an address.
    #[must_use]
    pub fn node(&self, address: NodeId) -> NodeId {
        self.mapped(address).map_or(address, |behind| behind.node)
    }

    /// Returns the owner of the IP address: the NAT, or the node itself.
    #[must_use]
    pub fn host(&self, address: NodeId) -> NodeId {
        self.mapped(address).map_or(address, |behind| behind.nat)
    }

    /// Returns the port of a NAT's address, from 1024 on; `None` for a node's own address. After the
    /// last port, the first returns.
    #[must_use]
    pub fn port(&self, address: NodeId) -> Option<u16> {
        self.mapped(address)?;
        let number = (address.0 - self.nodes) % u32::from(u16::MAX - FIRST_PORT);
        u16::try_from(number).ok()?.checked_add(FIRST_PORT)
    }

    /// Returns the NAT in front of a node.
    #[must_use]
    pub fn nat_of(&self, node: NodeId) -> Option<NodeId> {
        Some(self.behind[self.place(node)?].nat)
    }

    fn mapped(&self, address: NodeId) -> Option<&Behind> {
        let number = address.index().checked_sub(self.nodes as usize)?;
        let place = number.checked_rem(self.behind.len())?;
        self.behind.get(place).filter(|_| address != NodeId::BROADCAST)
    }

    fn place(&self, node: NodeId) -> Option<usize> {
        self.behind.binary_search_by_key(&node, |behind| behind.node).ok()
    }

    /// Returns the address of a node's nth mapping. When all numbers are used, old ones return, as
    /// do the ports of a NAT.
    fn nth(&self, place: usize, number: u32) -> NodeId {
        let count = u32::try_from(self.behind.len()).unwrap_or(u32::MAX).max(1);
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        let cycle = ((u32::MAX - self.nodes) / count).max(1);
        NodeId(self.nodes.wrapping_add((number % cycle) * count).wrapping_add(place))
    }
}

/// The mappings of all NATs.
#[derive(Debug)]
pub(super) struct Nats {
    addresses: Addresses,
    translators: BTreeSet<NodeId>,
    /// By place in the addresses.
    mappings: Vec<Mapping>,
}

#[derive(Debug)]
struct Mapping {
    timeout: Duration,
    /// Mappings so far.
    count: u32,
    /// The address, until this time.
    current: Option<(NodeId, Instant)>,
}

impl Mapping {
    fn address(&self, now: Instant) -> Option<NodeId> {
        self.current.filter(|(_, until)| now < *until).map(|(address, _)| address)
    }
}

impl Nats {
    /// `timeouts` are in the order of the addresses, one for each node behind a NAT.
    pub(super) fn new(addresses: Addresses, timeouts: impl Iterator<Item = Duration>) -> Self {
        let translators = addresses.behind.iter().map(|behind| behind.nat).collect();
        let mappings = timeouts.map(|timeout| Mapping { timeout, count: 0, current: None }).collect();
        Self { addresses, translators, mappings }
    }

    /// Translates a packet that passes a node; returns `false` if its destination has no mapping.
    pub(super) fn translate(&mut self, now: Instant, at: NodeId, to: NodeId, meta: &mut PacketMeta) -> bool {
        if !self.translators.contains(&at) {
            return true;
        }
        let is_behind = |place: &usize| self.addresses.behind[*place].nat == at;
        let [sender, receiver] = [meta.from, to].map(|node| self.addresses.place(node).filter(is_behind));
        match (sender, receiver) {
            (Some(place), None) if to != at => {
                meta.from = self.refresh(now, place);
                true
            }
            (None, Some(place)) if meta.from != at => {
                let is_mapped = self.mappings[place].address(now) == Some(meta.to);
                if is_mapped {
                    meta.to = to;
                }
                is_mapped
            }
            _ => true,
        }
    }

    /// Returns the address of a node's mapping, if it has one.
    pub(super) fn address(&self, now: Instant, node: NodeId) -> Option<NodeId> {
        self.mappings[self.addresses.place(node)?].address(now)
    }

    /// Ends a node's mapping; returns `false` if it is behind no NAT.
    pub(super) fn rebind(&mut self, node: NodeId) -> bool {
        let place = self.addresses.place(node);
        place.map(|place| self.mappings[place].current = None).is_some()
    }

    fn refresh(&mut self, now: Instant, place: usize) -> NodeId {
        let mapping = &mut self.mappings[place];
        let address = mapping.address(now).unwrap_or_else(|| {
            let number = mapping.count;
            mapping.count = mapping.count.wrapping_add(1);
            self.addresses.nth(place, number)
        });
        mapping.current = Some((address, now + mapping.timeout));
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(nodes: u32, behind: &[u32]) -> Addresses {
        Addresses::new(nodes, behind.iter().map(|node| (NodeId(*node), NodeId(0))))
    }

    #[test]
    fn addresses_of_nats_lead_to_their_nodes() {
        let addresses = addresses(10, &[3, 7]);
        let of = |place, number| addresses.nth(place, number);
        assert_eq!([of(0, 0), of(1, 0), of(0, 1), of(1, 1)], [10, 11, 12, 13].map(NodeId));
        assert_eq!([3, 9, 10, 11, 12, 13].map(|id| addresses.node(NodeId(id)).0), [3, 9, 3, 7, 3, 7]);
        assert_eq!([3, 9, 10, 13].map(|id| addresses.host(NodeId(id)).0), [3, 9, 0, 0]);
        assert_eq!([3, 10, 13].map(|id| addresses.port(NodeId(id))), [None, Some(1024), Some(1027)]);
        assert_eq!([3, 9].map(|id| addresses.nat_of(NodeId(id))), [Some(NodeId(0)), None]);
        assert_eq!(addresses.node(NodeId::BROADCAST), NodeId::BROADCAST);
    }

    #[test]
    fn without_nats_an_address_is_its_node() {
        let addresses = addresses(2, &[]);
        assert_eq!([0, 1, 2, u32::MAX].map(|id| addresses.node(NodeId(id)).0), [0, 1, 2, u32::MAX]);
    }

    #[test]
    fn after_the_last_number_old_addresses_return() {
        let nodes = u32::MAX - 7;
        let addresses = addresses(nodes, &[0, 1]);
        let all: Vec<NodeId> = (0..4).flat_map(|number| [addresses.nth(0, number), addresses.nth(1, number)]).collect();
        assert_eq!(all[..6], [0, 1, 2, 3, 4, 5].map(|number| NodeId(nodes + number)));
        assert_eq!(all[6..], all[..2]);
        assert!(!all.contains(&NodeId::BROADCAST));
    }
}
