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

mod bodies;
#[cfg(feature = "oscore")]
mod combined;
mod depart;
mod discovery;
mod duplicates;
mod error;
mod event;
mod gathering;
mod group;
mod handshake;
mod inquiry;
mod leaving;
mod leisure;
mod observation;
mod occupancy;
mod options;
#[cfg(feature = "oscore")]
mod oscore;
mod outbox;
mod protection;
mod pushing;
mod receive;
mod refuse;
#[cfg(feature = "oscore")]
mod renewal;
mod request;
mod respond;
mod sets;
mod stats;
mod streams;
mod subscription;
mod transfer;
mod uploads;
mod validation;

pub use error::{NotifyError, RequestError, RespondError, SupersedeError, Undrained};
pub use event::{Datagram, Ecn, Event, Input, Output, Transmit};
pub use occupancy::Occupancy;
pub use stats::Stats;
pub use streams::{NotWanted, StreamEnd, Unfinished};

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::hint::black_box;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use smallvec::SmallVec;

#[cfg(feature = "oscore")]
use self::oscore::Protection;
use crate::PeerKey;
use crate::blockwise::Representations;
use crate::codec::MessagePool;
use crate::config::{ConfigError, ResponseLimit, SharedConfig, TransmissionParameters};
use crate::exchange::Exchanges;
use crate::hash::{Fingerprint, Keyed};
use crate::incoming::Incoming;
use crate::limit::Limiter;
use crate::message::{Deduplication, Rejectable};
use crate::observe::{Observers, Subscriptions};
use crate::peer::{ChooseController, ChoosePath, ControllerId, PathKey, PeerSnapshot, Peers, Survey};
use crate::store::OnDemand;
use conche_cc::group::Group;
use conche_cc::{Controller, Instant};
use discovery::Discovery;
use inquiry::Inquiries;
use leisure::Leisure;
use outbox::{Outbox, Source};
use sets::Sets;
use streams::Parts;
use validation::Validation;

/// A number for each source, the same for sources that belong together.
type SourceGroups<P> = Box<dyn Fn(&P) -> u64 + Send + Sync>;

/// Which sources belong together.
struct Sources<P> {
    /// Sources that share one part of a bounded table have the same number.
    groups: Option<SourceGroups<P>>,
    /// Sources of one host have the same number.
    hosts: Option<SourceGroups<P>>,
}

impl<P> Default for Sources<P> {
    fn default() -> Self {
        Self { groups: None, hosts: None }
    }
}

/// What limits the messages of each source.
#[derive(Debug, Default)]
struct Limiters {
    /// Of requests, where the configuration limits them.
    requests: Option<Limiter>,
    /// Of Resets that reject responses, since the first of them.
    resets: Option<Limiter>,
}

impl Limiters {
    fn of_requests(limit: ResponseLimit) -> Self {
        Self { requests: Some(Limiter::new(limit)), resets: None }
    }
}

