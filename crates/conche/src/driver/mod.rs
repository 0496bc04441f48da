//! [`Driver`]: the task that drives one [`Endpoint`] on one socket, for clients and servers.
//!
//! It waits for the next event: datagrams, commands, cancellations, ended handlers, or the
//! endpoint's timer. After each it polls the endpoint until that has nothing more to do. It makes
//! no protocol decisions.

mod admission;
mod busy_poll;
mod commands;
#[cfg(feature = "edhoc")]
mod edhoc;
mod exchanges;
mod feed;
mod handle;
mod id_exhaustion;
mod id_map;
#[cfg(feature = "metrics")]
mod metrics;
mod observable;
#[cfg(feature = "oscore")]
mod oscore;
mod outcome_channel;
mod path_keeper;
mod receiving;
mod responding;
mod sender;
mod sending;
mod service;
mod service_calls;
mod sessions;
mod shutdown;
mod shutdown_barrier;
mod streams;
mod subscriptions;
mod topics;

pub use admission::{Busy, Full, Waiting};
pub(crate) use admission::{Permit, QueuePolicy};
#[cfg(feature = "edhoc")]
pub(crate) use edhoc::{Hold, NewKeys, Turn};
pub(crate) use feed::{End, Feed, News, State};
pub(crate) use handle::{
    Exchange, ExchangeError, ExchangeKind, Handle, Outcome, StreamEvent, Submission, Subscription,
};
#[cfg(feature = "metrics")]
pub(crate) use metrics::metrics;
#[cfg(test)]
pub(crate) use observable::{Calls, MAX_PATHS, Mailbox};
pub(crate) use observable::{Changes, Observable};
#[cfg(feature = "oscore")]
pub(crate) use oscore::OscoreContexts;
pub(crate) use sender::Sender;
pub(crate) use service::{Called, NoService, Service, ServiceRequest, ServiceResponse};
pub(crate) use service_calls::Handlers;
pub(crate) use shutdown_barrier::ShutdownBarrier;
pub(crate) use streams::Inlet;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use conche_proto::cc::Controller;
use conche_proto::codec::{MessagePool, OwnedMessage};
use conche_proto::{Endpoint, Event, Failure, Instant, Limits, Output, RequestId, SubscriptionEnd};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::debug;

use crate::address::Address;
use crate::clock::Clock;
#[cfg(feature = "dtls")]
use crate::dtls::DtlsSessions;
use crate::fence::Fence;
use crate::paths::{PathStore, Sharing};
use crate::refusal;
use crate::security::Identity;
#[cfg(feature = "dtls")]
use crate::security::Security;
use crate::socket::{self, Outbox, Role, Socket};
use crate::telemetry::Telemetry;
use crate::telemetry::watch::Watchers;
use crate::throttle::Throttle;
use admission::Admission;
use busy_poll::BusyPoll;
use exchanges::Exchanges;
use handle::{Cancelled, Command, Shared};
use id_exhaustion::IdExhaustion;
use outcome_channel::OutcomeChannels;
use path_keeper::PathKeeper;
use service_calls::{ServiceCalls, Trigger};
use sessions::SessionDriver;
use shutdown::Shutdown;
use streams::Streams;
use subscriptions::Observations;
use topics::Topics;

/// A controller for a client or a server: any [`Controller`] that can be shared among threads.
/// Implemented automatically.
pub trait SharedController: Controller<Peer: Send, Flight: Send> + Clone + Send + Sync + 'static {}

impl<C: Controller<Peer: Send, Flight: Send> + Clone + Send + Sync + 'static> SharedController for C {}

/// Maximum datagrams or commands processed before the endpoint is polled. Enough to share the cost
/// of waking up, and far below [`Limits::outputs`](conche_proto::Limits::outputs).
const BATCH: usize = 64;

/// Maximum time a datagram waits for others to be sent with, apart from running handlers.
const LINGER: Duration = Duration::from_millis(1);

/// Maximum time the endpoint is polled without receiving while it has only notifications left: a
/// change with thousands of observers must not delay the response to a request.
const POLL_FOR: Duration = Duration::from_millis(5);

/// Outputs of the endpoint between two reads of the clock.
const OUTPUTS_AT_ONCE: usize = 32;

