//! [`Driver`]: the task that drives one [`Endpoint`] on one socket. It waits for datagrams,
//! commands, cancellations, ended handlers or the endpoint's timer, then polls the endpoint until
//! it is idle. The driver makes no protocol decisions.

mod admission;
mod channels;
mod commands;
#[cfg(feature = "edhoc")]
mod edhoc;
mod exchanges;
mod observe_client;
mod observe_server;
#[cfg(feature = "oscore")]
mod oscore;
mod path_keeper;
mod service;
mod sessions;
mod streams;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use conche_proto::cc::Controller;
use conche_proto::codec::{MessagePool, OwnedMessage};
use conche_proto::{
    Datagram, Endpoint, Event, ExchangeId, Failure, Input, Instant, Limits, Output, OutputsPending, RequestId,
    SubscriptionEnd, Transmit,
};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, consume_budget, coop};
use tracing::{debug, warn};

use crate::address::Address;
use crate::clock::Clock;
#[cfg(feature = "dtls")]
use crate::dtls::DtlsSessions;
use crate::dtls::is_record;
use crate::fence::{Fence, Throttle};
use crate::paths::{PathStore, Sharing};
use crate::refusal;
use crate::security::Identity;
#[cfg(feature = "dtls")]
use crate::security::Security;
use crate::socket::{self, Outbox, Received, Role, Socket, is_passing};
use crate::telemetry::watch::Watchers;
use crate::telemetry::{HandledDatagram, Telemetry};
use admission::{Admission, IdExhaustion};
pub use admission::{Busy, Full, Waiting};
pub(crate) use admission::{Permit, QueuePolicy};
use channels::OutcomeChannels;
#[cfg(feature = "metrics")]
pub(crate) use commands::metrics;
use commands::{Cancelled, Command, Shared};
pub(crate) use commands::{
    Exchange, ExchangeError, ExchangeKind, Handle, Outcome, StreamEvent, Submission, Subscription,
};
#[cfg(feature = "edhoc")]
pub(crate) use edhoc::{ContextGuard, KeyExchangeGuard, NewKeys};
use exchanges::Exchanges;
pub(crate) use exchanges::Sender;
use observe_client::Observations;
pub(crate) use observe_client::{End, Feed, State, Update};
use observe_server::Topics;
#[cfg(test)]
pub(crate) use observe_server::{Calls, MAX_PATHS, Mailbox};
pub(crate) use observe_server::{Changes, Observable};
#[cfg(feature = "oscore")]
pub(crate) use oscore::OscoreContexts;
use path_keeper::PathKeeper;
pub(crate) use service::{CallResult, Handlers, NoService, Service, ServiceRequest, ServiceResponse};
use service::{ServiceCalls, Trigger};
use sessions::SessionDriver;
pub(crate) use streams::Inlet;
use streams::Streams;

/// A [`Controller`] that threads can share. Implemented automatically.
pub trait SharedController: Controller<Peer: Send, Flight: Send> + Clone + Send + Sync + 'static {}

impl<C: Controller<Peer: Send, Flight: Send> + Clone + Send + Sync + 'static> SharedController for C {}

/// Maximum datagrams or commands between two polls of the endpoint, far below
/// [`Limits::outputs`](conche_proto::Limits::outputs).
const BATCH: usize = 64;

/// Maximum time a datagram waits for the rest of its batch, apart from handler time.
const LINGER: Duration = Duration::from_millis(1);

/// Maximum time without receiving while only notifications are left.
const POLL_FOR: Duration = Duration::from_millis(5);

/// Outputs of the endpoint between two reads of the clock.
const OUTPUTS_AT_ONCE: usize = 32;

