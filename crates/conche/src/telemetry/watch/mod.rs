//! Observers of socket events, for logs, captures and counters.
//!
//! A [`Watcher`] receives datagrams, their outcomes and path state changes. A [`Recorder`] writes
//! them to a file: as qlog with the feature `event-log` ([`EventLog`]), or for Wireshark with the
//! feature `pcapng` ([`Capture`]).
//!
#![cfg_attr(feature = "event-log", doc = "```")]
#![cfg_attr(not(feature = "event-log"), doc = "```ignore")]
//! use conche::Client;
//! use conche::watch::EventLog;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("client.sqlog");
//! let log = EventLog::client().write_to(std::fs::File::create(path)?)?;
//! let client = Client::builder().watch(log.clone()).build()?;
//! // Requests, and then:
//! let recorded = log.finish().await?;
//! assert_eq!(recorded.lost, 0);
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "pcapng")]
mod capture;
#[cfg(feature = "event-log")]
mod event_log;
#[cfg(feature = "event-log")]
mod qlog;
#[cfg(any(feature = "event-log", feature = "pcapng"))]
mod recorder;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use conche_proto::codec::Code;
use conche_proto::{Ecn, Event, ExchangeStats, Failure, PeerSnapshot, Stats};
use tokio::time::Instant;

#[cfg(feature = "pcapng")]
pub use capture::Capture;
#[cfg(feature = "event-log")]
pub use event_log::EventLog;
#[cfg(feature = "event-log")]
pub use qlog::{EventLogWriter, LoggedEvent};
#[cfg(any(feature = "event-log", feature = "pcapng"))]
pub use recorder::{Recorded, Recorder};

/// Receives the events of a client's or server's sockets: see
/// [`Builder::watch`](crate::Builder::watch).
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
///
/// use conche::Client;
/// use conche::watch::{Fact, Notice, Watcher};
///
/// #[derive(Default)]
/// struct Retransmissions(AtomicU64);
///
/// impl Watcher for Retransmissions {
///     fn notice(&self, notice: &Notice<'_>) {
///         if matches!(notice.fact, Fact::Sent { attempt: 1.., .. }) {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let retransmissions = Arc::new(Retransmissions::default());
/// let client = Client::builder().watch(Arc::clone(&retransmissions)).build()?;
/// # Ok::<(), conche::ConfigError>(())
/// ```
pub trait Watcher: Send + Sync + 'static {
    /// Handles an event. Runs on the task that drives the socket, so it must not block.
    fn notice(&self, notice: &Notice<'_>);
}

impl<W: Watcher> Watcher for Arc<W> {
    fn notice(&self, notice: &Notice<'_>) {
        self.as_ref().notice(notice);
    }
}

/// An event on a socket.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Notice<'a> {
    /// Time on the endpoint's clock, which is read once per batch of datagrams.
    pub at: Instant,
    /// The address that the socket is bound to.
    pub socket: SocketAddr,
    /// The datagram's local address. `None` if the socket is bound to one address, or the operating
    /// system chose it.
    pub local: Option<IpAddr>,
    /// The remote address.
    pub peer: SocketAddr,
    /// The event.
    pub fact: Fact,
    /// The event's datagram; empty if none.
    pub datagram: &'a [u8],
}

impl<'a> Notice<'a> {
    /// Creates a notice outside of an endpoint, such as in a proxy, without [`local`](Self::local).
    #[must_use]
    pub fn new(at: Instant, socket: SocketAddr, peer: SocketAddr, fact: Fact, datagram: &'a [u8]) -> Self {
        Self { at, socket, local: None, peer, fact, datagram }
    }
}

/// A kind of event. Durations and counters are the endpoint's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fact {
    /// A datagram was sent.
    Sent {
        /// 0 for the first transmission, n for the n-th retransmission.
        attempt: u8,
        /// [Number](conche_proto::ExchangeId::as_u64) of the datagram's exchange; `None` for
        /// acknowledgements and other replies.
        exchange: Option<u64>,
        /// The ECN codepoint sent.
        ecn: Ecn,
    },
    /// The operating system refused to send a datagram.
    NotSent {
        /// As in [`Sent`](Self::Sent).
        attempt: u8,
        /// As in [`Sent`](Self::Sent).
        exchange: Option<u64>,
        /// The operating system's error.
        error: io::ErrorKind,
    },
    /// A datagram arrived.
    Received {
        /// Whether it was sent to a multicast group.
        multicast: bool,
        /// The ECN codepoint received.
        ecn: Ecn,
    },
    /// A datagram, reported as received before, was not accepted as new.
    Dropped {
        /// The reason.
        reason: DropReason,
    },
    /// An ICMP message reported the peer as unreachable.
    Unreachable,
    /// State of the path to the peer, changed or not.
    Path(PeerSnapshot),
    /// An exchange progressed or ended.
    Exchange {
        /// [Number](conche_proto::ExchangeId::as_u64) of the exchange.
        exchange: u64,
        /// Its new state.
        state: ExchangeState,
        /// Its transmissions and timing so far.
        course: ExchangeStats,
    },
}

