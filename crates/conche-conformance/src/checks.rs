//! [`Check`]: the suite's checks by name, and the algorithms to which each applies.

use core::fmt;
use core::time::Duration;

use conche_cc::control::{AbandonReason, Abandoned, AckKind, AckedCopy, Acknowledged, Expired, Load, Sent};
use conche_cc::features::Features;
use conche_cc::{Controller, Instant};

use crate::{Bounds, quiet, suite};

/// A property of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Timers lie between a millisecond and the cap, RTOs do not exceed it, backoff does not
    /// shrink, admission cannot deadlock, queries change nothing, equal events give equal results.
    KeepsItsPromises,
    /// After any events, 200 answered exchanges bring the RTO back to at most 2 s.
    Recovers,
    /// The rate falls at least by half under total loss.
    SlowsDown,
    /// At round-trip times of 2 ms, 200 ms, 2 s and 8 s, the RTO is at least the round-trip time,
    /// and at most 2 s or five round trips.
    RtoFollowsRtt,
    /// Total loss raises the RTO by at most a quarter after 200 answered exchanges.
    BackoffDecays,
    /// Acknowledgements shortly after a retransmission, which may answer the original, do not take
    /// the RTO below the round-trip time (Karn's algorithm).
    AmbiguousAcksDoNotShrinkTheRto,
    /// Exchanges with a retransmission give no sample.
    RetransmissionsGiveNoSample,
    /// The first timeout is randomised.
    Dithers,
    /// Exchanges with one peer change nothing for another.
    KeepsPeersApart,
    /// The RTO of a peer with short round trips grows while idle.
    AgesWhileIdle,
}

/// Round-trip times of the checks.
const RTTS: [Duration; 4] =
    [Duration::from_millis(2), Duration::from_millis(200), Duration::from_secs(2), Duration::from_secs(8)];
/// RTO of an unmeasured peer (RFC 7252 §4.8, ACK_TIMEOUT).
const INITIAL_RTO: Duration = Duration::from_secs(2);

impl Check {
    /// All checks.
    pub const ALL: [Self; 10] = [
        Self::KeepsItsPromises,
        Self::Recovers,
        Self::SlowsDown,
        Self::RtoFollowsRtt,
        Self::BackoffDecays,
        Self::AmbiguousAcksDoNotShrinkTheRto,
        Self::RetransmissionsGiveNoSample,
        Self::Dithers,
        Self::KeepsPeersApart,
        Self::AgesWhileIdle,
    ];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KeepsItsPromises => "keeps_its_promises",
            Self::Recovers => "recovers",
            Self::SlowsDown => "slows_down_under_total_loss",
            Self::RtoFollowsRtt => "rto_follows_rtt",
            Self::BackoffDecays => "backoff_decays",
            Self::AmbiguousAcksDoNotShrinkTheRto => "ambiguous_acks_do_not_shrink_the_rto",
            Self::RetransmissionsGiveNoSample => "retransmissions_give_no_sample",
            Self::Dithers => "dithers",
            Self::KeepsPeersApart => "keeps_peers_apart",
            Self::AgesWhileIdle => "ages_while_idle",
        }
    }

    /// Returns why an algorithm with these features is exempt, if it is.
    #[must_use]
    pub fn exemption(self, features: &Features) -> Option<&'static str> {
        let is_frozen = features.dithering.starts_with("until measured");
        match self {
            Self::Recovers if is_frozen => Some("the RTO is frozen at the first round-trip time"),
            Self::SlowsDown if features.backoff.starts_with("none") => Some("retransmissions do not back off"),
            Self::RtoFollowsRtt if !features.strong_rtt => Some("the RTO does not depend on the round-trip time"),
            Self::RetransmissionsGiveNoSample if !features.strong_rtt || features.weak_rtt.is_some() => {
                Some("weak round-trip times are samples, or nothing is measured")
            }
            Self::Dithers if features.dithering == "none" => Some("timeouts are not randomised"),
            Self::AgesWhileIdle if features.ageing == "-" || features.ageing.starts_with("none") => {
                Some("the RTO does not age")
            }
            _ => None,
        }
    }

    /// Runs the check, whether or not it applies.
    ///
    /// # Panics
    /// If the controller violates it.
    pub fn run<C: Controller>(self, controller: &C, bounds: Bounds) {
        match self {
            Self::KeepsItsPromises => suite::keeps_its_promises(controller, bounds),
            Self::Recovers => suite::recovers(controller, bounds),
            Self::SlowsDown => suite::slows_down_under_total_loss(controller),
            Self::RtoFollowsRtt => rto_follows_rtt(controller),
            Self::BackoffDecays => backoff_decays(controller),
            Self::AmbiguousAcksDoNotShrinkTheRto => ambiguous_acks_do_not_shrink_the_rto(controller),
            Self::RetransmissionsGiveNoSample => retransmissions_give_no_sample(controller),
            Self::Dithers => dithers(controller),
            Self::KeepsPeersApart => keeps_peers_apart(controller),
            Self::AgesWhileIdle => ages_while_idle(controller),
        }
    }
}