/// A CoAP client and server without I/O.
///
/// `P` names peers; `C` is the congestion controller, with [`AnyController`](conche_cc::AnyController) as the one that
/// is chosen at run time.
///
/// It only connects: what it is made of lives in modules of its own, none of which knows another one above it.
pub struct Endpoint<P: PeerKey, C: Controller> {
    config: SharedConfig,
    random: ChaCha8Rng,
    /// Of what stands for messages and for groups of sources.
    hash: Keyed,
    /// How the application groups sources.
    sources: Option<Box<Sources<P>>>,
    limiters: Option<Box<Limiters>>,
    /// Which peers understand long tokens, if the configured tokens are long.
    discovery: Option<Box<Discovery>>,
    /// Security contexts, created with the first one.
    #[cfg(feature = "oscore")]
    protection: Option<Box<Protection>>,
    /// Created when the first source has to prove its address.
    validation: Option<Box<Validation<P>>>,
    /// Memory of the requests on their way to the application. Responses come one by one and have their own.
    requests: MessagePool,
    received: OnDemand<Deduplication>,
    rejectable: Rejectable,
    incoming: OnDemand<Incoming<P>>,
    leisure: OnDemand<Leisure<P>>,
    inquiries: OnDemand<Inquiries>,
    parts: OnDemand<Parts>,
    representations: OnDemand<Representations>,
    /// Where the configuration has Q-Block.
    sets: Option<Box<Sets<P>>>,
    exchanges: Exchanges<C>,
    observers: OnDemand<Observers>,
    subscriptions: OnDemand<Subscriptions>,
    peers: Peers<P, C>,
    outbox: Outbox<P>,
    events: VecDeque<Event<P>>,
    stats: Stats,
}

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Bytes that an idle peer takes, with its congestion state (but for what its controller allocates) and its index.
    pub const IDLE_PEER_BYTES: usize = Peers::<P, C>::BYTES;

    /// Bytes that a message takes in the deduplication table beside its reply, which takes 24 with up to 14 bytes of datagram.
    pub const DEDUPLICATION_ENTRY_BYTES: usize = Deduplication::BYTES_BESIDE_REPLY;

    /// Bytes that a request takes while it waits for its response.
    pub const WAITING_REQUEST_BYTES: usize = Incoming::<P>::BYTES;

    /// Bytes that an observer takes, with its key: peer, token and our address.
    pub const OBSERVER_BYTES: usize = Observers::BYTES;

    /// An endpoint with one controller for all peers. All randomness (tokens, message IDs, dithering, hash keys) comes
    /// from `seed`: real endpoints draw it from the operating system, simulated ones from their run's seed.
    ///
    /// # Errors
    /// If a setting makes no sense, contradicts another one or the controller, or is unsafe with it.
    pub fn new(config: impl Into<SharedConfig>, controller: C, seed: [u8; 32]) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate_with(&controller)?;
        let mut random = ChaCha8Rng::from_seed(seed);
        let [hash, peers_hash] = [Keyed::new(&mut random), Keyed::new(&mut random)];
        let (limits, times) = (&config.limits, config.times());
        let discovery = Discovery::of(&config).map(Box::new);
        Ok(Self {
            random,
            hash,
            sources: None,
            limiters: config.response_limit.map(|limit| Box::new(Limiters::of_requests(limit))),
            discovery,
            #[cfg(feature = "oscore")]
            protection: None,
            validation: None,
            requests: MessagePool::new(),
            received: OnDemand::new(config.clone()),
            rejectable: Rejectable::default(),
            incoming: OnDemand::new(config.clone()),
            leisure: OnDemand::new(()),
            inquiries: OnDemand::new(()),
            parts: OnDemand::new(config.clone()),
            representations: OnDemand::new(config.clone()),
            sets: Sets::of(&config).map(Box::new),
            exchanges: Exchanges::new(config.clone(), hash),
            observers: OnDemand::new((hash, config.clone())),
            subscriptions: OnDemand::new(hash),
            peers: Peers::new(controller, limits.peers, config.idle_lifetime, times.exchange_lifetime, peers_hash),
            outbox: Outbox::new(),
            events: VecDeque::new(),
            stats: Stats::default(),
            config,
        })
    }

    /// Adds a controller that [`choose_controller`](Self::choose_controller) can pick.
    ///
    /// # Errors
    /// If the transmission parameters are unsafe with this controller or contradict it, or there are 256 already.
    pub fn add_controller(&mut self, controller: C) -> Result<ControllerId, ConfigError> {
        self.config.validate_with(&controller)?;
        self.peers.controllers.add(controller).ok_or(ConfigError::TooManyControllers)
    }

    /// Picks the controller for each destination, asked when the state of a peer is made. Without it all peers have the
    /// first controller; an ID of another endpoint counts as the first.
    pub fn choose_controller(&mut self, choose: ChooseController<P>) {
        self.peers.controllers.choose(choose);
    }

    /// Shares path state between peers: a new peer, or one that returns after its own state was
    /// dropped, starts from the state of its path instead of from none (RFC 9040). `choose` names
    /// the path to a peer, or none. Without it each peer has only its own state.
    ///
    /// - Another peer's measurements make the RTO of a peer at most 4 s, twice `ACK_TIMEOUT`, and
    ///   none of its `MAX_RETRANSMIT` copies leaves after `MAX_TRANSMIT_SPAN`. With its own first
    ///   measurement nothing of them remains. A path with only one peer gives all of its state back
    ///   to that peer.
    /// - Its first timeout is at least 1 s until it has been measured itself (RFC 8085 §3.1.1).
    /// - The requests and notifications to all peers of a path have one window, at least 4. Each
    ///   counts until it is acknowledged or answered, or its timer expires, and for 6 s at most.
    ///   The only peer of a path has its NSTART instead.
    pub fn share_paths(&mut self, choose: ChoosePath<P>) {
        self.peers.share_paths(choose, self.config.limits.paths);
    }

    /// What is known of all [shared](Self::share_paths) paths, in no order that means anything: to be kept for the next start.
    pub fn paths(&self) -> impl Iterator<Item = (PathKey, &Group)> {
        self.peers.paths()
    }

    /// Remembers what was known of a path at an earlier time, unless something newer is known or paths are not
    /// [shared](Self::share_paths).
    pub fn remember_path(&mut self, path: PathKey, group: Group) {
        self.peers.remember_path(path, group);
    }

    /// What is known of the [shared](Self::share_paths) path to a peer, which need have no state.
    #[must_use]
    pub fn path(&self, peer: &P) -> Option<&Group> {
        self.peers.path(peer)
    }

    /// Forgets what the peers of the path to this one have found out. Their own states stay, and this one's, until it is
    /// [reset](Self::reset_path).
    pub fn forget_path(&mut self, peer: &P) {
        self.peers.forget_path(peer);
    }

    /// Tells which sources count as one when memory is short: those whose number here is the same. None of them may then
    /// hold more than is free for all others, so a prefix that one attacker can send from should be one group. Without
    /// it each peer is a group of its own.
    pub fn set_source_groups(&mut self, groups: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.sources.get_or_insert_default().groups = Some(groups);
    }

    /// Sets a function that returns the same number for all sources of one host. A host may have
    /// [`Limits::observers_per_host`](crate::Limits::observers_per_host) observers, and guess the
    /// message ID of a ping 64 times in 247 s. Without it each peer is a host of its own, so that a
    /// host has as many observers and guesses as it has ports.
    pub fn set_source_hosts(&mut self, hosts: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.sources.get_or_insert_default().hosts = Some(hosts);
    }

    /// Takes in something that happened outside.
    ///
    /// # Errors
    /// [`Undrained`] if more outputs wait than [`Limits::outputs`](crate::Limits::outputs) allows; then nothing was taken in.
    pub fn handle(&mut self, now: Instant, input: Input<'_, P>) -> Result<(), Undrained> {
        if self.outbox.len() + self.events.len() >= self.config.limits.outputs {
            return Err(Undrained);
        }
        match input {
            Input::Datagram(datagram) => self.receive(now, &datagram),
            Input::Unreachable { peer, quoted } => self.unreachable(now, peer, quoted),
        }
        Ok(())
    }

    /// What to do next. A datagram to send is written to `buf`. The clock may stand still between calls, but not step
    /// back.
    ///
    /// # Panics
    /// If `buf` is shorter than [`Limits::message_bytes`](crate::Limits::message_bytes).
    pub fn poll(&mut self, now: Instant, buf: &mut [u8]) -> Output<P> {
        assert!(
            buf.len() >= self.config.limits.message_bytes,
            "poll needs a buffer of message_bytes = {} bytes, got {}",
            self.config.limits.message_bytes,
            buf.len()
        );
        // No message is larger, however long the buffer is.
        let buf = buf.get_mut(..self.config.limits.message_bytes).unwrap_or_default();
        loop {
            if let Some(departure) = self.outbox.pop_front() {
                if let Some(transmit) = self.depart(now, departure, buf) {
                    self.stats.datagrams_sent += 1;
                    self.stats.bytes_sent += transmit.len as u64;
                    return Output::Transmit(transmit);
                }
            } else if let Some(event) = self.events.pop_front() {
                return Output::Event(event);
            } else if let Some(peer) = self.peers.next_on_path() {
                self.admit_waiting(now, peer);
            } else if !self.do_what_is_due(now) {
                return Output::Wait(self.next_due(now));
            }
        }
    }

    /// Does one thing whose time has come; `false` if there is none. What it makes leave comes with the next turn. A function
    /// of its own, since most polls end before it.
    #[inline(never)]
    fn do_what_is_due(&mut self, now: Instant) -> bool {
        if let Some(index) = self.exchanges.pop_due(now) {
            self.exchange_due(now, index);
        } else if let Some(request) = self.incoming.due(now) {
            self.piggybacking_over(now, request);
        } else if self.ping_due(now) || self.leisure_over(now) || self.stream_expired(now) || self.upload_due(now) {
            // Done.
        } else if let Some(due) = self.subscriptions.made().and_then(|made| made.pop_due(now)) {
            self.subscription_due(due);
        } else if let Some(observer) = self.observers.made().and_then(|made| made.visit(now)) {
            self.notify_observer(now, observer);
        } else {
            return false;
        }
        true
    }

    /// The application is to be told this.
    #[inline]
    fn announce(&mut self, event: Event<P>) {
        outbox::reserve_first(&mut self.events);
        self.events.push_back(event);
    }

    /// Forgets what is over, and tells when the next thing is due.
    fn next_due(&mut self, now: Instant) -> Option<Instant> {
        self.peers.forget_lost();
        let next_purge = self.received.made().and_then(|received| {
            received.purge(now);
            received.next_purge(now)
        });
        let next = [
            self.incoming.next_due(),
            self.leisure.next_due(),
            self.subscriptions.next_due(),
            self.observers.next_due(),
            next_purge,
            self.purge_bodies(now),
            self.sets.as_ref().and_then(|sets| sets.next_due()),
            self.validation.as_ref().and_then(|validation| validation.next_due()),
        ];
        next.into_iter().fold(self.exchanges.next_due(), earlier)
    }

    /// Forgets what was learnt of a peer, as if it had never been used; what others of its path have found out, if that is
    /// [shared](Self::share_paths), stays. Message IDs go on as they were, and exchanges that are open keep their timers.
    pub fn reset_path(&mut self, now: Instant, peer: &P) {
        if let Some(index) = self.peers.peek(peer) {
            self.peers.reset(now, index);
        }
    }

    /// What is known of a peer; `None` if it has no state.
    #[must_use]
    pub fn snapshot(&self, peer: &P) -> Option<PeerSnapshot> {
        self.peers.peek(peer).map(|index| self.peers.snapshot(index))
    }

    /// When more than the last thousand message IDs toward a peer will be free, if they are not: what leaves faster than 257 messages a
    /// second uses up all of them, and then waits, since none may be used again within EXCHANGE_LIFETIME (RFC 7252 §4.4). Another
    /// endpoint of this host, at another port, has all of its own.
    #[must_use]
    pub fn ids_scarce_until(&self, now: Instant, peer: &P) -> Option<Instant> {
        let peer = self.peers.get(self.peers.peek(peer)?);
        peer.ids_scarce_until(now, self.config.times().exchange_lifetime)
    }

    /// What is known of so many peers, those with the most exchanges in flight and messages in the queue first. Looks at
    /// every peer, unless none is wanted.
    #[must_use]
    pub fn busiest(&self, most: usize) -> Vec<(P, PeerSnapshot)> {
        self.survey(&mut Survey::of(most), usize::MAX).unwrap_or_default()
    }

    /// The same, but looks at no more than so many places of the table of peers, so that a large one holds up nothing for long. To be
    /// called with the same survey until it answers. Peers may come and go meanwhile: each is told as it is at the end.
    pub fn survey(&self, survey: &mut Survey, places: usize) -> Option<Vec<(P, PeerSnapshot)>> {
        let busiest = self.peers.survey(survey, places)?.into_iter();
        Some(busiest.map(|index| (self.peers.get(index).key, self.peers.snapshot(index))).collect())
    }

    /// Reads what most of its next steps will need, and does nothing with it: for the driver of many endpoints that knows some
    /// of those to be next. Where no cache holds all of them, so the endpoints do not wait for memory one after the other.
    #[inline]
    pub fn glance(&self) {
        black_box((self.events.len(), self.outbox.len(), self.stats.datagrams_sent, self.stats.duplicates));
        black_box(self.random.get_word_pos());
        self.exchanges.glance();
        self.peers.glance();
    }

    /// Reads what taking in this datagram will need beside that, for the driver that has several at once. Nothing is taken in.
    pub fn glance_at(&self, datagram: &Datagram<'_, P>) {
        self.glance_at_all(core::iter::once(*datagram));
    }

    /// The same for datagrams that have come together. All are looked at before anything is read, so that memory is waited for once and
    /// not for each of them.
    pub fn glance_at_all<'a>(&self, datagrams: impl Iterator<Item = Datagram<'a, P>>) {
        let request = |datagram: Datagram<'_, P>| {
            let source = Source { from: datagram.from, local: datagram.local };
            self.fingerprint_of_request(source, datagram.bytes)
        };
        let requests: SmallVec<[Fingerprint; 32]> = datagrams.filter_map(request).collect();
        self.received.glance(&requests);
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

    /// Buckets and entries of hash tables that all searches so far have looked at: one or two for each, unless somebody
    /// found a way to make keys collide.
    #[must_use]
    pub fn lookup_steps(&self) -> u64 {
        self.peers.steps() + self.exchanges.steps() + self.received.steps()
    }
}

/// The earlier of two times that may not come.
#[inline]
fn earlier(first: Option<Instant>, second: Option<Instant>) -> Option<Instant> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.min(second)),
        (first, None) => first,
        (None, second) => second,
    }
}

impl<P: PeerKey, C: Controller> fmt::Debug for Endpoint<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("occupancy", &self.occupancy())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