/// Pause after a socket error that does not concern a peer, which must not occupy a core.
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Driver<C: SharedController, S: Service> {
    socket: Socket,
    endpoint: Endpoint<Address, C>,
    #[cfg(feature = "dtls")]
    sessions: Option<DtlsSessions>,
    clock: Clock,
    telemetry: Telemetry,
    now: Instant,
    calls: ServiceCalls<S>,
    commands: mpsc::UnboundedReceiver<Command>,
    cancelled: Arc<Cancelled>,
    admission: Arc<Admission>,
    id_exhaustion: Arc<IdExhaustion>,
    exchanges: Exchanges,
    busy_poll: BusyPoll,
    observations: Observations,
    topics: Topics<S::Response>,
    streams: Streams,
    sharing: Arc<Sharing>,
    path_keeper: Option<PathKeeper>,
    #[cfg(feature = "oscore")]
    oscore: OscoreContexts,
    secured_only: bool,
    retry_unreachable: bool,
    shutdown: Option<Shutdown>,
    fence: Fence,
    barrier: ShutdownBarrier,
    incoming: Box<[u8]>,
    outgoing: Outbox,
    pool: MessagePool,
    receive_errors: Throttle,
    response_errors: Throttle,
}

pub(crate) struct Start<S> {
    pub(crate) socket: Socket,
    pub(crate) barrier: ShutdownBarrier,
    #[cfg(feature = "dtls")]
    pub(crate) security: Arc<Security>,
    pub(crate) groups: Vec<(IpAddr, u32)>,
    pub(crate) role: Role,
    pub(crate) service: Arc<S>,
    pub(crate) handlers: Handlers,
    pub(crate) waiting: Waiting,
    pub(crate) retry_unreachable: bool,
    pub(crate) busy_poll: Duration,
    pub(crate) watchers: Watchers,
    pub(crate) sharing: Arc<Sharing>,
    #[cfg(feature = "oscore")]
    pub(crate) oscore: OscoreContexts,
    pub(crate) secured_only: bool,
    pub(crate) fence: Fence,
    pub(crate) store: Option<PathStore>,
    pub(crate) limits: Limits,
    pub(crate) queue_lifetime: Duration,
}

impl<C: SharedController, S: Service> Driver<C, S> {
    /// Ends with the last handle.
    pub(crate) fn start(start: Start<S>, mut endpoint: Endpoint<Address, C>) -> io::Result<(Handle, JoinHandle<()>)> {
        let socket = start.socket;
        start.groups.iter().try_for_each(|&(group, interface)| socket.join(group, interface))?;
        let cancelled = Arc::new(Cancelled::default());
        let admission = Admission::new(start.waiting, &start.limits);
        let id_exhaustion = Arc::new(IdExhaustion::default());
        let (sender, commands) = mpsc::unbounded_channel();
        let streams = Streams::new(&sender);
        let service = start.service;
        if service.streams_any() {
            let service = Arc::clone(&service);
            endpoint.stream_requests(Box::new(move |message| service.streams(&OwnedMessage::from(*message))));
        }
        let fence = start.fence;
        let shared = Shared {
            cancelled: Arc::clone(&cancelled),
            admission: Arc::clone(&admission),
            id_exhaustion: Arc::clone(&id_exhaustion),
            fence: fence.clone(),
            local: socket.local(),
            reaches_v4: socket.reaches_v4(),
            tickets: AtomicU64::new(0),
            channels: OutcomeChannels::default(),
            queue_lifetime: start.queue_lifetime,
            body_limit: start.limits.body_bytes,
        };
        let handle = Handle::new(sender, shared);
        let clock = Clock::start();
        let longest_datagram = start.limits.message_bytes;
        #[cfg(feature = "dtls")]
        let sessions = DtlsSessions::start(clock.now(), &start.security, start.limits.peers, fence.clone())?;
        #[cfg(feature = "dtls")]
        let longest_datagram =
            if sessions.is_some() { DtlsSessions::longest_datagram(longest_datagram) } else { longest_datagram };
        let topics = Topics::new(&*service);
        let path_keeper = start.store.map(|store| PathKeeper::new(store, start.limits.paths, clock.now()));
        let driver = Self {
            telemetry: Telemetry::new(start.watchers, socket.local(), clock, fence.clone()),
            socket,
            endpoint,
            #[cfg(feature = "dtls")]
            sessions,
            clock,
            now: clock.now(),
            calls: ServiceCalls::new(service, start.handlers, fence.clone()),
            commands,
            cancelled,
            admission,
            id_exhaustion,
            exchanges: Exchanges::default(),
            busy_poll: BusyPoll::new(start.busy_poll),
            observations: Observations::default(),
            topics,
            streams,
            sharing: start.sharing,
            path_keeper,
            #[cfg(feature = "oscore")]
            oscore: start.oscore,
            secured_only: start.secured_only,
            retry_unreachable: start.retry_unreachable,
            shutdown: None,
            fence,
            barrier: start.barrier,
            incoming: socket::buffer(start.role),
            outgoing: Outbox::new(socket::at_once(start.role), longest_datagram),
            pool: MessagePool::new(),
            receive_errors: Throttle::default(),
            response_errors: Throttle::default(),
        };
        Ok((handle, tokio::spawn(driver.run())))
    }

