//! How the rest of the program talks to a driver: bounded, and without leaving anything behind.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

#[cfg(feature = "metrics")]
use conche_proto::Survey;
use conche_proto::codec::OwnedMessage;
use conche_proto::{Course, Failure, PeerSnapshot, Request, RequestError, RequestId, Stats};
use tokio::sync::{mpsc, oneshot};

#[cfg(feature = "edhoc")]
use super::agreeing::{Hold, NewKeys};
use super::feed::{Feed, News, Teller};
use super::reply::{Awaited, Replies, Reply};
use super::scarcity::Scarcity;
pub(crate) use super::secured::OpenError;
use super::secured::{Opened, Secure};
use super::turns::{Busy, Patience, Place, Turns};
use super::{Address, Sender};
use crate::bell::Bell;
use crate::body::{BoxError, Piece};
#[cfg(feature = "edhoc")]
use crate::edhoc::Identity as EdhocIdentity;
use crate::fence::Fence;
#[cfg(feature = "metrics")]
use crate::metrics::Report;
#[cfg(feature = "edhoc")]
use crate::oscore::Context as SecurityContext;
#[cfg(feature = "oscore")]
use crate::oscore::KeysError;
use crate::security::{Identity, PeerMismatch};

/// What a driver is told.
#[derive(Debug)]
pub(super) enum Command {
    /// Open an exchange with whom the place is for.
    Open(Asked),
    /// End an observation, known by its ticket, and wait for what the server says.
    Unsubscribe { observed: u64, ticket: u64, outcome: Reply },
    /// Go on with a body that goes block by block.
    Body(OfBody),
    /// Open a session, or return the one that is open.
    Secure(Secure),
    /// Hold what was agreed on with a destination, if anything was.
    #[cfg(feature = "edhoc")]
    HoldAgreed { to: Address, answer: oneshot::Sender<Result<Option<Hold>, Busy>> },
    /// Protect requests to a destination with what was agreed on.
    #[cfg(feature = "edhoc")]
    Agreed {
        to: Address,
        context: Box<SecurityContext>,
        peer: EdhocIdentity,
        answer: oneshot::Sender<Result<Hold, ExchangeError>>,
    },
    /// Tell the counters.
    Stats { answer: oneshot::Sender<Stats> },
    /// Go on with a search for the busiest peers; at its end tell what is known of them, and everything that can be counted.
    #[cfg(feature = "metrics")]
    Report { survey: Survey, answer: oneshot::Sender<Result<Report, Survey>> },
    /// Tell what is known of a peer.
    Snapshot { of: Address, answer: oneshot::Sender<Option<PeerSnapshot>> },
    /// Forget what was learnt of the path to a peer.
    ResetPath { to: Address, done: oneshot::Sender<()> },
    /// Have the store of paths written, and tell when it is.
    KeepPaths { done: oneshot::Sender<()> },
    /// Take no new requests, finish the running ones within the time, and end.
    Shutdown { within: Duration },
}

/// An exchange that somebody asks for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) what: Opening,
    pub(super) ticket: u64,
    pub(super) place: Place,
    pub(super) outcome: Reply,
    /// The only peer that it may go to.
    pub(super) expected: Option<Arc<Identity>>,
    /// What it brings.
    #[cfg(feature = "edhoc")]
    pub(super) keys: Option<Box<NewKeys>>,
}

/// An exchange to open when its turn has come.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) what: Opening,
    /// The only peer that it may go to.
    pub(crate) expected: Option<Arc<Identity>>,
    /// OSCORE keys that it brings to the peer.
    #[cfg(feature = "edhoc")]
    pub(crate) keys: Option<Box<NewKeys>>,
}

/// An exchange to open.
#[derive(Debug)]
pub(crate) enum Opening {
    Request(Request),
    /// A request to a group, whose responses go there.
    Group {
        request: Request,
        responses: mpsc::UnboundedSender<(SocketAddr, OwnedMessage)>,
    },
    /// A request with a body, or for one, that goes block by block, as it is told there.
    Streamed {
        request: Request,
        told: mpsc::UnboundedSender<Told>,
    },
    /// A request to be told of changes, too.
    Observe(Request, Teller),
    Ping,
}

