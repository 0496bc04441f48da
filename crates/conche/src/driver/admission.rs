//! [`Turns`]: admission of requests to the endpoint: how many may wait, and in which order.
//!
//! Each destination has its own FIFO queue. Only the first few of a queue are handed to the
//! endpoint, which sends them when congestion control permits. A slow or dead destination therefore
//! occupies little of the endpoint's queue, however many requests wait for it, and blocks no other.
//!
//! A [`Place`] in a queue is held from the moment a request joins until its first datagram is sent
//! or it ends; dropping it frees everything.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conche_proto::{Limits, RequestError};
use thiserror::Error;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::Address;

/// Requests per destination in the endpoint's queue. With a few, the next one is sent as soon as
/// permitted, without waiting for a task to wake up.
const AHEAD: usize = 4;

/// Maximum number of semaphores kept for new queues.
const SPARE: usize = 64;

/// Limits of waiting requests. Those beyond fail with [`Busy`].
///
/// A waiting request's memory is its caller's future; the client keeps only a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Per destination.
    pub per_destination: usize,
    /// For all destinations of a socket.
    pub total: usize,
}

impl Waiting {
    /// Default of [`per_destination`](Self::per_destination).
    pub const PER_DESTINATION: usize = 16_384;
    /// Default of [`total`](Self::total).
    pub const TOTAL: usize = 262_144;
}

impl Default for Waiting {
    fn default() -> Self {
        Self { per_destination: Self::PER_DESTINATION, total: Self::TOTAL }
    }
}

/// A limit is reached: the request was not accepted and certainly not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{limit} {what}: wait for some to end, or raise {setting}", setting = what.setting())]
#[non_exhaustive]
pub struct Busy {
    /// The full resource.
    pub what: Full,
    /// Its limit.
    pub limit: usize,
}

/// Bounded resources of a client or server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Full {
    /// Requests that wait for one destination.
    Line,
    /// Requests that wait for all destinations of a socket.
    Lines,
    /// The endpoint's queue for one destination.
    PeerQueue,
    /// The endpoint's queues for all destinations.
    Queue,
    /// Outstanding exchanges.
    Exchanges,
    /// State of recently used destinations.
    Peers,
    /// Observations.
    Subscriptions,
    /// Destinations with OSCORE keys from EDHOC, all of which have outstanding requests or
    /// observations.
    EdhocDestinations,
}

impl Full {
    /// Returns the name of the setting for the limit.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Line => "Waiting::per_destination",
            Self::Lines => "Waiting::total",
            Self::PeerQueue => "Limits::queue_per_peer",
            Self::Queue => "Limits::queue",
            Self::Exchanges => "Limits::exchanges",
            Self::Peers => "Limits::peers",
            Self::Subscriptions => "Limits::subscriptions",
            Self::EdhocDestinations => "edhoc_destinations",
        }
    }
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Line | Self::PeerQueue => "messages wait for this destination already",
            Self::Lines | Self::Queue => "messages wait for their turn already",
            Self::Exchanges => "exchanges are under way already",
            Self::Peers => "destinations were used lately",
            Self::Subscriptions => "observations are under way already",
            Self::EdhocDestinations => "destinations with which keys were agreed on are in use already",
        })
    }
}

impl Busy {
    /// Returns the reached limit, if that is why the endpoint refused a request.
    pub(super) fn from_refusal(refusal: &RequestError) -> Option<Self> {
        let (what, limit) = match *refusal {
            RequestError::QueueFull { limit } => (Full::PeerQueue, limit),
            RequestError::QueuesFull { limit } => (Full::Queue, limit),
            RequestError::TooManyExchanges { limit } => (Full::Exchanges, limit),
            RequestError::PeersFull { limit } => (Full::Peers, limit),
            RequestError::TooManySubscriptions { limit } => (Full::Subscriptions, limit),
            _ => return None,
        };
        Some(Self { what, limit })
    }
}

/// How a request behaves when others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Joins the queue, within the limits of [`Waiting`].
    Wait,
    /// Joins only within the limits of the endpoint's own queues.
    Hurry,
}