/// A violated check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Check.
    pub check: Check,
    /// Expectation and result, or the shortest plan of events that fails.
    pub problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check.name(), self.problem)
    }
}

/// Runs all checks that apply, and returns the violated ones.
pub fn violations<C: Controller>(controller: &C, features: &Features, bounds: Bounds) -> Vec<Violation> {
    let run = |check: Check| {
        let problem = quiet::panic_message(|| check.run(controller, bounds))?;
        Some(Violation { check, problem })
    };
    Check::ALL.into_iter().filter(|check| check.exemption(features).is_none()).filter_map(run).collect()
}

struct Peer<'a, C: Controller> {
    controller: &'a C,
    state: C::Peer,
    now: Instant,
    draws: u32,
}

impl<'a, C: Controller> Peer<'a, C> {
    fn new(controller: &'a C) -> Self {
        let now = Instant::from_millis(1_000);
        Self { controller, state: controller.peer(now), now, draws: 0 }
    }

    /// Returns a peer after 200 exchanges without retransmission, too short for ageing.
    fn settled(controller: &'a C, rtt: Duration) -> Self {
        let mut peer = Self::new(controller);
        peer.answered(200, rtt);
        peer
    }

    fn rto(&mut self) -> Duration {
        self.controller.base(&mut self.state, self.now)
    }

    fn transmit(&mut self, flight: &mut C::Flight, attempt: u8, random: u32) -> Duration {
        let (now, load) = (self.now, Load::default());
        let event = Sent { now, attempt, confirmable: true, bytes: 60, random, load };
        self.controller.sent(&mut self.state, flight, &event)
    }

    fn first_timeout(&mut self, random: u32) -> Duration {
        self.transmit(&mut C::Flight::default(), 0, random)
    }

    /// Answers transmission number `lost` after `rtt`; `None` for five unanswered ones.
    fn exchange(&mut self, answered: Option<(u8, Duration)>) {
        let (mut flight, mut sent) = (C::Flight::default(), Vec::new());
        let (last, rtt) = answered.map_or((4, None), |(last, rtt)| (last, Some(rtt)));
        for attempt in 0..=last {
            // Weyl's sequence covers the range evenly.
            self.draws = self.draws.wrapping_add(0x9E37_79B9);
            sent.push(self.now);
            let timer = self.transmit(&mut flight, attempt, self.draws);
            if let Some(rtt) = rtt.filter(|_| attempt == last) {
                self.now += rtt;
                let copy = if last == 0 { AckedCopy::Exact(0) } else { AckedCopy::Unknown };
                let (now, kind, load) = (self.now, AckKind::Piggybacked, Load::default());
                let event = Acknowledged { now, sent: &sent, copy, kind, load };
                self.controller.acknowledged(&mut self.state, &flight, &event);
                return;
            }
            self.now += timer;
            if attempt < last {
                let event = Expired { now: self.now, attempt, load: Load::default() };
                self.now = self.controller.expired(&mut self.state, &mut flight, &event);
            }
        }
        let (now, reason, load) = (self.now, AbandonReason::GaveUp, Load::default());
        let event = Abandoned { now, reason, sent: &sent, load };
        self.controller.abandoned(&mut self.state, &flight, &event);
    }

    fn answered(&mut self, exchanges: usize, rtt: Duration) {
        for _ in 0..exchanges {
            self.exchange(Some((0, rtt)));
            self.now += rtt;
        }
    }

    fn unanswered(&mut self, exchanges: usize) {
        for _ in 0..exchanges {
            self.exchange(None);
        }
    }
}