#[cfg(feature = "oscore")]
impl Opening {
    /// The time that a request has; `None` if this is none.
    pub(super) fn timeout_mut(&mut self) -> Option<&mut Option<Duration>> {
        match self {
            Self::Request(request)
            | Self::Group { request, .. }
            | Self::Streamed { request, .. }
            | Self::Observe(request, _) => Some(&mut request.timeout),
            Self::Ping => None,
        }
    }
}

/// What is told of an exchange with a body that goes block by block, before its end.
#[derive(Debug)]
pub(crate) enum Told {
    /// A block of the response came; it waits to be taken.
    Block { from: Sender, message: OwnedMessage, course: Course },
    /// So many bytes of the request are wanted next.
    Wanted(usize),
}

/// How a body goes on. Each of these was asked for by what was told, so that there are never more than there are bodies.
#[derive(Debug)]
pub(super) enum OfBody {
    /// The block of a response was taken.
    Taken { ticket: u64 },
    /// More of a request.
    Supplied { ticket: u64, piece: Piece },
    /// The block of a request that is served here was taken.
    TakenHere { request: RequestId },
    /// More of a response that is given here, or no more, since its source failed.
    SuppliedHere { request: RequestId, piece: Result<Piece, BoxError> },
}

/// How an exchange ended well.
#[derive(Debug)]
pub(crate) enum Outcome {
    Response {
        from: Sender,
        message: OwnedMessage,
        course: Course,
    },
    Pong {
        course: Course,
    },
    /// A request did not want the response that it did not get.
    Unanswered {
        course: Course,
    },
    /// The time of a request to a group is over.
    GroupOver {
        course: Course,
    },
}

/// Why an exchange did not end well.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// The endpoint has no room for it.
    Busy(Busy),
    /// The endpoint would not open it.
    Refused(RequestError),
    /// It failed.
    Failed { failure: Failure, course: Course },
    /// Its session ended before the response.
    SessionOver { course: Course },
    /// The operating system would not send its datagram, after so many were sent.
    Send { source: io::Error, transmissions: u16 },
    /// The socket is one of a server with keys, and the request was to go without a session.
    Unprotected,
    /// The keys toward its destination authenticate another peer than the one that it expects.
    UnexpectedPeer(PeerMismatch),
    /// The keys that would protect it cannot be used.
    #[cfg(feature = "oscore")]
    Keys(KeysError),
    /// The driver is gone.
    Stopped,
}

/// A way to talk to a driver, which ends when the last one is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    /// Unbounded, but not without bounds: an exchange to open has a place, of which the endpoint's queue gives out as many
    /// as fit, and for each of the other commands somebody waits.
    commands: mpsc::UnboundedSender<Command>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cancelled: Arc<Cancelled>,
    turns: Arc<Turns>,
    scarcity: Arc<Scarcity>,
    #[cfg_attr(not(feature = "edhoc"), expect(dead_code, reason = "EDHOC alone runs outside the driver"))]
    fence: Fence,
    local: SocketAddr,
    /// The socket reaches IPv4, be it by mapped addresses.
    reaches_v4: bool,
    tickets: AtomicU64,
    replies: Replies,
    queue_lifetime: Duration,
    body_limit: usize,
}

impl Handle {
    pub(super) fn new(
        commands: mpsc::UnboundedSender<Command>,
        (cancelled, turns, scarcity, fence): (Arc<Cancelled>, Arc<Turns>, Arc<Scarcity>, Fence),
        (local, reaches_v4): (SocketAddr, bool),
        (queue_lifetime, body_limit): (Duration, usize),
    ) -> Self {
        let tickets = AtomicU64::new(0);
        let shared = Shared {
            cancelled,
            turns,
            scarcity,
            fence,
            local,
            reaches_v4,
            tickets,
            replies: Replies::default(),
            queue_lifetime,
            body_limit,
        };
        Self { commands, shared: Arc::new(shared) }
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.shared.local
    }

    /// Around code that serves one peer, for panics outside the driver's task.
    #[cfg(feature = "edhoc")]
    pub(crate) fn fence(&self) -> &Fence {
        &self.shared.fence
    }