impl Fact {
    /// Returns the peer and the fact of an endpoint's event; `None` if it does not concern an
    /// exchange of this end.
    #[must_use]
    pub fn of_event<P: Copy>(event: &Event<P>) -> Option<(P, Self)> {
        let (peer, exchange, state, course) = match *event {
            Event::Response { exchange, from, ref message, course } => {
                (from, exchange, ExchangeState::Responded(message.code()), course)
            }
            Event::Acknowledged { exchange, from, course } => (from, exchange, ExchangeState::Acknowledged, course),
            Event::GroupOver { exchange, group, responses, course } => {
                (group, exchange, ExchangeState::GroupTimeout { responses }, course)
            }
            Event::Unanswered { exchange, peer, course } => (peer, exchange, ExchangeState::Unanswered, course),
            Event::Failed { exchange, peer, reason, course, .. } => {
                (peer, exchange, ExchangeState::Failed(reason), course)
            }
            _ => return None,
        };
        Some((peer, Self::Exchange { exchange: exchange.as_u64(), state, course }))
    }
}

/// State of an exchange of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeState {
    /// Acknowledged by the peer, which ends a ping or a separate response.
    Acknowledged,
    /// A response with this code ended it.
    Responded(Code),
    /// The time of a multicast request expired.
    GroupTimeout {
        /// Number of responses.
        responses: usize,
    },
    /// It ended without a response, as requested (RFC 7967).
    Unanswered,
    /// It failed.
    Failed(Failure),
}

/// Reason why a datagram was not accepted, with a counter in [`Stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// Not a CoAP message.
    Malformed,
    /// A duplicate: answered as the original was, or ignored.
    Duplicate,
    /// A response, acknowledgement or Reset that matches nothing.
    Unmatched,
    /// A limit is reached; a Confirmable request was answered with 5.03.
    Overloaded,
    /// Its source exceeds the [`ResponseLimit`](crate::ResponseLimit).
    Limited,
    /// Multicast while no group is served, or not a Non-confirmable request.
    Group,
    /// Multicast to a group with too many waiting responses.
    NoLeisure,
    /// A response beyond the limit of a multicast request.
    GroupOverflow,
}

impl DropReason {
    pub(crate) const ALL: [Self; 8] = [
        Self::Malformed,
        Self::Duplicate,
        Self::Unmatched,
        Self::Overloaded,
        Self::Limited,
        Self::Group,
        Self::NoLeisure,
        Self::GroupOverflow,
    ];

    /// Returns the reason why a datagram was not accepted, from the endpoint's counters before and
    /// after it; `None` if it was accepted.
    #[must_use]
    pub fn between(before: &Stats, after: &Stats) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.count(after) > reason.count(before))
    }

    pub(crate) fn count(self, stats: &Stats) -> u64 {
        match self {
            Self::Malformed => stats.malformed,
            Self::Duplicate => stats.duplicates,
            Self::Unmatched => stats.unmatched,
            Self::Overloaded => stats.overloaded,
            Self::Limited => stats.limited,
            Self::Group => stats.multicast,
            Self::NoLeisure => stats.no_leisure,
            Self::GroupOverflow => stats.group_overflow,
        }
    }

    /// Returns the name of its counter, such as `malformed`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Duplicate => "duplicate",
            Self::Unmatched => "unmatched",
            Self::Overloaded => "overloaded",
            Self::Limited => "limited",
            Self::Group => "multicast",
            Self::NoLeisure => "no_leisure",
            Self::GroupOverflow => "group_overflow",
        }
    }
}

#[derive(Clone, Default)]
pub(crate) struct Watchers(Vec<Arc<dyn Watcher>>);

impl Watchers {
    pub(crate) fn add(&mut self, watcher: impl Watcher) {
        self.0.push(Arc::new(watcher));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn notice(&self, notice: &Notice<'_>) {
        self.0.iter().for_each(|watcher| watcher.notice(notice));
    }
}

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} watchers", self.0.len())
    }
}
