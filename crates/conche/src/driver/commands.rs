//! Handles commands from clients and servers.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

#[cfg(feature = "metrics")]
use conche_proto::Survey;
use conche_proto::{Course, Endpoint, Failure, Instant, Request, RequestError, Stats};
use tracing::{debug, debug_span};

use super::admission::Busy;
use super::exchanges::Caller;
use super::handle::{Command, ExchangeError, ExchangeKind, OpenCommand};
use super::sessions::SessionDriver;
use super::shutdown::Shutdown;
use super::subscriptions::Observed;
use super::{Address, BATCH, Driver, Sender, Service, SharedController};
use crate::security::PeerMismatch;
#[cfg(feature = "metrics")]
use crate::telemetry::metrics::Report;

/// Number of peers that a survey scans before other commands and datagrams are processed.
#[cfg(feature = "metrics")]
const AT_A_TIME: usize = 2048;

impl<C: SharedController, S: Service> Driver<C, S> {
    /// Handles queued commands, and yields after a batch. In a burst of requests, the peers and the
    /// receivers of responses may run on this thread, and the buffers of their sockets overflow if
    /// they wait.
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

    /// After exchanges have ended, lets their callers run and handles the commands that they issue,
    /// before waiting for all inputs, which costs more. Returns `true` if there were commands.
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
        // A receiver that was dropped is not an error.
        match command {
            // A request whose caller is gone was cancelled before it began.
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
                self.shutdown = Some(Shutdown::within(within));
            }
        }
    }

    /// Opens an exchange for a request, protected if required. Requests through a session are
    /// tagged, so that their blocks are not mixed into other bodies.
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
            let (failure, course) = (Failure::Unreachable, Course::default());
            return command.outcome.send(Err(ExchangeError::Failed { failure, course }));
        }
        #[cfg(feature = "oscore")]
        let Some(command) = self.with_keys(command) else { return };
        self.open_now(command);
    }

    /// Opens an exchange whose prerequisites are met.
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
                let span = debug_span!("exchange", peer = %to, code = ?request.code, id);
                (self.opened(to, request, Endpoint::request), false, span)
            }
            ExchangeKind::Streamed { request, events: sender } => {
                events = Some(sender);
                let span = debug_span!("exchange", peer = %to, code = ?request.code, id);
                (self.opened(to, request, Endpoint::request), false, span)
            }
            ExchangeKind::Group { request, responses: sender } => {
                responses = Some(sender);
                let span = debug_span!("group", group = %to, code = ?request.code, id);
                (self.opened(to, request, Endpoint::request_group), false, span)
            }
            ExchangeKind::Observe(request, feed) => {
                let span = debug_span!("observation", peer = %to, code = ?request.code, id);
                let subscribed = self.opened(to, request, Endpoint::subscribe);
                let opened = subscribed.map(|(exchange, subscription)| {
                    let observed = Observed { ticket, peer: to, sender: peer.clone(), feed };
                    self.observations.insert(subscription, observed);
                    exchange
                });
                (opened, false, span)
            }
            ExchangeKind::Ping => (self.endpoint.ping(self.now, to), true, debug_span!("ping", peer = %to, id)),
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

    /// Returns the endpoint's counters, and the panics caught outside of it.
    fn stats(&self) -> Stats {
        let mut stats = *self.endpoint.stats();
        stats.panics = self.fence.panics();
        stats
    }

    #[cfg(feature = "metrics")]
    fn report(&self, mut survey: Survey) -> Result<Report, Survey> {
        let Some(busiest) = self.endpoint.survey(&mut survey, AT_A_TIME) else { return Err(survey) };
        // A closed session no longer leads to its peer.
        let leads = |peer: &Address| !peer.is_secured() || self.is_open(*peer);
        let paths = busiest.into_iter().filter(|(peer, _)| leads(peer));
        let paths = paths.map(|(peer, path)| (peer.canonical(), path)).collect();
        Ok(Report {
            stats: self.stats(),
            occupancy: self.endpoint.occupancy(),
            #[cfg(feature = "oscore")]
            refused_protection: self.endpoint.refused_protection(),
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

/// Lets ready tasks run. Unlike [`yield_now`](tokio::task::yield_now), it does not poll the
/// operating system for events.
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
