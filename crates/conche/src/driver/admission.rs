//! [`Admission`]: admits requests to the endpoint, and bounds how many wait for it.
//!
//! Each destination has a FIFO queue, of which only the first few requests are in the endpoint's
//! queue: a slow or dead destination blocks no other. A request holds a [`Permit`] from joining a
//! queue until its first datagram is sent or it ends.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conche_proto::{Limits, RequestError};
use thiserror::Error;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Address;

/// Requests per destination in the endpoint's queue, so that the next one is ready.
const AHEAD: usize = 4;

const SPARE: usize = 64;

/// Limits of waiting requests, beyond which requests fail with [`Busy`].
///
/// The client keeps only a counter per waiting request.
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

/// A limit is reached, so the request was not accepted.
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
    DestinationQueue,
    /// Requests that wait for all destinations of a socket.
    TotalQueue,
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
    /// Destinations with OSCORE keys from EDHOC, if all have outstanding requests or observations.
    EdhocDestinations,
}

impl Full {
    /// Returns the name of the setting for the limit.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Self::DestinationQueue => "Waiting::per_destination",
            Self::TotalQueue => "Waiting::total",
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
            Self::DestinationQueue | Self::PeerQueue => "messages wait for this destination already",
            Self::TotalQueue | Self::Queue => "messages wait for their turn already",
            Self::Exchanges => "exchanges are under way already",
            Self::Peers => "destinations were used lately",
            Self::Subscriptions => "observations are under way already",
            Self::EdhocDestinations => "destinations with which keys were agreed on are in use already",
        })
    }
}

