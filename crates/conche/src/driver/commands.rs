//! Commands to a driver: sent by a [`Handle`], bounded, and cancelled on drop.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

#[cfg(feature = "metrics")]
use conche_proto::BusiestPeersSearch;
use conche_proto::codec::OwnedMessage;
use conche_proto::{Endpoint, ExchangeStats, Failure, Instant, PeerSnapshot, Request, RequestError, RequestId, Stats};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, debug_span};

use super::admission::{Admission, Busy, IdExhaustion, Permit, QueuePolicy};
use super::channels::{NotifyOne, OutcomeChannels, OutcomeReceiver, OutcomeSender};
#[cfg(feature = "edhoc")]
use super::edhoc::{ContextGuard, NewKeys};
use super::exchanges::Caller;
use super::observe_client::{Feed, FeedSender, Observed, Update};
use super::sessions::SessionDriver;
use super::{Address, BATCH, Driver, Sender, Service, SharedController};
use crate::body::{BoxError, Piece};
#[cfg(feature = "dtls")]
use crate::dtls::SessionRequest;
use crate::dtls::SessionResult;
#[cfg(feature = "edhoc")]
use crate::edhoc::Identity as EdhocIdentity;
use crate::fence::Fence;
#[cfg(feature = "edhoc")]
use crate::oscore::Context as SecurityContext;
#[cfg(feature = "oscore")]
use crate::oscore::KeysError;
#[cfg(not(feature = "dtls"))]
use crate::security::HandshakeError;
use crate::security::{Identity, PeerMismatch};
#[cfg(feature = "metrics")]
use crate::telemetry::metrics::Report;
#[cfg(all(feature = "dtls", feature = "metrics"))]
use crate::telemetry::metrics::SessionCounts;

#[derive(Debug)]
pub(super) enum Command {
    Open(OpenCommand),
    Unsubscribe {
        observed: u64,
        ticket: u64,
        outcome: OutcomeSender,
    },
    Body(StreamCommand),
    #[cfg(feature = "dtls")]
    OpenSession(SessionRequest),
    #[cfg(feature = "edhoc")]
    HoldContext {
        to: Address,
        answer: oneshot::Sender<Result<Option<ContextGuard>, Busy>>,
    },
    #[cfg(feature = "edhoc")]
    UseContext {
        to: Address,
        context: Box<SecurityContext>,
        peer: EdhocIdentity,
        answer: oneshot::Sender<Result<ContextGuard, ExchangeError>>,
    },
    Stats {
        answer: oneshot::Sender<Stats>,
    },
    #[cfg(feature = "metrics")]
    Report {
        survey: BusiestPeersSearch,
        answer: oneshot::Sender<Result<Report, BusiestPeersSearch>>,
    },
    Snapshot {
        of: Address,
        answer: oneshot::Sender<Option<PeerSnapshot>>,
    },
    ResetPath {
        to: Address,
        done: oneshot::Sender<()>,
    },
    KeepPaths {
        done: oneshot::Sender<()>,
    },
    Shutdown {
        within: Duration,
    },
    /// A shutdown that also ends observations of other endpoints.
    Close {
        within: Duration,
    },
}

#[derive(Debug)]
pub(super) struct OpenCommand {
    pub(super) kind: ExchangeKind,
    pub(super) ticket: u64,
    pub(super) permit: Permit,
    pub(super) outcome: OutcomeSender,
    pub(super) expected: Option<Arc<Identity>>,
    #[cfg(feature = "edhoc")]
    pub(super) keys: Option<Box<NewKeys>>,
}

#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) kind: ExchangeKind,
    pub(crate) expected: Option<Arc<Identity>>,
    #[cfg(feature = "edhoc")]
    pub(crate) keys: Option<Box<NewKeys>>,
}

#[derive(Debug)]
pub(crate) enum ExchangeKind {
    Request(Request),
    Group { request: Request, responses: mpsc::UnboundedSender<(SocketAddr, OwnedMessage)> },
    Streamed { request: Request, events: mpsc::UnboundedSender<StreamEvent> },
    Observe(Request, FeedSender),
    Ping { timeout: Option<Duration> },
}

