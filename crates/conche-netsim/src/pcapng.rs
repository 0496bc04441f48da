//! A capture file for Wireshark and tshark, with a comment per CoAP packet.
//!
//! Nodes and links are the interfaces. Packets are recorded at the sender, at links that lose,
//! refuse or duplicate them, and, with [`Capture::BothEnds`], at the receiver, which Wireshark
//! takes for a retransmission.
//!
//! Packets are IPv4 from and to port 5683. Node n has the address 10.0.0.0 + n + 1 and a name
//! resolution record. A node behind a NAT has the NAT's address outside, and a port from 1024 on for
//! each mapping. The IPv4 identification is the packet's number. Timestamps are virtual.
//!
//! ```sh
//! tshark -r run.pcapng -T fields -e frame.time_epoch -e frame.interface_name -e coap.code -e frame.comment
//! ```

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use conche_pcapng::{CaptureFile, Direction, Interface, UdpDatagram};

use crate::packet::{Packet, Transmission};
use crate::trace::{DropReason, Observer};
use crate::wired::{Addresses, Topology};
use crate::{Instant, LinkId, NodeId};

const COAP_PORT: u16 = 5683;

/// An observer that writes a pcapng file. Call [`PcapNg::finish`] after the run.
pub struct PcapNg<W: Write> {
    file: CaptureFile<W>,
    capture: Capture,
    nodes: Vec<String>,
    links: Vec<String>,
    addresses: Addresses,
    exchanges: Exchanges,
    failed: Option<io::Error>,
    only: Option<BTreeSet<NodeId>>,
    most: u64,
    seen: u64,
}

/// The records besides drops and duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// Packets at senders.
    #[default]
    Senders,
    /// Packets at senders and receivers.
    BothEnds,
}

impl<W: Write> PcapNg<W> {
    /// Starts a file for runs of this topology.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(writer: W, topology: &Topology, capture: Capture) -> io::Result<Self> {
        let nodes: Vec<String> = topology.nodes().map(|(_, name)| name.to_owned()).collect();
        let links: Vec<String> = topology.links().map(|(_, name)| name.to_owned()).collect();
        let interface = |description| move |name| Interface { name, description };
        let at_nodes = nodes.iter().map(String::as_str).map(interface("simulated node"));
        let at_links = links.iter().map(String::as_str).map(interface("simulated link"));
        let names = topology.nodes().map(|(node, name)| (address(node), name));
        let file = CaptureFile::begin(writer, at_nodes.chain(at_links), names)?;
        Ok(Self {
            file,
            capture,
            nodes,
            links,
            addresses: topology.addresses(),
            exchanges: Exchanges::default(),
            failed: None,
            only: None,
            most: u64::MAX,
            seen: 0,
        })
    }

    /// Records only packets from or to these nodes: at the sender, if it is one of them, else at the
    /// receiver. Drops of these packets are recorded anywhere.
    #[must_use]
    pub fn only(self, nodes: BTreeSet<NodeId>) -> Self {
        Self { only: Some(nodes), ..self }
    }

    /// Bounds the number of records.
    #[must_use]
    pub fn at_most(self, records: u64) -> Self {
        Self { most: records, ..self }
    }

    /// Returns the number of records, and of those omitted by [`PcapNg::at_most`].
    #[must_use]
    pub fn records(&self) -> (u64, u64) {
        (self.seen.min(self.most), self.seen.saturating_sub(self.most))
    }

    /// Finishes and returns the flushed writer.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(self) -> io::Result<W> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.file.finish()
    }

    fn record(&mut self, now: Instant, packet: &Packet, place: CapturePoint, what: &str) {
        let is_wanted = |of: NodeId| self.only.as_ref().is_none_or(|only| only.contains(&self.addresses.node(of)));
        let is_recorded = match place {
            CapturePoint::Sender(node) | CapturePoint::Receiver(node) => is_wanted(node),
            CapturePoint::Inside(_) | CapturePoint::On(_) => is_wanted(packet.meta.from) || is_wanted(packet.meta.to),
        };
        if !is_recorded || self.failed.is_some() {
            return;
        }
        self.seen += 1;
        if self.seen > self.most {
            return;
        }
        let mut comment = self.describe(packet);
        comment.push_str(what);
        let number = packet.meta.id.as_u64().to_be_bytes();
        let captured = conche_pcapng::Packet {
            interface: self.interface_of(place),
            at: Duration::from_nanos(now.as_nanos()),
            direction: place.direction(),
            comment: Some(&comment),
            lost: 0,
            datagram: UdpDatagram {
                from: self.socket(packet.meta.from),
                to: self.socket(packet.meta.to),
                identification: u16::from_be_bytes([number[6], number[7]]),
                ecn: 0,
                payload: packet.bytes(),
            },
        };
        self.failed = self.file.record(&captured).err();
    }

    fn describe(&mut self, packet: &Packet) -> String {
        let meta = &packet.meta;
        let mut text = format!("packet {}", meta.id.as_u64());
        if let Some(transmission) = meta.transmission {
            text += &format!(": {}", self.describe_transmission(transmission));
        }
        if let Some(cause) = meta.cause {
            text += &format!(": answers packet {}", cause.packet.as_u64());
            if let Some(transmission) = cause.transmission {
                text += &format!(", {}", self.describe_transmission(transmission));
            }
        }
        if meta.duplicate {
            text += "; duplicate";
        }
        text
    }

    fn describe_transmission(&mut self, transmission: Transmission) -> String {
        let (node, exchange) = (&self.nodes[transmission.node.index()], self.exchanges.number(transmission));
        match transmission.attempt {
            0 => format!("{node} exchange {exchange}, original transmission"),
            n => format!("{node} exchange {exchange}, retransmission {n}"),
        }
    }

    fn socket(&self, of: NodeId) -> SocketAddr {
        let port = self.addresses.port(of).unwrap_or(COAP_PORT);
        SocketAddr::from((address(self.addresses.host(of)), port))
    }

    fn interface_of(&self, place: CapturePoint) -> u32 {
        match place {
            CapturePoint::Sender(node) | CapturePoint::Receiver(node) | CapturePoint::Inside(node) => node.0,
            CapturePoint::On(link) => u32::try_from(self.nodes.len()).unwrap_or(u32::MAX) + link.0,
        }
    }
}

