//! The task that drives one [`Endpoint`] on one socket, for client and server alike.
//!
//! It waits for what comes first: datagrams, commands, cancellations, handlers that end, the endpoint's timer. After each
//! it polls the endpoint until that has nothing more to do. It decides nothing about the protocol.

mod clock;
mod handle;
#[cfg(target_os = "linux")]
mod linux;
mod path;
mod serving;
mod socket;

pub(crate) use handle::{ExchangeError, Handle, Opening, Outcome};
pub(crate) use path::{Path, Role};

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code};
use conche_proto::{Course, Endpoint, Event, ExchangeId, Input, Output, RequestId, RespondError, Transmit};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::field::Empty;
use tracing::{Level, Span, debug, debug_span, enabled, error, warn};

use crate::server::{Response, Router};
use clock::Clock;
use handle::{Cancelled, Command};
use serving::Serving;
use socket::{Received, Socket};

/// Commands that may wait for a driver.
const COMMANDS: usize = 1024;

/// Datagrams and commands that are taken in before the endpoint is polled. Enough to share the cost of waking up, few
/// enough to stay far below [`Limits::outputs`](conche_proto::Limits::outputs).
const BATCH: usize = 64;

/// The largest UDP payload.
const LARGEST_DATAGRAM: usize = 65_535;

/// A pause after an error of the socket that is not about a peer, so that a lasting one cannot keep a core busy.
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Driver {
    socket: Socket,
    endpoint: Endpoint<Path, AnyController>,
    clock: Clock,
    serving: Serving,
    commands: mpsc::Receiver<Command>,
    cancelled: Arc<Cancelled>,
    waiting: HashMap<ExchangeId, Waiting>,
    tickets: HashMap<u64, ExchangeId>,
    closing: Option<tokio::time::Instant>,
    buffer: Box<[u8]>,
}

/// Somebody waits for the end of an exchange.
struct Waiting {
    ticket: u64,
    /// It is a ping, which an acknowledgement ends.
    ping: bool,
    outcome: oneshot::Sender<Result<Outcome, ExchangeError>>,
    span: Span,
}

impl Driver {
    /// Binds a socket and starts to drive an endpoint on it. The task ends when the last handle is dropped.
    pub(crate) fn start(
        address: SocketAddr,
        role: Role,
        endpoint: Endpoint<Path, AnyController>,
        router: Router,
        handlers: usize,
    ) -> io::Result<(Handle, JoinHandle<()>)> {
        let socket = Socket::bind(address, role)?;
        let cancelled = Arc::new(Cancelled::default());
        let (sender, commands) = mpsc::channel(COMMANDS);
        let handle = Handle::new(sender, Arc::clone(&cancelled), socket.local());
        let driver = Self {
            socket,
            endpoint,
            clock: Clock::start(),
            serving: Serving::new(router, handlers),
            commands,
            cancelled,
            waiting: HashMap::new(),
            tickets: HashMap::new(),
            closing: None,
            buffer: vec![0; LARGEST_DATAGRAM].into(),
        };
        Ok((handle, tokio::spawn(driver.run())))
    }

    async fn run(mut self) {
        let timer = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        loop {
            let due = self.drain().await.and_then(|due| self.clock.wake_up(due));
            if self.closing.is_some() && self.is_done() {
                return;
            }
            let wake = [due, self.closing].into_iter().flatten().min();
            if let Some(wake) = wake.filter(|wake| *wake != timer.deadline()) {
                timer.as_mut().reset(wake);
            }
            tokio::select! {
                ready = self.socket.ready() => self.receive(ready).await,
                command = self.commands.recv() => match command {
                    Some(command) => self.obey_all(command),
                    None => return,
                },
                () = self.cancelled.some() => self.cancel_all(),
                (request, response) = self.serving.next() => self.respond(request, response),
                () = timer.as_mut(), if wake.is_some() => {}
            }
        }
    }

    /// Nothing is left to do after a shutdown, or its time is over.
    fn is_done(&self) -> bool {
        let late = self.closing.is_some_and(|end| end <= tokio::time::Instant::now());
        late || (self.serving.is_idle() && self.endpoint.occupancy().exchanges == 0)
    }

    /// Polls the endpoint until it has nothing more to do; the answer is when it wants to be polled again.
    async fn drain(&mut self) -> Option<conche_proto::Instant> {
        loop {
            let now = self.clock.now();
            match self.endpoint.poll(now, &mut self.buffer) {
                Output::Transmit(transmit) => self.transmit(transmit).await,
                Output::Event(event) => self.tell(event),
                Output::Wait(due) => return due,
            }
        }
    }

    async fn transmit(&mut self, transmit: Transmit<Path>) {
        self.trace_transmission(&transmit);
        let Transmit { to, len, .. } = transmit;
        let datagram = &self.buffer[..len];
        let Err(error) = self.socket.send(datagram, to).await else { return };
        debug!(peer = %to.peer, %error, "a datagram could not be sent");
        if socket::is_unreachable(&error) {
            let input = Input::Unreachable { peer: to, quoted: Some(datagram) };
            // Refused only while outputs wait, and then the retransmission will find the same.
            let _ = self.endpoint.handle(self.clock.now(), input);
        }
    }

