//! Requester and responder as one type, to sit on the nodes of a simulation.

use std::time::Duration;

use conche_netsim::NodeId;
use conche_netsim::mote::Arrived;
use conche_netsim::node::{self, Node};
use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_proto::{ConfigError, EndpointConfig, Envelope, Event, TransmissionParameters};

use super::recorded::Recorded;
use super::requester::Requester;
use super::responder::Responder;

/// An application's access to its node.
pub(super) type Context<'a> = node::Context<'a, Application>;

/// What the timers of all hosts of a simulation carry.
#[derive(Clone, Copy, Debug)]
pub enum Timer {
    /// The next message of the flow with this number is due.
    Flow(u32),
    /// A mote has processed what arrived.
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

/// What a node does: ask, answer, or both.
#[derive(Debug, Default)]
pub struct Application {
    /// Sends requests.
    pub requester: Option<Requester>,
    /// Answers requests.
    pub responder: Option<Responder>,
}

/// Parameters of an endpoint as the papers had them: without the safety envelope, but for the longest timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// MAX_RETRANSMIT.
    pub max_retransmit: u8,
    /// NSTART.
    pub nstart: u16,
    /// No timeout is longer.
    pub timeout_cap: Duration,
    /// Bytes of the tokens of requests, 0 to 8.
    pub token_length: u8,
    /// Bytes of the headers around a CoAP message.
    pub datagram_overhead: u32,
}

/// How long a request waits to leave, for its turn or for a time that its controller names [assumption: no paper says;
/// only BDP-CoAP asks for longer pauses, and such a backlog is dropped].
const PATIENCE: Duration = Duration::from_secs(60);

impl Parameters {
    /// The endpoint's configuration.
    #[must_use]
    pub fn config(&self) -> EndpointConfig {
        let default = EndpointConfig::default();
        EndpointConfig {
            datagram_overhead: self.datagram_overhead,
            transmission: TransmissionParameters {
                max_retransmit: self.max_retransmit,
                nstart: self.nstart,
                ..TransmissionParameters::default()
            },
            envelope: Envelope::open(self.timeout_cap),
            token_length: self.token_length.into(),
            response_timeout: None,
            queue_lifetime: PATIENCE,
            longest_pause: Some(PATIENCE),
            ..default
        }
    }
}

/// A node with this application, which has started anew so often. Its randomness depends on the run and on these alone.
///
/// # Errors
/// If the controller and the parameters do not go together.
pub fn host(
    node: NodeId,
    lives: usize,
    parameters: Parameters,
    controller: Recorded,
    streams: &Streams,
    application: Application,
) -> Result<Node<Application>, ConfigError> {
    // An endpoint that starts anew does not number its messages as it did before.
    let purpose = if lives == 0 { "endpoint".to_owned() } else { format!("endpoint {lives}") };
    let seed = streams.seed_bytes(Entity::Node(node), Purpose::named(&purpose));
    Node::new(parameters.config(), controller, seed, application)
}

impl node::Application for Application {
    type Controller = Recorded;
    type Timer = Timer;

    fn start(&mut self, ctx: &mut Context<'_>) {
        if let Some(requester) = &mut self.requester {
            requester.start(ctx);
        }
    }

    fn event(&mut self, ctx: &mut Context<'_>, event: Event<NodeId>) {
        if let Some(responder) = &mut self.responder {
            responder.event(ctx, &event);
        }
        if let Some(requester) = &mut self.requester {
            requester.event(ctx, &event);
        }
    }

    fn timer(&mut self, ctx: &mut Context<'_>, timer: Timer) {
        if let (Some(requester), Timer::Flow(number)) = (&mut self.requester, timer) {
            requester.timer(ctx, number);
        }
    }
}