#[cfg(feature = "oscore")]
impl ExchangeKind {
    pub(super) fn timeout_mut(&mut self) -> Option<&mut Option<Duration>> {
        match self {
            Self::Request(request)
            | Self::Group { request, .. }
            | Self::Streamed { request, .. }
            | Self::Observe(request, _) => Some(&mut request.timeout),
            Self::Ping { .. } => None,
        }
    }
}

#[derive(Debug)]
pub(crate) enum StreamEvent {
    /// A block of the response, to be read before the next is requested.
    Block {
        from: Sender,
        message: OwnedMessage,
        course: ExchangeStats,
    },
    Wanted(usize),
}

/// Progress of a streamed body. Each answers an event or a demand, which bounds their number.
#[derive(Debug)]
pub(super) enum StreamCommand {
    ResponseBlockRead { ticket: u64 },
    RequestPiece { ticket: u64, piece: Piece },
    RequestBlockRead { request: RequestId },
    ResponsePiece { request: RequestId, piece: Result<Piece, BoxError> },
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Response {
        from: Sender,
        message: OwnedMessage,
        course: ExchangeStats,
    },
    Pong {
        course: ExchangeStats,
    },
    /// The request suppressed its response (RFC 7967).
    Unanswered {
        course: ExchangeStats,
    },
    GroupTimeout {
        course: ExchangeStats,
    },
}

#[derive(Debug)]
pub(crate) enum ExchangeError {
    Busy(Busy),
    Refused(RequestError),
    Failed {
        failure: Failure,
        course: ExchangeStats,
    },
    SessionOver {
        course: ExchangeStats,
    },
    Send {
        source: io::Error,
        transmissions: u16,
    },
    Unprotected,
    UnexpectedPeer(PeerMismatch),
    #[cfg(feature = "oscore")]
    Keys(KeysError),
    Stopped,
}

/// A driver's handle. The driver ends with its last one.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    /// Unbounded: each command has a waiting caller or a permit.
    commands: mpsc::UnboundedSender<Command>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) cancelled: Arc<Cancelled>,
    pub(super) admission: Arc<Admission>,
    pub(super) id_exhaustion: Arc<IdExhaustion>,
    #[cfg_attr(not(feature = "edhoc"), expect(dead_code, reason = "EDHOC alone runs outside the driver"))]
    pub(super) fence: Fence,
    pub(super) local: SocketAddr,
    pub(super) reaches_v4: bool,
    pub(super) tickets: AtomicU64,
    pub(super) channels: OutcomeChannels,
    pub(super) queue_lifetime: Duration,
    pub(super) body_limit: usize,
}

impl Handle {
    pub(super) fn new(commands: mpsc::UnboundedSender<Command>, shared: Shared) -> Self {
        Self { commands, shared: Arc::new(shared) }
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.shared.local
    }

    /// Fence for code that serves one peer outside the driver's task.
    #[cfg(feature = "edhoc")]
    pub(crate) fn fence(&self) -> &Fence {
        &self.shared.fence
    }

    pub(crate) async fn stopped(&self) {
        self.commands.closed().await;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.commands.is_closed()
    }

    pub(crate) fn queue_lifetime(&self) -> Duration {
        self.shared.queue_lifetime
    }

    pub(crate) fn body_limit(&self) -> usize {
        self.shared.body_limit
    }

    /// Returns `None` if the socket does not reach the peer's IP version.
    pub(crate) fn reach(&self, to: SocketAddr) -> Option<Address> {
        let Shared { local, reaches_v4, .. } = *self.shared;
        let to = Address::from(to).canonical();
        match (local, to) {
            (SocketAddr::V4(_), SocketAddr::V4(_)) => Some(to.into()),
            (SocketAddr::V6(_), SocketAddr::V4(v4)) if reaches_v4 => {
                Some(SocketAddr::from((IpAddr::from(v4.ip().to_ipv6_mapped()), v4.port())).into())
            }
            (SocketAddr::V6(local), SocketAddr::V6(_)) if local.ip().to_ipv4_mapped().is_none() => Some(to.into()),
            _ => None,
        }
    }

    /// Requests might then wait for minutes.
    pub(crate) fn is_short_of_ids(&self, to: SocketAddr) -> bool {
        self.shared.id_exhaustion.has_some() && self.reach(to).is_some_and(|to| self.shared.id_exhaustion.is_of(to))
    }