    /// Waits until the driver has ended.
    pub(crate) async fn stopped(&self) {
        self.commands.closed().await;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.commands.is_closed()
    }

    /// How long a request may wait for its turn.
    pub(crate) fn queue_lifetime(&self) -> Duration {
        self.shared.queue_lifetime
    }

    /// The largest body of a response, in bytes.
    pub(crate) fn body_limit(&self) -> usize {
        self.shared.body_limit
    }

    /// What the driver calls a peer; `None` if its socket does not reach that IP version.
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

    /// Few message IDs are left toward a destination, and what has none waits for minutes.
    pub(crate) fn is_short_of_ids(&self, to: SocketAddr) -> bool {
        self.shared.scarcity.has_some() && self.reach(to).is_some_and(|to| self.shared.scarcity.is_of(to))
    }

    /// Joins the line of a destination.
    pub(crate) fn join(&self, to: Address, patience: Patience) -> Result<Place, Busy> {
        self.shared.turns.join(to, patience)
    }

    /// Opens an exchange whose turn it is. Dropping the future cancels it.
    pub(crate) fn open(self, place: Place, submission: Submission) -> Exchange {
        self.begin(|ticket, outcome| {
            Command::Open(Asked {
                what: submission.what,
                ticket,
                place,
                outcome,
                expected: submission.expected,
                #[cfg(feature = "edhoc")]
                keys: submission.keys,
            })
        })
    }

    fn begin(self, command: impl FnOnce(u64, Reply) -> Command) -> Exchange {
        let ticket = self.shared.tickets.fetch_add(1, Ordering::Relaxed);
        let (outcome, receiver) = self.shared.replies.open();
        // If the driver is gone, so is the sender of the outcome.
        let _ = self.commands.send(command(ticket, outcome));
        Exchange { ticket, receiver, over: false, handle: self }
    }

    /// Returns a session with the server of this name and with the expected peer, after a handshake
    /// if necessary; `None` if the driver is gone.
    pub(crate) async fn secure(&self, to: Address, name: Arc<str>, expected: Option<Arc<Identity>>) -> Option<Opened> {
        self.ask(|answer| Command::Secure(Secure { to, name, expected, answer })).await
    }

    /// Holds the context for requests to a destination that was agreed on with it, if there is one, or says whether there is room; `None` if the driver is gone.
    #[cfg(feature = "edhoc")]
    pub(crate) async fn hold_agreed(&self, to: Address) -> Option<Result<Option<Hold>, Busy>> {
        self.ask(|answer| Command::HoldAgreed { to, answer }).await
    }

    /// Has requests to a destination protected with this context; `None` if the driver is gone.
    #[cfg(feature = "edhoc")]
    pub(crate) async fn agreed(
        &self,
        to: Address,
        context: SecurityContext,
        peer: EdhocIdentity,
    ) -> Option<Result<Hold, ExchangeError>> {
        self.ask(|answer| Command::Agreed { to, context: Box::new(context), peer, answer }).await
    }

    /// The counters of the endpoint; `None` if the driver is gone.
    pub(crate) async fn stats(&self) -> Option<Stats> {
        self.ask(|answer| Command::Stats { answer }).await
    }

    /// What can be counted, with so many of the busiest peers; `None` if the driver is gone.
    #[cfg(feature = "metrics")]
    pub(crate) async fn report(&self, peers: usize) -> Option<Report> {
        let mut survey = Survey::of(peers);
        loop {
            match self.ask(|answer| Command::Report { survey, answer }).await? {
                Ok(report) => return Some(report),
                Err(unfinished) => survey = unfinished,
            }
        }
    }

    /// What is known of a peer; `None` if nothing is.
    pub(crate) async fn snapshot(&self, of: SocketAddr) -> Option<PeerSnapshot> {
        let of = self.reach(of)?;
        self.ask(|answer| Command::Snapshot { of, answer }).await.flatten()
    }

    /// Forgets what was learnt of the path to a peer.
    pub(crate) async fn reset_path(&self, to: SocketAddr) {
        if let Some(to) = self.reach(to) {
            // Without a driver there is nothing to forget.
            let _ = self.ask(|done| Command::ResetPath { to, done }).await;
        }
    }

