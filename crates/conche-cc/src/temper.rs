//! temper, conche's own controller: a loss timer, a delay gate and a floor, without change on the
//! wire.
//!
//! A single loss is repaired fast; where losses are rare, a second one in a row is an outage, and
//! the *span* spreads further retransmissions over it. A round-trip time above its minimum is a
//! queue: the *gate* makes a sender that waits for each response pause. If its variation resembles
//! collisions, the *floor* raises the timeout to an unmeasured sender's. An ambiguous
//! acknowledgement one round trip after the last transmission answers that, after a loss; any other
//! answers the original, late, and bounds the round-trip time.
//!
//! Source: this crate; `docs/controllers/temper.md` gives reasons, effects, and the requirements of
//! RFC 8085 and RFC 8961. Divergences from RFC 8961 §4: three ambiguous exchanges in a row do not
//! back off (4), see [`Temper::grace`]; a late answer is an upper bound in the estimate (2d).

use core::time::Duration;

use crate::backoff::{Timer, bounded, dithered, part};
use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::features::Features;
use crate::non::paced_by_rto;
use crate::parameters::Range;
use crate::path::{GRACE, MAX_DOUBLINGS, PathState, Share};
use crate::path_history::PathHistory;
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// Loss timer, delay gate and floor.
///
/// ```
/// use conche_cc::temper::Temper;
/// use conche_cc::units::Factor;
///
/// let temper = Temper::default();
/// assert_eq!(temper.backoff, Factor::TWO);
/// // Each ambiguous exchange doubles the RTO (RFC 8961 §4 (4)).
/// let strict = Temper { grace: 0, ..temper };
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
    /// Backoff factor.
    pub backoff: Factor,
    /// Minimum excess of the RTO over SRTT. Twice this time counts as the hosts' own delay.
    pub clock_granularity: Duration,
    /// Maximum random excess of a first timeout over the RTO, in SRTTs.
    pub dither: Factor,
    /// Gate: time between the starts of exchanges in queueing delays; pauses of less than a
    /// millisecond are ignored. Zero disables it.
    pub gate: Factor,
    /// Floor: minimum first timeout among collisions, randomised as without a sample, in proportion
    /// to the round-trip time's inflation from 0 to 1, and divided by the square of the outstanding
    /// exchanges, which delay each other.
    pub floor: Duration,
    /// Minimum ratio of RTTVAR to SRTT's excess over the minimum among collisions; ratios above
    /// 13/16 of it count in part. Zero: no collisions.
    pub collisions: Factor,
    /// Minimum time from an exchange's start to its fourth retransmission: two losses in a row are
    /// an outage or collisions, which last. Less than MAX_TRANSMIT_SPAN (RFC 7252 §4.8.2), after
    /// which nothing leaves. Zero disables it.
    pub span: Duration,
    /// Minimum share of exchanges with losses that sets `span` to zero, except among collisions.
    pub usual_losses: Factor,
    /// Ambiguous exchanges in a row before the RTO doubles; zero conforms to RFC 8961 §4 (4).
    pub grace: u8,
}

impl Default for Temper {
    fn default() -> Self {
        Self {
            ack_timeout: Duration::from_secs(2),
            ack_random_factor: Factor::ONE_AND_HALF,
            max_timeout: Duration::from_secs(60),
            backoff: Factor::TWO,
            clock_granularity: Duration::from_millis(10),
            dither: Factor::QUARTER,
            gate: Factor::from_permille(6_000),
            floor: Duration::from_secs(2),
            collisions: Factor::from_permille(690),
            span: Duration::from_secs(44),
            usual_losses: Factor::from_permille(90),
            grace: GRACE,
        }
    }
}

/// Minimum excess of the RTO over SRTT, in 1/2^n of SRTT: a queue that was empty for a while may grow.
const MARGIN_SHIFT: u8 = 3;
/// Minimum first timeout by old measurements, before randomisation, up to 1 s as in
/// draft-ietf-core-cocoa-03 §4.3.
const MIN_OLD_SRTTS: u32 = 4;
const MAX_OLD_TIMEOUT: Micros = Micros::from_millis(1_000);
/// RTTVARs of queueing delay that are jitter.
const JITTER_RTTVARS: u32 = 2;
/// Maximum pause in RTOs: a forged early answer must not close the gate.
const MAX_PAUSE_RTOS: u32 = 2;

/// Per-peer state: 36 bytes.
pub type TemperPeer = PathState;