    pub(crate) fn join(&self, to: Address, policy: QueuePolicy) -> Result<Permit, Busy> {
        self.shared.admission.join(to, policy)
    }

    pub(crate) fn open(self, permit: Permit, submission: Submission) -> Exchange {
        self.begin(|ticket, outcome| {
            Command::Open(OpenCommand {
                kind: submission.kind,
                ticket,
                permit,
                outcome,
                expected: submission.expected,
                #[cfg(feature = "edhoc")]
                keys: submission.keys,
            })
        })
    }

    fn begin(self, command: impl FnOnce(u64, OutcomeSender) -> Command) -> Exchange {
        let ticket = self.shared.tickets.fetch_add(1, Ordering::Relaxed);
        let (outcome, receiver) = self.shared.channels.open();
        // A stopped driver has dropped the outcome's sender.
        let _ = self.commands.send(command(ticket, outcome));
        Exchange { ticket, receiver, over: false, handle: self }
    }

    /// Runs a handshake if necessary; `None` if the driver has stopped.
    #[cfg(feature = "dtls")]
    pub(crate) async fn open_session(
        &self,
        to: Address,
        name: Arc<str>,
        expected: Option<Arc<Identity>>,
    ) -> Option<SessionResult> {
        self.ask(|answer| Command::OpenSession(SessionRequest { to, name, expected, answer })).await
    }

    #[cfg(not(feature = "dtls"))]
    pub(crate) async fn open_session(
        &self,
        _: Address,
        _: Arc<str>,
        _: Option<Arc<Identity>>,
    ) -> Option<SessionResult> {
        Some(Err(HandshakeError::none().into()))
    }

    /// Reserves room for a context (`Ok(None)`); `None` if the driver has stopped.
    #[cfg(feature = "edhoc")]
    pub(crate) async fn hold_context(&self, to: Address) -> Option<Result<Option<ContextGuard>, Busy>> {
        self.ask(|answer| Command::HoldContext { to, answer }).await
    }

    #[cfg(feature = "edhoc")]
    pub(crate) async fn use_context(
        &self,
        to: Address,
        context: SecurityContext,
        peer: EdhocIdentity,
    ) -> Option<Result<ContextGuard, ExchangeError>> {
        self.ask(|answer| Command::UseContext { to, context: Box::new(context), peer, answer }).await
    }

    pub(crate) async fn stats(&self) -> Option<Stats> {
        self.ask(|answer| Command::Stats { answer }).await
    }

    /// Includes up to `peers` of the busiest peers; `None` if the driver has stopped.
    #[cfg(feature = "metrics")]
    pub(crate) async fn report(&self, peers: usize) -> Option<Report> {
        let mut survey = BusiestPeersSearch::of(peers);
        loop {
            match self.ask(|answer| Command::Report { survey, answer }).await? {
                Ok(report) => return Some(report),
                Err(unfinished) => survey = unfinished,
            }
        }
    }

    pub(crate) async fn snapshot(&self, of: SocketAddr) -> Option<PeerSnapshot> {
        let of = self.reach(of)?;
        self.ask(|answer| Command::Snapshot { of, answer }).await.flatten()
    }

    pub(crate) async fn reset_path(&self, to: SocketAddr) {
        if let Some(to) = self.reach(to) {
            let _ = self.ask(|done| Command::ResetPath { to, done }).await;
        }
    }

    pub(crate) async fn keep_paths(&self) {
        let _ = self.ask(|done| Command::KeepPaths { done }).await;
    }

    #[cfg(test)]
    pub(crate) fn use_up_ids(&self, to: SocketAddr, until: tokio::time::Instant) {
        self.shared.id_exhaustion.begins(self.reach(to).expect("it is of that IP version"), until);
    }

    fn stream_command(&self, command: StreamCommand) {
        let _ = self.commands.send(Command::Body(command));
    }

    pub(crate) fn shutdown(&self, within: Duration) {
        let _ = self.commands.send(Command::Shutdown { within });
    }