    async fn run(mut self) {
        self.recall_paths().await;
        self.drive().await;
        self.now = self.clock.now();
        self.close_sessions().await;
        #[cfg(feature = "oscore")]
        self.give_keys_back().await;
        self.keep_paths().await;
    }

    async fn drive(&mut self) {
        let timer = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        loop {
            let mut polled = self.poll_for_a_while().await;
            if self.handle_follow_ups().await {
                polled = self.poll_for_a_while().await;
            }
            let (mut due, more) = match polled {
                Polled::Waits(due) => (due, false),
                Polled::HasMore => (None, true),
            };
            if self.shutdown.is_some() {
                due = self.drain().await;
                if self.answer_unfinished() {
                    due = self.drain().await;
                }
                if self.is_done() {
                    return;
                }
            }
            let end = self.shutdown.as_ref().map(Shutdown::due);
            let due = due.into_iter().chain(self.observations.due());
            let due = due.chain(self.path_keeper.as_ref().map(PathKeeper::due));
            let due = due.chain(self.sessions_due()).min();
            let wake = [due.and_then(|due| self.clock.wake_up(due)), end].into_iter().flatten().min();
            if let Some(wake) = wake.filter(|wake| *wake != timer.deadline()) {
                timer.as_mut().reset(wake);
            }
            let looks_until = self.looks_until();
            #[cfg(feature = "oscore")]
            let keys = self.oscore.next_event();
            #[cfg(not(feature = "oscore"))]
            let keys = std::future::pending::<std::convert::Infallible>();
            #[cfg(feature = "dtls")]
            let lookup = DtlsSessions::next_key(self.sessions.as_mut());
            #[cfg(not(feature = "dtls"))]
            let lookup = std::future::pending::<std::convert::Infallible>();
            tokio::select! {
                ready = self.socket.ready(&mut self.incoming, looks_until) => self.receive(ready).await,
                command = self.commands.recv() => match command {
                    Some(command) => self.handle_commands(command).await,
                    None => {
                        // The last handle may have been an observation's, which must be
                        // deregistered.
                        self.cancel_all();
                        self.drain().await;
                        return;
                    }
                },
                () = self.cancelled.some() => self.cancel_all(),
                (trigger, response) = self.calls.next() => {
                    self.now = self.clock.now();
                    match trigger {
                        Trigger::Request(request) => self.respond(request, response),
                        Trigger::Topic(topic) => self.on_new_state(topic, response),
                    }
                }
                () = self.topics.mailbox().some() => self.on_resource_changes(),
                () = tokio::task::yield_now(), if self.topics.has_queued() && self.calls.may_call_for_observers() => self.call_for_topics(),
                // Lets the runtime poll the socket before further notifications.
                () = tokio::task::yield_now(), if more => self.now = self.clock.now(),
                done = keys => {
                    #[cfg(feature = "oscore")]
                    self.on_key_event(done);
                    #[cfg(not(feature = "oscore"))]
                    match done {}
                }
                found = lookup => {
                    #[cfg(feature = "dtls")]
                    self.on_found_key(found);
                    #[cfg(not(feature = "dtls"))]
                    match found {}
                }
                () = self.admission.emptied(), if self.shutdown.is_some() => {}
                () = self.barrier.all_done(), if self.shutdown.is_some() => {}
                () = timer.as_mut(), if wake.is_some() => {
                    self.now = self.clock.now();
                    self.retry_refresh();
                    self.keep_paths_in_time();
                }
            }
        }
    }