impl Temper {
    fn timer(&self, peer: &TemperPeer) -> Micros {
        let Some(srtt) = peer.estimator.srtt() else {
            return self.bounded(peer.provisional().unwrap_or(self.ack_timeout.into()));
        };
        let margin = srtt.shifted(MARGIN_SHIFT).max(self.clock_granularity.into());
        self.bounded(peer.estimator.rto(4).max(srtt.plus(margin)))
    }

    fn max_doubt(&self) -> u8 {
        self.grace.saturating_add(MAX_DOUBLINGS)
    }

    /// Before randomisation and the floor.
    fn rto(&self, peer: &TemperPeer) -> Micros {
        let doublings = peer.doubt.saturating_sub(self.grace).min(MAX_DOUBLINGS);
        self.bounded(self.timer(peer).times(1 << doublings))
    }

    fn hosts_delay(&self) -> Micros {
        Micros::from(self.clock_granularity).times(2)
    }

    fn collisions(&self, peer: &TemperPeer) -> Share {
        peer.collisions(self.hosts_delay(), self.collisions)
    }

    fn floor(&self, peer: &TemperPeer, others: u16) -> Micros {
        let inflated = peer.inflation(self.hosts_delay()).of(self.floor.into());
        self.collisions(peer).of(inflated).divided(squared(others))
    }

    fn initial(&self, peer: &TemperPeer) -> Micros {
        self.bounded(self.rto(peer).max(self.floor(peer, 0)))
    }

    fn first(&self, peer: &TemperPeer, others: u16, is_old: bool, random: u32) -> Micros {
        let rto = self.rto(peer);
        match peer.estimator.srtt() {
            None => dithered(rto, self.ack_random_factor, random),
            Some(srtt) => {
                let old = if is_old { srtt.times(MIN_OLD_SRTTS).min(MAX_OLD_TIMEOUT) } else { Micros::ZERO };
                let floor = dithered(self.floor(peer, others).max(old), self.ack_random_factor, random);
                rto.plus(part(srtt.scaled(self.dither), random)).max(floor)
            }
        }
    }

    /// Returns the minimum timeout before the next retransmission: an unmeasured sender's, and before
    /// the fourth the rest of the span.
    fn min_timeout(&self, peer: &TemperPeer, flight: &TemperFlight, attempt: u8) -> Micros {
        let unmeasured = Micros::from(self.ack_timeout).scaled(self.backoff);
        let least = match attempt {
            1 => unmeasured,
            2 => unmeasured.scaled(self.backoff),
            3 => Micros::MAX,
            _ => Micros::ZERO,
        };
        let left = Micros::from(self.span).minus(flight.elapsed);
        peer.rarity_of_losses(self.usual_losses).max(self.collisions(peer)).of(least.min(left))
    }

    /// Returns the maximum doubled timeout. After the last retransmission of RFC 7252 an exchange
    /// fails within MAX_TRANSMIT_WAIT (§4.8.2), although the span makes the timeout before it long.
    fn max_backoff(&self, flight: &TemperFlight, attempt: u8) -> Micros {
        let max_transmit_wait = Micros::from(self.ack_timeout).scaled(self.ack_random_factor).times(31);
        let is_last = attempt == 4 && flight.elapsed <= self.span.into();
        let left = if is_last { max_transmit_wait.minus(flight.elapsed) } else { Micros::MAX };
        left.min(self.max_timeout.into())
    }

    fn pause(&self, peer: &TemperPeer, others: u16) -> Micros {
        let Some((srtt, rttvar)) = peer.estimator.srtt().zip(peer.estimator.rttvar()) else { return Micros::ZERO };
        let queueing_delay = peer.queueing_delay().minus(rttvar.times(JITTER_RTTVARS));
        let longest = self.timer(peer).times(MAX_PAUSE_RTOS);
        let pause = queueing_delay.scaled(self.gate).minus(srtt).min(longest).divided(squared(others));
        // Below the timers' resolution.
        if pause < Micros::MILLISECOND { Micros::ZERO } else { pause }
    }

    fn ended(&self, peer: &mut TemperPeer, flight: &TemperFlight, now: Instant) {
        if flight.timer.armed().is_some() {
            peer.ended(now);
        }
    }

    fn bounded(&self, timer: Micros) -> Micros {
        bounded(timer, self.max_timeout.into())
    }
}

fn squared(others: u16) -> u32 {
    (u32::from(others) + 1).saturating_pow(2)
}

/// Per-exchange state: 12 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TemperFlight {
    timer: Timer,
    /// Sum of all timeouts.
    elapsed: Micros,
    began_unmeasured: bool,
}

