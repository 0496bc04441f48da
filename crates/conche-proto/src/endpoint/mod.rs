//! The [`Endpoint`]: what connects codec, message layer, exchanges and peers, and drives their timers.
//!
//! The invariant that makes it easy to drive: after every [`handle`](Endpoint::handle), and after every operation, poll
//! until [`Output::Wait`]; then nothing happens until the next input, the next operation, or the time that `Wait` names.
//!
//! ```
//! use conche_proto::cc::AnyController;
//! use conche_proto::codec::{Body, Code};
//! use conche_proto::{Endpoint, EndpointConfig, Event, Input, Instant, Output, Request, Response};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Instant::ZERO;
//! let mut client = Endpoint::new(EndpointConfig::default(), AnyController::by_name("cocoa")?, [1; 32])?;
//! let mut server = Endpoint::new(EndpointConfig::default(), AnyController::by_name("default")?, [2; 32])?;
//! let mut buf = [0; 1280];
//!
//! // The client wants something of peer "s"; its datagram reaches the server.
//! let asked = client.request(now, "s", Request::new(Code::GET, Body::builder().path("/test").build()?))?;
//! let Output::Transmit(datagram) = client.poll(now, &mut buf) else { panic!() };
//! server.handle(now, Input::datagram("c", &buf[..datagram.len]))?;
//!
//! // The server's application answers; the response reaches the client.
//! let Output::Event(Event::Request { id, .. }) = server.poll(now, &mut buf) else { panic!() };
//! server.respond(now, id, Response::new(Code::CONTENT, Body::builder().payload("hello").build()?))?;
//! let Output::Transmit(datagram) = server.poll(now, &mut buf) else { panic!() };
//! client.handle(now, Input::datagram("s", &buf[..datagram.len]))?;
//!
//! let Output::Event(Event::Response { exchange, message, .. }) = client.poll(now, &mut buf) else { panic!() };
//! assert_eq!((exchange, message.payload()), (asked, &b"hello"[..]));
//! # Ok(())
//! # }
//! ```

mod admit;
mod client;
mod error;
mod event;
mod limit;
mod receive;
mod server;
mod settings;
mod stats;
mod timers;
mod transmit;

pub use error::{RequestError, RespondError, Undrained};
pub use event::{Course, Datagram, Ecn, Event, ExchangeId, Failure, Input, Output, RequestId, Transmit};
pub use limit::ResponseLimit;
pub use settings::{EndpointConfig, Envelope, Limits};
pub use stats::Stats;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use hashbrown::HashMap;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use slab::Slab;

use crate::codec::{MessageId, Token};
use crate::config::ParameterError;
use crate::exchange::Exchange;
use crate::hash::RandomState;
use crate::message::Deduplication;
use crate::peer::{ControllerId, PeerSnapshot, Peers};
use crate::{PeerKey, TransmissionParameters};
use conche_cc::{Controller, Instant};
use limit::Limiter;
use timers::{TimerKey, Timers};
use transmit::Departure;

/// Picks the controller of a destination.
type ChooseController<P> = Box<dyn Fn(&P) -> ControllerId + Send + Sync>;

/// A CoAP client and server without I/O.
///
/// `P` names peers; `C` is the congestion controller, with [`AnyController`](conche_cc::AnyController) as the one that
/// is chosen at run time.
pub struct Endpoint<P: PeerKey, C: Controller> {
    config: EndpointConfig,
    derived: Derived,
    controllers: Vec<C>,
    choose: Option<ChooseController<P>>,
    random: ChaCha8Rng,
    /// Which of our addresses the datagram that is being taken in was sent to.
    local: Option<core::net::IpAddr>,
    peers: Peers<P, C, RandomState>,
    exchanges: Slab<Exchange<C>>,
    /// Counts exchanges; tells apart those that had the same place one after the other.
    generation: u32,
    /// Exchanges that wait for admission, over all peers.
    queued: usize,
    /// Outstanding exchanges by (peer, message ID), for ACK and RST.
    by_id: HashMap<(u32, MessageId), u32, RandomState>,
    /// Requests by (peer, token), for responses.
    by_token: HashMap<(u32, Token), u32, RandomState>,
    received: Deduplication<P, RandomState>,
    limiter: Option<Limiter<RandomState>>,
    timers: Timers,
    outbox: VecDeque<Departure<P>>,
    events: VecDeque<Event<P>>,
    stats: Stats,
}