    /// Has what is known of paths kept.
    pub(crate) async fn keep_paths(&self) {
        // A driver that has ended has kept it.
        let _ = self.ask(|done| Command::KeepPaths { done }).await;
    }

    #[cfg(test)]
    pub(crate) fn use_up_ids(&self, to: SocketAddr, until: tokio::time::Instant) {
        self.shared.scarcity.begins(self.reach(to).expect("it is of that IP version"), until);
    }

    fn of_body(&self, what: OfBody) {
        // If the driver is gone, so is the exchange, whose end says so.
        let _ = self.commands.send(Command::Body(what));
    }

    pub(crate) fn shutdown(&self, within: Duration) {
        // An error says that the driver has ended already.
        let _ = self.commands.send(Command::Shutdown { within });
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (answer, receiver) = oneshot::channel();
        self.commands.send(command(answer)).ok()?;
        receiver.await.ok()
    }
}

/// An exchange that is under way, as a future of its outcome.
#[derive(Debug)]
#[must_use = "dropping an exchange cancels it"]
pub(crate) struct Exchange {
    ticket: u64,
    receiver: Awaited,
    over: bool,
    /// Keeps the driver alive, which a client that is dropped meanwhile does not.
    handle: Handle,
}

impl Exchange {
    /// The last block of the response was taken, and the next is wanted.
    pub(crate) fn fetch_next(&self) {
        self.handle.of_body(OfBody::Taken { ticket: self.ticket });
    }

    /// More of the request's body.
    pub(crate) fn supply(&self, piece: Piece) {
        self.handle.of_body(OfBody::Supplied { ticket: self.ticket, piece });
    }

    /// What this exchange registers, as something to be kept.
    pub(crate) fn subscription(&self, feed: Feed) -> Subscription {
        Subscription { ticket: self.ticket, feed, farewell: Some(Farewell::Told), handle: self.handle.clone() }
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
            // In this order: a driver that finds the ticket before it opens the exchange sees that nobody waits for it.
            self.receiver.close();
            self.handle.shared.cancelled.add(self.ticket, Farewell::Told);
        }
        self.handle.shared.replies.take_back(&mut self.receiver);
    }
}

/// Something that is observed elsewhere.
#[derive(Debug)]
#[must_use = "dropping a subscription ends it"]
pub(crate) struct Subscription {
    ticket: u64,
    feed: Feed,
    /// What the server hears of it when this is dropped; `None` if a command has said so.
    farewell: Option<Farewell>,
    handle: Handle,
}

impl Subscription {
    /// What is new.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<News> {
        self.feed.poll(context)
    }

    pub(crate) fn body_limit(&self) -> usize {
        self.handle.body_limit()
    }

    /// Tells the server that it is over, as an exchange to wait for.
    pub(crate) fn end(mut self) -> Exchange {
        // The driver may see what is cancelled before it sees the command.
        self.farewell = None;
        let handle = self.handle.clone();
        handle.begin(|ticket, outcome| Command::Unsubscribe { observed: self.ticket, ticket, outcome })
    }

    /// Ends it without a word: the server's next notification is rejected with a Reset.
    pub(crate) fn forget(mut self) {
        self.farewell = Some(Farewell::Silent);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // If it is over, nobody has this ticket any more.
        if let Some(farewell) = self.farewell {
            self.handle.shared.cancelled.add(self.ticket, farewell);
        }
    }
}

/// What a server hears of the end of what was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    /// A GET or FETCH with Observe 1.
    Told,
    /// Nothing, until it notifies.
    Silent,
}

/// Exchanges and subscriptions that nobody waits for any more. Each of them adds itself once, so there are never more than there are
/// of them, and adding needs neither room in a channel nor waiting.
#[derive(Debug, Default)]
pub(super) struct Cancelled {
    tickets: Mutex<Vec<(u64, Farewell)>>,
    some: Bell,
}

impl Cancelled {
    fn add(&self, ticket: u64, farewell: Farewell) {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, farewell));
        self.some.ring();
    }

    /// Waits until there may be some.
    pub(super) async fn some(&self) {
        self.some.rung().await;
    }

    pub(super) fn take(&self) -> Vec<(u64, Farewell)> {
        std::mem::take(&mut *self.tickets.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