    pub(crate) fn close(&self, within: Duration) {
        let _ = self.commands.send(Command::Close { within });
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (answer, receiver) = oneshot::channel();
        self.commands.send(command(answer)).ok()?;
        receiver.await.ok()
    }
}

#[derive(Debug)]
#[must_use = "dropping an exchange cancels it"]
pub(crate) struct Exchange {
    ticket: u64,
    receiver: OutcomeReceiver,
    over: bool,
    handle: Handle,
}

impl Exchange {
    pub(crate) fn fetch_next(&self) {
        self.handle.stream_command(StreamCommand::ResponseBlockRead { ticket: self.ticket });
    }

    pub(crate) fn supply(&self, piece: Piece) {
        self.handle.stream_command(StreamCommand::RequestPiece { ticket: self.ticket, piece });
    }

    pub(crate) fn subscription(&self, feed: Feed) -> Subscription {
        Subscription { ticket: self.ticket, feed, cancel: Some(CancelMode::Deregister), handle: self.handle.clone() }
    }
}

impl Future for Exchange {
    type Output = Result<Outcome, ExchangeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(self.receiver.poll(context));
        self.over = true;
        Poll::Ready(outcome)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.over {
            // Closed first: the driver may see the ticket before opening the exchange.
            self.receiver.close();
            self.handle.shared.cancelled.add(self.ticket, CancelMode::Deregister);
        }
        self.handle.shared.channels.take_back(&mut self.receiver);
    }
}

#[derive(Debug)]
#[must_use = "dropping a subscription ends it"]
pub(crate) struct Subscription {
    ticket: u64,
    feed: Feed,
    /// Deregistration on drop; `None` after a command did so.
    cancel: Option<CancelMode>,
    handle: Handle,
}

impl Subscription {
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Update> {
        self.feed.poll(context)
    }

    pub(crate) fn body_limit(&self) -> usize {
        self.handle.body_limit()
    }

    pub(crate) fn end(mut self) -> Exchange {
        // Cancellations may precede the command.
        self.cancel = None;
        let handle = self.handle.clone();
        handle.begin(|ticket, outcome| Command::Unsubscribe { observed: self.ticket, ticket, outcome })
    }

