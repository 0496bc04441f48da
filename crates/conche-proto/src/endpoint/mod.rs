//! The [`Endpoint`] connects codec, message layer, exchanges and peers, and drives their timers.
//!
//! After every [`handle`](Endpoint::handle) and every other operation, poll until [`Output::Wait`].
//! Then nothing happens until the next input, the next operation, or the time in `Wait`.
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
//! // The client sends a request to peer "s"; its datagram reaches the server.
//! let asked = client.request(now, "s", Request::new(Code::GET, Body::builder().path("/test").build()?))?;
//! let Output::Transmit(datagram) = client.poll(now, &mut buf) else { panic!() };
//! server.handle(now, Input::datagram("c", &buf[..datagram.len]))?;
//!
//! // The server's application responds; the response reaches the client.
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
mod protection;
mod pushing;
mod receive;
mod refuse;
#[cfg(feature = "oscore")]
mod renewal;
mod request;
mod respond;
mod sets;
mod streams;
mod subscription;
mod transfer;
mod uploads;
mod validation;

pub use crate::error::{NotifyError, RequestError, RespondError, SupersedeError, Undrained};
pub use crate::stats::Stats;
pub use event::{Datagram, Ecn, Event, Input, Output, Transmit};
pub use occupancy::Occupancy;
pub use streams::{NotWanted, StreamEnd, Unfinished};

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::hint::black_box;

use smallvec::SmallVec;

#[cfg(feature = "oscore")]
use self::oscore::Protection;
use crate::PeerKey;
use crate::blockwise::Representations;
use crate::codec::MessagePool;
use crate::config::{ConfigError, SharedConfig, TransmissionParameters};
use crate::hash::Fingerprint;
use crate::incoming::Incoming;
use crate::message::Deduplication;
use crate::observe::{Observers, Subscriptions};
use crate::peer::{ChooseController, ChoosePath, ControllerId, PathKey, PeerSnapshot, Peers, Survey};
use crate::store::OnDemand;
use crate::transport::{Source, Transport, reserve_first};
use conche_cc::path_history::PathHistory;
use conche_cc::{Controller, Instant};
use discovery::Discovery;
use inquiry::Inquiries;
use leisure::Leisure;

use sets::Sets;
use streams::Parts;
use validation::Validation;

