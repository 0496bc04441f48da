//! temper, conche's own controller: a loss timer, a delay gate and a floor, without change on the
//! wire.
//!
//! Loss without a queue is a fade, repaired fast. A round-trip time above its minimum is a queue:
//! the *gate* spaces exchanges. Both are a congested radio: the *floor* raises the timeout to an
//! unmeasured sender's. An ambiguous acknowledgement one round trip after the last transmission
//! answers that, after a loss; any other answers the original, late, and bounds the round-trip
//! time.
//!
//! Source: this crate; `docs/controllers/temper.md` gives reasons, effects, and the requirements of
//! RFC 8085 and RFC 8961. Divergences from RFC 8961 §4: *one* ambiguous exchange does not back off
//! (4), see [`Temper::grace`]; a late answer is an upper bound in the estimate (2d), see
//! [`Ambiguity`].

use core::time::Duration;

use crate::backoff::{Timer, bounded, dithered, spread};
use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::features::Features;
use crate::non::paced_by_rto;
use crate::parameters::Range;
pub use crate::path::Ambiguity;
use crate::path::PathState;
use crate::path_history::PathHistory;
use crate::time::Instant;
use crate::units::{Factor, Micros, Stamp};

/// Loss timer, delay gate and floor.
///
/// ```
/// use conche_cc::temper::Temper;
/// use conche_cc::units::Factor;
///
/// let temper = Temper::default();
/// assert_eq!(temper.unmeasured_backoff, Factor::THREE);
/// // RFC 8961's backoff to the letter.
/// let strict = Temper { unmeasured_backoff: Factor::TWO, unmeasured_limit: None, grace: 0, ..temper };
/// assert_ne!(strict, temper);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Temper {
    /// Unmeasured first timeout before randomisation (`ACK_TIMEOUT`, RFC 7252 §4.8).
    pub ack_timeout: Duration,
    /// Maximum unmeasured first timeout, in `ack_timeout`s.
    pub ack_random_factor: Factor,
    /// Maximum RTO and timeout.
    pub max_timeout: Duration,
    /// Backoff factor without a sample. Three avoids filling a full queue.
    pub unmeasured_backoff: Factor,
    /// Maximum timeout before the fourth retransmission to a new peer, in longest first timeouts.
    /// With 5.5, all leave within MAX_TRANSMIT_SPAN (RFC 7252 §4.8.2).
    pub unmeasured_limit: Option<Factor>,
    /// Backoff factor with a sample.
    pub backoff: Factor,
    /// Minimum excess of the RTO over SRTT: clock granularity.
    pub clock_granularity: Duration,
    /// Gate: spacing of exchanges in queueing delays, ignored below a millisecond. Zero disables
    /// it.
    pub gate: Factor,
    /// Maximum spacing in RTOs: a forged early answer must not close the gate.
    pub gate_limit: Factor,
    /// Floor: minimum RTO per mean retransmission. Zero disables it.
    pub floor: Duration,
    /// Minimum first timeout without losses, randomised as without a sample: in a busy radio mesh,
    /// collisions resemble a queue, and an early retransmission adds one. Divided by the square of
    /// the outstanding exchanges, which delay each other. The minimum round-trip time counts as at
    /// least [`clock_granularity`](Self::clock_granularity).
    pub queue_floor: Duration,
    /// Both floors scale with the round-trip time's inflation, from 0 to 1.
    pub floor_follows_inflation: bool,
    /// Minimum timeout of the first retransmission: a second loss is a fade or collision.
    pub first_retransmission: Duration,
    /// Minimum timeout of the second retransmission, doubled with each further one.
    pub later_retransmissions: Duration,
    /// Interpretation of an acknowledgement after a retransmission.
    pub ambiguity: Ambiguity,
    /// Ambiguous exchanges in a row before the RTO doubles; zero conforms to RFC 8961 §4 (4).
    pub grace: u8,
    /// Maximum doubt; limits doublings to `max_doubt - grace`.
    pub max_doubt: u8,
    /// Round trips above the minimum by more than this many RTTVAR are a longer route, not a queue;
    /// the minimum adapts in tens of exchanges. Zero: it only expires.
    pub route_change_rttvars: u8,
}