    /// Returns the endpoint's next deadline.
    async fn drain(&mut self) -> Option<Instant> {
        loop {
            if let Polled::Waits(due) = self.poll_for_a_while().await {
                return due;
            }
            self.now = self.clock.now();
        }
    }

    /// Returns after [`POLL_FOR`] if only notifications are left.
    async fn poll_for_a_while(&mut self) -> Polled {
        let (begun, mut outputs) = (tokio::time::Instant::now(), 0_usize);
        loop {
            outputs += 1;
            if outputs.is_multiple_of(OUTPUTS_AT_ONCE)
                && begun.elapsed() >= POLL_FOR
                && self.endpoint.occupancy().outputs == 0
            {
                self.send_all().await;
                return Polled::HasMore;
            }
            self.poll_sessions();
            if self.outgoing.is_full() {
                self.send_all().await;
                continue;
            }
            match self.endpoint.poll(self.now, self.outgoing.room()) {
                Output::Transmit(transmit) => {
                    self.on_departure(&transmit);
                    if transmit.to.is_secured() {
                        self.seal(transmit);
                        continue;
                    }
                    self.outgoing.push(self.now, transmit);
                    if self.outgoing.is_full() {
                        self.send_all().await;
                    }
                }
                Output::Event(event) => {
                    self.on_event(event);
                    if !self.outgoing.is_empty() && self.now - self.outgoing.since() >= LINGER {
                        self.send_all().await;
                    }
                }
                Output::Wait(due) if self.outgoing.is_empty() => return Polled::Waits(due),
                Output::Wait(due) => {
                    // An error, or the elapsed time, may have created work.
                    if self.send_all().await && due.is_none_or(|due| due > self.now) {
                        return Polled::Waits(due);
                    }
                }
            }
        }
    }

    fn on_event(&mut self, event: Event<Address>) {
        if self.on_handshake_event(&event) {
            return;
        }
        self.telemetry.event(self.now, &event);
        #[cfg(feature = "edhoc")]
        self.on_edhoc_event(&event);
        match event {
            Event::Request { id, from, message } => self.serve(id, from, message),
            Event::Response { exchange, message, course, .. } => {
                let code = message.code();
                self.exchanges.end(exchange, code, course, |from| Ok(Outcome::Response { from, message, course }));
            }
            Event::Block { exchange, message, course, .. } => {
                self.exchanges.send_event(exchange, |from| StreamEvent::Block { from, message, course });
            }
            Event::Wanted { body, bytes } => self.on_body_wanted(body, bytes),
            Event::Part { request, message, last } => self.streams.on_request_block(request, &message, last),
            Event::StreamOver { request, reason } => {
                self.streams.on_end(request, reason);
                self.registration_answered(request);
            }
            Event::GroupResponse { exchange, from, message } => self.exchanges.group_response(exchange, from, message),
            Event::GroupOver { exchange, responses, course, .. } => {
                self.exchanges.end(exchange, format_args!("{responses} responses"), course, |_| {
                    Ok(Outcome::GroupTimeout { course })
                });
            }
            Event::Acknowledged { exchange, course, .. } => self.exchanges.acknowledged(exchange, course),
            Event::Unanswered { exchange, course, .. } => {
                self.exchanges.end(exchange, format_args!("unanswered, as it asked"), course, |_| {
                    Ok(Outcome::Unanswered { course })
                });
            }
            Event::Failed { exchange, peer, reason: failure, course, .. } => {
                debug!(%peer, %failure, "an exchange failed");
                if failure == Failure::TimedOut && course.acknowledged_after.is_none() {
                    self.suspect_session(peer);
                }
                let session_over = failure == Failure::Unreachable && peer.is_secured() && !self.is_open(peer);
                self.exchanges.end(exchange, format_args!("{failure}"), course, |_| {
                    Err(if session_over {
                        ExchangeError::SessionOver { course }
                    } else {
                        ExchangeError::Failed { failure, course }
                    })
                });
            }
            Event::ObserverGone { from, topic, reason, .. } => {
                debug!(peer = %from, %reason, "an observer is gone");
                self.count_observers(topic);
            }
            Event::Notification { subscription, message, .. } => {
                self.observations.on_notification(subscription, message)
            }
            Event::Stale { subscription, .. } => self.refresh(subscription),
            Event::SubscriptionOver { subscription, from, reason, .. } => {
                debug!(peer = %from, %reason, "an observation is over");
                if reason == SubscriptionEnd::Failed(Failure::TimedOut) {
                    self.suspect_session(from);
                }
                self.observations.on_end(subscription, reason);
            }
            #[cfg(feature = "oscore")]
            Event::Reserve(reserve) => self.oscore.store(reserve),
            _ => {}
        }
    }

