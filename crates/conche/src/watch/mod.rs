//! What happens on the sockets of clients and servers, for those who want to see it.
//!
//! A [`Watcher`] is told of each datagram, of what became of it, and of what congestion control knows of the path, at the
//! time when it happens. A [`Recorder`] is one that writes all this to a file: with the feature `event-log` as an
//! [`EventLog`], which is qlog, with the feature `pcapng` as a [`Capture`] that Wireshark reads. One of your own may count, or
//! pass it on to a system that a company has for such things.
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

#[cfg(feature = "pcapng")]
pub use capture::Capture;
#[cfg(feature = "event-log")]
pub use event_log::EventLog;
#[cfg(any(feature = "event-log", feature = "pcapng"))]
pub use recorder::{Recorded, Recorder};

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use conche_proto::codec::Code;
use conche_proto::{Course, Ecn, Failure, PeerSnapshot, Stats};
use tokio::time::Instant;

/// Is told what happens on the sockets of a client or server that it was given to with
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
    /// Something happened. This runs on the task that drives the socket: all traffic waits while it does, so it must neither
    /// block nor take long.
    fn notice(&self, notice: &Notice<'_>);
}

impl<W: Watcher> Watcher for Arc<W> {
    fn notice(&self, notice: &Notice<'_>) {
        self.as_ref().notice(notice);
    }
}

/// Something that happened, and where.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Notice<'a> {
    /// When: as the endpoint sees it, whose clock stands still while it takes in or sends some datagrams.
    pub at: Instant,
    /// What the socket is bound to.
    pub socket: SocketAddr,
    /// The address of ours that a datagram came to or left from, if that is known: it is not if the socket is bound to one
    /// address only, or the operating system chose.
    pub local: Option<IpAddr>,
    /// The other end.
    pub peer: SocketAddr,
    /// What happened.
    pub fact: Fact,
    /// The datagram that it is about; empty if it is about none.
    pub datagram: &'a [u8],
}

impl<'a> Notice<'a> {
    /// What a program of another kind tells a watcher, such as one that passes datagrams on; for an address of ours that is known,
    /// set [`local`](Self::local).
    #[must_use]
    pub fn new(at: Instant, socket: SocketAddr, peer: SocketAddr, fact: Fact, datagram: &'a [u8]) -> Self {
        Self { at, socket, local: None, peer, fact, datagram }
    }
}

/// What can happen. Durations and counters are those of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fact {
    /// A datagram left.
    Sent {
        /// 0 for an original transmission, n for the n-th retransmission.
        attempt: u8,
        /// The exchange that it opens or repeats, by [number](conche_proto::ExchangeId::as_u64); `None` for what only answers.
        exchange: Option<u64>,
        /// The codepoint that it left with.
        ecn: Ecn,
    },
    /// The operating system would not send a datagram.
    NotSent {
        /// As in [`Sent`](Self::Sent).
        attempt: u8,
        /// As in [`Sent`](Self::Sent).
        exchange: Option<u64>,
        /// What it said.
        error: io::ErrorKind,
    },
    /// A datagram arrived.
    Received {
        /// It was sent to a group.
        multicast: bool,
        /// The codepoint that it arrived with.
        ecn: Ecn,
    },
    /// A datagram that arrived, which was told before, was not taken in as something new.
    Dropped {
        /// Why.
        reason: DropReason,
    },
    /// The network reported by ICMP that the peer cannot be reached.
    Unreachable,
    /// What is known of the path to the peer, whether or not it has changed.
    Path(PeerSnapshot),
    /// An exchange went on or ended.
    Exchange {
        /// Its [number](conche_proto::ExchangeId::as_u64).
        exchange: u64,
        /// What became of it.
        state: ExchangeState,
        /// How it went so far.
        course: Course,
    },
}

/// What became of an exchange of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeState {
    /// The peer acknowledged it: the end of a ping or a separate response, but of a request the response is still to come.
    Acknowledged,
    /// A response with this code ended it.
    Responded(Code),
    /// The time of a request to a group is over, after so many responses.
    GroupOver {
        /// How many.
        responses: usize,
    },
    /// It is over without a response, as it asked (RFC 7967).
    Unanswered,
    /// It failed.
    Failed(Failure),
}

/// Why a datagram was not taken in. Each is a counter of [`Stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// It is no CoAP message.
    Malformed,
    /// It was received before: answered as its original was, or ignored.
    Duplicate,
    /// It answers nothing that is known.
    Unmatched,
    /// Something that it needs was full; a Confirmable request was answered with 5.03.
    Overloaded,
    /// Its source exceeds what it may be answered.
    Limited,
    /// It was sent to a group, and none is served, or it is no Non-confirmable request.
    Group,
    /// It was sent to a group, for which too many responses wait.
    NoLeisure,
    /// It is a response to a request to a group that had too many.
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

    /// How often it was the reason.
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

    /// A short name, such as `malformed`: that of its counter.
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

/// All watchers of a client or server.
#[derive(Clone, Default)]
pub(crate) struct Watchers(Vec<Arc<dyn Watcher>>);

impl Watchers {
    pub(crate) fn add(&mut self, watcher: impl Watcher) {
        self.0.push(Arc::new(watcher));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn tell(&self, notice: &Notice<'_>) {
        self.0.iter().for_each(|watcher| watcher.notice(notice));
    }
}

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} watchers", self.0.len())
    }
}
