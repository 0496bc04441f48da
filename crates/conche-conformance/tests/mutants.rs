//! Ten mutants of a correct controller, each with one fault. The suite names each fault by a check.

use core::cell::Cell;
use core::time::Duration;

use conche_cc::backoff::{dithered, suggests_congestion};
use conche_cc::control::{Abandoned, Acknowledged, Admission, Expired, Load, Sent, Snapshot, Submission};
use conche_cc::estimator::{Estimator, Gains};
use conche_cc::features::Features;
use conche_cc::non::paced_by_rto;
use conche_cc::path_history::PathHistory;
use conche_cc::units::{Factor, Micros};
use conche_cc::{Controller, Instant, sample};
use conche_conformance::checks::violations;
use conche_conformance::{Bounds, Check};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    BackoffNeverDecays,
    SamplesRunFromTheLastTransmission,
    SamplesRunFromTheFirstTransmission,
    IgnoresRtt,
    NoLowerBound,
    Overflows,
    NoDithering,
    SharesPeerState,
    StuckAtTheCap,
    NeverResetsAfterIdle,
}

/// RFC 6298 with randomised first timeouts, a minimum of 10 ms, and a reset after an idle hour.
#[derive(Debug, Default)]
struct Model {
    fault: Option<Fault>,
    shared: Cell<Estimator>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    estimator: Estimator,
    exponent: u8,
    last: Instant,
    is_stuck: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    timer: Micros,
}

const CAP: Micros = Micros::from_millis(60_000);
const MIN_RTO: Micros = Micros::from_millis(10);
const INITIAL_RTO: Micros = Micros::from_millis(2_000);
const IDLE: Duration = Duration::from_secs(3_600);
const FEATURES: Features = Features {
    strong_rtt: true,
    dithering: "[1, 1.5]",
    backoff: "binary",
    ageing: "reset after an hour",
    reuses_backed_off_rto: true,
    ..Features::of::<Model>("RFC 6298 with dithering and ageing")
};

impl Model {
    fn with(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn estimator(&self, peer: &Peer) -> Estimator {
        if self.has(Fault::SharesPeerState) { self.shared.get() } else { peer.estimator }
    }

    fn age(&self, peer: &mut Peer, now: Instant) {
        if !self.has(Fault::NeverResetsAfterIdle) && now - peer.last > IDLE {
            *peer = Peer { last: peer.last, ..Peer::default() };
        }
    }

    fn rto(&self, peer: &Peer) -> Micros {
        let estimator = self.estimator(peer);
        if self.has(Fault::StuckAtTheCap) && peer.is_stuck {
            return CAP;
        }
        let rto = match estimator.is_unmeasured() || self.has(Fault::IgnoresRtt) {
            true => INITIAL_RTO,
            false => estimator.rto(4),
        };
        let floor = if self.has(Fault::NoLowerBound) { Micros::MIN } else { MIN_RTO };
        rto.max(floor).times(1 << peer.exponent).min(CAP)
    }

    fn sample(&self, peer: &mut Peer, rtt: Micros) {
        let rtt = match self.has(Fault::Overflows) {
            true => Micros::new(rtt.get().wrapping_mul(1_000) / 1_000),
            false => rtt,
        };
        let mut estimator = self.estimator(peer);
        estimator.sample(rtt, Gains::RFC6298);
        self.shared.set(estimator);
        peer.estimator = estimator;
    }

    fn back_off(&self, peer: &mut Peer) {
        let most = if self.has(Fault::BackoffNeverDecays) { 2 } else { 16 };
        peer.exponent = (peer.exponent + 1).min(most);
        peer.is_stuck |= self.rto(peer) == CAP;
    }
}

impl Controller for Model {
    type Peer = Peer;
    type Flight = Flight;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, now: Instant) -> Peer {
        Peer { last: now, ..Peer::default() }
    }

    fn seed(&self, now: Instant, _history: &PathHistory) -> Peer {
        self.peer(now)
    }

