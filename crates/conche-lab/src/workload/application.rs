//! The application on a node: requester, responder, publisher and subscriber.

use std::time::Duration;

use conche_netsim::Instant;
use conche_netsim::NodeId;
use conche_netsim::mote::Arrived;
use conche_netsim::node::{self, Node};
use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_proto::cc::AnyController;
use conche_proto::{
    ConfigError, EndpointConfig, Envelope, Event, Limits, SourceValidation, TransmissionParameters, Transmit,
};

use super::publisher::Publisher;
use super::requester::Requester;
use super::responder::Responder;
use super::subscriber::Subscriber;
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
    Arrived(Arrived),
}

impl From<Arrived> for Timer {
    fn from(arrived: Arrived) -> Self {
        Self::Arrived(arrived)
    }
}

impl TryFrom<Timer> for Arrived {
    type Error = ();

    fn try_from(timer: Timer) -> Result<Self, ()> {
        if let Timer::Arrived(arrived) = timer { Ok(arrived) } else { Err(()) }
    }
}

/// A node's roles, in any combination.
#[derive(Debug, Default)]
pub struct Application {
    /// Sends requests.
    pub requester: Option<Requester>,
    /// Answers requests.
    pub responder: Option<Responder>,
    /// Notifies observers.
    pub publisher: Option<Publisher>,
    /// Observes.
    pub subscriber: Option<Subscriber>,
    /// Records timeouts, if wanted.
    pub timeouts: Option<Timeouts>,
}

/// Assumption for queued or paced requests: no paper states one; only BDP-CoAP asks for longer
/// pauses, and such a backlog is dropped.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the papers' endpoint configuration, with the longest timeout as only safety envelope.
#[must_use]
pub fn config(endpoint: &Endpoint, nstart: u16) -> EndpointConfig {
    let mut limits = Limits::default();
    limits.queue = endpoint.queue.map_or(limits.queue, |queue| queue.get() as usize);
    EndpointConfig {
        limits,
        datagram_overhead: endpoint.overhead(),
        transmission: TransmissionParameters {
            max_retransmit: endpoint.max_retransmit,
            nstart,
            ..TransmissionParameters::default()
        },
        envelope: Envelope::open(endpoint.timeout_cap.0),
        token_length: endpoint.token_length.into(),
        // In no paper do servers check observers, and no address is spoofed.
        observer_checks: None,
        source_validation: SourceValidation::Off,
        response_timeout: None,
        queue_lifetime: QUEUE_TIMEOUT,
        longest_pause: Some(QUEUE_TIMEOUT),
        ..EndpointConfig::default()
    }
}

/// Builds a node, restarted `lives` times, with randomness only from these and the run.
///
/// # Errors
/// If controller and configuration do not fit.
pub fn host(
    node: NodeId,
    lives: usize,
    config: EndpointConfig,
    controller: AnyController,
    streams: &Streams,
    application: Application,
) -> Result<Node<Application>, ConfigError> {
    // A restarted endpoint uses other message IDs.
    let purpose = if lives == 0 { "endpoint".to_owned() } else { format!("endpoint {lives}") };
    let seed = streams.seed_bytes(Entity::Node(node), Purpose::named(&purpose));
    Node::new(config, controller, seed, application)
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
