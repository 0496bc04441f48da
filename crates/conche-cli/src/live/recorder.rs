//! [`Recorder`]: counts packets and keeps the latest messages for the next frame.
//!
//! Each packet costs a bounded amount of work and memory, whether or not a page is open.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use conche::PeerSnapshot;
use conche::codec::{Message, Type};
use conche_netsim::node::{Monitor, ReceivedMessage};
use conche_netsim::packet::{Packet, Transmission};
use conche_netsim::trace::{DropReason, Observer};
use conche_netsim::wired::{Addresses, Topology};
use conche_netsim::{Event, Instant, LinkId, NodeId, Transmit};
use serde::Serialize;

use crate::packet_counts::PacketCounts;
use crate::trace;

/// Maximum number of messages in a frame. Earlier ones are counted only.
const MESSAGES: usize = 500;

#[derive(Debug, Default)]
pub struct Recorder {
    nodes: usize,
    addresses: Addresses,
    links: Vec<PacketCounts>,
    paths: HashMap<(NodeId, NodeId), Transmissions>,
    messages: VecDeque<MessageEvent>,
    omitted: u64,
    /// Time, sender, receiver and hash of the latest Confirmable messages of programs.
    confirmable: VecDeque<(Instant, (NodeId, NodeId, u64))>,
    /// Nodes to count messages of; all nodes if it is empty.
    counted: Vec<usize>,
    /// Events of these messages.
    seen: u64,
    /// The path of the endpoint that sends next, in this transmission.
    sending: Option<(Transmission, PathState)>,
}

/// Maximum number of Confirmable messages whose retransmissions are recognized.
const CONFIRMABLE: usize = 512;

/// How long a message ID belongs to one message, with default parameters (RFC 7252 §4.8.2).
const EXCHANGE_LIFETIME: Duration = Duration::from_secs(247);

/// Maximum number of characters that describe a message.
const TEXT: usize = 120;

/// Transmissions of exchanges on a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transmissions {
    pub all: u64,
    pub again: u64,
}

/// Fate of a message, as the page reads it.
#[derive(Debug, Serialize)]
pub struct MessageEvent {
    at: f64,
    kind: Kind,
    id: u64,
    is_duplicate: bool,
    from: usize,
    to: usize,
    #[serde(flatten)]
    sent: Option<Sent>,
    link: Option<usize>,
    reason: Option<&'static str>,
    /// The path to the other end in a simulated endpoint's view, after it has sent or received this.
    #[serde(flatten)]
    path: Option<PathState>,
}

/// State of a path under congestion control.
#[derive(Clone, Copy, Debug, Serialize)]
struct PathState {
    rto_s: f64,
    srtt_s: Option<f64>,
}

impl From<PeerSnapshot> for PathState {
    fn from(PeerSnapshot { congestion, .. }: PeerSnapshot) -> Self {
        Self { rto_s: congestion.rto.as_secs_f64(), srtt_s: congestion.srtt.map(|srtt| srtt.as_secs_f64()) }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Sent,
    Delivered,
    Dropped,
}

#[derive(Debug, Serialize)]
struct Sent {
    size: usize,
    text: String,
    is_retransmission: bool,
    /// Number of the retransmission; `None` for answers and programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u8>,
}

impl Recorder {
    pub fn new(topology: &Topology) -> Self {
        let links = vec![PacketCounts::default(); topology.links().count()];
        Self { nodes: topology.nodes().count(), addresses: topology.addresses(), links, ..Self::default() }
    }

    /// Counts events of messages from and to these nodes anew; of all nodes if `nodes` is empty.
    pub fn count(&mut self, nodes: Vec<usize>) {
        self.counted = nodes;
        self.seen = 0;
    }

    /// Returns the number of events of counted messages.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    pub fn link(&self, link: LinkId) -> PacketCounts {
        self.links.get(link.index()).copied().unwrap_or_default()
    }

    pub fn path(&self, from: NodeId, to: NodeId) -> Transmissions {
        self.paths.get(&(from, to)).copied().unwrap_or_default()
    }

    /// Takes the messages since the last call, and the number of those left out.
    pub fn take(&mut self) -> (Vec<MessageEvent>, u64) {
        (std::mem::take(&mut self.messages).into(), std::mem::take(&mut self.omitted))
    }

    /// Returns sender and receiver, also of a packet between a NAT and its destination.
    fn ends(&self, packet: &Packet) -> (NodeId, NodeId) {
        (self.addresses.node(packet.meta.from), self.addresses.node(packet.meta.to))
    }

