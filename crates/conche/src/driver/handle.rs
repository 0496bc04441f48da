//! How the rest of the program talks to a driver: bounded, and without leaving anything behind.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use conche_proto::codec::OwnedMessage;
use conche_proto::{Course, Failure, Request, RequestError, Stats};
use tokio::sync::{Notify, mpsc, oneshot};

/// What a driver is told.
#[derive(Debug)]
pub(super) enum Command {
    /// Open an exchange.
    Open { to: SocketAddr, what: Opening, ticket: u64, outcome: oneshot::Sender<Result<Outcome, ExchangeError>> },
    /// Tell the counters.
    Stats { answer: oneshot::Sender<Stats> },
    /// Take no new requests, finish the running ones within the time, and end.
    Shutdown { within: Duration },
}

/// An exchange to open.
#[derive(Debug)]
pub(crate) enum Opening {
    Request(Request),
    Ping,
}

/// How an exchange ended well.
#[derive(Debug)]
pub(crate) enum Outcome {
    Response { from: SocketAddr, message: OwnedMessage, course: Course },
    Pong { course: Course },
}

/// Why an exchange did not end well.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// As many commands wait as are allowed.
    Busy,
    /// The endpoint would not open it.
    Refused(RequestError),
    /// It failed.
    Failed { failure: Failure, course: Course },
    /// The driver is gone.
    Stopped,
}

/// A way to talk to a driver, which ends when the last one is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) cancelled: Arc<Cancelled>,
    pub(super) local: SocketAddr,
    tickets: Arc<AtomicU64>,
}

impl Handle {
    pub(super) fn new(commands: mpsc::Sender<Command>, cancelled: Arc<Cancelled>, local: SocketAddr) -> Self {
        Self { commands, cancelled, local, tickets: Arc::default() }
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.commands.is_closed()
    }

    /// Opens an exchange. Dropping the future cancels it.
    pub(crate) fn open(&self, to: SocketAddr, what: Opening) -> Result<Exchange, ExchangeError> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (outcome, receiver) = oneshot::channel();
        self.commands.try_send(Command::Open { to, what, ticket, outcome }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ExchangeError::Busy,
            mpsc::error::TrySendError::Closed(_) => ExchangeError::Stopped,
        })?;
        Ok(Exchange { ticket, receiver, over: false, handle: self.clone() })
    }

    /// The counters of the endpoint; `None` if the driver is gone.
    pub(crate) async fn stats(&self) -> Option<Stats> {
        let (answer, receiver) = oneshot::channel();
        self.commands.send(Command::Stats { answer }).await.ok()?;
        receiver.await.ok()
    }

    pub(crate) async fn shutdown(&self, within: Duration) {
        // An error says that the driver has ended already.
        let _ = self.commands.send(Command::Shutdown { within }).await;
    }
}

/// An exchange that is under way, as a future of its outcome.
#[derive(Debug)]
#[must_use = "dropping an exchange cancels it"]
pub(crate) struct Exchange {
    ticket: u64,
    receiver: oneshot::Receiver<Result<Outcome, ExchangeError>>,
    over: bool,
    /// Keeps the driver alive, which a client that is dropped meanwhile does not.
    handle: Handle,
}

impl Future for Exchange {
    type Output = Result<Outcome, ExchangeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.receiver).poll(context));
        self.over = true;
        Poll::Ready(outcome.unwrap_or(Err(ExchangeError::Stopped)))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.over {
            self.handle.cancelled.add(self.ticket);
        }
    }
}

/// Exchanges that nobody waits for any more. Each of them adds itself once, so there are never more than there are
/// exchanges, and adding needs neither room in a channel nor waiting.
#[derive(Debug, Default)]
pub(super) struct Cancelled {
    tickets: Mutex<Vec<u64>>,
    some: Notify,
}

impl Cancelled {
    fn add(&self, ticket: u64) {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner).push(ticket);
        self.some.notify_one();
    }

    /// Waits until there may be some.
    pub(super) async fn some(&self) {
        self.some.notified().await;
    }

    pub(super) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.tickets.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