    /// Returns the response if `secured_only` and the sender is not authenticated.
    #[cfg_attr(not(feature = "oscore"), expect(unused_variables, reason = "no request is protected"))]
    fn identify(&self, request: RequestId, from: Address) -> Result<Option<Identity>, conche_proto::Response> {
        #[cfg(feature = "oscore")]
        let identity = self.identify_protected(request).or_else(|| self.session_identity(from));
        #[cfg(not(feature = "oscore"))]
        let identity = self.session_identity(from);
        if identity.is_none() && self.secured_only { Err(refusal::unauthenticated()) } else { Ok(identity) }
    }

    fn peer_identities(&self, to: Address) -> [Option<Identity>; 2] {
        #[cfg(feature = "oscore")]
        let of_keys = self.oscore.identity_toward(to);
        #[cfg(not(feature = "oscore"))]
        let of_keys = None;
        [of_keys, self.session_identity(to)]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Polled {
    Waits(Option<Instant>),
    HasMore,
}

impl<C: SharedController, S: Service> Driver<C, S> {
    async fn receive(&mut self, ready: io::Result<()>) {
        consume_budget().await;
        self.now = self.clock.now();
        let taken = match ready {
            Ok(()) => self.take_batch().await,
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            if let Some(held_back) = self.receive_errors.passes(tokio::time::Instant::now()) {
                warn!(%error, held_back, "receiving failed");
            }
            tokio::time::sleep(PAUSE).await;
            self.now = self.clock.now();
        }
    }

    /// Counts each datagram against the task's budget: arrivals must not starve other tasks.
    async fn take_batch(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            if !coop::has_budget_remaining() {
                break;
            }
            consume_budget().await;
            let is_first = !self.socket.has_more();
            let received = match self.socket.receive(&mut self.incoming) {
                Ok(Received::Nothing) => break,
                Ok(received) => received,
                // Also in the error queue.
                Err(error) if socket::is_about_a_peer(&error) => continue,
                Err(error) => return Err(error),
            };
            if is_first
                && let Received::Datagram(first) = received
                && self.socket.has_more()
            {
                let batch = [first].into_iter().chain(self.socket.more());
                self.endpoint.prefetch(batch.map(|arrival| arrival.datagram(&self.incoming)));
            }
            if let Received::Datagram(arrival) = received
                && self.take_record(arrival)
            {
                if self.outgoing.is_full() {
                    self.send_all().await;
                }
                continue;
            }
            if let Received::Datagram(arrival) = received
                && self.telemetry.is_enabled()
            {
                self.telemetry.arrived(self.now, &arrival.datagram(&self.incoming));
            }
            if self.handle_received(&received).is_err() {
                self.drain().await;
                // After draining, the endpoint accepts it.
                let _ = self.handle_received(&received);
            }
        }
        Ok(())
    }

    fn handle_received(&mut self, received: &Received) -> Result<(), OutputsPending> {
        let input = match *received {
            Received::Datagram(arrival) => {
                let datagram = arrival.datagram(&self.incoming);
                return handle_datagram(&mut self.endpoint, &self.telemetry, self.now, datagram);
            }
            Received::Unreachable { peer, quoted, kind } => {
                debug!(target: "conche::unreachable", %peer, %kind, "the network reports the peer unreachable");
                self.telemetry.unreachable(self.now, peer);
                let quoted = &self.incoming[..quoted];
                if is_record(quoted) {
                    if !self.retry_unreachable {
                        let quoted = quoted.to_vec();
                        self.on_record_unreachable(peer, &quoted);
                    }
                    return Ok(());
                }
                if self.retry_unreachable && is_confirmable(quoted) {
                    return Ok(());
                }
                Input::Unreachable { peer, quoted: Some(quoted) }
            }
            Received::Nothing => return Ok(()),
        };
        self.endpoint.handle(self.now, input)
    }
}

#[inline]
fn handle_datagram<C: SharedController>(
    endpoint: &mut Endpoint<Address, C>,
    telemetry: &Telemetry,
    now: Instant,
    datagram: Datagram<'_, Address>,
) -> Result<(), OutputsPending> {
    if !telemetry.is_watched() {
        return endpoint.handle(now, Input::Datagram(datagram));
    }
    let before = *endpoint.stats();
    endpoint.handle(now, Input::Datagram(datagram))?;
    let path = endpoint.snapshot(&datagram.from);
    telemetry.handled(now, &HandledDatagram { datagram: &datagram, before: &before, after: endpoint.stats(), path });
    Ok(())
}

/// RFC 7252 §3.
fn is_confirmable(quoted: &[u8]) -> bool {
    quoted.first().is_some_and(|first| first >> 4 & 0b11 == 0)
}

impl<C: SharedController, S: Service> Driver<C, S> {
    fn on_departure(&mut self, transmit: &Transmit<Address>) {
        if let Some(exchange) = transmit.exchange {
            let rto = || self.endpoint.snapshot(&transmit.to).map(|peer| peer.congestion.rto);
            self.exchanges.on_departure(exchange, transmit, rto);
            self.expect_answer(&transmit.to);
            #[cfg(feature = "edhoc")]
            self.on_combined_sent(exchange, transmit.attempt);
        }
    }