    /// Returns whether a Confirmable message of a program is a retransmission: the same bytes within
    /// EXCHANGE_LIFETIME. `None` for other messages.
    fn repeats(&mut self, now: Instant, packet: &Packet) -> Option<bool> {
        let message = Message::decode_extended(packet.bytes()).ok();
        message.filter(|message| message.ty() == Type::Confirmable)?;
        while self.confirmable.front().is_some_and(|(at, _)| now - *at > EXCHANGE_LIFETIME) {
            self.confirmable.pop_front();
        }
        let (from, to) = self.ends(packet);
        let mut hasher = DefaultHasher::new();
        packet.bytes().hash(&mut hasher);
        let key = (from, to, hasher.finish());
        let is_known = self.confirmable.iter().any(|(_, known)| *known == key);
        if !is_known {
            if self.confirmable.len() == CONFIRMABLE {
                self.confirmable.pop_front();
            }
            self.confirmable.push_back((now, key));
        }
        Some(is_known)
    }

    /// Records an event, unless it is of a broadcast, which has no receiver.
    fn note(
        &mut self,
        now: Instant,
        packet: &Packet,
        kind: Kind,
        is_retransmission: bool,
        dropped: Option<DropReason>,
    ) {
        let meta = &packet.meta;
        let (from, to) = self.ends(packet);
        if to.index() >= self.nodes {
            return;
        }
        let is_counted = |node: &usize| [from, to].iter().any(|end| end.index() == *node);
        self.seen += u64::from(self.counted.is_empty() || self.counted.iter().any(is_counted));
        if self.messages.len() >= MESSAGES {
            self.messages.pop_front();
            self.omitted += 1;
        }
        let attempt = meta.transmission.map(|transmission| transmission.attempt);
        let sent = || Sent {
            size: packet.bytes().len(),
            text: shortened(trace::line(packet.bytes())),
            is_retransmission,
            attempt,
        };
        let sending = self.sending.take_if(|_| matches!(kind, Kind::Sent));
        let path = sending.filter(|(of, _)| Some(*of) == meta.transmission).map(|(_, path)| path);
        self.messages.push_back(MessageEvent {
            at: seconds(now),
            sent: matches!(kind, Kind::Sent).then(sent),
            kind,
            id: meta.id.as_u64(),
            is_duplicate: meta.duplicate,
            from: from.index(),
            to: to.index(),
            link: dropped.and_then(DropReason::link).map(LinkId::index),
            reason: dropped.map(reason),
            path,
        });
    }
}

impl Monitor for Recorder {
    fn sent(&mut self, _: Instant, node: NodeId, transmit: &Transmit<NodeId>, _: &[u8], path: Option<PeerSnapshot>) {
        let transmission = transmit.exchange.map(|exchange| Transmission {
            node,
            exchange: exchange.as_u64(),
            attempt: transmit.attempt,
        });
        self.sending = transmission.zip(path.map(PathState::from));
    }

    fn received(&mut self, now: Instant, node: NodeId, received: &ReceivedMessage<'_>) {
        let ReceivedMessage { from, path, .. } = *received;
        let (at, from) = (seconds(now), self.addresses.node(from).index());
        let is_received = |event: &&mut MessageEvent| {
            matches!(event.kind, Kind::Delivered) && (event.from, event.to) == (from, node.index())
        };
        // The network has just delivered it.
        let mut latest = self.messages.iter_mut().rev().take_while(|event| event.at >= at);
        if let Some(event) = latest.find(is_received) {
            event.path = path.map(PathState::from);
        }
    }

    fn event(&mut self, _: Instant, _: NodeId, _: &Event<NodeId>) {}
}

impl Observer for Recorder {
    fn on_sent(&mut self, now: Instant, packet: &Packet) {
        let again = match packet.meta.transmission {
            Some(transmission) => Some(transmission.attempt > 0),
            None => self.repeats(now, packet),
        };
        if let Some(again) = again {
            let path = self.paths.entry(self.ends(packet)).or_default();
            path.all += 1;
            path.again += u64::from(again);
        }
        self.note(now, packet, Kind::Sent, again.unwrap_or_default(), None);
    }

    fn on_entered(&mut self, _: Instant, _: &Packet, link: LinkId) {
        if let Some(counts) = self.links.get_mut(link.index()) {
            counts.sent += 1;
        }
    }

    fn on_duplicated(&mut self, now: Instant, packet: &Packet, link: LinkId) {
        self.on_entered(now, packet, link);
    }

    fn on_dropped(&mut self, now: Instant, packet: &Packet, reason: DropReason) {
        if let Some(counts) = reason.link().and_then(|link| self.links.get_mut(link.index())) {
            counts.drop(reason);
        }
        self.note(now, packet, Kind::Dropped, false, Some(reason));
    }

    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        self.note(now, packet, Kind::Delivered, false, None);
    }
}

/// Cuts a text after its first characters.
fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(TEXT) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Returns the time in seconds, in whole microseconds.
pub fn seconds(at: Instant) -> f64 {
    (at.as_nanos() / 1_000) as f64 / 1e6
}

