//! The [`Endpoint`].
//!
//! After every [`handle`](Endpoint::handle) and every other operation, poll until [`Output::Wait`].
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

#[cfg(feature = "oscore")]
mod oscore;
mod receive;

pub use crate::error::{NotifyError, OutputsPending, RequestError, RespondError, SupersedeError};
pub use crate::event::{BodyClosed, Event, IncompleteBody, Input, Output, StreamEnd};
pub use crate::stats::{Occupancy, Stats};
pub use crate::transport::{Datagram, Ecn, Transmit};

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::hint::black_box;
use core::time::Duration;

use crate::PeerKey;
use crate::client::Client;
use crate::codec::Message;
use crate::config::{ConfigError, SharedConfig, TransmissionParameters};
use crate::hash::Fingerprint;
use crate::layers::Layers;
use crate::observe::{ObserverId, Observers, SubscriptionId};
use crate::server::{PendingRequests, Server};
use crate::transport::{
    BusiestPeersSearch, ChooseController, ChoosePath, ControllerId, Deduplication, Departure, ExchangeId,
    ExchangeIndex, Failure, Flight, NextAction, Opening, PathKey, PeerIndex, PeerSnapshot, Peers, Purpose,
    RemainingBody, Request, RequestId, Response, Source, State, Transport,
};
use bytes::Bytes;
use conche_cc::control::AbandonReason;
use conche_cc::path_history::PathHistory;
use conche_cc::{Controller, Instant};
use smallvec::SmallVec;

/// A CoAP client and server without I/O.
///
/// `P` identifies peers. `C` is the congestion controller;
/// [`AnyController`](conche_cc::AnyController) is chosen at run time.
pub struct Endpoint<P: PeerKey, C: Controller> {
    /// The message layer, the protection of messages, and the events for the application.
    layers: Layers<P, C>,
    server: Server<P, C>,
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
    pub const WAITING_REQUEST_BYTES: usize = PendingRequests::<P>::BYTES;

    /// Bytes of an observer with its key: peer, token and local address.
    pub const OBSERVER_BYTES: usize = Observers::BYTES;

    /// Creates an endpoint with one controller for all peers. All random values derive from `seed`:
    /// real endpoints draw it from the operating system, simulated ones from the seed of the run.
    ///
    /// # Errors
    /// If a setting is invalid, contradicts another one, or is unsafe with the controller.
    pub fn new(config: impl Into<SharedConfig>, controller: C, seed: [u8; 32]) -> Result<Self, ConfigError> {
        let config = config.into();
        let transport = Transport::new(config.clone(), controller, seed)?;
        let (server, client) = (Server::new(&config, transport.hash), Client::new(&config, transport.hash));
        Ok(Self { layers: Layers::new(transport), server, client })
    }

    /// Adds a controller for [`choose_controller`](Self::choose_controller).
    ///
    /// # Errors
    /// If the transmission parameters contradict it or are unsafe with it, or beyond 256
    /// controllers.
    pub fn add_controller(&mut self, controller: C) -> Result<ControllerId, ConfigError> {
        self.layers.transport.config.validate_with(&controller)?;
        self.layers.transport.peers.controllers.add(controller).ok_or(ConfigError::TooManyControllers)
    }

    /// Sets the function that selects the controller of a destination, called when a peer's state
    /// is created. Without it, and for an ID of another endpoint, it is the first one.
    pub fn choose_controller(&mut self, choose: ChooseController<P>) {
        self.layers.transport.peers.controllers.choose(choose);
    }

    /// Shares path state between peers (RFC 9040): a new peer, or one whose state was dropped,
    /// starts with the state of its path. `choose` returns the path to a peer, or `None`.
    ///
    /// - Measurements of other peers raise the RTO of a peer to at most 4 s, twice `ACK_TIMEOUT`,
    ///   and all its `MAX_RETRANSMIT` retransmissions leave within `MAX_TRANSMIT_SPAN`. The peer's
    ///   own first measurement replaces them. A path with a single peer returns all of its state to
    ///   that peer.
    /// - The initial timeout of a peer is at least 1 s until it has its own RTT sample (RFC 8085
    ///   §3.1.1).
    /// - The requests and notifications to all peers of a path share one window of at least 4. Each
    ///   counts until it is acknowledged, answered or timed out, for at most 6 s. The only peer of
    ///   a path has its NSTART instead.
    pub fn share_paths(&mut self, choose: ChoosePath<P>) {
        self.layers.transport.peers.share_paths(choose, self.layers.transport.config.limits.paths);
    }