impl Default for Temper {
    fn default() -> Self {
        Self {
            ack_timeout: Duration::from_secs(2),
            ack_random_factor: Factor::ONE_AND_HALF,
            max_timeout: Duration::from_secs(60),
            unmeasured_backoff: Factor::THREE,
            unmeasured_limit: Some(Factor::from_permille(5_500)),
            backoff: Factor::TWO,
            clock_granularity: Duration::from_millis(10),
            gate: Factor::from_permille(4_000),
            gate_limit: Factor::from_permille(4_000),
            floor: Duration::from_secs(4),
            queue_floor: Duration::from_secs(2),
            floor_follows_inflation: true,
            first_retransmission: Duration::from_millis(750),
            later_retransmissions: Duration::from_secs(3),
            ambiguity: Ambiguity::Likely,
            grace: 1,
            max_doubt: 5,
            route_change_rttvars: 16,
        }
    }
}

/// Per-peer state: 36 bytes.
pub type TemperPeer = PathState;

impl Temper {
    /// Returns the first specification: without `queue_floor`, `route_change_rttvars` and
    /// `unmeasured_limit`.
    #[must_use]
    pub fn first_specified() -> Self {
        Self { queue_floor: Duration::ZERO, route_change_rttvars: 0, unmeasured_limit: None, ..Self::default() }
    }

    fn timer(&self, peer: &TemperPeer) -> Micros {
        let Some(srtt) = peer.estimator.srtt() else {
            return self.bounded(peer.provisional().unwrap_or(self.ack_timeout.into()));
        };
        let spread = peer.estimator.rto(4).max(srtt.plus(self.clock_granularity.into()));
        self.bounded(spread.max(self.floor(peer)))
    }

    fn floor(&self, peer: &TemperPeer) -> Micros {
        self.inflated(peer, peer.retransmissions.times(self.floor.into()), Micros::ZERO)
    }

    fn queue_floor(&self, peer: &TemperPeer, others: u16) -> Micros {
        if peer.estimator.is_unmeasured() {
            return Micros::ZERO;
        }
        self.inflated(peer, Micros::from(self.queue_floor).divided(squared(others)), self.clock_granularity.into())
    }

    fn inflated(&self, peer: &TemperPeer, floor: Micros, least: Micros) -> Micros {
        let in_full = floor == Micros::ZERO || !self.floor_follows_inflation;
        if in_full { floor } else { peer.inflation(least).of(floor) }
    }

    /// Before randomisation and the queue floor.
    fn rto(&self, peer: &TemperPeer) -> Micros {
        let doublings = peer.doubt.saturating_sub(self.grace).min(31);
        self.bounded(self.timer(peer).times(1 << doublings))
    }

    fn initial(&self, peer: &TemperPeer) -> Micros {
        self.bounded(self.rto(peer).max(self.queue_floor(peer, 0)))
    }

    fn first(&self, peer: &TemperPeer, others: u16, random: u32) -> Micros {
        let rto = self.rto(peer);
        match peer.estimator.srtt() {
            None => dithered(rto, self.ack_random_factor, random),
            Some(srtt) => {
                let held = dithered(self.queue_floor(peer, others), self.ack_random_factor, random);
                spread(rto, srtt, random).max(held)
            }
        }
    }

    fn stage(&self, peer: &TemperPeer) -> PeerStage {
        match peer.estimator.is_unmeasured() {
            false => PeerStage::Measured,
            true if self.rto(peer) > Micros::from(self.ack_timeout) => PeerStage::BackedOff,
            true => PeerStage::New,
        }
    }