/// Times that follow from the parameters (RFC 7252 §4.8.2), computed once.
#[derive(Clone, Copy, Debug)]
struct Derived {
    max_transmit_span: Duration,
    exchange_lifetime: Duration,
    response_timeout: Duration,
}

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// An endpoint with one controller for all peers. All randomness (tokens, message IDs, dithering, hash seeds) comes
    /// from `seed`: real endpoints draw it from the operating system, simulated ones from their run's seed.
    ///
    /// # Errors
    /// If the transmission parameters are unsafe with this controller, or contradict it or each other.
    pub fn new(config: EndpointConfig, controller: C, seed: [u8; 32]) -> Result<Self, ParameterError> {
        config.transmission.validate_with(&controller)?;
        let mut random = ChaCha8Rng::from_seed(seed);
        let derived = Derived {
            max_transmit_span: config.transmission.max_transmit_span(),
            exchange_lifetime: config.transmission.exchange_lifetime(),
            response_timeout: config.response_timeout.unwrap_or_else(|| config.transmission.exchange_lifetime()),
        };
        let mut hasher = || RandomState::from_seed(random.next_u64());
        let peers = Peers::new(config.limits.peers, config.idle_lifetime, derived.exchange_lifetime, hasher());
        let received = Deduplication::new(
            config.limits.deduplication_bytes,
            config.limits.message_bytes,
            [derived.exchange_lifetime, config.transmission.non_lifetime()],
            hasher(),
        );
        let limiter = config.response_limit.map(|limit| Limiter::new(limit, [hasher(), hasher()]));
        Ok(Self {
            derived,
            controllers: Vec::from([controller]),
            choose: None,
            local: None,
            peers,
            exchanges: Slab::new(),
            generation: 0,
            queued: 0,
            by_id: HashMap::with_hasher(hasher()),
            by_token: HashMap::with_hasher(hasher()),
            received,
            limiter,
            timers: Timers::default(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            stats: Stats::default(),
            random,
            config,
        })
    }

    /// Adds a controller that [`choose_controller`](Self::choose_controller) can pick.
    ///
    /// # Errors
    /// If the transmission parameters are unsafe with this controller or contradict it.
    ///
    /// # Panics
    /// If there are 256 already.
    pub fn add_controller(&mut self, controller: C) -> Result<ControllerId, ParameterError> {
        self.config.transmission.validate_with(&controller)?;
        let id = u8::try_from(self.controllers.len()).expect("at most 256 controllers in an endpoint");
        self.controllers.push(controller);
        Ok(ControllerId(id))
    }

    /// Picks the controller for each destination, asked when the state of a peer is made. Without it all peers have the
    /// first controller; an ID of another endpoint counts as the first.
    pub fn choose_controller(&mut self, choose: ChooseController<P>) {
        self.choose = Some(choose);
    }

    /// Takes in something that happened outside.
    ///
    /// # Errors
    /// [`Undrained`] if more outputs wait than [`Limits::outputs`] allows; then nothing was taken in.
    pub fn handle(&mut self, now: Instant, input: Input<'_, P>) -> Result<(), Undrained> {
        if self.outbox.len() + self.events.len() >= self.config.limits.outputs {
            return Err(Undrained);
        }
        match input {
            Input::Datagram(datagram) if datagram.multicast => {}
            Input::Datagram(datagram) => {
                self.local = datagram.local;
                self.receive(now, datagram.from, datagram.bytes);
            }
            Input::Unreachable { peer, quoted } => self.unreachable(now, peer, quoted),
        }
        Ok(())
    }

    /// What to do next. A datagram to send is written to `buf`. The clock may stand still between calls, but not step
    /// back.
    ///
    /// # Panics
    /// If `buf` is shorter than [`Limits::message_bytes`].
    pub fn poll(&mut self, now: Instant, buf: &mut [u8]) -> Output<P> {
        assert!(
            buf.len() >= self.config.limits.message_bytes,
            "poll needs a buffer of message_bytes = {} bytes, got {}",
            self.config.limits.message_bytes,
            buf.len()
        );
        loop {
            if let Some(departure) = self.outbox.pop_front() {
                if let Some(transmit) = self.depart(now, departure, buf) {
                    self.stats.datagrams_sent += 1;
                    self.stats.bytes_sent += transmit.len as u64;
                    return Output::Transmit(transmit);
                }
            } else if let Some(event) = self.events.pop_front() {
                return Output::Event(event);
            } else if let Some(key) = self.timers.pop_due(now) {
                self.timer_due(now, key);
            } else {
                self.received.purge(now);
                let next = [self.timers.next(), self.received.next_purge()];
                return Output::Wait(next.into_iter().flatten().min());
            }
        }
    }

    /// Forgets what was learnt of the path to a peer, as if it had never been used. Message IDs go on as they were, and
    /// exchanges that are open keep their timers.
    pub fn reset_path(&mut self, now: Instant, peer: &P) {
        if let Some(index) = self.peers.find(peer) {
            let state = self.peers.get_mut(index);
            state.control = self.controllers[usize::from(state.controller.0)].peer(now);
            state.starved_since = None;
        }
    }

    /// What is known of a peer; `None` if it has no state.
    #[must_use]
    pub fn snapshot(&self, peer: &P) -> Option<PeerSnapshot> {
        let peer = self.peers.get(self.peers.find(peer)?);
        Some(peer.snapshot(&self.controllers[usize::from(peer.controller.0)]))
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The parameters that the endpoint was made with.
    #[must_use]
    pub fn transmission(&self) -> &TransmissionParameters {
        &self.config.transmission
    }

    /// What the endpoint holds, to watch that it stays bounded.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy {
            peers: self.peers.len(),
            exchanges: self.exchanges.len(),
            queued: self.queued,
            timers: self.timers.len(),
            deduplication_entries: self.received.len(),
            deduplication_bytes: self.received.bytes(),
            outputs: self.outbox.len() + self.events.len(),
        }
    }

    /// The index of the peer `key`, whose state is made if there is none.
    fn open_peer(&mut self, now: Instant, key: P) -> Result<u32, RequestError> {
        let Self { peers, controllers, choose, random, config, .. } = self;
        let control = |key: &P| {
            let chosen = choose.as_ref().map_or_else(ControllerId::default, |choose| choose(key));
            let chosen = if usize::from(chosen.0) < controllers.len() { chosen } else { ControllerId::default() };
            (chosen, controllers[usize::from(chosen.0)].peer(now))
        };
        let first_id = || random.next_u32().to_le_bytes()[..2].try_into().map_or(0, u16::from_le_bytes);
        peers
            .open(now, key, control, first_id)
            .map_err(|crate::peer::PeersFull| RequestError::PeersFull { limit: config.limits.peers })
    }
}

/// How much an endpoint holds of everything that is bounded by [`Limits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Peers with state.
    pub peers: usize,
    /// Exchanges that are not over.
    pub exchanges: usize,
    /// Those that wait for admission.
    pub queued: usize,
    /// Armed timers.
    pub timers: usize,
    /// Messages remembered for deduplication.
    pub deduplication_entries: usize,
    /// Their bytes.
    pub deduplication_bytes: usize,
    /// Outputs that wait to be polled.
    pub outputs: usize,
}

impl<P: PeerKey, C: Controller> fmt::Debug for Endpoint<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("occupancy", &self.occupancy())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