crate::parameters! {
    Temper {
        "ack_timeout" => ack_timeout, Range::millis(1, 60_000),
            "unmeasured first timeout before randomisation", "RFC 7252 §4.8";
        "ack_random_factor" => ack_random_factor, Range::permille(1_000, 10_000),
            "maximum unmeasured first timeout, in ack_timeouts", "RFC 7252 §4.8";
        "max_timeout" => max_timeout, Range::millis(1_000, 600_000), "maximum RTO and timeout", "conche";
        "backoff" => backoff, Range::permille(1_000, 10_000), "backoff factor", "RFC 8961 §4 (4)";
        "clock_granularity" => clock_granularity, Range::millis(0, 10_000),
            "minimum excess of the RTO over SRTT", "RFC 6298 §2.3";
        "dither" => dither, Range::permille(0, 10_000),
            "maximum random excess of a first timeout over the RTO, in SRTTs", "conche";
        "gate" => gate, Range::permille(0, 60_000),
            "time between the starts of exchanges in queueing delays; 0 disables it", "conche";
        "floor" => floor, Range::millis(0, 60_000), "minimum first timeout among collisions; 0s disables it", "conche";
        "collisions" => collisions, Range::permille(0, 60_000),
            "minimum ratio of RTTVAR to SRTT's excess over the minimum among collisions; 0: no collisions", "conche";
        "span" => span, Range::millis(0, 44_000),
            "minimum time from the start to the fourth retransmission; 0s disables it", "conche; RFC 7252 §4.8.2";
        "usual_losses" => usual_losses, Range::permille(0, 1_000),
            "minimum share of exchanges with losses that sets span to zero, except among collisions", "conche";
        "grace" => grace, Range::count(0, 31),
            "ambiguous exchanges in a row before the RTO doubles", "conche; RFC 8961 §4 (4)";
    }
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "temper: fast repair of single losses, late retransmissions, pauses for queues, a floor for collisions",
    strong_rtt: true,
    weak_rtt: Some(u8::MAX),
    dithering: "blind [1, 1.5], else RTO + SRTT·[0, 1/4]",
    backoff: "binary; where losses are rare, spread over 44 s",
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
        let pause = if peer.is_open_loop() { Micros::ZERO } else { self.pause(peer, load.exchanges) };
        let earliest = peer.last_activity(now) + Duration::from(pause);
        if now >= earliest { Admission::Send } else { Admission::At(earliest) }
    }

    fn sent(&self, peer: &mut TemperPeer, flight: &mut TemperFlight, event: &Sent) -> Duration {
        let begins = event.confirmable && (event.attempt == 0 || flight.timer.armed().is_none());
        let is_old = event.confirmable && event.load.exchanges == 0 && peer.is_old(event.now);
        if begins {
            (flight.elapsed, flight.began_unmeasured) = (Micros::ZERO, peer.estimator.is_unmeasured());
            peer.started(event.now);
        }
        let first = || self.first(peer, event.load.exchanges, is_old, event.random);
        let mut armed = flight.timer.arm(event, first, self.backoff, self.max_backoff(flight, event.attempt));
        if !event.confirmable {
            return armed;
        }
        if !begins {
            let least =
                if flight.began_unmeasured { Micros::ZERO } else { self.min_timeout(peer, flight, event.attempt) };
            armed = flight.timer.raise(least, self.max_timeout.into());
        }
        flight.elapsed = flight.elapsed.plus(armed.into());
        armed
    }

    fn expired(&self, _peer: &mut TemperPeer, _flight: &mut TemperFlight, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut TemperPeer, flight: &TemperFlight, event: &Acknowledged<'_>) {
        peer.acknowledged(event, self.max_doubt());
        peer.adapt_min_rtt();
        self.ended(peer, flight, event.now);
    }

    fn abandoned(&self, peer: &mut TemperPeer, flight: &TemperFlight, event: &Abandoned<'_>) {
        if flight.timer.armed().is_some() {
            peer.abandoned(event, self.grace, self.max_doubt());
        }
        self.ended(peer, flight, event.now);
    }

    fn drained(&self, peer: &mut TemperPeer, now: Instant, load: &Load) {
        if load.exchanges == 0 {
            peer.resumed(now);
        }
    }

    fn base(&self, peer: &mut TemperPeer, _now: Instant) -> Duration {
        self.initial(peer).into()
    }

    fn snapshot(&self, peer: &TemperPeer) -> Snapshot {
        peer.estimator.snapshot(self.initial(peer))
    }
}

#[cfg(test)]
mod tests;