    /// A refused datagram does not stop the others.
    async fn send_all(&mut self) -> bool {
        let (mut next, mut all_left) = (0, true);
        while next < self.outgoing.len() {
            let sent = self.socket.send(&self.outgoing, next).await;
            if self.socket.has_waited() {
                self.now = self.clock.now();
            }
            match sent {
                Ok(count) => {
                    if self.telemetry.is_enabled() {
                        (next..next + count).for_each(|index| self.on_sent(index, Ok(())));
                    }
                    next += count;
                }
                Err(error) => {
                    self.on_sent(next, Err(error));
                    next += 1;
                    all_left = false;
                }
            }
        }
        self.outgoing.clear();
        self.now = self.clock.now();
        all_left
    }

    fn on_sent(&mut self, index: usize, sent: io::Result<()>) {
        let transmit = *self.outgoing.transmit(index);
        // Protected messages were reported before encryption.
        if !is_record(self.outgoing.datagram(index)) {
            self.telemetry.departed(self.now, &transmit, self.outgoing.datagram(index), &sent);
        }
        if self.telemetry.is_watched() && transmit.exchange.is_some() {
            self.telemetry.path(self.now, transmit.to, self.endpoint.snapshot(&transmit.to));
        }
        if let Err(error) = sent {
            debug!(peer = %transmit.to, %error, "a datagram could not be sent");
            if let Some(exchange) = transmit.exchange.filter(|_| !is_passing(&error)) {
                self.on_send_refused(exchange, transmit.attempt, error);
            }
        }
    }

    fn on_send_refused(&mut self, exchange: ExchangeId, attempt: u8, source: io::Error) {
        self.endpoint.cancel(self.now, exchange);
        #[cfg(feature = "edhoc")]
        self.on_combined_failed(exchange);
        if let Some(caller) = self.exchanges.remove(exchange) {
            let error = ExchangeError::Send { source, transmissions: attempt.into() };
            caller.outcome.send(Err(error));
        }
    }
}

#[derive(Debug)]
struct BusyPoll {
    /// Maximum polling time after a request has left; zero disables polling.
    max: Duration,
    /// On a clock that runs while tokio's is paused.
    until: Option<std::time::Instant>,
}

/// A century.
const MAX_POLL: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl BusyPoll {
    fn new(max: Duration) -> Self {
        Self { max: max.min(MAX_POLL), until: None }
    }
}

impl<C: SharedController, S: Service> Driver<C, S> {
    /// If the path's RTT is short enough.
    fn expect_answer(&mut self, from: &Address) {
        let max = self.busy_poll.max;
        if max.is_zero() {
            return;
        }
        let round_trip = self.endpoint.snapshot(from).and_then(|peer| peer.congestion.srtt);
        if round_trip.is_none_or(|round_trip| round_trip <= max) {
            self.busy_poll.until = Some(std::time::Instant::now() + max);
        }
    }