fn rto_follows_rtt<C: Controller>(controller: &C) {
    for rtt in RTTS {
        let rto = Peer::settled(controller, rtt).rto();
        let most = INITIAL_RTO.max(rtt * 5);
        assert!(
            rto >= rtt && rto <= most,
            "after 200 round trips of {rtt:?} the RTO is {rto:?}, not {rtt:?} to {most:?}"
        );
    }
}

fn backoff_decays<C: Controller>(controller: &C) {
    for rtt in RTTS {
        let expected = Peer::settled(controller, rtt).rto();
        let mut peer = Peer::settled(controller, rtt);
        peer.unanswered(5);
        peer.answered(200, rtt);
        let (rto, most) = (peer.rto(), expected + expected / 4);
        assert!(
            rto <= most,
            "5 unanswered exchanges and 200 round trips of {rtt:?} leave an RTO of {rto:?}; without the former it is \
             {expected:?}"
        );
    }
}

fn ambiguous_acks_do_not_shrink_the_rto<C: Controller>(controller: &C) {
    let rtt = Duration::from_secs(1);
    let mut peer = Peer::settled(controller, rtt);
    let before = peer.rto();
    for _ in 0..40 {
        peer.exchange(Some((1, Duration::from_millis(10))));
    }
    let after = peer.rto();
    assert!(
        after >= before.min(rtt),
        "40 acknowledgements 10 ms after a retransmission take the RTO from {before:?} to {after:?}, below the \
         round-trip time of {rtt:?}"
    );
}

fn retransmissions_give_no_sample<C: Controller>(controller: &C) {
    let rtt = Duration::from_millis(100);
    let mut peer = Peer::settled(controller, rtt);
    peer.answered(1, rtt);
    let expected = peer.rto();
    for _ in 0..20 {
        peer.exchange(Some((1, rtt)));
    }
    peer.answered(1, rtt);
    let (rto, most) = (peer.rto(), expected + expected / 4);
    assert!(
        rto <= most,
        "20 exchanges with a retransmission and one without take the RTO from {expected:?} to {rto:?}; all round \
         trips take {rtt:?}"
    );
}

fn dithers<C: Controller>(controller: &C) {
    let (least, most) = (Peer::new(controller).first_timeout(0), Peer::new(controller).first_timeout(u32::MAX));
    assert!(
        most >= least + least / 10,
        "the first timeout is {least:?} with the smallest random number and {most:?} with the largest"
    );
}

fn keeps_peers_apart<C: Controller>(controller: &C) {
    let mut one = Peer::settled(controller, RTTS[0]);
    let before = (one.rto(), one.first_timeout(7));
    let mut other = Peer::settled(controller, RTTS[3]);
    other.unanswered(3);
    let after = (one.rto(), one.first_timeout(7));
    assert_eq!(before, after, "exchanges with another peer change RTO and first timeout");
}

fn ages_while_idle<C: Controller>(controller: &C) {
    let mut peer = Peer::settled(controller, RTTS[0]);
    let before = peer.rto();
    peer.now += Duration::from_secs(24 * 3_600);
    let after = peer.rto();
    assert!(after >= before * 2, "an idle day takes the RTO from {before:?} to {after:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use conche_cc::any::ALL;

    #[test]
    fn exemptions_follow_from_the_feature_table() {
        let exempt = |check: Check| -> Vec<&str> {
            ALL.iter().filter(|named| check.exemption(&named.features).is_some()).map(|named| named.name()).collect()
        };
        assert_eq!(exempt(Check::KeepsItsPromises), [""; 0]);
        assert_eq!(exempt(Check::BackoffDecays), [""; 0]);
        assert_eq!(exempt(Check::KeepsPeersApart), [""; 0]);
        assert_eq!(exempt(Check::Recovers), ["semi-dynamic"]);
        assert_eq!(exempt(Check::SlowsDown), ["cocoa-plus-plus", "bdp", "bdp-literal"]);
        let without_rtt = ["default", "coap-b", "static", "fpb", "mrp", "default-fb1", "default-fb2", "default-fb3"];
        assert_eq!(exempt(Check::RtoFollowsRtt), without_rtt);
        assert_eq!(exempt(Check::Dithers), ["linux", "peak-hopper", "peak-hopper-cf", "rfc6298"]);
    }
}