    async fn receive(&mut self, ready: io::Result<()>) {
        if let Err(error) = ready.and_then(|()| self.take_batch()) {
            warn!(%error, "receiving failed");
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn take_batch(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            let input = match self.socket.receive(&mut self.buffer) {
                Ok(Received::Datagram { from, length }) => Input::datagram(from, &self.buffer[..length]),
                Ok(Received::Unreachable { peer, quoted }) => {
                    debug!(peer = %peer.peer, "the network reports the peer unreachable");
                    Input::Unreachable { peer, quoted: Some(&self.buffer[..quoted]) }
                }
                Ok(Received::Nothing) => break,
                // It was about an earlier datagram, of which the error queue tells more.
                Err(error) if socket::is_about_a_peer(&error) => continue,
                Err(error) => return Err(error),
            };
            if self.endpoint.handle(self.clock.now(), input).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn tell(&mut self, event: Event<Path>) {
        match event {
            Event::Request { id, from, message } => {
                if let Some(response) = self.serving.start(id, from.peer, message) {
                    self.respond(id, response);
                }
            }
            Event::Response { exchange, from, message, course } => {
                let told = format!("{:?}", message.code());
                self.end(exchange, &told, course, Ok(Outcome::Response { from: from.peer, message, course }));
            }
            Event::Acknowledged { exchange, course, .. } => match self.waiting.get(&exchange) {
                Some(waiting) if !waiting.ping => {
                    waiting.span.in_scope(|| debug!("acknowledged; the response follows"))
                }
                _ => self.end(exchange, "acknowledged", course, Ok(Outcome::Pong { course })),
            },
            Event::Failed { exchange, peer, reason: failure, course } => {
                debug!(peer = %peer.peer, exchange = exchange.as_u64(), %failure, "failed");
                self.end(exchange, "failed", course, Err(ExchangeError::Failed { failure, course }));
            }
            // What this driver asks for has no other events.
            _ => {}
        }
    }

    /// An exchange is over: whoever waits for it learns of it. Nobody waits for separate responses.
    fn end(&mut self, exchange: ExchangeId, told: &str, course: Course, outcome: Result<Outcome, ExchangeError>) {
        let Some(waiting) = self.waiting.remove(&exchange) else { return };
        self.tickets.remove(&waiting.ticket);
        waiting.span.in_scope(|| {
            debug!(
                transmissions = course.transmissions,
                queued = ?course.queued,
                acknowledged_after = ?course.acknowledged_after,
                elapsed = ?course.elapsed,
                "{told}"
            );
        });
        // If the receiver is gone, the cancellation is on its way and comes too late.
        let _ = waiting.outcome.send(outcome);
    }

    fn respond(&mut self, request: RequestId, response: Response) {
        let code = response.code();
        let response = response.build().unwrap_or_else(|error| {
            error!(%error, ?code, "a handler's response is not legal; it is replaced by 5.00");
            internal_error()
        });
        let now = self.clock.now();
        match self.endpoint.respond(now, request, response) {
            Ok(_) => {}
            Err(RespondError::NotPending) => debug!(?code, "a response came too late"),
            Err(error) => {
                error!(%error, ?code, "a handler's response cannot be sent; it is replaced by 5.00");
                if self.endpoint.respond(now, request, internal_error()).is_err() {
                    self.endpoint.ignore(now, request);
                }
            }
        }
    }

    fn obey_all(&mut self, first: Command) {
        self.obey(first);
        for _ in 1..BATCH {
            match self.commands.try_recv() {
                Ok(command) => self.obey(command),
                Err(_) => break,
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            // If nobody waits any more, it was cancelled before it began.
            Command::Open { outcome, .. } if outcome.is_closed() => {}
            Command::Open { to, what, ticket, outcome } => self.open(to, what, ticket, outcome),
            Command::Stats { answer } => {
                let _ = answer.send(*self.endpoint.stats());
            }
            Command::Shutdown { within } => {
                self.serving.refuse();
                self.closing = tokio::time::Instant::now().checked_add(within);
            }
        }
    }

    fn open(
        &mut self,
        to: SocketAddr,
        what: Opening,
        ticket: u64,
        outcome: oneshot::Sender<Result<Outcome, ExchangeError>>,
    ) {
        let now = self.clock.now();
        let path = Path { peer: to, local: None };
        let (opened, ping, span) = match what {
            Opening::Request(request) => {
                let span = debug_span!("exchange", peer = %to, code = ?request.code, id = Empty);
                (self.endpoint.request(now, path, request), false, span)
            }
            Opening::Ping => (self.endpoint.ping(now, path), true, debug_span!("ping", peer = %to, id = Empty)),
        };
        match opened {
            Ok(exchange) => {
                span.record("id", exchange.as_u64());
                self.tickets.insert(ticket, exchange);
                self.waiting.insert(exchange, Waiting { ticket, ping, outcome, span });
            }
            Err(refusal) => {
                span.in_scope(|| debug!(%refusal, "refused"));
                let _ = outcome.send(Err(ExchangeError::Refused(refusal)));
            }
        }
    }

    fn cancel_all(&mut self) {
        for ticket in self.cancelled.take() {
            let Some(exchange) = self.tickets.remove(&ticket) else { continue };
            if let Some(waiting) = self.waiting.remove(&exchange) {
                waiting.span.in_scope(|| debug!("cancelled"));
            }
            self.endpoint.cancel(self.clock.now(), exchange);
        }
    }

    /// Logs what leaves as part of an exchange, with the RTO that the controller has by now.
    fn trace_transmission(&self, transmit: &Transmit<Path>) {
        let Some(exchange) = transmit.exchange.filter(|_| enabled!(Level::DEBUG)) else { return };
        let rto = self.endpoint.snapshot(&transmit.to).map(|peer| peer.congestion.rto);
        let span = self.waiting.get(&exchange).map_or_else(Span::none, |waiting| waiting.span.clone());
        span.in_scope(|| match transmit.attempt {
            0 => debug!(bytes = transmit.len, ?rto, "sent"),
            attempt => debug!(attempt, bytes = transmit.len, ?rto, "retransmitted"),
        });
    }
}

fn internal_error() -> conche_proto::Response {
    conche_proto::Response::new(Code::INTERNAL_SERVER_ERROR, Body::EMPTY)
}
