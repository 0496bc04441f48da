//! The [`Endpoint`] passes datagrams, timers and operations to the message layer, the server and the
//! client.
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

mod client;
mod handshake;
mod occupancy;
#[cfg(feature = "oscore")]
mod oscore;
mod receive;
mod server;
mod transmit;

pub use crate::error::{NotifyError, RequestError, RespondError, SupersedeError, Undrained};
pub use crate::event::{Event, Input, NotWanted, Output, StreamEnd, Unfinished};
pub use crate::stats::{Occupancy, Stats};
pub use crate::transport::{Datagram, Ecn, Transmit};

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::hint::black_box;

use smallvec::SmallVec;

use crate::PeerKey;
use crate::client::Client;
use crate::config::{ConfigError, SharedConfig, TransmissionParameters};
use crate::exchange::{Failure, Next, Purpose};
use crate::hash::Fingerprint;
use crate::incoming::Incoming;
use crate::layers::Layers;
use crate::message::Deduplication;
use crate::observe::Observers;
use crate::peer::{ChooseController, ChoosePath, ControllerId, PathKey, PeerSnapshot, Peers, Survey};
use crate::server::Server;
use crate::transport::{Source, Transport};
use conche_cc::path_history::PathHistory;
use conche_cc::{Controller, Instant};

