//! [`RtoRule`]: a congestion controller that is a rule for one retransmission timer.
//!
//! Every [`RtoRule`] is a [`Controller`]:
//!
//! - Confirmable messages are never delayed; NSTART and backoff bound them.
//! - Non-confirmable messages are paced by the RTO ([`paced_by_rto`]), unmeasured ones by
//!   `PROBING_RATE` ([`paced_by_probing_rate`]).
//! - Retransmissions leave at once.
//! - A new peer starts from its path's smoothed round-trip time (RFC 9040).
//!
//! Algorithms with a window or pacing implement [`Controller`]: [`bdp`](crate::bdp),
//! [`temper`](crate::temper).
//!
//! ```
//! use conche_cc::backoff::{dithered, grown};
//! use conche_cc::control::{Acknowledged, Sent};
//! use conche_cc::rule::RtoRule;
//! use conche_cc::units::{Factor, Micros};
//! use conche_cc::{Controller, Instant, sample};
//!
//! /// Twice the last round-trip time.
//! struct Twice;
//!
//! const MAX_TIMEOUT: Micros = Micros::from_millis(60_000);
//!
//! impl RtoRule for Twice {
//!     type Peer = Micros; // the RTO
//!     type Exchange = ();
//!     const MEASURES_RTT: bool = true;
//!
//!     fn new_peer(&self, _now: Instant) -> Micros {
//!         Micros::from_millis(2_000)
//!     }
//!
//!     fn rto(&self, peer: &Micros) -> Micros {
//!         *peer
//!     }
//!
//!     fn first_timeout(&self, peer: &mut Micros, _exchange: &mut (), sent: &Sent) -> Micros {
//!         dithered(*peer, Factor::ONE_AND_HALF, sent.random)
//!     }
//!
//!     fn next_timeout(&self, _: &mut Micros, _: &mut (), current: Micros, _: &Sent) -> Micros {
//!         grown(current, Factor::TWO, MAX_TIMEOUT)
//!     }
//!
//!     fn on_ack(&self, peer: &mut Micros, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
//!         if let Some(rtt) = sample::strong_rtt(event) {
//!             *peer = rtt.times(2).min(MAX_TIMEOUT);
//!         }
//!     }
//! }
//!
//! let peer = Twice.peer(Instant::ZERO);
//! assert_eq!(Twice.snapshot(&peer).rto.as_secs(), 2);
//! ```

use core::fmt::Debug;
use core::time::Duration;

use crate::backoff::Timer;
use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::non::{paced_by_probing_rate, paced_by_rto};
use crate::path_history::PathHistory;
use crate::time::Instant;
use crate::units::Micros;

/// A retransmission timer's rule.
///
/// [`Sent::random`], 32 fresh bits with each transmission, is the only randomness. A rule that
/// needs two values splits the bits.
pub trait RtoRule {
    /// State of one destination.
    type Peer: Clone + Debug;
    /// An exchange's state besides its timeout, `()` for most rules; `Default` before the first
    /// transmission.
    type Exchange: Clone + Default + Debug;

    /// Timeouts follow path measurements, see [`Controller::measures_rtt`].
    const MEASURES_RTT: bool;
    /// Whether a new peer starts from [`PathHistory::as_first_sample`].
    const STARTS_FROM_PATH: bool = true;

    /// Returns a destination's state without samples.
    fn new_peer(&self, now: Instant) -> Self::Peer;

    /// Applies due ageing, before [`first_timeout`](Self::first_timeout), [`on_ack`](Self::on_ack),
    /// and [`rto`](Self::rto) except for logs.
    fn age(&self, _peer: &mut Self::Peer, _now: Instant) {}

    /// Returns a new exchange's initial timeout before randomisation.
    fn rto(&self, peer: &Self::Peer) -> Micros;

    /// Returns an original transmission's timeout, randomised with `sent.random`; for a
    /// Non-confirmable message, the wait for a response.
    fn first_timeout(&self, peer: &mut Self::Peer, exchange: &mut Self::Exchange, sent: &Sent) -> Micros;

    /// Returns a retransmission's timeout; `current` has expired.
    fn next_timeout(
        &self,
        peer: &mut Self::Peer,
        exchange: &mut Self::Exchange,
        current: Micros,
        sent: &Sent,
    ) -> Micros;

    /// Takes an exchange's sample, if [`sample`](crate::sample) finds one. `timeout` is a
    /// Confirmable message's last.
    fn on_ack(&self, peer: &mut Self::Peer, timeout: Option<Micros>, event: &Acknowledged<'_>);

    /// Handles an exchange's end without acknowledgement; by default nothing changes.
    fn on_failure(&self, _peer: &mut Self::Peer, _timeout: Option<Micros>, _event: &Abandoned<'_>) {}

    /// Returns estimates for logs and metrics, by default the RTO alone.
    fn report(&self, peer: &Self::Peer) -> Snapshot {
        Snapshot { rto: self.rto(peer).into(), ..Snapshot::default() }
    }
}

/// An exchange's state under a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleFlight<E> {
    timer: Timer,
    exchange: E,
}

impl<R: RtoRule> Controller for R {
    type Peer = R::Peer;
    type Flight = RuleFlight<R::Exchange>;

    fn measures_rtt(&self) -> bool {
        R::MEASURES_RTT
    }

    fn peer(&self, now: Instant) -> R::Peer {
        self.new_peer(now)
    }

    fn seed(&self, now: Instant, history: &PathHistory) -> R::Peer {
        if R::STARTS_FROM_PATH { history.as_first_sample(self, now) } else { self.new_peer(now) }
    }

    fn admit(&self, peer: &mut R::Peer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable {
            return Admission::Send;
        }
        if !R::MEASURES_RTT {
            return paced_by_probing_rate(now, message, &load.non);
        }
        self.age(peer, now);
        paced_by_rto(now, message, &load.non, self.rto(peer))
    }

    fn sent(&self, peer: &mut R::Peer, flight: &mut Self::Flight, event: &Sent) -> Duration {
        let RuleFlight { timer, exchange } = flight;
        let timeout = match timer.expired(event) {
            Some(current) => self.next_timeout(peer, exchange, current, event),
            None => {
                self.age(peer, event.now);
                self.first_timeout(peer, exchange, event)
            }
        };
        timer.set(event, timeout)
    }

    fn expired(&self, _peer: &mut R::Peer, _flight: &mut Self::Flight, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut R::Peer, flight: &Self::Flight, event: &Acknowledged<'_>) {
        self.age(peer, event.now);
        self.on_ack(peer, flight.timer.armed(), event);
    }

    fn abandoned(&self, peer: &mut R::Peer, flight: &Self::Flight, event: &Abandoned<'_>) {
        self.on_failure(peer, flight.timer.armed(), event);
    }

    fn drained(&self, _peer: &mut R::Peer, _now: Instant, _load: &Load) {}

    fn base(&self, peer: &mut R::Peer, now: Instant) -> Duration {
        self.age(peer, now);
        self.rto(peer).into()
    }

    fn snapshot(&self, peer: &R::Peer) -> Snapshot {
        self.report(peer)
    }
}