    fn admit(&self, peer: &mut Peer, now: Instant, message: &Submission, load: &Load) -> Admission {
        self.age(peer, now);
        if message.confirmable { Admission::Send } else { paced_by_rto(now, message, &load.non, self.rto(peer)) }
    }

    fn sent(&self, peer: &mut Peer, flight: &mut Flight, event: &Sent) -> Duration {
        self.age(peer, event.now);
        let first = event.attempt == 0 || flight.timer == Micros::ZERO;
        if first || !event.confirmable {
            let factor = if self.has(Fault::NoDithering) { Factor::ONE } else { Factor::ONE_AND_HALF };
            flight.timer = dithered(self.rto(peer), factor, event.random).min(CAP);
        } else {
            self.back_off(peer);
            flight.timer = flight.timer.times(2).min(CAP);
        }
        flight.timer.into()
    }

    fn expired(&self, _peer: &mut Peer, _flight: &mut Flight, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut Peer, _flight: &Flight, event: &Acknowledged<'_>) {
        self.age(peer, event.now);
        peer.last = event.now;
        if let Some(rtt) = sample::strong_rtt(event) {
            self.sample(peer, rtt);
            if !self.has(Fault::BackoffNeverDecays) {
                peer.exponent = 0;
            }
        } else if let Some(last) = event.sent.last() {
            if self.has(Fault::SamplesRunFromTheLastTransmission) {
                self.sample(peer, Micros::between(*last, event.now));
                peer.exponent = 0;
            } else if self.has(Fault::SamplesRunFromTheFirstTransmission) {
                self.sample(peer, event.since_first().into());
                peer.exponent = 0;
            }
        }
    }

    fn abandoned(&self, peer: &mut Peer, _flight: &Flight, event: &Abandoned<'_>) {
        if suggests_congestion(event) {
            self.back_off(peer);
        }
    }

    fn drained(&self, _peer: &mut Peer, _now: Instant, _load: &Load) {}

    fn base(&self, peer: &mut Peer, now: Instant) -> Duration {
        self.age(peer, now);
        self.rto(peer).into()
    }

    fn snapshot(&self, peer: &Peer) -> Snapshot {
        Snapshot { rto: self.rto(peer).into(), ..Snapshot::default() }
    }
}

fn violated(model: &Model) -> Vec<Check> {
    violations(model, &FEATURES, Bounds::default()).into_iter().map(|violation| violation.check).collect()
}

#[test]
fn the_model_without_a_fault_violates_nothing() {
    assert_eq!(violations(&Model::default(), &FEATURES, Bounds::default()), []);
}

#[test]
fn every_fault_violates_its_check() {
    for (fault, check) in [
        (Fault::BackoffNeverDecays, Check::BackoffDecays),
        (Fault::SamplesRunFromTheLastTransmission, Check::AmbiguousAcksDoNotShrinkTheRto),
        (Fault::SamplesRunFromTheFirstTransmission, Check::RetransmissionsGiveNoSample),
        (Fault::IgnoresRtt, Check::RtoFollowsRtt),
        (Fault::NoLowerBound, Check::KeepsItsPromises),
        (Fault::Overflows, Check::RtoFollowsRtt),
        (Fault::NoDithering, Check::Dithers),
        (Fault::SharesPeerState, Check::KeepsPeersApart),
        (Fault::StuckAtTheCap, Check::BackoffDecays),
        (Fault::NeverResetsAfterIdle, Check::AgesWhileIdle),
    ] {
        let violated = violated(&Model::with(fault));
        assert!(violated.contains(&check), "{fault:?} violates {violated:?}, not {check:?}");
    }
}

#[test]
fn a_fault_violates_no_unrelated_check() {
    for fault in [Fault::NoDithering, Fault::NeverResetsAfterIdle] {
        let violated = violated(&Model::with(fault));
        assert_eq!(violated.len(), 1, "{fault:?}: {violated:?}");
    }
}