/// A CoAP client and server without I/O.
///
/// `P` identifies peers. `C` is the congestion controller;
/// [`AnyController`](conche_cc::AnyController) is chosen at run time.
///
/// The endpoint dispatches to its parts, none of which knows it.
pub struct Endpoint<P: PeerKey, C: Controller> {
    /// The message layer, the protection of messages, and the events for the application.
    layers: Layers<P, C>,
    /// Requests received.
    server: Server<P, C>,
    /// Requests sent.
    client: Client<P, C>,
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
        let (server, client) = (Server::new(&config, transport.hash), Client::new(&config, transport.hash));
        Ok(Self { layers: Layers::new(transport), server, client })
    }

    /// Adds a controller for [`choose_controller`](Self::choose_controller).
    ///
    /// # Errors
    /// If the transmission parameters are unsafe with this controller or contradict it, or if there
    /// are 256 controllers already.
    pub fn add_controller(&mut self, controller: C) -> Result<ControllerId, ConfigError> {
        self.layers.transport.config.validate_with(&controller)?;
        self.layers.transport.peers.controllers.add(controller).ok_or(ConfigError::TooManyControllers)
    }

    /// Sets the function that selects the controller of a destination, called when a peer's state
    /// is created. Without it all peers have the first controller. An ID of another endpoint
    /// selects the first one.
    pub fn choose_controller(&mut self, choose: ChooseController<P>) {
        self.layers.transport.peers.controllers.choose(choose);
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
        self.layers.transport.peers.share_paths(choose, self.layers.transport.config.limits.paths);
    }

    /// Returns the state of all [shared](Self::share_paths) paths in no meaningful order, for
    /// storage until the next start.
    pub fn paths(&self) -> impl Iterator<Item = (PathKey, &PathHistory)> {
        self.layers.transport.peers.paths()
    }

    /// Restores stored path state, unless newer state exists or paths are not
    /// [shared](Self::share_paths).
    pub fn remember_path(&mut self, path: PathKey, group: PathHistory) {
        self.layers.transport.peers.remember_path(path, group);
    }

    /// Returns the state of the [shared](Self::share_paths) path to a peer. The peer itself need
    /// not have state.
    #[must_use]
    pub fn path(&self, peer: &P) -> Option<&PathHistory> {
        self.layers.transport.peers.path(peer)
    }

    /// Drops the shared state of the path to this peer. The states of its peers remain, including
    /// this one's, until [reset](Self::reset_path).
    pub fn forget_path(&mut self, peer: &P) {
        self.layers.transport.peers.forget_path(peer);
    }

    /// Sets the function that groups sources: those with the same number share one part of each
    /// limited table. A group may hold at most as much as is free, so a prefix that one attacker
    /// controls should be one group. Without the function each peer is its own group.
    pub fn set_source_groups(&mut self, groups: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.layers.transport.sources.get_or_insert_default().groups = Some(groups);
    }

    /// Sets the function that returns the same number for all sources of one host. A host may have
    /// [`Limits::observers_per_host`](crate::Limits::observers_per_host) observers, and may guess
    /// the message ID of a ping 64 times in 247 s. Without the function each peer is its own host,
    /// so that a host has these observers and guesses for each of its ports.
    pub fn set_source_hosts(&mut self, hosts: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.layers.transport.sources.get_or_insert_default().hosts = Some(hosts);
    }

    /// Handles an external event.
    ///
    /// # Errors
    /// [`Undrained`] if [`Limits::outputs`](crate::Limits::outputs) outputs wait to be polled; the
    /// input is then ignored.
    pub fn handle(&mut self, now: Instant, input: Input<'_, P>) -> Result<(), Undrained> {
        let Layers { transport, events, .. } = &self.layers;
        if transport.outbox.len() + events.len() >= transport.config.limits.outputs {
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
        let message_bytes = self.layers.transport.config.limits.message_bytes;
        assert!(
            buf.len() >= message_bytes,
            "poll needs a buffer of message_bytes = {message_bytes} bytes, got {}",
            buf.len()
        );
        // No message is larger, regardless of the buffer.
        let buf = buf.get_mut(..message_bytes).unwrap_or_default();
        loop {
            if let Some(departure) = self.layers.transport.outbox.pop_front() {
                if let Some(transmit) = self.depart(now, departure, buf) {
                    self.layers.transport.stats.datagrams_sent += 1;
                    self.layers.transport.stats.bytes_sent += transmit.len as u64;
                    return Output::Transmit(transmit);
                }
            } else if let Some(event) = self.layers.events.pop_front() {
                return Output::Event(event);
            } else if let Some(peer) = self.layers.transport.peers.next_on_path() {
                self.layers.transport.admit_waiting(now, peer);
            } else if !self.do_what_is_due(now) {
                return Output::Wait(self.next_due(now));
            }
        }
    }

    /// Performs one due action; returns `false` if there is none. Resulting datagrams leave with
    /// the next iteration. Out of line, because most polls end before it.
    #[inline(never)]
    fn do_what_is_due(&mut self, now: Instant) -> bool {
        if let Some(index) = self.layers.transport.exchanges.pop_due(now) {
            self.exchange_due(now, index);
            return true;
        }
        self.server.do_what_is_due(&mut self.layers, now)
            || self.client.do_what_is_due(&mut self.layers, now)
            || self.server.notify_due(&mut self.layers, now)
    }

    /// Drops expired state, and returns the time of the next action.
    fn next_due(&mut self, now: Instant) -> Option<Instant> {
        let transport = &mut self.layers.transport;
        transport.peers.forget_lost();
        let next_purge = transport.received.made().and_then(|received| {
            received.purge(now);
            received.next_purge(now)
        });
        let next = [next_purge, self.server.next_due(now), self.client.subscriptions.next_due()];
        next.into_iter().flatten().chain(self.layers.transport.exchanges.next_due()).min()
    }

    /// Handles the timer of an exchange.
    fn exchange_due(&mut self, now: Instant, index: u32) {
        match self.layers.transport.exchange_due(now, index) {
            Next::Wait | Next::Depart | Next::Admit => {}
            Next::Fail(reason) => self.fail(now, index, reason),
            Next::Ask => self.client.ask_for_missing_blocks(&mut self.layers, now, index),
            Next::Over => self.server.notification_over(&mut self.layers, now, index),
        }
    }

    /// Ends an exchange with a failure.
    fn fail(&mut self, now: Instant, index: u32, reason: Failure) {
        match self.layers.transport.exchanges.get(index).purpose {
            Purpose::Request | Purpose::State(_) => self.client.fail(&mut self.layers, now, index, reason),
            Purpose::Response(_) | Purpose::Notification(_) => self.server.fail(&mut self.layers, now, index, reason),
            Purpose::Ping | Purpose::Handshake => {
                self.layers.transport.count_failure(index, reason);
                self.layers.announce_failure(now, index, reason);
                self.layers.transport.close(now, index);
            }
        }
    }

    /// Returns the index of a peer for a request of the application, creating its state if
    /// necessary.
    #[inline]
    fn open_peer(&mut self, now: Instant, key: P) -> Result<u32, RequestError> {
        self.server.open_peer(&mut self.layers, now, key, crate::shares::Group::NOBODY)
    }

    /// Resets the congestion state of a peer to that of a new one. [Shared](Self::share_paths)
    /// state of its path remains. Message IDs continue, and open exchanges keep their timers.
    pub fn reset_path(&mut self, now: Instant, peer: &P) {
        if let Some(index) = self.layers.transport.peers.peek(peer) {
            self.layers.transport.peers.reset(now, index);
        }
    }

    /// Returns the state of a peer; `None` if it has none.
    #[must_use]
    pub fn snapshot(&self, peer: &P) -> Option<PeerSnapshot> {
        self.layers.transport.peers.peek(peer).map(|index| self.layers.transport.peers.snapshot(index))
    }

    /// Returns when message IDs toward a peer beyond the current block of 1024 are free; `None` if
    /// some are free now. More than 257 messages per second use up all IDs and then wait, because
    /// an ID must not be reused within EXCHANGE_LIFETIME (RFC 7252 §4.4). Another endpoint of this
    /// host, at another port, has its own IDs.
    #[must_use]
    pub fn ids_scarce_until(&self, now: Instant, peer: &P) -> Option<Instant> {
        let peer = self.layers.transport.peers.get(self.layers.transport.peers.peek(peer)?);
        peer.ids_scarce_until(now, self.layers.transport.config.times().exchange_lifetime)
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
        let busiest = self.layers.transport.peers.survey(survey, places)?.into_iter();
        Some(
            busiest
                .map(|index| (self.layers.transport.peers.get(index).key, self.layers.transport.peers.snapshot(index)))
                .collect(),
        )
    }

    /// Prefetches the state for the next steps into the CPU cache, without side effects. For
    /// drivers of many endpoints that know which ones are next: if the cache cannot hold all of
    /// them, endpoints do not wait for memory one after the other.
    #[inline]
    pub fn glance(&self) {
        black_box((
            self.layers.events.len(),
            self.layers.transport.outbox.len(),
            self.layers.transport.stats.datagrams_sent,
            self.layers.transport.stats.duplicates,
        ));
        black_box(self.layers.transport.random.get_word_pos());
        self.layers.transport.exchanges.glance();
        self.layers.transport.peers.glance();
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
            self.layers.transport.fingerprint_of_request(source, datagram.bytes)
        };
        let requests: SmallVec<[Fingerprint; 32]> = datagrams.filter_map(request).collect();
        self.layers.transport.received.glance(&requests);
    }

    /// Returns the counters since the start.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.layers.transport.stats
    }

    /// Returns the transmission parameters of the endpoint.
    #[must_use]
    pub fn transmission(&self) -> &TransmissionParameters {
        &self.layers.transport.config.transmission
    }

    /// Returns the number of hash buckets and entries visited by all searches so far: one or two
    /// per search, unless an attacker makes keys collide.
    #[must_use]
    pub fn lookup_steps(&self) -> u64 {
        self.layers.transport.peers.steps()
            + self.layers.transport.exchanges.steps()
            + self.layers.transport.received.steps()
    }
}

impl<P: PeerKey, C: Controller> fmt::Debug for Endpoint<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("occupancy", &self.occupancy())
            .field("stats", &self.layers.transport.stats)
            .finish_non_exhaustive()
    }
}