impl<W: Write> Observer for PcapNg<W> {
    fn on_sent(&mut self, now: Instant, packet: &Packet) {
        self.record(now, packet, CapturePoint::Sender(packet.meta.from), "");
    }

    fn on_dropped(&mut self, now: Instant, packet: &Packet, reason: DropReason) {
        let (place, why) = match reason {
            DropReason::QueueFull(link) => {
                (CapturePoint::On(link), format!("queue of {} full", self.links[link.index()]))
            }
            DropReason::DroppedEarly(link) => {
                (CapturePoint::On(link), format!("dropped early by {}", self.links[link.index()]))
            }
            DropReason::LinkDown(link) => (CapturePoint::On(link), format!("{} down", self.links[link.index()])),
            DropReason::Lost(link) => (CapturePoint::On(link), format!("lost on {}", self.links[link.index()])),
            DropReason::ChannelBusy(link) => {
                (CapturePoint::On(link), format!("channel of {} busy", self.links[link.index()]))
            }
            DropReason::Unacknowledged(link) => {
                (CapturePoint::On(link), format!("no acknowledgment on {}", self.links[link.index()]))
            }
            DropReason::TooLong(link) => (CapturePoint::On(link), format!("too long for {}", self.links[link.index()])),
            DropReason::Untransmitted(radio) => {
                (CapturePoint::Inside(packet.meta.from), format!("not transmitted in {radio}"))
            }
            DropReason::NoRoute(node) => (CapturePoint::Inside(node), "no route".to_owned()),
            DropReason::NodeDown(node) => (CapturePoint::Inside(node), "cut off".to_owned()),
            DropReason::NoHost(node) => (CapturePoint::Inside(node), "no host".to_owned()),
            DropReason::NoMapping(node) => (CapturePoint::Inside(node), "no NAT mapping".to_owned()),
            DropReason::HopLimit(node) => (CapturePoint::Inside(node), "hop limit".to_owned()),
        };
        self.record(now, packet, place, &format!("; dropped: {why}"));
    }

