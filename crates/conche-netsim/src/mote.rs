//! A mote: a host that forwards datagrams along its own routes and may run a bulk transfer.
//!
//! ```text
//!     Sender or Receiver ─┐                            ┌─> MAC, one frame at a time
//!     datagrams in transit ┴─> send queue, unlimited ──┤
//!     Aodv ──────────────────> its messages, first ────┘
//! ```
//!
//! The mote owns the send queue, to replace a waiting acknowledgment and to hold its own datagrams
//! until they have a route. Others without a route are dropped, with a route error to their origin.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::time::Duration;

use conche_proto::cc::Controller;

use crate::host::{Host, Port, Received};
use crate::mac::TransmitOutcome;
use crate::routing::aodv::message::address;
use crate::routing::aodv::{Aodv, Message, Output as AodvOutput};
use crate::transport::tcp::{Output, Receiver, Segment, Sender, State};
use crate::{Instant, NodeId, PacketId, RadioId};

/// A mote's frame sizes and radio network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoteConfig {
    /// Radio network.
    pub radio: RadioId,
    /// Octets of network and transport headers, at least 10.
    pub header_octets: u8,
    /// Payload octets of a data segment.
    pub payload_octets: u8,
    /// Processing time per received segment, at both ends.
    pub processing: Duration,
}

/// Source of a mote's routes.
#[derive(Clone, Debug)]
pub enum Router {
    /// Discovered and repaired in the run.
    Aodv(Box<Aodv>),
    /// Fixed next hops by destination.
    Frozen(BTreeMap<NodeId, NodeId>),
}

/// A mote's role besides forwarding.
#[derive(Debug)]
pub enum Role<C: Controller> {
    /// None.
    Relay,
    /// Sends a transfer to this node; its end stops the run.
    Source(NodeId, Sender<C>),
    /// Receives a transfer from this node.
    Sink(NodeId, Receiver),
    /// Discovers a route to this node; the result stops the run.
    Seeker(NodeId),
}

/// A datagram in its processing time.
#[derive(Clone, Copy, Debug)]
pub struct ArrivedDatagram(Datagram);

/// Counters of a mote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoteStats {
    /// Datagrams passed to the MAC, per hop.
    pub handed_over: u64,
    /// Datagrams that the MAC gave up.
    pub given_up: u64,
    /// Datagrams dropped for lack of a route.
    pub unroutable: u64,
    /// Length of each discovered route in hops.
    pub routes_found: Vec<u8>,
}

/// A mote. `T` is the simulation's timer type.
#[derive(Debug)]
pub struct Mote<C: Controller, T = ArrivedDatagram> {
    address: NodeId,
    config: MoteConfig,
    router: Router,
    role: Role<C>,
    messages: VecDeque<Outgoing>,
    queue: OutgoingQueue,
    sending: Option<(PacketId, Outgoing)>,
    stats: MoteStats,
    timers: PhantomData<fn() -> T>,
}

impl<C: Controller, T: From<ArrivedDatagram>> Mote<C, T> {
    /// Creates a node's mote.
    #[must_use]
    pub fn new(address: NodeId, config: MoteConfig, router: Router, role: Role<C>) -> Self {
        let (messages, queue, stats) = (VecDeque::new(), OutgoingQueue::default(), MoteStats::default());
        Self { address, config, router, role, messages, queue, sending: None, stats, timers: PhantomData }
    }

