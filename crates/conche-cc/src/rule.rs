//! [`RtoRule`]: a congestion controller that is a rule for one retransmission timer.
//!
//! Most published algorithms only compute the retransmission timeout (RTO) of CoAP's message
//! layer. A type that implements [`RtoRule`] holds that computation and nothing else. This module
//! implements [`Controller`] for every such type, with the parts that these algorithms share:
//!
//! - Confirmable messages are never delayed; NSTART bounds them and backoff slows them down.
//! - Non-confirmable messages are paced by the RTO ([`paced_by_rto`]), or by `PROBING_RATE`
//!   ([`paced_by_probing_rate`]) under a rule that does not measure.
//! - A retransmission leaves as soon as its timer expires.
//! - A new peer starts from the smoothed round-trip time of its path (RFC 9040).
//!
//! An algorithm with a window or pacing implements [`Controller`] instead, as [`bdp`](crate::bdp)
//! and [`temper`](crate::temper) do.
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

/// A rule for the retransmission timer of a peer; every rule is a [`Controller`].
///
/// A rule is deterministic. Its only randomness is [`Sent::random`], which is drawn anew for each
/// transmission. A rule that does not use it gives two clients that start together the same
/// timers. The names of the methods differ from those of [`Controller`], so that both traits can
/// be in scope.
pub trait RtoRule {
    /// State of one destination.
    type Peer: Clone + Debug;
    /// State of one exchange beside its current timeout, `()` for most rules. `Default` is the
    /// state before the first transmission.
    type Exchange: Clone + Default + Debug;

    /// Timeouts follow measurements of the path, see [`Controller::measures_rtt`].
    const MEASURES_RTT: bool;
    /// A new peer takes the smoothed round-trip time of its path as its first sample, see
    /// [`PathHistory::as_first_sample`].
    const STARTS_FROM_PATH: bool = true;

    /// Returns the state of a destination without any sample.
    fn new_peer(&self, now: Instant) -> Self::Peer;

    /// Applies the ageing of idle state that is due. It precedes
    /// [`first_timeout`](Self::first_timeout), [`on_ack`](Self::on_ack), and
    /// [`rto`](Self::rto) unless that is for logs.
    fn age(&self, _peer: &mut Self::Peer, _now: Instant) {}

    /// Returns the timeout that a new exchange would start from, before randomisation.
    fn rto(&self, peer: &Self::Peer) -> Micros;

    /// Returns the timeout of an original transmission, randomised with `sent.random`. For a
    /// Non-confirmable message it is the time to wait for a response.
    fn first_timeout(&self, peer: &mut Self::Peer, exchange: &mut Self::Exchange, sent: &Sent) -> Micros;

    /// Returns the timeout of a retransmission, after the `current` one expired.
    fn next_timeout(
        &self,
        peer: &mut Self::Peer,
        exchange: &mut Self::Exchange,
        current: Micros,
        sent: &Sent,
    ) -> Micros;

    /// Takes the sample of an acknowledged exchange; the module [`sample`](crate::sample) decides
    /// whether it gives one. `timeout` is the last timeout of a Confirmable message.
    fn on_ack(&self, peer: &mut Self::Peer, timeout: Option<Micros>, event: &Acknowledged<'_>);

    /// Handles an exchange that ended without an acknowledgement. By default it changes nothing.
    fn on_failure(&self, _peer: &mut Self::Peer, _timeout: Option<Micros>, _event: &Abandoned<'_>) {}

    /// Returns the estimates for logs and metrics, by default the RTO alone.
    fn report(&self, peer: &Self::Peer) -> Snapshot {
        Snapshot { rto: self.rto(peer).into(), ..Snapshot::default() }
    }
}

/// State of one exchange under a rule: its current timeout, and the state of the rule.
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
