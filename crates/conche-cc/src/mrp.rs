//! MRP: Matter's Message Reliability Protocol.
//!
//! Source: Matter Core Specification §4.11 (tables 21 and 22), as in connectedhomeip's
//! `ReliableMessageMgr`. Transmission k, from 0, waits 1.1·i · 1.6^max(0, k - 1) · (1 + u/4), with
//! u drawn for each transmission and i = 300 ms while the peer is active, having sent a message
//! within 4 s, or 500 ms otherwise. Nothing is measured. Five transmissions are MAX_RETRANSMIT's
//! default.
//!
//! Resolutions:
//! - i is chosen at each transmission, as in connectedhomeip. As u is drawn anew too, **timeouts
//!   may shrink within an exchange**;
//! - a controller sees acknowledgements, responses and Resets, not a peer's requests: those do not
//!   make it active;
//! - connectedhomeip adds [`Mrp::sender_boost`] to each timeout, over Thread 500 ms to i = 800 ms;
//! - timeouts stop at 60 s.

use core::time::Duration;

use crate::backoff::{bounded, part};
use crate::control::{AbandonReason, Abandoned, Acknowledged, Sent};
use crate::features::Features;
use crate::parameters::Range;
use crate::rule::{RtoRule, RuleFlight};
use crate::time::Instant;
use crate::units::{Factor, Micros, Stamp};

/// Matter's MRP.
///
/// ```
/// use conche_cc::mrp::Mrp;
/// use core::time::Duration;
///
/// let interval = Duration::from_millis(800);
/// let thread = Mrp {
///     active_interval: interval,
///     idle_interval: interval,
///     sender_boost: Duration::from_millis(500),
///     ..Mrp::default()
/// };
/// assert_eq!(thread.backoff_base.permille(), 1_600);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mrp {
    /// SESSION_ACTIVE_INTERVAL: i of an active peer.
    pub active_interval: Duration,
    /// SESSION_IDLE_INTERVAL: i of an idle peer.
    pub idle_interval: Duration,
    /// SESSION_ACTIVE_THRESHOLD: a peer is active for this time after its last message.
    pub active_threshold: Duration,
    /// MRP_BACKOFF_MARGIN.
    pub backoff_margin: Factor,
    /// MRP_BACKOFF_BASE: growth of timeouts.
    pub backoff_base: Factor,
    /// MRP_BACKOFF_THRESHOLD: retransmissions before timeouts grow.
    pub backoff_threshold: u8,
    /// MRP_BACKOFF_JITTER: maximum randomisation in timeouts.
    pub backoff_jitter: Factor,
    /// Addition to each timeout.
    pub sender_boost: Duration,
    /// Maximum timeout.
    pub max_timeout: Duration,
}

impl Default for Mrp {
    fn default() -> Self {
        Self {
            active_interval: Duration::from_millis(300),
            idle_interval: Duration::from_millis(500),
            active_threshold: Duration::from_secs(4),
            backoff_margin: Factor::from_permille(1_100),
            backoff_base: Factor::from_permille(1_600),
            backoff_threshold: 1,
            backoff_jitter: Factor::QUARTER,
            sender_boost: Duration::ZERO,
            max_timeout: Duration::from_secs(60),
        }
    }
}

impl Mrp {
    fn interval(&self, peer: &MrpPeer) -> Micros {
        let interval = if peer.is_active { self.active_interval } else { self.idle_interval };
        Micros::from(interval).scaled(self.backoff_margin)
    }

    fn timeout(&self, peer: &MrpPeer, sent: &Sent) -> Micros {
        let steps = self.backoff_threshold..sent.attempt;
        let backed_off = steps.fold(self.interval(peer), |timeout, _| timeout.scaled(self.backoff_base));
        let jitter = part(backed_off.scaled(self.backoff_jitter), sent.random);
        self.boosted(backed_off.plus(jitter))
    }

    fn boosted(&self, timeout: Micros) -> Micros {
        bounded(timeout.plus(self.sender_boost.into()), self.max_timeout.into())
    }
}

/// Per-peer state: 5 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct MrpPeer {
    /// Time of the last message, if the peer is active.
    heard: Stamp,
    is_active: bool,
}

impl MrpPeer {
    fn heard_at(now: Instant) -> Self {
        Self { heard: Stamp::at(now), is_active: true }
    }
}