    fn on_duplicated(&mut self, now: Instant, packet: &Packet, link: LinkId) {
        self.record(now, packet, CapturePoint::On(link), "");
    }

    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        let sender_is_absent =
            self.only.as_ref().is_some_and(|only| !only.contains(&self.addresses.node(packet.meta.from)));
        if self.capture == Capture::BothEnds || sender_is_absent {
            self.record(now, packet, CapturePoint::Receiver(packet.meta.to), "; delivered");
        }
    }
}

impl<W: Write> fmt::Debug for PcapNg<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PcapNg").field("capture", &self.capture).field("failed", &self.failed).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
enum CapturePoint {
    Sender(NodeId),
    Receiver(NodeId),
    Inside(NodeId),
    On(LinkId),
}

impl CapturePoint {
    fn direction(self) -> Direction {
        match self {
            Self::Receiver(_) => Direction::In,
            Self::Sender(_) => Direction::Out,
            Self::Inside(_) | Self::On(_) => Direction::Unknown,
        }
    }
}

#[derive(Debug, Default)]
struct Exchanges {
    numbers: HashMap<(NodeId, u64), u64>,
    last: HashMap<NodeId, u64>,
}

impl Exchanges {
    fn number(&mut self, transmission: Transmission) -> u64 {
        *self.numbers.entry((transmission.node, transmission.exchange)).or_insert_with(|| {
            let last = self.last.entry(transmission.node).or_default();
            *last += 1;
            *last
        })
    }
}

/// From 10.0.0.1, or the limited broadcast address.
fn address(node: NodeId) -> Ipv4Addr {
    if node == NodeId::BROADCAST {
        return Ipv4Addr::BROADCAST;
    }
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 1).to_bits().wrapping_add(node.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PacketId;
    use crate::packet::PacketMeta;

    #[test]
    fn exchanges_are_numbered_for_each_node() {
        let mut exchanges = Exchanges::default();
        let transmission = |node, exchange, attempt| Transmission { node: NodeId(node), exchange, attempt };
        let numbers: Vec<u64> =
            [transmission(1, 70, 0), transmission(2, 70, 0), transmission(1, 70, 1), transmission(1, 9, 0)]
                .into_iter()
                .map(|transmission| exchanges.number(transmission))
                .collect();
        assert_eq!(numbers, [1, 1, 1, 2]);
    }

    #[test]
    fn nodes_have_addresses_of_their_own_from_10_0_0_1_on() {
        assert_eq!(address(NodeId(0)), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(address(NodeId(400)), Ipv4Addr::new(10, 0, 1, 145));
    }

    fn packet(from: u32, to: u32) -> Packet {
        let meta = PacketMeta {
            id: PacketId(1),
            from: NodeId(from),
            to: NodeId(to),
            sent_at: Instant::ZERO,
            transmission: None,
            cause: None,
            duplicate: false,
            is_echo_request: false,
        };
        Packet { meta, snr_db: None, bytes: vec![0x40, 0, 0, 1] }
    }

    #[test]
    fn packets_of_other_nodes_are_left_out_and_those_beyond_the_bound_counted() {
        let mut topology = Topology::new();
        let node = topology.node("client[0]");
        topology.node("client[1]");
        topology.node("server");
        let capture = PcapNg::new(Vec::new(), &topology, Capture::Senders).expect("memory");
        let mut capture = capture.only(BTreeSet::from([node])).at_most(2);
        capture.on_sent(Instant::ZERO, &packet(1, 2));
        capture.on_sent(Instant::ZERO, &packet(2, 0));
        capture.on_delivered(Instant::ZERO, &packet(0, 2));
        capture.on_dropped(Instant::ZERO, &packet(2, 1), DropReason::NoRoute(node));
        assert_eq!(capture.records(), (0, 0));
        capture.on_sent(Instant::ZERO, &packet(0, 2));
        capture.on_delivered(Instant::ZERO, &packet(2, 0));
        assert_eq!(capture.records(), (2, 0));
        capture.on_dropped(Instant::ZERO, &packet(2, 0), DropReason::NoRoute(NodeId(2)));
        assert_eq!(capture.records(), (2, 1));
        let file = capture.finish().expect("memory");
        let contains = |text: &str| file.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(contains("packet 1; delivered") && !contains("no route"));
    }
}