/// A CoAP client and server without I/O.
///
/// `P` identifies peers. `C` is the congestion controller;
/// [`AnyController`](conche_cc::AnyController) is chosen at run time.
///
/// The endpoint only connects modules, none of which uses a module above it.
pub struct Endpoint<P: PeerKey, C: Controller> {
    transport: Transport<P, C>,
    /// Known support of extended tokens, if the configured tokens are extended.
    discovery: Option<Box<Discovery>>,
    /// Security contexts, created with the first one.
    #[cfg(feature = "oscore")]
    protection: Option<Box<Protection>>,
    /// Source validation, created when the first source must prove its address.
    validation: Option<Box<Validation<P>>>,
    /// Memory of requests for the application. Responses arrive one by one and have their own
    /// allocation.
    requests: MessagePool,
    incoming: OnDemand<Incoming<P>>,
    leisure: OnDemand<Leisure<P>>,
    inquiries: OnDemand<Inquiries>,
    parts: OnDemand<Parts>,
    representations: OnDemand<Representations>,
    /// Q-Block state, if configured.
    sets: Option<Box<Sets<P>>>,
    observers: OnDemand<Observers>,
    subscriptions: OnDemand<Subscriptions>,
    events: VecDeque<Event<P>>,
}

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Bytes of an idle peer with its congestion state and index entry, without the controller's
    /// allocations.
    pub const IDLE_PEER_BYTES: usize = Peers::<P, C>::BYTES;

    /// Bytes of a deduplication entry without its reply, which takes 24 bytes for a datagram of up
    /// to 14.
    pub const DEDUPLICATION_ENTRY_BYTES: usize = Deduplication::BYTES_BESIDE_REPLY;

    /// Bytes of a received request that awaits its response.
    pub const WAITING_REQUEST_BYTES: usize = Incoming::<P>::BYTES;

    /// Bytes of an observer with its key: peer, token and local address.
    pub const OBSERVER_BYTES: usize = Observers::BYTES;

    /// Creates an endpoint with one controller for all peers. All random values (tokens, message
    /// IDs, dithering, hash keys) derive from `seed`: real endpoints draw it from the operating
    /// system, simulated ones from the seed of the run.
    ///
    /// # Errors
    /// If a setting is invalid, contradicts another one or the controller, or is unsafe with it.
    pub fn new(config: impl Into<SharedConfig>, controller: C, seed: [u8; 32]) -> Result<Self, ConfigError> {
        let config = config.into();
        let transport = Transport::new(config.clone(), controller, seed)?;
        Ok(Self {
            discovery: Discovery::of(&config).map(Box::new),
            #[cfg(feature = "oscore")]
            protection: None,
            validation: None,
            requests: MessagePool::new(),
            incoming: OnDemand::new(config.clone()),
            leisure: OnDemand::new(()),
            inquiries: OnDemand::new(()),
            parts: OnDemand::new(config.clone()),
            representations: OnDemand::new(config.clone()),
            sets: Sets::of(&config).map(Box::new),
            observers: OnDemand::new((transport.hash, config)),
            subscriptions: OnDemand::new(transport.hash),
            events: VecDeque::new(),
            transport,
        })
    }

    /// Adds a controller for [`choose_controller`](Self::choose_controller).
    ///
    /// # Errors
    /// If the transmission parameters are unsafe with this controller or contradict it, or if there
    /// are 256 controllers already.
    pub fn add_controller(&mut self, controller: C) -> Result<ControllerId, ConfigError> {
        self.transport.config.validate_with(&controller)?;
        self.transport.peers.controllers.add(controller).ok_or(ConfigError::TooManyControllers)
    }

    /// Sets the function that selects the controller of a destination, called when a peer's state
    /// is created. Without it all peers have the first controller. An ID of another endpoint
    /// selects the first one.
    pub fn choose_controller(&mut self, choose: ChooseController<P>) {
        self.transport.peers.controllers.choose(choose);
    }

    /// Shares path state between peers: a new peer, or one that returns after its own state was
    /// dropped, starts with the state of its path (RFC 9040). `choose` returns the path to a peer,
    /// or `None`. Without it each peer has only its own state.
    ///
    /// - Measurements of other peers raise the RTO of a peer to at most 4 s, twice `ACK_TIMEOUT`,
    ///   and all its `MAX_RETRANSMIT` retransmissions leave within `MAX_TRANSMIT_SPAN`. The peer's
    ///   own first measurement replaces them. A path with a single peer returns all of its state to
    ///   that peer.
    /// - The initial timeout of a peer is at least 1 s until it has its own RTT sample (RFC 8085
    ///   §3.1.1).
    /// - The requests and notifications to all peers of a path share one window of at least 4. Each
    ///   counts until it is acknowledged or answered, or until its timeout, for at most 6 s. The
    ///   only peer of a path has its NSTART instead.
    pub fn share_paths(&mut self, choose: ChoosePath<P>) {
        self.transport.peers.share_paths(choose, self.transport.config.limits.paths);
    }

    /// Returns the state of all [shared](Self::share_paths) paths in no meaningful order, for
    /// storage until the next start.
    pub fn paths(&self) -> impl Iterator<Item = (PathKey, &PathHistory)> {
        self.transport.peers.paths()
    }

    /// Restores stored path state, unless newer state exists or paths are not
    /// [shared](Self::share_paths).
    pub fn remember_path(&mut self, path: PathKey, group: PathHistory) {
        self.transport.peers.remember_path(path, group);
    }

    /// Returns the state of the [shared](Self::share_paths) path to a peer. The peer itself need
    /// not have state.
    #[must_use]
    pub fn path(&self, peer: &P) -> Option<&PathHistory> {
        self.transport.peers.path(peer)
    }

    /// Drops the shared state of the path to this peer. The states of its peers remain, including
    /// this one's, until [reset](Self::reset_path).
    pub fn forget_path(&mut self, peer: &P) {
        self.transport.peers.forget_path(peer);
    }

    /// Sets the function that groups sources: those with the same number share one part of each
    /// limited table. A group may hold at most as much as is free, so a prefix that one attacker
    /// controls should be one group. Without the function each peer is its own group.
    pub fn set_source_groups(&mut self, groups: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.transport.sources.get_or_insert_default().groups = Some(groups);
    }

    /// Sets the function that returns the same number for all sources of one host. A host may have
    /// [`Limits::observers_per_host`](crate::Limits::observers_per_host) observers, and may guess
    /// the message ID of a ping 64 times in 247 s. Without the function each peer is its own host,
    /// so that a host has these observers and guesses for each of its ports.
    pub fn set_source_hosts(&mut self, hosts: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.transport.sources.get_or_insert_default().hosts = Some(hosts);
    }

    /// Handles an external event.
    ///
    /// # Errors
    /// [`Undrained`] if [`Limits::outputs`](crate::Limits::outputs) outputs wait to be polled; the
    /// input is then ignored.
    pub fn handle(&mut self, now: Instant, input: Input<'_, P>) -> Result<(), Undrained> {
        if self.transport.outbox.len() + self.events.len() >= self.transport.config.limits.outputs {
            return Err(Undrained);
        }
        match input {
            Input::Datagram(datagram) => self.receive(now, &datagram),
            Input::Unreachable { peer, quoted } => self.unreachable(now, peer, quoted),
        }
        Ok(())
    }

    /// Returns the next output. A datagram to send is written to `buf`. The clock may stand still
    /// between calls, but must not go back.
    ///
    /// # Panics
    /// If `buf` is shorter than [`Limits::message_bytes`](crate::Limits::message_bytes).
    pub fn poll(&mut self, now: Instant, buf: &mut [u8]) -> Output<P> {
        assert!(
            buf.len() >= self.transport.config.limits.message_bytes,
            "poll needs a buffer of message_bytes = {} bytes, got {}",
            self.transport.config.limits.message_bytes,
            buf.len()
        );
        // No message is larger, regardless of the buffer.
        let buf = buf.get_mut(..self.transport.config.limits.message_bytes).unwrap_or_default();
        loop {
            if let Some(departure) = self.transport.outbox.pop_front() {
                if let Some(transmit) = self.depart(now, departure, buf) {
                    self.transport.stats.datagrams_sent += 1;
                    self.transport.stats.bytes_sent += transmit.len as u64;
                    return Output::Transmit(transmit);
                }
            } else if let Some(event) = self.events.pop_front() {
                return Output::Event(event);
            } else if let Some(peer) = self.transport.peers.next_on_path() {
                self.transport.admit_waiting(now, peer);
            } else if !self.do_what_is_due(now) {
                return Output::Wait(self.next_due(now));
            }
        }
    }

    /// Performs one due action; returns `false` if there is none. Resulting datagrams leave with
    /// the next iteration. Out of line, because most polls end before it.
    #[inline(never)]
    fn do_what_is_due(&mut self, now: Instant) -> bool {
        if let Some(index) = self.transport.exchanges.pop_due(now) {
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

    /// Queues an event for the application.
    #[inline]
    fn announce(&mut self, event: Event<P>) {
        reserve_first(&mut self.events);
        self.events.push_back(event);
    }

    /// Drops expired state, and returns the time of the next action.
    fn next_due(&mut self, now: Instant) -> Option<Instant> {
        self.transport.peers.forget_lost();
        let next_purge = self.transport.received.made().and_then(|received| {
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
        next.into_iter().fold(self.transport.exchanges.next_due(), earlier)
    }

    /// Resets the congestion state of a peer to that of a new one. [Shared](Self::share_paths)
    /// state of its path remains. Message IDs continue, and open exchanges keep their timers.
    pub fn reset_path(&mut self, now: Instant, peer: &P) {
        if let Some(index) = self.transport.peers.peek(peer) {
            self.transport.peers.reset(now, index);
        }
    }

    /// Returns the state of a peer; `None` if it has none.
    #[must_use]
    pub fn snapshot(&self, peer: &P) -> Option<PeerSnapshot> {
        self.transport.peers.peek(peer).map(|index| self.transport.peers.snapshot(index))
    }

    /// Returns when message IDs toward a peer beyond the current block of 1024 are free; `None` if
    /// some are free now. More than 257 messages per second use up all IDs and then wait, because
    /// an ID must not be reused within EXCHANGE_LIFETIME (RFC 7252 §4.4). Another endpoint of this
    /// host, at another port, has its own IDs.
    #[must_use]
    pub fn ids_scarce_until(&self, now: Instant, peer: &P) -> Option<Instant> {
        let peer = self.transport.peers.get(self.transport.peers.peek(peer)?);
        peer.ids_scarce_until(now, self.transport.config.times().exchange_lifetime)
    }

    /// Returns the state of up to `most` peers, ordered by exchanges in flight and queued messages.
    /// Visits every peer, unless `most` is 0.
    #[must_use]
    pub fn busiest(&self, most: usize) -> Vec<(P, PeerSnapshot)> {
        self.survey(&mut Survey::of(most), usize::MAX).unwrap_or_default()
    }

    /// Advances a survey by at most `places` places of the peer table, so that a large table blocks
    /// nothing for long. Call it with the same survey until it returns the peers. Peers may come
    /// and go in the meantime: the result has the state at the end.
    pub fn survey(&self, survey: &mut Survey, places: usize) -> Option<Vec<(P, PeerSnapshot)>> {
        let busiest = self.transport.peers.survey(survey, places)?.into_iter();
        Some(busiest.map(|index| (self.transport.peers.get(index).key, self.transport.peers.snapshot(index))).collect())
    }

    /// Prefetches the state for the next steps into the CPU cache, without side effects. For
    /// drivers of many endpoints that know which ones are next: if the cache cannot hold all of
    /// them, endpoints do not wait for memory one after the other.
    #[inline]
    pub fn glance(&self) {
        black_box((
            self.events.len(),
            self.transport.outbox.len(),
            self.transport.stats.datagrams_sent,
            self.transport.stats.duplicates,
        ));
        black_box(self.transport.random.get_word_pos());
        self.transport.exchanges.glance();
        self.transport.peers.glance();
    }

    /// Prefetches the state for receiving this datagram, without handling it. For drivers that have
    /// several datagrams at once.
    pub fn glance_at(&self, datagram: &Datagram<'_, P>) {
        self.glance_at_all(core::iter::once(*datagram));
    }

    /// Prefetches the state for receiving these datagrams. Hashes all of them before it reads
    /// memory, so that the waits overlap.
    pub fn glance_at_all<'a>(&self, datagrams: impl Iterator<Item = Datagram<'a, P>>) {
        let request = |datagram: Datagram<'_, P>| {
            let source = Source { from: datagram.from, local: datagram.local };
            self.transport.fingerprint_of_request(source, datagram.bytes)
        };
        let requests: SmallVec<[Fingerprint; 32]> = datagrams.filter_map(request).collect();
        self.transport.received.glance(&requests);
    }

    /// Returns the counters since the start.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.transport.stats
    }

    /// Returns the transmission parameters of the endpoint.
    #[must_use]
    pub fn transmission(&self) -> &TransmissionParameters {
        &self.transport.config.transmission
    }

    /// Returns the number of hash buckets and entries visited by all searches so far: one or two
    /// per search, unless an attacker makes keys collide.
    #[must_use]
    pub fn lookup_steps(&self) -> u64 {
        self.transport.peers.steps() + self.transport.exchanges.steps() + self.transport.received.steps()
    }
}

/// Returns the earlier of two times, if any.
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
            .field("stats", &self.transport.stats)
            .finish_non_exhaustive()
    }
}