    fn growth(&self, stage: PeerStage, attempt: u8) -> (Factor, Micros) {
        let longest = self.max_timeout.into();
        match stage {
            PeerStage::Measured => (self.backoff, longest),
            PeerStage::New if attempt < MAX_RETRANSMIT => (self.unmeasured_backoff, longest.min(self.new_peer_cap())),
            PeerStage::New | PeerStage::BackedOff => (self.unmeasured_backoff, longest),
        }
    }

    fn longest_first(&self) -> Micros {
        Micros::from(self.ack_timeout).scaled(self.ack_random_factor)
    }

    fn new_peer_cap(&self) -> Micros {
        self.unmeasured_limit.map_or(Micros::MAX, |factor| self.longest_first().scaled(factor))
    }

    fn min_timeout(&self, attempt: u8) -> Micros {
        match attempt {
            0 | 1 => self.first_retransmission.into(),
            _ => Micros::from(self.later_retransmissions).times(1 << (attempt - 2).min(31)),
        }
    }

    fn gap(&self, peer: &TemperPeer, others: u16) -> Micros {
        let queueing_delay = peer.queueing_delay();
        if queueing_delay == Micros::ZERO {
            return Micros::ZERO;
        }
        let gap =
            queueing_delay.scaled(self.gate).min(self.timer(peer).scaled(self.gate_limit)).divided(squared(others));
        // Below the timers' resolution.
        if gap < Micros::MILLISECOND { Micros::ZERO } else { gap }
    }

    fn bounded(&self, timer: Micros) -> Micros {
        bounded(timer, self.max_timeout.into())
    }
}

fn squared(others: u16) -> u32 {
    (u32::from(others) + 1).saturating_pow(2)
}

/// Per-exchange state: its timer, and its peer's stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TemperFlight {
    timer: Timer,
    stage: PeerStage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PeerStage {
    #[default]
    Measured,
    /// No sample, but an RTO above `ack_timeout` after slow or failed exchanges.
    BackedOff,
    New,
}

/// RFC 7252 §4.8.
const MAX_RETRANSMIT: u8 = 4;

crate::parameters! {
    Temper {
        "ack_timeout" => ack_timeout, Range::millis(1, 60_000),
            "unmeasured first timeout before randomisation", "RFC 7252 §4.8";
        "ack_random_factor" => ack_random_factor, Range::permille(1_000, 10_000),
            "maximum unmeasured first timeout, in ack_timeouts", "RFC 7252 §4.8";
        "max_timeout" => max_timeout, Range::millis(1_000, 600_000), "maximum RTO and timeout", "conche";
        "unmeasured_backoff" => unmeasured_backoff, Range::permille(1_000, 10_000),
            "backoff factor without a sample", "conche";
        "unmeasured_limit" => unmeasured_limit, Range::FactorOrOff(Factor::ONE, Factor::from_permille(60_000)),
            "maximum timeout before the fourth retransmission to a new peer, in longest first timeouts",
            "conche; RFC 7252 §4.8.2";
        "backoff" => backoff, Range::permille(1_000, 10_000), "backoff factor with a sample", "RFC 8961 §4 (4)";
        "clock_granularity" => clock_granularity, Range::millis(0, 10_000),
            "minimum excess of the RTO over SRTT", "RFC 6298 §2.3";
        "gate" => gate, Range::permille(0, 60_000), "spacing of exchanges in queueing delays; 0 disables it", "conche";
        "gate_limit" => gate_limit, Range::permille(0, 60_000), "maximum spacing in RTOs", "conche";
        "floor" => floor, Range::millis(0, 60_000), "minimum RTO per mean retransmission; 0s disables it", "conche";
        "queue_floor" => queue_floor, Range::millis(0, 60_000),
            "minimum first timeout without losses; 0s disables it", "conche";
        "floor_follows_inflation" => floor_follows_inflation, Range::Flag,
            "both floors scale with the inflation of the round-trip time", "conche";
        "first_retransmission" => first_retransmission, Range::millis(0, 60_000),
            "minimum timeout of the first retransmission", "conche";
        "later_retransmissions" => later_retransmissions, Range::millis(0, 60_000),
            "minimum timeout of the second retransmission, doubled with each further one", "conche";
        "ambiguity" => ambiguity, Ambiguity::RANGE,
            "interpretation of an acknowledgement after a retransmission", "conche";
        "grace" => grace, Range::count(0, 31),
            "ambiguous exchanges in a row before the RTO doubles", "conche; RFC 8961 §4 (4)";
        "max_doubt" => max_doubt, Range::count(0, 31), "limits doublings to max_doubt - grace", "conche";
        "route_change_rttvars" => route_change_rttvars, Range::count(0, 255),
            "excess over the minimum round-trip time that is a longer route, in RTTVARs; 0: none", "conche";
    }
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "temper: a fast timer for losses, a gate for queues, a floor where both come together",
    strong_rtt: true,
    weak_rtt: Some(u8::MAX),
    dithering: "blind [1, 1.5], else RTO + SRTT·[1/4, 1]",
    backoff: "blind x3 up to 16.5 s, else binary; copies no sooner than 750 ms, 3 s, 6 s, ...",
    ageing: "none; the least RTT is that of 5 to 10 minutes",
    reuses_backed_off_rto: false,
    source: "conche",
    peer_bytes: size_of::<TemperPeer>(),
    flight_bytes: size_of::<TemperFlight>(),
    published_bytes: None,
};