    /// Rejects the server's next notification with a Reset.
    pub(crate) fn forget(mut self) {
        self.cancel = Some(CancelMode::Silent);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(mode) = self.cancel {
            self.handle.shared.cancelled.add(self.ticket, mode);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CancelMode {
    Deregister,
    Silent,
}

/// Bounded: each ticket is added once.
#[derive(Debug, Default)]
pub(super) struct Cancelled {
    tickets: Mutex<Vec<(u64, CancelMode)>>,
    some: NotifyOne,
}

impl Cancelled {
    fn add(&self, ticket: u64, mode: CancelMode) {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, mode));
        self.some.notify();
    }

    pub(super) async fn some(&self) {
        self.some.notified().await;
    }

    pub(super) fn take(&self) -> Vec<(u64, CancelMode)> {
        std::mem::take(&mut *self.tickets.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(feature = "metrics")]
const AT_A_TIME: usize = 2048;

impl<C: SharedController, S: Service> Driver<C, S> {
    /// Yields after a batch: peers and receivers of responses may share this thread, and their
    /// socket buffers would overflow.
    pub(super) async fn handle_commands(&mut self, first: Command) {
        self.now = self.clock.now();
        self.handle_command(first);
        for _ in 1..BATCH {
            match self.commands.try_recv() {
                Ok(command) => self.handle_command(command),
                Err(_) => return,
            }
        }
        self.drain().await;
        tokio::task::yield_now().await;
        self.now = self.clock.now();
    }

    /// Lets the callers of ended exchanges run and handles their new commands, which costs less
    /// than waiting for all inputs. Returns `true` if there were commands.
    pub(super) async fn handle_follow_ups(&mut self) -> bool {
        if !self.exchanges.take_ended() {
            return false;
        }
        yield_local().await;
        let command = self.commands.try_recv();
        match command {
            Ok(command) => {
                self.handle_commands(command).await;
                true
            }
            Err(_) => false,
        }
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            // Cancelled before it began.
            Command::Open(command) if command.outcome.is_closed() => {}
            Command::Open(command) => self.open(command),
            Command::Unsubscribe { observed, ticket, outcome } => self.unsubscribe(observed, ticket, outcome),
            Command::Body(command) => self.on_stream_command(command),
            #[cfg(feature = "dtls")]
            Command::OpenSession(request) => self.open_session(request),
            #[cfg(feature = "edhoc")]
            Command::HoldContext { to, answer } => {
                let _ = answer.send(self.hold_context(to));
            }
            #[cfg(feature = "edhoc")]
            Command::UseContext { to, context, peer, answer } => {
                let _ = answer.send(self.use_context(to, *context, peer));
            }
            Command::Stats { answer } => {
                let _ = answer.send(self.stats());
            }
            #[cfg(feature = "metrics")]
            Command::Report { survey, answer } => {
                let _ = answer.send(self.report(survey));
            }
            Command::Snapshot { of, answer } => {
                let known = self.endpoint.snapshot(&of);
                let _ = answer.send(known.or_else(|| self.endpoint.snapshot(&self.session_with(of)?)));
            }
            Command::ResetPath { to, done } => {
                self.reset_path(&to);
                if let Some(session) = self.session_with(to) {
                    self.reset_path(&session);
                }
                let _ = done.send(());
            }
            Command::KeepPaths { done } => self.keep_paths_and_report(done),
            Command::Shutdown { within } => {
                self.calls.refuse();
                #[cfg(feature = "edhoc")]
                self.oscore.edhoc.refuse();
                self.dismiss_observers();
                self.begin_shutdown(within);
            }
            Command::Close { within } => {
                self.end_observations();
                self.begin_shutdown(within);
            }
        }
    }

    /// Requests in a session are tagged, so that their blocks cannot join other bodies.
    fn opened<T>(
        &mut self,
        to: Address,
        request: Request,
        open: impl FnOnce(&mut Endpoint<Address, C>, Instant, Address, Request) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        #[cfg(feature = "edhoc")]
        if self.oscore.edhoc.withholds(to, &request) {
            return Err(RequestError::NotProtected(conche_proto::oscore::ProtectError::UnknownContext));
        }
        #[cfg(feature = "edhoc")]
        self.oscore.edhoc.touch(to);
        let request = Request { tagged: request.tagged || to.is_secured(), ..request };
        #[cfg(feature = "oscore")]
        let request = self.oscore.protect(to, request);
        open(&mut self.endpoint, self.now, to, request)
    }

    fn open(&mut self, command: OpenCommand) {
        let to = command.permit.destination();
        if !to.is_secured() && !self.takes_plaintext() {
            return command.outcome.send(Err(ExchangeError::Unprotected));
        }
        if to.is_secured() && !self.is_open(to) {
            let (failure, course) = (Failure::Unreachable, ExchangeStats::default());
            return command.outcome.send(Err(ExchangeError::Failed { failure, course }));
        }
        #[cfg(feature = "oscore")]
        let Some(command) = self.with_keys(command) else { return };
        self.open_now(command);
    }

    pub(super) fn open_now(&mut self, command: OpenCommand) {
        let OpenCommand { kind, ticket, permit, outcome, .. } = command;
        let to = permit.destination();
        self.log_path(&to);
        #[cfg(feature = "edhoc")]
        if let Some(keys) = command.keys
            && let Err(error) = self.begin_combined(to, *keys)
        {
            return outcome.send(Err(error));
        }
        let identities = self.peer_identities(to);
        if let Some(expected) = command.expected
            && !identities.iter().flatten().any(|identity| *identity == *expected)
        {
            #[cfg(feature = "edhoc")]
            self.drop_combined();
            let authenticated = identities.into_iter().flatten().next();
            let mismatch = PeerMismatch::new(Some(expected), authenticated);
            return outcome.send(Err(ExchangeError::UnexpectedPeer(mismatch)));
        }
        let identity = identities.into_iter().flatten().next().map(Arc::new);
        let peer = Sender { address: to.canonical(), identity };
        // Log IDs count from 1.
        let id = ticket + 1;
        let (mut responses, mut events) = (None, None);
        let (opened, ping, span) = match kind {
            ExchangeKind::Request(request) => {
                let span = debug_span!("exchange", peer = %to, code = %request.code, id);
                (self.opened(to, request, Endpoint::request), false, span)
            }
            ExchangeKind::Streamed { request, events: sender } => {
                events = Some(sender);
                let span = debug_span!("exchange", peer = %to, code = %request.code, id);
                (self.opened(to, request, Endpoint::request), false, span)
            }
            ExchangeKind::Group { request, responses: sender } => {
                responses = Some(sender);
                let span = debug_span!("group", group = %to, code = %request.code, id);
                (self.opened(to, request, Endpoint::request_group), false, span)
            }
            ExchangeKind::Observe(request, feed) => {
                let span = debug_span!("observation", peer = %to, code = %request.code, id);
                let subscribed = self.opened(to, request, Endpoint::subscribe);
                let opened = subscribed.map(|(exchange, subscription)| {
                    let observed = Observed { ticket, peer: to, sender: peer.clone(), feed };
                    self.observations.insert(subscription, observed);
                    exchange
                });
                (opened, false, span)
            }
            ExchangeKind::Ping { timeout } => {
                let opened = match timeout {
                    Some(timeout) => self.endpoint.ping_within(self.now, to, timeout),
                    None => self.endpoint.ping(self.now, to),
                };
                (opened, true, debug_span!("ping", peer = %to, id))
            }
        };
        match opened {
            Ok(exchange) => {
                #[cfg(feature = "edhoc")]
                self.oscore.edhoc.opened(exchange);
                let caller = Caller { ticket, ping, responses, events, outcome, permit: Some(permit), peer, span };
                self.exchanges.insert(exchange, caller);
                let scarce = self.endpoint.ids_scarce_until(self.now, &to);
                if let Some(until) = scarce.and_then(|until| self.clock.wake_up(until)) {
                    self.id_exhaustion.begins(to, until);
                }
            }
            Err(refusal) => {
                #[cfg(feature = "edhoc")]
                self.drop_combined();
                span.in_scope(|| debug!(%refusal, "refused"));
                let error = Busy::from_refusal(&refusal).map_or(ExchangeError::Refused(refusal), ExchangeError::Busy);
                outcome.send(Err(error));
            }
        }
    }

    fn stats(&self) -> Stats {
        let mut stats = *self.endpoint.stats();
        stats.panics = self.fence.panics();
        stats
    }

    #[cfg(feature = "metrics")]
    fn report(&self, mut survey: BusiestPeersSearch) -> Result<Report, BusiestPeersSearch> {
        let Some(busiest) = survey.advance(&self.endpoint, AT_A_TIME) else { return Err(survey) };
        let leads = |peer: &Address| !peer.is_secured() || self.is_open(*peer);
        let paths = busiest.into_iter().filter(|(peer, _)| leads(peer));
        let paths = paths.map(|(peer, path)| (peer.canonical(), path)).collect();
        Ok(Report {
            stats: self.stats(),
            occupancy: self.endpoint.occupancy(),
            #[cfg(feature = "oscore")]
            refused_protection: self.endpoint.refused_protection(),
            #[cfg(feature = "dtls")]
            sessions: self
                .sessions
                .as_ref()
                .map(|sessions| SessionCounts { engine: sessions.stats(), failed: sessions.failed_handshakes() }),
            paths,
        })
    }

    pub(super) fn cancel_all(&mut self) {
        self.now = self.clock.now();
        for (ticket, mode) in self.cancelled.take() {
            if let Some(exchange) = self.exchanges.cancel(ticket) {
                self.endpoint.cancel(self.now, exchange);
                #[cfg(feature = "edhoc")]
                self.on_combined_failed(exchange);
            }
            self.end_observation(ticket, mode);
        }
    }
}

/// Yields without polling the operating system, unlike [`yield_now`](tokio::task::yield_now).
async fn yield_local() {
    let mut given = false;
    poll_fn(|context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(feature = "metrics")]
pub(crate) async fn metrics(
    handles: impl IntoIterator<Item = impl std::borrow::Borrow<Handle>>,
    destinations: usize,
) -> String {
    let mut reports = Vec::new();
    for handle in handles {
        reports.extend(handle.borrow().report(destinations).await);
    }
    crate::telemetry::metrics::text(reports)
}
