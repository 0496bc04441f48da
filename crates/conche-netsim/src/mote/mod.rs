//! A host that routes by itself: a mote that forwards datagrams along its own routes, and may run one bulk transfer.
//!
//! ```text
//!   Sender or Receiver ─┐                            ┌─> MAC, one frame at a time
//!   datagrams in transit ┴─> send queue, unlimited ──┤
//!   Aodv ──────────────────> its messages, first ────┘
//! ```
//!
//! The send queue is the mote's own, so that an acknowledgment that waits in it can be updated and that datagrams can wait
//! for a route. A datagram in transit for which there is no route is dropped, and its origin told.

mod frame;
mod outgoing;

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::time::Duration;

use conche_proto::cc::Controller;

use self::frame::Frame;
use self::outgoing::{Datagram, Outgoing};
use crate::host::{Host, Port, Received};
use crate::mac::Transmitted;
use crate::routing::aodv::{Aodv, Output as News};
use crate::transport::tcp::{Output, Receiver, Segment, Sender, State};
use crate::{Instant, NodeId, PacketId, RadioId};

/// How a mote's frames look, and which radio takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoteConfig {
    /// The radio network.
    pub radio: RadioId,
    /// Octets of the headers of network and transport layer in every datagram; at least 10.
    pub header_octets: u8,
    /// Octets of payload in a segment of data.
    pub payload_octets: u8,
    /// How long transport and application take at either end for a segment that has arrived.
    pub processing: Duration,
}

/// Where a mote's routes come from.
#[derive(Clone, Debug)]
pub enum Router {
    /// It looks for them while it runs, and repairs them.
    Aodv(Box<Aodv>),
    /// They are given, by destination, and stay as they are.
    Frozen(BTreeMap<NodeId, NodeId>),
}

/// What a mote does beside forwarding.
#[derive(Debug)]
pub enum Role<C: Controller> {
    /// Nothing.
    Relay,
    /// It sends a transfer to this node. The run ends with the transfer.
    Source(NodeId, Sender<C>),
    /// It takes one from this node.
    Sink(NodeId, Receiver),
    /// It looks for a route to this node. The run ends when there is one, or none can be found.
    Seeker(NodeId),
}

/// A datagram whose end is at this mote, while it is being processed.
#[derive(Clone, Copy, Debug)]
pub struct Arrived(Datagram);

/// What a mote has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoteStats {
    /// Datagrams that it handed to the MAC, each once a hop.
    pub handed_over: u64,
    /// Datagrams among them that the MAC gave up.
    pub given_up: u64,
    /// Datagrams that it dropped for want of a route.
    pub unroutable: u64,
    /// The length of each route that it looked for and found.
    pub routes_found: Vec<u8>,
}

/// The host. Its timers are of a type that others in the simulation may share.
#[derive(Debug)]
pub struct Mote<C: Controller, T = Arrived> {
    address: NodeId,
    config: MoteConfig,
    router: Router,
    role: Role<C>,
    /// Messages of the routing protocol; they go first.
    messages: VecDeque<Outgoing>,
    queue: outgoing::Queue,
    /// What the MAC has.
    sending: Option<(PacketId, Outgoing)>,
    stats: MoteStats,
    timers: PhantomData<fn() -> T>,
}

impl<C: Controller, T: From<Arrived>> Mote<C, T> {
    /// The mote at a node.
    #[must_use]
    pub fn new(address: NodeId, config: MoteConfig, router: Router, role: Role<C>) -> Self {
        let (messages, queue, stats) = (VecDeque::new(), outgoing::Queue::default(), MoteStats::default());
        Self { address, config, router, role, messages, queue, sending: None, stats, timers: PhantomData }
    }

    /// Its routes.
    #[must_use]
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// What it does, and how far it is.
    #[must_use]
    pub fn role(&self) -> &Role<C> {
        &self.role
    }

    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> &MoteStats {
        &self.stats
    }

    /// After every event: what transport and routing want, what the MAC can take, and when to wake up.
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

    /// The mote's own datagrams wait for a route; one must be looked for.
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
        while let Some(news) = aodv.poll(port.now()) {
            match news {
                News::Broadcast(message) => self.messages.push_back(Outgoing::Message(NodeId::BROADCAST, message)),
                News::Unicast(to, message) => self.messages.push_back(Outgoing::Message(to, message)),
                News::Found { hops, .. } => self.stats.routes_found.push(hops),
                News::Unreachable(destination) => {
                    self.stats.unroutable += self.queue.drop_where(|datagram| datagram.destination == destination);
                }
            }
            if matches!((&self.role, news), (Role::Seeker(_), News::Found { .. } | News::Unreachable(_))) {
                port.stop();
            }
        }
    }

    /// Gives the MAC its next frame, if it has none.
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

    /// A datagram has arrived here.
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

    /// The MAC gave a frame up.
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
                // What is in transit is lost with its route; its origin has just been told.
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

impl<C: Controller, T: From<Arrived>> Host for Mote<C, T>
where
    Arrived: TryFrom<T>,
{
    type Timer = T;

    fn start(&mut self, port: &mut Port<'_, T>) {
        self.proceed(port);
    }

    fn receive(&mut self, port: &mut Port<'_, T>, packet: Received<'_>) {
        match Frame::decode(packet.bytes) {
            Some(Frame::Message(message)) => {
                if let Router::Aodv(aodv) = &mut self.router {
                    // A medium without noise has no poor links.
                    let snr_db = packet.snr_db.unwrap_or(f64::INFINITY);
                    aodv.receive(port.now(), packet.meta.from, snr_db, message, port.rng());
                }
            }
            Some(Frame::Datagram(datagram)) if datagram.destination != self.address => self.forward(datagram),
            Some(Frame::Datagram(datagram)) => {
                port.set_timer(self.config.processing, Arrived(datagram).into());
                return;
            }
            None => return,
        }
        self.proceed(port);
    }

    fn transmitted(&mut self, port: &mut Port<'_, T>, frame: PacketId, outcome: Transmitted) {
        let Some((_, outgoing)) = self.sending.take_if(|(id, _)| *id == frame) else { return };
        if outcome != Transmitted::Sent {
            self.give_up(outgoing);
        }
        self.proceed(port);
    }

    fn timer(&mut self, port: &mut Port<'_, T>, timer: T) {
        let Ok(Arrived(datagram)) = Arrived::try_from(timer) else { return };
        self.take(port.now(), datagram);
        self.proceed(port);
    }

    fn wake(&mut self, port: &mut Port<'_, T>) {
        self.proceed(port);
    }
}