impl Controller for Temper {
    type Peer = TemperPeer;
    type Flight = TemperFlight;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, _now: Instant) -> TemperPeer {
        TemperPeer::default()
    }

    fn seed(&self, now: Instant, history: &PathHistory) -> TemperPeer {
        history.path(now)
    }

    fn admit(&self, peer: &mut TemperPeer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if !message.confirmable {
            return paced_by_rto(now, message, &load.non, self.rto(peer));
        }
        let gap = self.gap(peer, load.exchanges);
        if gap == Micros::ZERO {
            return Admission::Send;
        }
        let earliest = peer.last_start.instant(now) + Duration::from(gap);
        if now >= earliest { Admission::Send } else { Admission::At(earliest) }
    }

    fn sent(&self, peer: &mut TemperPeer, flight: &mut TemperFlight, event: &Sent) -> Duration {
        let begins = event.confirmable && (event.attempt == 0 || flight.timer.armed().is_none());
        if begins {
            flight.stage = self.stage(peer);
            peer.last_start = Stamp::at(event.now);
        }
        let (factor, longest) = self.growth(flight.stage, event.attempt);
        let first = || self.first(peer, event.load.exchanges, event.random);
        let armed = flight.timer.arm(event, first, factor, longest);
        if begins || !event.confirmable {
            return armed;
        }
        flight.timer.raise(self.min_timeout(event.attempt), self.max_timeout.into())
    }

    fn expired(&self, _peer: &mut TemperPeer, _flight: &mut TemperFlight, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut TemperPeer, _flight: &TemperFlight, event: &Acknowledged<'_>) {
        peer.acknowledged(event, self.ambiguity, self.max_doubt);
        peer.adapt_min_rtt(self.route_change_rttvars.into());
    }

    fn abandoned(&self, peer: &mut TemperPeer, flight: &TemperFlight, event: &Abandoned<'_>) {
        if flight.timer.armed().is_some() {
            peer.abandoned(event, self.max_doubt);
        }
    }

    fn drained(&self, _peer: &mut TemperPeer, _now: Instant, _load: &Load) {}

    fn base(&self, peer: &mut TemperPeer, _now: Instant) -> Duration {
        self.initial(peer).into()
    }

    fn snapshot(&self, peer: &TemperPeer) -> Snapshot {
        peer.estimator.snapshot(self.initial(peer))
    }
}

#[cfg(test)]
mod tests;
