//! Waiting for a turn: how many requests may wait, and in which order they get to the endpoint.
//!
//! Each destination has a line of its own, first come first served. Only the first few of a line are handed to the
//! endpoint, which knows when the destination's congestion control lets them leave; so a destination that is slow or gone
//! holds little of the endpoint's queue, however many requests wait for it, and holds up no other.
//!
//! A [`Place`] in a line is held from the moment a request joins until its first datagram leaves or it ends; dropping it
//! frees everything.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conche_proto::{Limits, RequestError};
use thiserror::Error;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::Address;

/// Requests of one destination that are in the endpoint's queue at the same time. With a few of them the next one leaves
/// as soon as it may, without waiting for a task to wake up.
const AHEAD: usize = 4;

/// Semaphores that are kept for lines to come.
const SPARE: usize = 64;

/// How many requests may wait for their turn. Those beyond fail with [`Busy`].
///
/// What waits is the future of whoever sent the request; the client itself keeps no more of it than a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// For one destination.
    pub per_destination: usize,
    /// For all destinations of a socket.
    pub total: usize,
}

impl Waiting {
    /// The default of [`per_destination`](Self::per_destination).
    pub const PER_DESTINATION: usize = 16_384;
    /// The default of [`total`](Self::total).
    pub const TOTAL: usize = 262_144;
}

impl Default for Waiting {
    fn default() -> Self {
        Self { per_destination: Self::PER_DESTINATION, total: Self::TOTAL }
    }
}

/// Something is full: the request was not taken and certainly not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{limit} {what}: wait for some to end, or raise {setting}", setting = what.setting())]
#[non_exhaustive]
pub struct Busy {
    /// What is full.
    pub what: Full,
    /// How many it holds.
    pub limit: usize,
}

/// What can be full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Full {
    /// The requests that wait for one destination.
    Line,
    /// The requests that wait for all destinations of a socket.
    Lines,
    /// The endpoint's queue for one destination.
    PeerQueue,
    /// The endpoint's queues for all destinations.
    Queue,
    /// The exchanges that are under way.
    Exchanges,
    /// The table of the destinations that were used lately.
    Peers,
    /// The observations that are under way.
    Subscriptions,
    /// The destinations with which OSCORE keys were agreed on (EDHOC), and which all have requests or observations under way.
    EdhocDestinations,
}

impl Full {
    /// The setting that says how much fits.
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
    /// What the endpoint is full of, if that is why it refuses a request.
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

/// What a request does where others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It joins the line, as long as [`Waiting`] has room.
    Wait,
    /// It joins only as many as the endpoint's own queues may hold.
    Hurry,
}

/// The lines of all destinations of one socket.
#[derive(Debug)]
pub(crate) struct Turns {
    lines: Mutex<Lines>,
    /// The endpoint's queue, for all destinations.
    queue: Arc<Semaphore>,
    ahead: usize,
    waiting: Waiting,
    limits: Limits,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Lines {
    by_destination: HashMap<Address, Line>,
    /// In all of them.
    places: usize,
    /// Of lines that are gone, for the next ones; at most [`SPARE`].
    spare: Vec<Arc<Semaphore>>,
}

#[derive(Debug)]
struct Line {
    /// The destination's part of the endpoint's queue; fair, so that the line keeps its order.
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

    /// Nobody is in any line.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().places == 0
    }

    /// Somebody is in the line of a destination.
    #[cfg(feature = "edhoc")]
    pub(super) fn has_line(&self, to: Address) -> bool {
        self.lock().by_destination.contains_key(&to)
    }

    /// Waits until the last one has left, who may have told nobody.
    pub(super) async fn emptied(&self) {
        self.emptied.notified().await;
    }

    /// Joins the line of a destination.
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

/// A place in the line of a destination.
#[derive(Debug)]
pub(crate) struct Place {
    all: Arc<Turns>,
    to: Address,
    turns: Arc<Semaphore>,
    permits: Option<[OwnedSemaphorePermit; 2]>,
}

impl Place {
    /// Whose line it is in.
    pub(super) fn destination(&self) -> Address {
        self.to
    }

    /// It is its turn already.
    pub(crate) fn is_next(&mut self) -> bool {
        let turn = Arc::clone(&self.turns).try_acquire_owned();
        let queue = turn.and_then(|turn| Ok([turn, Arc::clone(&self.all.queue).try_acquire_owned()?]));
        self.permits = queue.ok();
        self.permits.is_some()
    }

    /// Waits until it is its turn.
    pub(crate) async fn turn(&mut self) {
        // Nobody closes the semaphores.
        let Ok(turn) = Arc::clone(&self.turns).acquire_owned().await else { return };
        let Ok(queue) = Arc::clone(&self.all.queue).acquire_owned().await else { return };
        self.permits = Some([turn, queue]);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // So that what is spare has all its permits.
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