    fn looks_until(&mut self) -> Option<std::time::Instant> {
        let until = self.busy_poll.until?;
        if self.exchanges.is_empty() || until <= std::time::Instant::now() {
            self.busy_poll.until = None;
        }
        self.busy_poll.until
    }
}

/// Fraction of the shutdown time reserved for answering unfinished requests.
const ANSWER_PART: u32 = 4;

/// Maximum of that time, in which a response is retransmitted once.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(5);

/// A year.
const MAX_SHUTDOWN: Duration = Duration::from_secs(365 * 86_400);

struct Shutdown {
    /// When unfinished handlers are dropped; `None` after that.
    answer_at: Option<tokio::time::Instant>,
    end: tokio::time::Instant,
}

impl Shutdown {
    fn within(within: Duration) -> Self {
        let end = tokio::time::Instant::now() + within.min(MAX_SHUTDOWN);
        Self { answer_at: Some(end - (within / ANSWER_PART).min(MAX_ANSWER_TIME)), end }
    }

    fn due(&self) -> tokio::time::Instant {
        self.answer_at.unwrap_or(self.end)
    }
}

impl<C: SharedController, S: Service> Driver<C, S> {
    /// A second shutdown can only end earlier than the first.
    fn begin_shutdown(&mut self, within: Duration) {
        let shutdown = Shutdown::within(within);
        if self.shutdown.as_ref().is_none_or(|begun| shutdown.end < begun.end) {
            self.shutdown = Some(shutdown);
        }
    }

    /// Near the end of the shutdown, answers unfinished handlers' requests with 5.03. Returns
    /// `true` if it did so now.
    fn answer_unfinished(&mut self) -> bool {
        let Some(shutdown) = self.shutdown.as_mut() else { return false };
        let now = tokio::time::Instant::now();
        if shutdown.answer_at.take_if(|answer_at| *answer_at <= now).is_none() {
            return false;
        }
        self.now = self.clock.now();
        for (request, response) in self.calls.give_up() {
            self.respond(request, response);
        }
        true
    }

    /// Whether the shutdown is complete, for this driver and its barrier, or has timed out.
    fn is_done(&mut self) -> bool {
        let late = self.shutdown.as_ref().is_some_and(|shutdown| shutdown.end <= tokio::time::Instant::now());
        // A queued request's command may be sent already.
        let idle = self.calls.is_idle()
            && !self.streams.has_responses()
            && self.admission.is_empty()
            && self.commands.is_empty();
        let occupancy = self.endpoint.occupancy();
        if idle && occupancy.exchanges == 0 && occupancy.awaiting_validation == 0 {
            self.barrier.finish();
        }
        late || self.barrier.have_all_done()
    }
}

/// Shutdown barrier of drivers that end together. Clones share it; a single driver has its own.
///
/// Closing one socket of a shared address makes the kernel redistribute clients, and with them
/// datagrams for this driver, such as the acknowledgement of a response.
#[derive(Clone, Debug)]
pub(crate) struct ShutdownBarrier {
    /// Held by each driver with work left. Nothing is ever sent.
    busy: Option<Arc<watch::Sender<()>>>,
    others: watch::Receiver<()>,
}

impl Default for ShutdownBarrier {
    fn default() -> Self {
        let (busy, others) = watch::channel(());
        Self { busy: Some(Arc::new(busy)), others }
    }
}

impl ShutdownBarrier {
    fn finish(&mut self) {
        self.busy = None;
    }

    fn have_all_done(&self) -> bool {
        self.others.has_changed().is_err()
    }

    async fn all_done(&mut self) {
        while self.others.changed().await.is_ok() {}
    }
}
