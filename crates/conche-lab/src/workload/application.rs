//! The host on a node, and its application.

use std::time::Duration;

use conche_netsim::host::{Host, Port, Received};
use conche_netsim::mac::TransmitOutcome;
use conche_netsim::mote::{ArrivedDatagram, Mote};
use conche_netsim::node::{self, Node};
use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_netsim::transport::bulk::Bulk;
use conche_netsim::{Instant, NodeId, PacketId};
use conche_proto::cc::AnyController;
use conche_proto::{EndpointConfig, Event, Limits, SourceValidation, TransmissionParameters, Transmit};

use super::observe::{Publisher, Subscriber};
use super::open_sender::OpenSender;
use super::program::Program;
use super::requester::Requester;
use super::responder::Responder;
use super::timeouts::Timeouts;
use crate::scenario::Endpoint;

pub(super) type Context<'a> = node::Context<'a, Application>;

/// The timer payload of all hosts.
#[derive(Clone, Copy, Debug)]
pub enum Timer {
    /// The next message of this flow is due.
    Flow(u32),
    /// This flow retries its refused session.
    Again(u32),
    /// This topic changes.
    Change(u32),
    /// Registration with this server is due.
    Register(u32),
    /// A mote has processed an arrival.
    Arrived(ArrivedDatagram),
}

impl From<ArrivedDatagram> for Timer {
    fn from(arrived: ArrivedDatagram) -> Self {
        Self::Arrived(arrived)
    }
}

impl TryFrom<Timer> for ArrivedDatagram {
    type Error = ();

    fn try_from(timer: Timer) -> Result<Self, ()> {
        if let Timer::Arrived(arrived) = timer { Ok(arrived) } else { Err(()) }
    }
}

/// A node's roles, in any combination. Boxes keep the frequent ones, clients, small.
#[derive(Debug, Default)]
pub struct Application {
    /// Sends requests.
    pub requester: Option<Requester>,
    /// Answers requests.
    pub responder: Option<Box<Responder>>,
    /// Notifies observers.
    pub publisher: Option<Box<Publisher>>,
    /// Observes.
    pub subscriber: Option<Box<Subscriber>>,
    /// Records timeouts.
    pub timeouts: Option<Timeouts>,
}

/// Assumption for queued or paced requests: no paper states one, and only BDP-CoAP pauses longer.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the configuration of an experiment's endpoint.
#[must_use]
pub fn config(endpoint: &Endpoint, nstart: u16) -> EndpointConfig {
    let mut limits = Limits::default();
    limits.queue = endpoint.queue.map_or(limits.queue, |queue| queue.get() as usize);
    EndpointConfig {
        limits,
        datagram_overhead: endpoint.overhead(),
        transmission: TransmissionParameters {
            max_retransmit: endpoint.max_retransmit,
            last_timeout: endpoint.last_timeout,
            transmit_span: endpoint.max_transmit_span.map(|span| span.0),
            nstart,
            ..TransmissionParameters::default()
        },
        envelope: endpoint.safety_envelope(),
        token_length: endpoint.token_length.into(),
        // The papers' servers check neither observers nor addresses.
        observer_checks: None,
        source_validation: SourceValidation::Off,
        response_timeout: None,
        queue_lifetime: QUEUE_TIMEOUT,
        longest_pause: Some(QUEUE_TIMEOUT),
        ..EndpointConfig::default()
    }
}

/// Returns the seed of a node's endpoint after `lives` restarts, which changes message IDs.
pub fn endpoint_seed(streams: &Streams, node: NodeId, lives: usize) -> [u8; 32] {
    let purpose = if lives == 0 { "endpoint".to_owned() } else { format!("endpoint {lives}") };
    streams.seed_bytes(Entity::Node(node), Purpose::named(&purpose))
}

impl node::Application for Application {
    type Timer = Timer;