/// Pause after a socket error that does not concern a peer, so that a lasting one cannot keep a
/// core busy.
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Driver<C: SharedController, S: Service> {
    socket: Socket,
    endpoint: Endpoint<Address, C>,
    /// DTLS sessions between the socket and the endpoint.
    #[cfg(feature = "dtls")]
    sessions: Option<DtlsSessions>,
    clock: Clock,
    telemetry: Telemetry,
    /// The clock's time when the task woke up.
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
    /// Contains panics of code that serves one peer.
    fence: Fence,
    barrier: ShutdownBarrier,
    incoming: Box<[u8]>,
    outgoing: Outbox,
    /// Memory for responses that are sent at once.
    pool: MessagePool,
    receive_errors: Throttle,
    response_errors: Throttle,
}

/// Parameters of a driver besides its endpoint.
pub(crate) struct Start<S> {
    pub(crate) socket: Socket,
    pub(crate) barrier: ShutdownBarrier,
    #[cfg(feature = "dtls")]
    pub(crate) security: Arc<Security>,
    /// Multicast groups to join, each with an interface index.
    pub(crate) groups: Vec<(IpAddr, u32)>,
    pub(crate) role: Role,
    pub(crate) service: Arc<S>,
    pub(crate) handlers: Handlers,
    pub(crate) waiting: Waiting,
    /// Whether ICMP errors do not end Confirmable exchanges.
    pub(crate) retry_unreachable: bool,
    /// Maximum time to poll for responses without sleeping.
    pub(crate) busy_poll: Duration,
    pub(crate) watchers: Watchers,
    /// Which peers of the endpoint share path state.
    pub(crate) sharing: Arc<Sharing>,
    /// The keys of the endpoint.
    #[cfg(feature = "oscore")]
    pub(crate) oscore: OscoreContexts,
    pub(crate) secured_only: bool,
    /// Contains panics of code that serves one peer.
    pub(crate) fence: Fence,
    /// File of path state.
    pub(crate) store: Option<PathStore>,
    pub(crate) limits: Limits,
    pub(crate) queue_lifetime: Duration,
}

impl<C: SharedController, S: Service> Driver<C, S> {
    /// Starts to drive an endpoint on a socket. The task ends when the last handle is dropped.
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
        let sessions = DtlsSessions::start(clock.now(), &start.security, start.limits.peers)?;
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
            tokio::select! {
                ready = self.socket.ready(&mut self.incoming, looks_until) => self.receive(ready).await,
                command = self.commands.recv() => match command {
                    Some(command) => self.handle_commands(command).await,
                    None => {
                        // The last handle may have belonged to an observation whose server must be
                        // notified.
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

    /// Polls the endpoint until it has nothing more to do, and returns its next deadline. Datagrams
    /// are sent in batches.
    async fn drain(&mut self) -> Option<Instant> {
        loop {
            if let Polled::Waits(due) = self.poll_for_a_while().await {
                return due;
            }
            self.now = self.clock.now();
        }
    }

    /// Polls the endpoint until it has nothing more to do, or has had only notifications for longer
    /// than [`POLL_FOR`].
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
            // Other events concern nothing that the driver requested.
            _ => {}
        }
    }

    /// Returns the authenticated sender of a request, from its own protection or its session, or
    /// the response if authentication is required and missing.
    #[cfg_attr(not(feature = "oscore"), expect(unused_variables, reason = "no request is protected"))]
    fn identify(&self, request: RequestId, from: Address) -> Result<Option<Identity>, conche_proto::Response> {
        #[cfg(feature = "oscore")]
        let identity = self.identify_protected(request).or_else(|| self.session_identity(from));
        #[cfg(not(feature = "oscore"))]
        let identity = self.session_identity(from);
        if identity.is_none() && self.secured_only { Err(refusal::unauthenticated()) } else { Ok(identity) }
    }

    /// Returns the identities that authenticate responses from this destination: by OSCORE keys,
    /// and by the session.
    fn peer_identities(&self, to: Address) -> [Option<Identity>; 2] {
        #[cfg(feature = "oscore")]
        let of_keys = self.oscore.identity_toward(to);
        #[cfg(not(feature = "oscore"))]
        let of_keys = None;
        [of_keys, self.session_identity(to)]
    }
}

/// Result of polling the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Polled {
    /// It has nothing to do before this time.
    Waits(Option<Instant>),
    /// It has observers to notify.
    HasMore,
}