impl Busy {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuePolicy {
    Wait,
    Try,
}

#[derive(Debug)]
pub(crate) struct Admission {
    queues: Mutex<Queues>,
    endpoint_queue: Arc<Semaphore>,
    ahead: usize,
    waiting: Waiting,
    limits: Limits,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Queues {
    by_destination: HashMap<Address, Queue>,
    total: usize,
    spare: Vec<Arc<Semaphore>>,
}

#[derive(Debug)]
struct Queue {
    permits: Arc<Semaphore>,
    len: usize,
}

impl Admission {
    pub(super) fn new(waiting: Waiting, limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            queues: Mutex::default(),
            endpoint_queue: Arc::new(Semaphore::new(limits.queue.clamp(1, Semaphore::MAX_PERMITS))),
            ahead: limits.queue_per_peer.clamp(1, AHEAD),
            waiting,
            limits: limits.clone(),
            emptied: Notify::new(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().total == 0
    }

    #[cfg(feature = "edhoc")]
    pub(super) fn has_queue(&self, to: Address) -> bool {
        self.lock().by_destination.contains_key(&to)
    }

    /// Completes when no requests wait: the last may leave without a command.
    pub(super) async fn emptied(&self) {
        self.emptied.notified().await;
    }

    pub(super) fn join(self: &Arc<Self>, to: Address, policy: QueuePolicy) -> Result<Permit, Busy> {
        let Waiting { per_destination, total } = self.waiting;
        let (destination_limit, total_limit) = match policy {
            QueuePolicy::Wait => ((Full::DestinationQueue, per_destination), (Full::TotalQueue, total)),
            QueuePolicy::Try => ((Full::PeerQueue, self.limits.queue_per_peer), (Full::Queue, self.limits.queue)),
        };
        let mut queues = self.lock();
        let Queues { by_destination, total: queued, spare } = &mut *queues;
        let queue = by_destination.entry(to);
        let len = if let Entry::Occupied(queue) = &queue { queue.get().len } else { 0 };
        for (len, (what, limit)) in [(len, destination_limit), (*queued, total_limit)] {
            if len >= limit {
                return Err(Busy { what, limit });
            }
        }
        *queued += 1;
        let new = || Queue { permits: spare.pop().unwrap_or_else(|| Arc::new(Semaphore::new(self.ahead))), len: 0 };
        let queue = queue.or_insert_with(new);
        queue.len += 1;
        let permits = Arc::clone(&queue.permits);
        Ok(Permit { admission: Arc::clone(self), to, permits, held: None })
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in a destination's queue and, once admitted, in the endpoint's.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    to: Address,
    permits: Arc<Semaphore>,
    held: Option<[OwnedSemaphorePermit; 2]>,
}

impl Permit {
    pub(super) fn destination(&self) -> Address {
        self.to
    }

    pub(crate) fn try_acquire(&mut self) -> bool {
        let own = Arc::clone(&self.permits).try_acquire_owned();
        let held = own.and_then(|own| Ok([own, Arc::clone(&self.admission.endpoint_queue).try_acquire_owned()?]));
        self.held = held.ok();
        self.held.is_some()
    }

    pub(crate) async fn acquire(&mut self) {
        let Ok(own) = Arc::clone(&self.permits).acquire_owned().await else { return };
        let Ok(shared) = Arc::clone(&self.admission.endpoint_queue).acquire_owned().await else { return };
        self.held = Some([own, shared]);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // A semaphore kept for reuse needs all its permits.
        self.held = None;
        let mut queues = self.admission.lock();
        queues.total -= 1;
        if queues.total == 0 {
            self.admission.emptied.notify_one();
        }
        let Queues { by_destination, spare, .. } = &mut *queues;
        if let Entry::Occupied(mut queue) = by_destination.entry(self.to) {
            queue.get_mut().len -= 1;
            if queue.get().len == 0 {
                let queue = queue.remove();
                if spare.len() < SPARE {
                    spare.push(queue.permits);
                }
            }
        }
    }
}

/// Destinations short of message IDs, and until when, so that a client with several sockets can
/// switch. Few: each has received tens of thousands of messages within EXCHANGE_LIFETIME.
#[derive(Debug, Default)]
pub(super) struct IdExhaustion {
    some: AtomicBool,
    until: Mutex<HashMap<Address, Instant>>,
}

impl IdExhaustion {
    pub(super) fn begins(&self, to: Address, until: Instant) {
        self.lock().insert(to, until);
        self.some.store(true, Ordering::Release);
    }

    pub(super) fn has_some(&self) -> bool {
        self.some.load(Ordering::Acquire)
    }

    pub(super) fn is_of(&self, to: Address) -> bool {
        let mut all = self.lock();
        let now = Instant::now();
        all.retain(|_, until| *until > now);
        self.some.store(!all.is_empty(), Ordering::Release);
        all.contains_key(&to)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Address, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn address(port: u16) -> Address {
        SocketAddr::from(([192, 0, 2, 1], port)).into()
    }

    fn admission(queue: usize) -> Arc<Admission> {
        let limits = Limits { queue, queue_per_peer: 2, ..Limits::default() };
        Admission::new(Waiting { per_destination: 3, total: 5 }, &limits)
    }

    #[test]
    fn a_full_queue_error_names_the_setting_to_raise() {
        let admission = admission(100);
        let join = |port, policy| admission.join(address(port), policy);
        let _waiting: Vec<_> = (0..2).map(|_| join(1, QueuePolicy::Wait).expect("there is room")).collect();
        let busy = join(1, QueuePolicy::Try).expect_err("two wait");
        assert_eq!((busy.what, busy.limit), (Full::PeerQueue, 2));
        let _third = join(1, QueuePolicy::Wait).expect("there is room");
        let busy = join(1, QueuePolicy::Wait).expect_err("three wait");
        assert_eq!((busy.what, busy.limit), (Full::DestinationQueue, 3));
        assert!(busy.to_string().ends_with("or raise Waiting::per_destination"), "{busy}");
        let _others: Vec<_> = (2..4).map(|port| join(port, QueuePolicy::Wait).expect("there is room")).collect();
        assert_eq!(join(9, QueuePolicy::Wait).expect_err("five wait").what, Full::TotalQueue);
    }

    #[test]
    fn nothing_is_left_of_places_that_were_dropped() {
        let admission = admission(100);
        for _ in 0..10 {
            let mut permits: Vec<_> =
                (0..3).map(|_| admission.join(address(1), QueuePolicy::Wait).expect("there is room")).collect();
            assert_eq!(permits.iter_mut().filter_map(|permit| permit.try_acquire().then_some(())).count(), 2);
        }
        let queues = admission.lock();
        assert!(queues.by_destination.is_empty() && queues.total == 0, "{queues:?}");
        assert_eq!(admission.endpoint_queue.available_permits(), 100);
    }

    #[tokio::test]
    async fn a_line_is_first_come_first_served() {
        let admission = admission(100);
        let mut ahead: Vec<_> =
            (0..2).map(|_| admission.join(address(1), QueuePolicy::Wait).expect("there is room")).collect();
        assert!(ahead.iter_mut().all(Permit::try_acquire));
        let mut last = admission.join(address(1), QueuePolicy::Wait).expect("there is room");
        assert!(!last.try_acquire());
        let waiting = tokio::spawn(async move {
            last.acquire().await;
            last
        });
        tokio::task::yield_now().await;
        drop(ahead.pop());
        let mut late = admission.join(address(1), QueuePolicy::Wait).expect("there is room");
        assert!(!late.try_acquire(), "the one that waits is before it");
        waiting.await.expect("it gets its turn");
    }

    #[tokio::test]
    async fn a_destination_with_a_long_line_leaves_the_endpoints_queue_to_others() {
        let admission = admission(3);
        let mut stuffed: Vec<_> =
            (0..3).map(|_| admission.join(address(1), QueuePolicy::Wait).expect("there is room")).collect();
        assert_eq!(stuffed.iter_mut().filter_map(|permit| permit.try_acquire().then_some(())).count(), 2);
        assert!(admission.join(address(2), QueuePolicy::Wait).expect("there is room").try_acquire());
    }
}