    fn start(&mut self, ctx: &mut Context<'_>) {
        if let Some(requester) = &mut self.requester {
            requester.start(ctx);
        }
        if let Some(publisher) = &self.publisher {
            publisher.start(ctx);
        }
        if let Some(subscriber) = &self.subscriber {
            subscriber.start(ctx);
        }
    }

    fn event(&mut self, ctx: &mut Context<'_>, event: Event<NodeId>) {
        if self.publisher.as_mut().is_some_and(|publisher| publisher.event(ctx, &event)) {
            return;
        }
        if let Some(subscriber) = &mut self.subscriber {
            subscriber.event(ctx, &event);
        }
        if let Some(responder) = &mut self.responder {
            responder.event(ctx, &event);
        }
        if let Some(requester) = &mut self.requester {
            requester.event(ctx, &event);
        }
    }

    fn timer(&mut self, ctx: &mut Context<'_>, timer: Timer) {
        match (timer, &mut self.requester, &mut self.publisher, &mut self.subscriber) {
            (Timer::Flow(number), Some(requester), ..) => requester.timer(ctx, number),
            (Timer::Again(number), Some(requester), ..) => requester.again(ctx, number),
            (Timer::Change(number), _, Some(publisher), _) => publisher.timer(ctx, number),
            (Timer::Register(number), .., Some(subscriber)) => subscriber.timer(ctx, number),
            _ => {}
        }
    }

    fn connected(&mut self, ctx: &mut Context<'_>, peer: NodeId, is_open: bool) {
        if let Some(requester) = &mut self.requester {
            requester.connected(ctx, peer, is_open);
        }
    }

    fn transmitted(&mut self, now: Instant, transmit: &Transmit<NodeId>) {
        if let Some(timeouts) = &mut self.timeouts {
            timeouts.transmitted(now, transmit);
        }
    }
}

/// The host on a node.
#[derive(Debug)]
pub enum AnyHost {
    /// CoAP with congestion control.
    Coap(Box<Node<Application>>),
    /// Sends at a fixed pace, whatever the outcome.
    OpenSender(Box<OpenSender>),
    /// Sends, receives and forwards bulk transfers.
    Mote(Box<Mote<AnyController, Timer>>),
    /// An end of a bulk transfer over wires.
    Bulk(Box<Bulk<AnyController, Timer>>),
    /// A program outside the simulation.
    Program(Program),
}

impl AnyHost {
    fn host(&self) -> &dyn Host<Timer = Timer> {
        match self {
            Self::Coap(node) => &**node,
            Self::OpenSender(sender) => &**sender,
            Self::Mote(mote) => &**mote,
            Self::Bulk(bulk) => &**bulk,
            Self::Program(program) => program,
        }
    }

    fn host_mut(&mut self) -> &mut dyn Host<Timer = Timer> {
        match self {
            Self::Coap(node) => &mut **node,
            Self::OpenSender(sender) => &mut **sender,
            Self::Mote(mote) => &mut **mote,
            Self::Bulk(bulk) => &mut **bulk,
            Self::Program(program) => program,
        }
    }
}

impl Host for AnyHost {
    type Timer = Timer;

    fn start(&mut self, port: &mut Port<'_, Timer>) {
        self.host_mut().start(port);
    }

    fn receive(&mut self, port: &mut Port<'_, Timer>, packet: Received<'_>) {
        self.host_mut().receive(port, packet);
    }

    fn timer(&mut self, port: &mut Port<'_, Timer>, timer: Timer) {
        self.host_mut().timer(port, timer);
    }

    fn wake(&mut self, port: &mut Port<'_, Timer>) {
        self.host_mut().wake(port);
    }

    fn prefetch(&self) {
        self.host().prefetch();
    }

    fn prefetch_for(&self, packet: Received<'_>) {
        self.host().prefetch_for(packet);
    }

    fn transmitted(&mut self, port: &mut Port<'_, Timer>, frame: PacketId, outcome: TransmitOutcome) {
        self.host_mut().transmitted(port, frame, outcome);
    }
}