    /// Returns the state of all [shared](Self::share_paths) paths in no meaningful order, for
    /// storage.
    pub fn paths(&self) -> impl Iterator<Item = (PathKey, &PathHistory)> {
        self.layers.transport.peers.paths()
    }

    /// Restores stored path state, unless newer state exists or paths are not
    /// [shared](Self::share_paths).
    pub fn remember_path(&mut self, path: PathKey, group: PathHistory) {
        self.layers.transport.peers.remember_path(path, group);
    }

    /// Returns the state of the [shared](Self::share_paths) path to a peer, which may itself be
    /// unknown.
    #[must_use]
    pub fn path(&self, peer: &P) -> Option<&PathHistory> {
        self.layers.transport.peers.path(peer)
    }

    /// Drops the shared state of the path to this peer. The states of its peers remain until
    /// [reset](Self::reset_path).
    pub fn forget_path(&mut self, peer: &P) {
        self.layers.transport.peers.forget_path(peer);
    }

    /// Sets the function that groups sources. A group may hold at most as much of each limited
    /// table as is free, so a prefix that one attacker controls should be one group. By default
    /// each peer is its own group.
    pub fn set_source_groups(&mut self, groups: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.layers.transport.sources.get_or_insert_default().groups = Some(groups);
    }

    /// Sets the function that returns the same number for all sources of one host. A host may have
    /// [`Limits::observers_per_host`](crate::Limits::observers_per_host) observers, and may guess
    /// the message ID of a ping 64 times in 247 s. By default each peer is its own host.
    pub fn set_source_hosts(&mut self, hosts: Box<dyn Fn(&P) -> u64 + Send + Sync>) {
        self.layers.transport.sources.get_or_insert_default().hosts = Some(hosts);
    }

    /// Handles an external event.
    ///
    /// # Errors
    /// [`OutputsPending`] if [`Limits::outputs`](crate::Limits::outputs) outputs wait to be polled;
    /// the input is then ignored.
    pub fn handle(&mut self, now: Instant, input: Input<'_, P>) -> Result<(), OutputsPending> {
        self.layers.now = now;
        let Layers { transport, events, .. } = &self.layers;
        if transport.outbox.len() + events.len() >= transport.config.limits.outputs {
            return Err(OutputsPending);
        }
        match input {
            Input::Datagram(datagram) => self.receive(&datagram),
            Input::Unreachable { peer, quoted } => self.unreachable(peer, quoted),
        }
        Ok(())
    }