const fn reason(reason: DropReason) -> &'static str {
    match reason {
        DropReason::QueueFull(_) => "queue full",
        DropReason::DroppedEarly(_) => "dropped by the queue's management",
        DropReason::LinkDown(_) => "link down",
        DropReason::Lost(_) => "lost",
        DropReason::ChannelBusy(_) => "channel busy",
        DropReason::Unacknowledged(_) => "unacknowledged by the next hop",
        DropReason::TooLong(_) => "too long for a frame",
        DropReason::Untransmitted(_) => "not transmitted",
        DropReason::NoRoute(_) => "no route",
        DropReason::NoHost(_) => "no host",
        DropReason::NodeDown(_) => "node cut off",
        DropReason::NoMapping(_) => "no NAT mapping",
        DropReason::HopLimit(_) => "routing loop",
    }
}

#[cfg(test)]
mod tests {
    use conche_netsim::BitRate;
    use conche_netsim::Simulation;
    use conche_netsim::wired::{DropTail, LinkConfig};
    use serde_json::{Value, json};

    use super::*;
    use crate::packet_counts::testing::Sink;

    /// A link with a place for one waiting packet.
    fn simulation() -> (Simulation<Sink, Recorder>, [NodeId; 2], LinkId) {
        let mut topology = Topology::new();
        let nodes = ["client", "server"].map(|name| topology.node(name));
        let config = LinkConfig { rate: Some(BitRate::kbit(1)), queue: DropTail::packets(1), ..LinkConfig::default() };
        let link = topology.link("uplink", nodes[0], nodes[1], config);
        let mut simulation = Simulation::new(&topology, 1, Recorder::new(&topology)).expect("a valid topology");
        simulation.attach(nodes[1], Sink).expect("a node");
        (simulation, nodes, link)
    }

    #[test]
    fn retransmissions_of_a_program_have_the_message_id_of_an_earlier_confirmable_message() {
        let (mut simulation, [client, server], link) = simulation();
        let confirmable = [0x40, 0x01, 0x12, 0x34];
        let other = [0x40, 0x01, 0x12, 0x35];
        let non_confirmable = [0x50, 0x01, 0x12, 0x34];
        for bytes in [confirmable, non_confirmable, confirmable, other, non_confirmable] {
            simulation.send(client, server, &bytes).expect("two nodes");
        }
        simulation.run();
        let (events, omitted) = simulation.observer_mut().take();
        let events: Vec<Value> = events.iter().map(|event| serde_json::to_value(event).expect("JSON")).collect();
        let of = |kind: &str| events.iter().filter(|event| event["kind"] == kind).cloned().collect::<Vec<_>>();
        let again: Vec<Value> = of("sent").into_iter().map(|event| event["is_retransmission"].clone()).collect();
        assert_eq!(again, [false, false, true, false, false]);
        assert_eq!((of("delivered").len(), omitted), (2, 0));
        let dropped = &of("dropped")[0];
        assert_eq!(
            (&dropped["id"], &dropped["link"], &dropped["reason"]),
            (&json!(2), &json!(0), &json!("queue full"))
        );
        let counts = simulation.observer().link(link);
        assert_eq!((counts.sent, counts.queue_drops, counts.lost), (5, 3, 0));
    }

    #[test]
    fn a_message_of_a_program_is_no_retransmission_with_another_token_or_after_the_exchange_lifetime() {
        let (mut simulation, [client, server], _) = simulation();
        let first = [0x41, 0x01, 0x12, 0x34, 1];
        let other_token = [0x41, 0x01, 0x12, 0x34, 2];
        let mut send = |at, bytes| {
            simulation.run_until(Instant::from_millis(at));
            simulation.send(client, server, bytes).expect("two nodes");
            let Transmissions { all, again } = simulation.observer().path(client, server);
            (all, again)
        };
        assert_eq!(send(0, &first), (1, 0));
        assert_eq!(send(1_000, &other_token), (2, 0));
        assert_eq!(send(247_000, &first), (3, 1));
        assert_eq!(send(248_001, &first), (4, 1));
        assert_eq!(send(249_000, &first), (5, 2));
    }

    #[test]
    fn a_long_description_of_a_message_is_cut() {
        assert_eq!(shortened("é".repeat(TEXT)), "é".repeat(TEXT));
        assert_eq!(shortened("é".repeat(TEXT + 1)), format!("{}…", "é".repeat(TEXT)));
    }

    #[test]
    fn a_frame_has_the_latest_500_messages_and_counts_the_rest() {
        let (mut simulation, [client, server], _) = simulation();
        for number in 0..1000_u16 {
            simulation.send(client, server, &number.to_be_bytes()).expect("two nodes");
        }
        simulation.run();
        let recorder = simulation.observer_mut();
        let (events, omitted) = recorder.take();
        assert_eq!((events.len(), omitted, recorder.seen()), (MESSAGES, 1500, 2000));
        // After 498 of the last sent and dropped packets, the two that arrive.
        assert_eq!((events[0].id, events[497].id, events[499].id), (751, 999, 1), "the latest ones");
        assert_eq!((recorder.take().0.len(), recorder.confirmable.len()), (0, 0));
    }
}