crate::parameters! {
    Mrp {
        "active_interval" => active_interval, Range::millis(1, 3_600_000), "i of an active peer", "Matter §4.11.8";
        "idle_interval" => idle_interval, Range::millis(1, 3_600_000), "i of an idle peer", "Matter §4.11.8";
        "active_threshold" => active_threshold, Range::millis(0, 65_535),
            "time for which a peer is active after its last message", "Matter §4.11.8";
        "backoff_margin" => backoff_margin, Range::permille(1_000, 10_000), "first timeout in i", "Matter §4.11.8";
        "backoff_base" => backoff_base, Range::permille(1_000, 10_000), "growth of timeouts", "Matter §4.11.8";
        "backoff_threshold" => backoff_threshold, Range::count(0, 255),
            "retransmissions before timeouts grow", "Matter §4.11.8";
        "backoff_jitter" => backoff_jitter, Range::permille(0, 10_000),
            "maximum randomisation in timeouts", "Matter §4.11.8";
        "sender_boost" => sender_boost, Range::millis(0, 60_000), "addition to each timeout", "connectedhomeip";
        "max_timeout" => max_timeout, Range::millis(1_000, 600_000), "maximum timeout", "conche";
    }
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "MRP: Matter's timers, 330 or 550 ms, whatever the round-trip time",
    strong_rtt: false,
    weak_rtt: None,
    dithering: "[1, 1.25], each timer",
    backoff: "x1.6 from the second retransmission",
    ageing: "none: an active peer is idle 4 s after its last message",
    reuses_backed_off_rto: false,
    source: "Matter Core Specification §4.11",
    peer_bytes: size_of::<MrpPeer>(),
    flight_bytes: size_of::<RuleFlight<()>>(),
    published_bytes: None,
};

impl RtoRule for Mrp {
    type Peer = MrpPeer;
    type Exchange = ();
    const MEASURES_RTT: bool = false;
    /// Other peers' messages do not make this one active.
    const STARTS_FROM_PATH: bool = false;

    fn new_peer(&self, _now: Instant) -> MrpPeer {
        MrpPeer::default()
    }

    fn age(&self, peer: &mut MrpPeer, now: Instant) {
        let silent_ms = u64::from(peer.heard.age_ms(Stamp::at(now)));
        peer.is_active &= Duration::from_millis(silent_ms) < self.active_threshold;
    }

    fn rto(&self, peer: &MrpPeer) -> Micros {
        self.boosted(self.interval(peer))
    }

    fn first_timeout(&self, peer: &mut MrpPeer, (): &mut (), sent: &Sent) -> Micros {
        self.timeout(peer, sent)
    }

    fn next_timeout(&self, peer: &mut MrpPeer, (): &mut (), _current: Micros, sent: &Sent) -> Micros {
        self.age(peer, sent.now);
        self.timeout(peer, sent)
    }

    fn on_ack(&self, peer: &mut MrpPeer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        *peer = MrpPeer::heard_at(event.now);
    }

    fn on_failure(&self, peer: &mut MrpPeer, _timeout: Option<Micros>, event: &Abandoned<'_>) {
        if event.reason == AbandonReason::Reset {
            *peer = MrpPeer::heard_at(event.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDriver;

    fn timers(drive: &mut TestDriver<'_, Mrp>, u: f64) -> [u64; 5] {
        [drive.start(u), drive.time_out(), drive.time_out(), drive.time_out(), drive.time_out()]
    }

    #[test]
    fn timers_are_those_of_table_21() {
        let mrp = Mrp { idle_interval: Duration::from_millis(300), ..Mrp::default() };
        let mut drive = TestDriver::new(&mrp);
        assert_eq!(timers(&mut drive, 0.0), [330, 330, 528, 844, 1_351]);
        assert_eq!(timers(&mut drive, 1.0), [412, 412, 659, 1_055, 1_689]);
    }

    #[test]
    fn a_peer_is_active_for_four_seconds_after_its_last_message() {
        let mrp = Mrp::default();
        let mut drive = TestDriver::new(&mrp);
        assert_eq!(drive.base(), 550);
        assert_eq!(drive.clean(100), 330);
        drive.wait(3_999);
        assert_eq!(drive.base(), 330);
        drive.wait(1);
        assert_eq!(drive.base(), 550);
        drive.start(0.0);
        assert_eq!(drive.end(AbandonReason::Reset), 330, "a Reset is a message too");
    }

    #[test]
    fn a_peer_that_falls_silent_becomes_idle_within_an_exchange() {
        let mrp = Mrp::default();
        let mut drive = TestDriver::new(&mrp);
        drive.clean(100);
        drive.wait(3_500);
        assert_eq!(timers(&mut drive, 0.0), [330, 330, 880, 1_408, 2_252]);
    }

    #[test]
    fn a_round_trip_time_changes_nothing() {
        let mrp = Mrp::default();
        let mut drive = TestDriver::new(&mrp);
        assert_eq!([drive.clean(1), drive.clean(5_000)], [330, 330]);
    }

    #[test]
    fn over_thread_each_timer_is_half_a_second_longer() {
        let interval = Duration::from_millis(800);
        let boost = Duration::from_millis(500);
        let mrp = Mrp { active_interval: interval, idle_interval: interval, sender_boost: boost, ..Mrp::default() };
        let mut drive = TestDriver::new(&mrp);
        assert_eq!(timers(&mut drive, 0.0), [1_380, 1_380, 1_908, 2_752, 4_104]);
    }

    #[test]
    fn after_weeks_of_silence_a_peer_is_still_idle() {
        let mrp = Mrp::default();
        let mut drive = TestDriver::new(&mrp);
        drive.clean(100);
        drive.wait(10_000);
        assert_eq!(drive.base(), 550);
        drive.wait(u64::from(u32::MAX) - 9_000);
        assert_eq!(drive.base(), 550);
    }
}