    /// Returns the router.
    #[must_use]
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Returns the role, with its progress.
    #[must_use]
    pub fn role(&self) -> &Role<C> {
        &self.role
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> &MoteStats {
        &self.stats
    }

    fn proceed(&mut self, port: &mut Port<'_, T>) {
        let timer = self.poll_transport(port);
        self.look_for_routes(port.now());
        self.poll_routing(port);
        self.hand_over(port);
        let routing = match &self.router {
            Router::Aodv(aodv) => aodv.next_wake(),
            Router::Frozen(_) => None,
        };
        port.wake_at([timer, routing].into_iter().flatten().min());
    }

    fn poll_transport(&mut self, port: &mut Port<'_, T>) -> Option<Instant> {
        let Role::Source(to, sender) = &mut self.role else { return None };
        loop {
            match sender.poll(port.now(), port.rng()) {
                Output::Transmit(segment) => {
                    self.queue.push(Datagram { origin: self.address, destination: *to, segment });
                }
                Output::Wait(until) => {
                    if sender.state() != State::Open {
                        port.stop();
                    }
                    return until;
                }
            }
        }
    }

    fn look_for_routes(&mut self, now: Instant) {
        let Router::Aodv(aodv) = &mut self.router else { return };
        let sought =
            if let Role::Seeker(to) = self.role { Some(to) } else { self.queue.destination_of_own(self.address) };
        if let Some(to) = sought.filter(|to| aodv.next_hop(*to).is_none()) {
            aodv.discover(now, to);
        }
    }

    fn poll_routing(&mut self, port: &mut Port<'_, T>) {
        let Router::Aodv(aodv) = &mut self.router else { return };
        while let Some(output) = aodv.poll(port.now()) {
            match output {
                AodvOutput::Broadcast(message) => {
                    self.messages.push_back(Outgoing::Message(NodeId::BROADCAST, message))
                }
                AodvOutput::Unicast(to, message) => self.messages.push_back(Outgoing::Message(to, message)),
                AodvOutput::Found { hops, .. } => self.stats.routes_found.push(hops),
                AodvOutput::Unreachable(destination) => {
                    self.stats.unroutable += self.queue.drop_where(|datagram| datagram.destination == destination);
                }
            }
            if matches!((&self.role, output), (Role::Seeker(_), AodvOutput::Found { .. } | AodvOutput::Unreachable(_)))
            {
                port.stop();
            }
        }
    }

    fn hand_over(&mut self, port: &mut Port<'_, T>) {
        if self.sending.is_some() {
            return;
        }
        let router = &self.router;
        let next = self.messages.pop_front().or_else(|| self.queue.take_next(|to| next_hop(router, to)));
        let Some(next) = next else { return };
        let (to, frame) = match next {
            Outgoing::Message(to, message) => (to, Frame::Message(message)),
            Outgoing::Datagram(to, datagram) => {
                self.stats.handed_over += 1;
                (to, Frame::Datagram(datagram))
            }
        };
        let id = port.transmit(self.config.radio, to, &frame.encode(self.config));
        self.sending = Some((id, next));
    }

    fn take(&mut self, now: Instant, datagram: Datagram) {
        match &mut self.role {
            Role::Source(from, sender) if *from == datagram.origin => sender.receive(now, datagram.segment),
            Role::Sink(from, receiver) if *from == datagram.origin => {
                let Some(segment) = receiver.receive(now, datagram.segment) else { return };
                let answer = Datagram { origin: self.address, destination: datagram.origin, segment };
                let is_ack = |waiting: &Datagram| {
                    waiting.origin == self.address && matches!(waiting.segment, Segment::Ack { .. })
                };
                if !receiver.later_replaces_earlier() || !self.queue.replace(is_ack, answer) {
                    self.queue.push(answer);
                }
            }
            Role::Source(..) | Role::Sink(..) | Role::Relay | Role::Seeker(_) => {}
        }
    }

    fn forward(&mut self, datagram: Datagram) {
        if next_hop(&self.router, datagram.destination).is_some() {
            return self.queue.push(datagram);
        }
        self.stats.unroutable += 1;
        if let Router::Aodv(aodv) = &mut self.router {
            aodv.report(datagram.origin, datagram.destination);
        }
    }

    fn give_up(&mut self, outgoing: Outgoing) {
        if let Outgoing::Datagram(..) = outgoing {
            self.stats.given_up += 1;
        }
        let Router::Aodv(aodv) = &mut self.router else { return };
        match outgoing {
            Outgoing::Message(NodeId::BROADCAST, _) => {}
            Outgoing::Message(neighbour, _) => aodv.link_broken(neighbour, None),
            Outgoing::Datagram(neighbour, datagram) => {
                aodv.link_broken(neighbour, Some((datagram.origin, datagram.destination)));
                if datagram.origin == self.address {
                    self.queue.push_first(datagram);
                }
                // A transit datagram is lost with its route.
                let (address, aodv) = (self.address, &**aodv);
                self.stats.unroutable += self
                    .queue
                    .drop_where(|waiting| waiting.origin != address && aodv.next_hop(waiting.destination).is_none());
            }
        }
    }
}

fn next_hop(router: &Router, destination: NodeId) -> Option<NodeId> {
    match router {
        Router::Aodv(aodv) => aodv.next_hop(destination),
        Router::Frozen(routes) => routes.get(&destination).copied(),
    }
}

impl<C: Controller, T: From<ArrivedDatagram>> Host for Mote<C, T>
where
    ArrivedDatagram: TryFrom<T>,
{
    type Timer = T;

    fn start(&mut self, port: &mut Port<'_, T>) {
        self.proceed(port);
    }

    fn receive(&mut self, port: &mut Port<'_, T>, packet: Received<'_>) {
        match Frame::decode(packet.bytes) {
            Some(Frame::Message(message)) => {
                if let Router::Aodv(aodv) = &mut self.router {
                    let snr_db = packet.snr_db.unwrap_or(f64::INFINITY);
                    aodv.receive(port.now(), packet.meta.from, snr_db, message, port.rng());
                }
            }
            Some(Frame::Datagram(datagram)) if datagram.destination != self.address => self.forward(datagram),
            Some(Frame::Datagram(datagram)) => {
                port.set_timer(self.config.processing, ArrivedDatagram(datagram).into());
                return;
            }
            None => return,
        }
        self.proceed(port);
    }

    fn transmitted(&mut self, port: &mut Port<'_, T>, frame: PacketId, outcome: TransmitOutcome) {
        let Some((_, outgoing)) = self.sending.take_if(|(id, _)| *id == frame) else { return };
        if outcome != TransmitOutcome::Sent {
            self.give_up(outgoing);
        }
        self.proceed(port);
    }

    fn timer(&mut self, port: &mut Port<'_, T>, timer: T) {
        let Ok(ArrivedDatagram(datagram)) = ArrivedDatagram::try_from(timer) else { return };
        self.take(port.now(), datagram);
        self.proceed(port);
    }

    fn wake(&mut self, port: &mut Port<'_, T>) {
        self.proceed(port);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Datagram {
    origin: NodeId,
    destination: NodeId,
    segment: Segment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outgoing {
    Message(NodeId, Message),
    Datagram(NodeId, Datagram),
}

#[derive(Clone, Debug, Default)]
struct OutgoingQueue(VecDeque<Datagram>);

impl OutgoingQueue {
    fn push(&mut self, datagram: Datagram) {
        self.0.push_back(datagram);
    }

    fn push_first(&mut self, datagram: Datagram) {
        self.0.push_front(datagram);
    }

    fn take_next(&mut self, next_hop: impl Fn(NodeId) -> Option<NodeId>) -> Option<Outgoing> {
        let found = self.0.iter().enumerate();
        let (index, to) =
            found.filter_map(|(index, datagram)| Some((index, next_hop(datagram.destination)?))).next()?;
        self.0.remove(index).map(|datagram| Outgoing::Datagram(to, datagram))
    }

    fn replace(&mut self, waits: impl Fn(&Datagram) -> bool, by: Datagram) -> bool {
        let waiting = self.0.iter_mut().find(|datagram| waits(datagram));
        waiting.map(|datagram| *datagram = by).is_some()
    }

    fn drop_where(&mut self, drops: impl Fn(&Datagram) -> bool) -> u64 {
        let before = self.0.len();
        self.0.retain(|datagram| !drops(datagram));
        (before - self.0.len()) as u64
    }

    fn destination_of_own(&self, origin: NodeId) -> Option<NodeId> {
        self.0.iter().find(|datagram| datagram.origin == origin).map(|datagram| datagram.destination)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Message(Message),
    Datagram(Datagram),
}

/// Kind octet of a datagram; no routing message has it.
const DATAGRAM: u8 = 0;

impl Frame {
    fn encode(self, config: MoteConfig) -> Vec<u8> {
        let Datagram { origin, destination, segment } = match self {
            Self::Message(message) => return message.encode(),
            Self::Datagram(datagram) => datagram,
        };
        let payload = if segment.has_payload() { config.payload_octets } else { 0 };
        let mut octets = Vec::with_capacity(usize::from(config.header_octets) + usize::from(payload));
        octets.push(DATAGRAM);
        octets.extend(address(origin));
        octets.extend(address(destination));
        octets.extend(segment.encode());
        octets.resize(octets.capacity().max(octets.len()), 0);
        octets
    }

    fn decode(octets: &[u8]) -> Option<Self> {
        let (&[kind, a, b, c, d], rest) = octets.split_first_chunk::<5>()?;
        if kind != DATAGRAM {
            return Message::decode(octets).map(Self::Message);
        }
        let node = |octets| NodeId(u16::from_be_bytes(octets).into());
        let (origin, destination, segment) = (node([a, b]), node([c, d]), Segment::decode(rest)?);
        Some(Self::Datagram(Datagram { origin, destination, segment }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::RadioId;

    fn datagram(destination: u32, number: u32) -> Datagram {
        Datagram { origin: NodeId(0), destination: NodeId(destination), segment: Segment::Ack { number } }
    }

    #[test]
    fn datagrams_with_a_route_overtake_those_without() {
        let mut queue = OutgoingQueue::default();
        queue.push(datagram(1, 0));
        queue.push(datagram(2, 0));
        let only_2 = |to| (to == NodeId(2)).then_some(NodeId(7));
        assert_eq!(queue.take_next(only_2), Some(Outgoing::Datagram(NodeId(7), datagram(2, 0))));
        assert_eq!(queue.take_next(only_2), None);
        assert_eq!(queue.destination_of_own(NodeId(0)), Some(NodeId(1)));
    }

    #[test]
    fn a_waiting_datagram_is_replaced_in_its_place() {
        let mut queue = OutgoingQueue::default();
        queue.push(datagram(1, 4));
        queue.push(datagram(2, 0));
        assert!(queue.replace(|waiting| waiting.destination == NodeId(1), datagram(1, 5)));
        assert!(!queue.replace(|waiting| waiting.destination == NodeId(3), datagram(3, 5)));
        let any = |_| Some(NodeId(7));
        assert_eq!(queue.take_next(any), Some(Outgoing::Datagram(NodeId(7), datagram(1, 5))));
        assert_eq!((queue.drop_where(|_| true), queue.take_next(any)), (1, None));
    }

    #[test]
    fn frames_have_the_configured_size_and_round_trip() {
        let config =
            MoteConfig { radio: RadioId(0), header_octets: 20, payload_octets: 96, processing: Duration::ZERO };
        let (origin, destination) = (NodeId(3), NodeId(59));
        for (segment, size) in [(Segment::Data { number: 5 }, 116), (Segment::Ack { number: 6 }, 20)] {
            let frame = Frame::Datagram(Datagram { origin, destination, segment });
            let octets = frame.encode(config);
            assert_eq!((octets.len(), Frame::decode(&octets)), (size, Some(frame)));
        }
        let message = Frame::Message(Message::Error { origin, destination });
        assert_eq!(Frame::decode(&message.encode(config)), Some(message));
        assert_eq!(Frame::decode(&[0; 4]), None);
    }
}