/// The queues of all destinations of one socket.
#[derive(Debug)]
pub(crate) struct Turns {
    lines: Mutex<Lines>,
    /// Permits of the endpoint's queue, for all destinations.
    queue: Arc<Semaphore>,
    ahead: usize,
    waiting: Waiting,
    limits: Limits,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Lines {
    by_destination: HashMap<Address, Line>,
    /// Number of places in all queues.
    places: usize,
    /// Semaphores of removed queues, for reuse; at most [`SPARE`].
    spare: Vec<Arc<Semaphore>>,
}

#[derive(Debug)]
struct Line {
    /// Permits of the destination in the endpoint's queue; fair, so that the queue stays FIFO.
    turns: Arc<Semaphore>,
    places: usize,
}

impl Turns {
    pub(super) fn new(waiting: Waiting, limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            lines: Mutex::default(),
            queue: Arc::new(Semaphore::new(limits.queue.clamp(1, Semaphore::MAX_PERMITS))),
            ahead: limits.queue_per_peer.clamp(1, AHEAD),
            waiting,
            limits: limits.clone(),
            emptied: Notify::new(),
        })
    }

    /// Whether all queues are empty.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().places == 0
    }

    /// Whether requests wait for a destination.
    #[cfg(feature = "edhoc")]
    pub(super) fn has_line(&self, to: Address) -> bool {
        self.lock().by_destination.contains_key(&to)
    }

    /// Waits until the last request leaves, which may happen without a command.
    pub(super) async fn emptied(&self) {
        self.emptied.notified().await;
    }

    /// Joins the queue of a destination.
    pub(super) fn join(self: &Arc<Self>, to: Address, patience: Patience) -> Result<Place, Busy> {
        let Waiting { per_destination, total } = self.waiting;
        let (of_line, of_all) = match patience {
            Patience::Wait => ((Full::Line, per_destination), (Full::Lines, total)),
            Patience::Hurry => ((Full::PeerQueue, self.limits.queue_per_peer), (Full::Queue, self.limits.queue)),
        };
        let mut lines = self.lock();
        let Lines { by_destination, places, spare } = &mut *lines;
        let line = by_destination.entry(to);
        let in_line = if let Entry::Occupied(line) = &line { line.get().places } else { 0 };
        for (places, (what, limit)) in [(in_line, of_line), (*places, of_all)] {
            if places >= limit {
                return Err(Busy { what, limit });
            }
        }
        *places += 1;
        let new = || Line { turns: spare.pop().unwrap_or_else(|| Arc::new(Semaphore::new(self.ahead))), places: 0 };
        let line = line.or_insert_with(new);
        line.places += 1;
        let turns = Arc::clone(&line.turns);
        Ok(Place { all: Arc::clone(self), to, turns, permits: None })
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue of a destination.
#[derive(Debug)]
pub(crate) struct Place {
    all: Arc<Turns>,
    to: Address,
    turns: Arc<Semaphore>,
    permits: Option<[OwnedSemaphorePermit; 2]>,
}

impl Place {
    pub(super) fn destination(&self) -> Address {
        self.to
    }

    /// Takes a permit without waiting, if one is free.
    pub(crate) fn is_next(&mut self) -> bool {
        let turn = Arc::clone(&self.turns).try_acquire_owned();
        let queue = turn.and_then(|turn| Ok([turn, Arc::clone(&self.all.queue).try_acquire_owned()?]));
        self.permits = queue.ok();
        self.permits.is_some()
    }

    /// Waits for a permit.
    pub(crate) async fn turn(&mut self) {
        // The semaphores are never closed.
        let Ok(turn) = Arc::clone(&self.turns).acquire_owned().await else { return };
        let Ok(queue) = Arc::clone(&self.all.queue).acquire_owned().await else { return };
        self.permits = Some([turn, queue]);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Before the semaphore is kept for reuse, which requires all its permits.
        self.permits = None;
        let mut lines = self.all.lock();
        lines.places -= 1;
        if lines.places == 0 {
            self.all.emptied.notify_one();
        }
        let Lines { by_destination, spare, .. } = &mut *lines;
        if let Entry::Occupied(mut line) = by_destination.entry(self.to) {
            line.get_mut().places -= 1;
            if line.get().places == 0 {
                let line = line.remove();
                if spare.len() < SPARE {
                    spare.push(line.turns);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