    /// Returns the next output. A datagram to send is written to `buf`. The clock must not go back.
    ///
    /// # Panics
    /// If `buf` is shorter than [`Limits::message_bytes`](crate::Limits::message_bytes).
    pub fn poll(&mut self, now: Instant, buf: &mut [u8]) -> Output<P> {
        self.layers.now = now;
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
                if let Some(transmit) = self.depart(departure, buf) {
                    self.layers.transport.stats.datagrams_sent += 1;
                    self.layers.transport.stats.bytes_sent += transmit.len as u64;
                    return Output::Transmit(transmit);
                }
            } else if let Some(event) = self.layers.events.pop_front() {
                return Output::Event(event);
            } else if let Some(peer) = self.layers.transport.peers.next_on_path() {
                self.layers.transport.admit_waiting(now, peer);
            } else if !self.handle_due() {
                return Output::Wait(self.next_due());
            }
        }
    }

    /// Performs one due action; returns `false` without one. Out of line: most polls end before it.
    #[inline(never)]
    fn handle_due(&mut self) -> bool {
        if let Some(index) = self.layers.transport.exchanges.pop_due(self.layers.now) {
            self.exchange_due(index);
            return true;
        }
        self.server.handle_due(&mut self.layers)
            || self.client.handle_due(&mut self.layers)
            || self.server.notify_due(&mut self.layers)
    }

    /// Drops expired state, and returns the time of the next action.
    fn next_due(&mut self) -> Option<Instant> {
        let transport = &mut self.layers.transport;
        transport.peers.forget_lost();
        let next_purge = transport.received.created().and_then(|received| {
            received.purge(self.layers.now);
            received.next_purge(self.layers.now)
        });
        let subscriptions = self.client.subscriptions.created().and_then(|subscriptions| subscriptions.next_due());
        let next = [next_purge, self.server.next_due(self.layers.now), subscriptions];
        next.into_iter().flatten().chain(self.layers.transport.exchanges.next_due()).min()
    }

    fn exchange_due(&mut self, index: ExchangeIndex) {
        match self.layers.transport.exchange_due(self.layers.now, index) {
            NextAction::Wait | NextAction::Depart | NextAction::Admit => {}
            NextAction::Fail(reason) => self.fail(index, reason),
            NextAction::Ask => self.client.ask_for_missing_blocks(&mut self.layers, index),
            NextAction::Over => self.server.notification_over(&mut self.layers, index),
        }
    }

    fn fail(&mut self, index: ExchangeIndex, reason: Failure) {
        match self.layers.transport.exchanges.get(index).purpose {
            Purpose::Request | Purpose::State(_) => self.client.fail(&mut self.layers, index, reason),
            Purpose::Response(_) | Purpose::Notification(_) => self.server.fail(&mut self.layers, index, reason),
            Purpose::Ping | Purpose::Handshake => {
                self.layers.transport.count_failure(index, reason);
                self.layers.announce_failure(index, reason);
                self.layers.transport.close(self.layers.now, index);
            }
        }
    }

    #[inline]
    fn open_peer(&mut self, key: P) -> Result<PeerIndex, RequestError> {
        self.server.open_peer(&mut self.layers, key, crate::shares::Group::NOBODY)
    }

    /// Resets the congestion state of a peer. Message IDs, the timers of open exchanges and the
    /// [shared](Self::share_paths) state of the path remain.
    pub fn reset_path(&mut self, now: Instant, peer: &P) {
        self.layers.now = now;
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
    /// some are free now. More than 257 messages per second use up all IDs, because an ID must not
    /// be reused within EXCHANGE_LIFETIME (RFC 7252 §4.4). Another port of the host has its own
    /// IDs.
    #[must_use]
    pub fn ids_scarce_until(&self, now: Instant, peer: &P) -> Option<Instant> {
        let peer = self.layers.transport.peers.get(self.layers.transport.peers.peek(peer)?);
        peer.ids_scarce_until(now, self.layers.transport.config.times().exchange_lifetime)
    }

    /// Returns the state of up to `most` peers, ordered by exchanges in flight and queued messages.
    /// Visits every peer, unless `most` is 0.
    #[must_use]
    pub fn busiest(&self, most: usize) -> Vec<(P, PeerSnapshot)> {
        BusiestPeersSearch::of(most).advance(self, usize::MAX).unwrap_or_default()
    }

    /// Reads the memory that the next poll and receiving these datagrams need, without side
    /// effects. For many endpoints or several datagrams: the waits for memory overlap.
    pub fn prefetch<'a>(&self, datagrams: impl IntoIterator<Item = Datagram<'a, P>>)
    where
        P: 'a,
    {
        let Layers { transport, events, .. } = &self.layers;
        black_box((
            events.len(),
            transport.outbox.len(),
            transport.stats.datagrams_sent,
            transport.stats.duplicates,
            transport.random.get_word_pos(),
        ));
        transport.exchanges.prefetch();
        transport.peers.prefetch();
        let request = |datagram: Datagram<'_, P>| {
            let source = Source { from: datagram.from, local: datagram.local };
            transport.fingerprint_of_request(source, datagram.bytes)
        };
        // Hash all of them before reading memory.
        let requests: SmallVec<[Fingerprint; 32]> = datagrams.into_iter().filter_map(request).collect();
        transport.received.prefetch(&requests);
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

    /// Starts a handshake with a peer, as an exchange. [`Event::Flight`] signals when a flight may
    /// be sent or is to be retransmitted, until the handshake is [over](Self::handshake_over).
    /// [`Event::Failed`] ends it earlier, if it was never admitted or the peer is unreachable.
    ///
    /// # Errors
    /// If a needed resource is used up.
    pub fn begin_handshake(&mut self, now: Instant, with: P) -> Result<ExchangeId, RequestError> {
        self.layers.now = now;
        let peer = self.open_peer(with)?;
        // The size of its flights is known when they are sent.
        self.layers.submit(peer, &mut Opening { purpose: Purpose::Handshake, ..Opening::EMPTY })
    }

    /// Reports that a flight of a handshake was sent or retransmitted. Has no effect if the
    /// handshake is over or waits for admission.
    pub fn flight_left(&mut self, now: Instant, handshake: ExchangeId, flight: &Flight) {
        self.layers.now = now;
        self.layers.transport.flight_left(now, handshake, flight);
    }

    /// Reports that the answer to the last flight of a handshake starts to arrive. `copy` is the
    /// number of the answered transmission of that flight, from 0 on, if it is certain and the peer
    /// answered without delay: it is then an RTT sample.
    pub fn flight_answered(&mut self, now: Instant, handshake: ExchangeId, copy: Option<u8>) {
        self.layers.now = now;
        self.layers.transport.flight_answered(now, handshake, copy);
    }

    /// Ends a handshake, as completed or as failed for this reason. No event follows.
    pub fn handshake_over(&mut self, now: Instant, handshake: ExchangeId, failed: Option<AbandonReason>) {
        self.layers.now = now;
        let transport = &mut self.layers.transport;
        if !transport.goes_on(handshake) {
            return;
        }
        match failed {
            Some(why) => transport.abandon(now, handshake.index, why),
            None => transport.exchanges.flight_answered(now, &mut transport.peers, handshake.index, None),
        }
        transport.close(now, handshake.index);
    }

    /// Returns what the endpoint holds, for monitoring.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy {
            peers: self.layers.transport.peers.len(),
            exchanges: self.layers.transport.exchanges.len(),
            queued: self.layers.transport.exchanges.queued(),
            over_paths: self.layers.transport.peers.over_paths(),
            incoming: self.server.pending_requests.len(),
            awaiting_validation: self.server.validation.as_ref().map_or(0, |validation| validation.held()),
            responses: self.layers.transport.exchanges.responses(),
            at_leisure: self.server.delayed_responses.len(),
            observers: self.server.observers.len(),
            subscriptions: self.client.subscriptions.len(),
            timers: self.layers.transport.exchanges.timers()
                + self.server.pending_requests.timers()
                + self.server.delayed_responses.len()
                + self.client.subscriptions.timers()
                + self.server.observers.timers()
                + self.server.validation.as_ref().map_or(0, |validation| validation.pinged()),
            transfers: self.layers.transport.exchanges.transfers(),
            assemblies: self.server.streamed_bodies.assemblies.contexts().len()
                + self.server.q_block.as_ref().map_or(0, |q_block| q_block.uploads.contexts().len()),
            representations: self.server.representations.contexts().len(),
            streams: self.server.streamed_bodies.streams.len(),
            body_bytes: self.server.body_bytes(&self.layers),
            deduplication_entries: self.layers.transport.received.len(),
            deduplication_bytes: self.layers.transport.received.bytes(),
            outputs: self.layers.transport.outbox.len() + self.layers.events.len(),
        }
    }

    /// Writes a departure to `buf`; `None` if it is obsolete.
    pub(super) fn depart(&mut self, departure: Departure<P>, buf: &mut [u8]) -> Option<Transmit<P>> {
        match departure {
            Departure::Exchange(exchange) => self.transmit_exchange(exchange, buf),
            reply => self.layers.transport.write_reply(reply, buf),
        }
    }

    /// Transmits the message of an exchange, unless the exchange has ended.
    #[inline]
    fn transmit_exchange(&mut self, id: ExchangeId, buf: &mut [u8]) -> Option<Transmit<P>> {
        let transport = &mut self.layers.transport;
        let exchange = transport.exchanges.live(id).filter(|exchange| exchange.state == State::Departing)?;
        if self.layers.now >= exchange.deadline {
            transport.exchanges.arm(id.index);
            return None;
        }
        let (purpose, is_last, pings) = (exchange.purpose, exchange.is_over_when_left(), exchange.pings_observer());
        let group_id = match purpose {
            Purpose::Handshake => {
                let peer = transport.peers.get(exchange.peer).key;
                self.layers.announce(Event::Flight { exchange: id, peer });
                return None;
            }
            Purpose::Response(_) | Purpose::Notification(_) if exchange.sends_bursts() => {
                return self.server.transmit_payload(&mut self.layers, id, buf);
            }
            _ if exchange.sends_bursts() => return self.client.transmit_payload(&mut self.layers, id, buf),
            Purpose::Request => {
                self.client.group_requests.created().and_then(|requests| requests.id_of(id, &exchange.token))
            }
            _ => None,
        };
        let Some(transmit) = transport.write_exchange(self.layers.now, id, group_id, buf) else {
            self.fail(id.index, Failure::MessageTooLarge);
            return None;
        };
        if is_last {
            return Some(self.server.response_sent(&mut self.layers, id, transmit));
        }
        let attempt = transport.sent(self.layers.now, id.index);
        if let Purpose::Notification(observer) = purpose
            && !pings
        {
            let exchange = transport.exchanges.get(id.index);
            self.server.observers.left(self.layers.now, observer, exchange.id, exchange.confirmable);
        }
        Some(Transmit { exchange: Some(id), attempt, ..transmit })
    }

    /// Sends a request to a group, identified by its address. Each response causes an
    /// [`Event::GroupResponse`]. [`Event::GroupOver`] follows after the request's timeout or that
    /// of the protocol (247 s by default). The request fails if it was never sent.
    ///
    /// The message is Non-confirmable and sent once. PROBING_RATE limits a sequence of requests
    /// without responses. The token is random and has 8 bytes in every case, because only the token
    /// distinguishes a response from a forged one.
    ///
    /// # Errors
    /// If the request is Confirmable (RFC 7252 §8.1) or a GET with an ETag (§8.2.1), can never be
    /// sent, or if a needed resource is used up. No event follows then.
    pub fn request_group(&mut self, now: Instant, group: P, request: Request) -> Result<ExchangeId, RequestError> {
        self.layers.now = now;
        let id = self.client.group_message_id(&mut self.layers, &request)?;
        let peer = self.open_peer(group)?;
        self.client.request_group(&mut self.layers, peer, id, request)
    }

    /// Requests a resource and notifications of its changes: a GET or FETCH, to which the endpoint
    /// adds Observe 0. The exchange ends like that of any [`request`](Self::request).
    /// [`Event::Notification`]s follow, each newer than the previous one, and finally
    /// [`Event::SubscriptionOver`], even if the server does not accept the registration.
    ///
    /// # Errors
    /// As for [`request`](Self::request), and if the method cannot be observed or there are too
    /// many subscriptions.
    pub fn subscribe(
        &mut self,
        now: Instant,
        to: P,
        request: Request,
    ) -> Result<(ExchangeId, SubscriptionId), RequestError> {
        self.layers.now = now;
        self.client.check_subscription(&self.layers, &request)?;
        let peer = self.open_peer(to)?;
        self.client.subscribe(&mut self.layers, peer, request)
    }

    /// Registers a [stale](crate::Event::Stale) subscription again, with the same token (RFC 7641
    /// §3.3.1). The response is a notification, or the subscription ends. Has no effect while a
    /// registration is in progress.
    ///
    /// # Errors
    /// As for [`request`](Self::request), and if the subscription is over. It remains unchanged.
    pub fn reregister(&mut self, now: Instant, subscription: SubscriptionId) -> Result<(), RequestError> {
        self.layers.now = now;
        self.client.reregister(&mut self.layers, subscription)
    }

    /// Ends a subscription with a GET or FETCH with Observe 1 and the same token (RFC 7641 §3.6).
    /// That exchange ends like any other. No event of the subscription follows.
    ///
    /// # Errors
    /// As for [`request`](Self::request), and if the subscription is over. It remains unchanged.
    pub fn unsubscribe(&mut self, now: Instant, subscription: SubscriptionId) -> Result<ExchangeId, RequestError> {
        self.layers.now = now;
        self.client.unsubscribe(&mut self.layers, subscription)
    }

    /// Ends a subscription without a message: its next notification is rejected with a Reset (RFC
    /// 7641 §3.6). Returns `false` if it is over already.
    pub fn forget(&mut self, now: Instant, subscription: SubscriptionId) -> bool {
        self.layers.now = now;
        self.client.forget(&mut self.layers, subscription)
    }

    /// Sends a request, now or when NSTART and the controller admit it. It ends with exactly one
    /// event: a response or a failure.
    ///
    /// # Errors
    /// If the request can never be sent, or if a needed resource is used up. No event follows then.
    pub fn request(&mut self, now: Instant, to: P, request: Request) -> Result<ExchangeId, RequestError> {
        self.layers.now = now;
        if !request.code.is_request() {
            return Err(RequestError::NotAMethod(request.code));
        }
        let peer = self.open_peer(to)?;
        self.client.request(&mut self.layers, peer, request)
    }

    /// Requests the next block of a [streamed](crate::Request::streamed) response, after the
    /// application has taken the last [`Event::Block`]. Returns `false` if the exchange does not
    /// wait for this call. The server may forget the response meanwhile (RFC 7959 §2.4), after 247
    /// s if it uses EXCHANGE_LIFETIME.
    pub fn fetch_next(&mut self, now: Instant, exchange: ExchangeId) -> bool {
        self.layers.now = now;
        self.client.fetch_next(&mut self.layers, exchange)
    }

    /// Supplies more of a body, of any length; with `last` all that remains, which may be empty. It
    /// is sent in blocks of the size that the peer requests. Data beyond what was
    /// [wanted](crate::Event::Wanted) is held in memory.
    ///
    /// An application that cannot continue [cancels](Self::cancel) the exchange, or
    /// [answers](Self::respond) the request with an error.
    ///
    /// # Errors
    /// If the body is over.
    pub fn supply(&mut self, now: Instant, body: IncompleteBody, more: Bytes, last: bool) -> Result<(), BodyClosed> {
        self.layers.now = now;
        match body {
            IncompleteBody::Request(id) => self.client.supply(&mut self.layers, id, more, last),
            IncompleteBody::Response(request) => self.server.supply_response(&mut self.layers, request, more, last),
        }
    }

    /// Pings a peer (RFC 7252 §4.3): its Reset causes [`Event::Acknowledged`].
    ///
    /// # Errors
    /// If a needed resource is used up.
    pub fn ping(&mut self, now: Instant, to: P) -> Result<ExchangeId, RequestError> {
        self.layers.now = now;
        let peer = self.open_peer(to)?;
        self.layers.submit(peer, &mut { Opening::EMPTY })
    }

    /// Like [`ping`](Self::ping), but fails with [`Failure::Deadline`] after this time.
    ///
    /// # Errors
    /// As for [`ping`](Self::ping).
    pub fn ping_within(&mut self, now: Instant, to: P, timeout: Duration) -> Result<ExchangeId, RequestError> {
        self.layers.now = now;
        let peer = self.open_peer(to)?;
        self.layers.submit(peer, &mut Opening { deadline: now + timeout, ..Opening::EMPTY })
    }

    /// Ends an exchange without an event. A message already sent may still have an effect at the
    /// peer. Returns `false` if the exchange is over already.
    ///
    /// [`Transmit::exchange`](super::Transmit) also names exchanges that the endpoint opened
    /// itself. Cancelling a repeated registration ends the subscription, with
    /// [`Event::SubscriptionOver`]. Cancelling a notification only ends its retransmission.
    pub fn cancel(&mut self, now: Instant, exchange: ExchangeId) -> bool {
        self.layers.now = now;
        let transport = &mut self.layers.transport;
        let Some(purpose) = transport.exchanges.live(exchange).map(|exchange| exchange.purpose) else { return false };
        let index = exchange.index;
        match purpose {
            Purpose::Request | Purpose::State(_) => self.client.cancel(&mut self.layers, index),
            Purpose::Response(_) | Purpose::Notification(_) => self.server.cancel(&mut self.layers, index),
            Purpose::Ping | Purpose::Handshake => {
                transport.abandon(now, index, AbandonReason::Cancelled);
                transport.close(now, index);
            }
        }
        true
    }

    /// Answers a request: piggybacked on the ACK if none was sent yet, otherwise in a separate
    /// message. If that is Confirmable, its exchange is returned, and ends with
    /// [`Event::Acknowledged`] or [`Event::Failed`]. The number of responses that wait for a peer
    /// is not limited. A response that the client does not want is not sent (RFC 7967).
    ///
    /// # Errors
    /// If the request does not await a response, or if the response is not legal; in the latter
    /// case the request still awaits one.
    pub fn respond(
        &mut self,
        now: Instant,
        request: RequestId,
        response: Response,
    ) -> Result<Option<ExchangeId>, RespondError> {
        self.layers.now = now;
        self.server.respond(&mut self.layers, request, response)
    }

    /// Acknowledges a request with an Empty ACK now instead of after
    /// [`EndpointConfig::separate_after`](crate::EndpointConfig::separate_after).
    ///
    /// # Errors
    /// If the request does not await a response, or no longer.
    pub fn acknowledge(&mut self, now: Instant, request: RequestId) -> Result<(), RespondError> {
        self.layers.now = now;
        self.server.acknowledge(&mut self.layers, request)
    }

    /// Drops a request without a response; a Confirmable one is acknowledged.
    pub fn ignore(&mut self, now: Instant, request: RequestId) {
        self.layers.now = now;
        self.server.ignore(&mut self.layers, request);
    }

    /// Replaces a separate response that is outstanding or queued. The next transmission carries
    /// the new response with a new message ID; timeout and number of attempts continue, because the
    /// path is the same (RFC 7641 §4.5.2). If the old response is acknowledged first, the new one
    /// follows at once. The exchange ends once.
    ///
    /// # Errors
    /// If `exchange` is over or is not that of a separate response, or if the new response is not
    /// legal.
    pub fn supersede(&mut self, exchange: ExchangeId, response: Response) -> Result<(), SupersedeError> {
        self.server.supersede(&mut self.layers, exchange, response)
    }

    /// Returns `true` if the request was sent to a group and still awaits a response. The response
    /// leaves at a random time within the leisure, and only if it is useful.
    #[must_use]
    pub fn is_group_request(&self, request: RequestId) -> bool {
        self.server.is_group_request(request)
    }

    /// Adds the sender of a request to the observers of `topic`, a number that the application
    /// assigns to an observable resource. Call it before [`respond`](Self::respond), for a GET or
    /// FETCH with [`OptionNumber::OBSERVE`](crate::codec::OptionNumber::OBSERVE) 0. The response
    /// then confirms the observation, unless it is an error.
    ///
    /// Returns `None`, and the response is then that to a plain GET (RFC 7641 §4.1), if the request
    /// does not await a response, was sent to a group, or comes from a source that is not
    /// [validated](crate::EndpointConfig::source_validation), or if a limit of observers or topics
    /// in [`Limits`](crate::Limits) is reached.
    pub fn observe(&mut self, now: Instant, request: RequestId, topic: u64) -> Option<ObserverId> {
        self.layers.now = now;
        self.server.observe(&mut self.layers, request, topic)
    }

    /// Sends a new state of a topic to its observers: to each as soon as no other notification to
    /// it is in progress and the controller admits it. An observer may get only the last of several
    /// states. Returns the number of observers. The call takes constant time: polling visits the
    /// observers.
    ///
    /// Notifications are Non-confirmable, unless [`Response::reliability`] says otherwise, with
    /// these exceptions:
    ///
    /// - The first one, if the RTT to the client is unknown. The following ones are then paced by
    ///   the measured RTT, at most one within a retransmission timeout of the controller, instead
    ///   of one in 3 s (RFC 7641 §4.5.1).
    /// - Every fifth consecutive one, to learn whether the client still exists (§4.5); see also
    ///   [`ObserverChecks`](crate::ObserverChecks).
    /// - A state that has stayed for its Max-Age, at least 5 s and at most an hour, plus 2 s, is
    ///   sent again to observers that got it only in a Non-confirmable message: the last state must
    ///   arrive (§1.3).
    /// - An error: it is the last notification, and ends the observation (§4.2).
    ///
    /// If a body exceeds a message or the block size of an observer, the observer gets the first
    /// block and requests the others. An observer whose first response had another Content-Format
    /// gets 4.06 and is removed (§4.2): [`Event::ObserverGone`] with
    /// [`ObserverEnd::FormatChanged`](crate::ObserverEnd::FormatChanged).
    ///
    /// # Errors
    /// If the response is not legal or too large.
    pub fn notify(&mut self, now: Instant, topic: u64, response: Response) -> Result<usize, NotifyError> {
        self.layers.now = now;
        self.server.notify(&mut self.layers, topic, response)
    }

    /// Returns the number of observers of a topic.
    #[must_use]
    pub fn observers(&self, topic: u64) -> usize {
        self.server.observers(topic)
    }

    /// Removes an observer without notifying it. Returns `false` if it is gone already.
    pub fn dismiss(&mut self, now: Instant, observer: ObserverId) -> bool {
        self.layers.now = now;
        self.server.dismiss(&mut self.layers, observer)
    }

    /// Removes all observers of a topic without notifying them. Returns their number.
    pub fn dismiss_all(&mut self, now: Instant, topic: u64) -> usize {
        self.layers.now = now;
        self.server.dismiss_all(&mut self.layers, topic)
    }

    /// Responds with a body whose payload is only the start, or empty. The blocks are sent as the
    /// client requests them, and [`supply`](Self::supply) provides the rest. Returns `false` if the
    /// client was sent another response at once, because it has no interest in this one, requests
    /// the middle of a body that is not stored (4.08), or uses Q-Block2 (4.02: it will use Block2,
    /// RFC 9177 §4.1).
    ///
    /// Only the block sent last can be requested again; other requests get 4.08: they do not come
    /// "in the order required by the server" (RFC 7959 §2.9.2). Without an ETag of the application,
    /// the response has a unique one, so that a client does not combine blocks of two bodies
    /// (§2.4). The response registers no observation.
    ///
    /// # Errors
    /// If the request does not wait for a response or was sent to a group, if the code is not a
    /// response code, or if the maximum number of bodies are being transferred. The request then
    /// still waits.
    pub fn respond_in_parts(
        &mut self,
        now: Instant,
        request: RequestId,
        response: Response,
        rest: RemainingBody,
    ) -> Result<bool, RespondError> {
        self.layers.now = now;
        self.server.respond_in_parts(&mut self.layers, request, response, rest)
    }

    /// Sets which requests deliver their body block by block (RFC 7959 §2.5). `wanted` is called
    /// with the first of several blocks. [`Event::Request`] then contains that block, with the M
    /// bit set in its Block1 option, and [`Event::Part`] each further one. Bodies sent with
    /// Q-Block1 (RFC 9177) or to groups are still delivered whole.
    ///
    /// At most [`Limits::transfers`](crate::Limits::transfers) such requests and responses [in
    /// parts](Self::respond_in_parts) exist; further ones get 5.03.
    /// [`Limits::body_bytes`](crate::Limits::body_bytes) does not apply to them.
    pub fn stream_requests(&mut self, wanted: Box<dyn Fn(&Message<'_>) -> bool + Send + Sync>) {
        self.server.stream_requests(wanted)
    }

    /// Reports that the application has taken a block of a request body. The client is sent 2.31
    /// Continue. Returns an exchange as [`respond`](Self::respond) does.
    ///
    /// The application may [respond](Self::respond) at any time instead, which ends the body (RFC
    /// 7959 §2.9.3: 4.13), and must respond to the last block.
    ///
    /// # Errors
    /// If the request does not wait for this call.
    pub fn continue_request(&mut self, now: Instant, request: RequestId) -> Result<Option<ExchangeId>, RespondError> {
        self.layers.now = now;
        self.server.continue_request(&mut self.layers, request)
    }

    /// Declares a peer unreachable under this key for ever, for instance after the end of its
    /// session. Its observations end with [`Event::ObserverGone`], and all exchanges with it except
    /// handshakes fail with [`Failure::Unreachable`]. Its received messages stay remembered for
    /// their lifetime, so that none is processed twice. If the key is used again, message IDs start
    /// anew, contrary to RFC 7252 §4.4.
    pub fn lose_peer(&mut self, now: Instant, peer: &P) {
        self.layers.now = now;
        let transport = &mut self.layers.transport;
        let Some(peer) = transport.peers.peek(peer) else { return };
        transport.peers.lose(peer);
        let exchanges = transport.exchanges.with(&transport.peers, peer);
        self.all_unreachable(exchanges);
        self.server.lose_peer(&mut self.layers, peer);
        self.layers.transport.peers.forget_lost();
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

impl BusiestPeersSearch {
    /// Visits at most `places` more places of the peer table, so that a large table blocks nothing
    /// for long. After the last place, returns the peers with their state at the end.
    pub fn advance<P: PeerKey, C: Controller>(
        &mut self,
        endpoint: &Endpoint<P, C>,
        places: usize,
    ) -> Option<Vec<(P, PeerSnapshot)>> {
        let peers = &endpoint.layers.transport.peers;
        let busiest = peers.survey(self, places)?.into_iter();
        Some(busiest.map(|index| (peers.get(index).key, peers.snapshot(index))).collect())
    }
}

#[cfg(test)]
mod tests;
