//! Full backoff: the backed-off timer carries over to the next exchange, as TCP has done since Karn and Partridge.
//!
//! Source: ANRW'18 §4.2. An ACK says which message it is for but not which copy: after a retransmission nothing is known
//! of the round-trip time except that the last timer was perhaps too short. Full backoff keeps that timer, exactly and
//! undithered, until an exchange needs no retransmission.
//!
//! Readings, checked against the paper's figures: a kept timer of the default's variant 2 is halved by exchanges without a
//! retransmission only; variant 2 of CoCoA keeps min(32 s, f(x)·x) with x the larger of the armed timer and the updated
//! RTO. The paper is silent on failure (the last timer is kept) and on ageing (kept timers are exempt).
//!
//! What counts as failure is said by [`suggests_congestion`]. A Non-confirmable message or its response changes nothing.

use core::time::Duration;

use crate::backoff::{Timer, VariableBackoff, suggests_congestion};
use crate::cocoa::{self, Cocoa, draft03::CocoaPeer};
use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::default::{self, CoapDefault};
use crate::features::Features;
use crate::group::Group;
use crate::non::{paced_by_probing_rate, paced_by_rto};
use crate::time::Instant;
use crate::units::{Factor, Micros};

/// A timer kept from a backed-off exchange; zero if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept(Micros);

impl Kept {
    /// The kept timer.
    #[must_use]
    pub fn get(self) -> Option<Micros> {
        (self.0 != Micros::ZERO).then_some(self.0)
    }

    /// Keeps the last timer of an exchange that ended without an acknowledgement, if the network may be to blame.
    fn failed(&mut self, last: Option<Micros>, event: &Abandoned<'_>) {
        if suggests_congestion(event)
            && let Some(last) = last
        {
            self.0 = last;
        }
    }
}

/// What becomes of the default's kept timer after an exchange without a retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Variant 1: it is forgotten.
    #[default]
    Forget,
    /// Variant 2: it is halved, and forgotten once a first timer could be as long.
    Halve,
}

/// The default with full backoff.
///
/// ```
/// use conche_cc::full_backoff::{DefaultFullBackoff, Recovery};
///
/// assert_eq!(DefaultFullBackoff::variant_2().recovery, Recovery::Halve);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultFullBackoff {
    /// The algorithm while no timer is kept.
    pub default: CoapDefault,
    /// How a kept timer is given up.
    pub recovery: Recovery,
}

impl DefaultFullBackoff {
    /// Variant 1 of ANRW'18.
    #[must_use]
    pub fn variant_1() -> Self {
        Self::default()
    }

    /// Variant 2 of ANRW'18.
    #[must_use]
    pub fn variant_2() -> Self {
        Self { recovery: Recovery::Halve, ..Self::default() }
    }

    fn recovered(&self, kept: Kept) -> Kept {
        let longest_first = self.default.initial().scaled(self.default.ack_random_factor);
        let half = kept.0.shifted(1);
        match self.recovery {
            Recovery::Halve if half > longest_first => Kept(half),
            Recovery::Halve | Recovery::Forget => Kept::default(),
        }
    }
}

/// The feature table's row of variant 1 of the default.
pub const DEFAULT_FB1_FEATURES: Features = Features {
    about: "the default, whose backed-off timer is kept until an exchange needs no retransmission",
    reuses_backed_off_rto: true,
    source: "ANRW'18 §4.2",
    peer_bytes: size_of::<Kept>(),
    published_bytes: None,
    ..default::FEATURES
};

/// The feature table's row of variant 2 of the default.
pub const DEFAULT_FB2_FEATURES: Features = Features {
    about: "the default, whose kept timer is halved by each exchange without a retransmission",
    ..DEFAULT_FB1_FEATURES
};

impl Controller for DefaultFullBackoff {
    type Peer = Kept;
    type Flight = Timer;

    fn measures_rtt(&self) -> bool {
        false
    }

    fn peer(&self, _now: Instant) -> Kept {
        Kept::default()
    }

    fn seed(&self, now: Instant, _group: &Group) -> Kept {
        self.peer(now)
    }

    fn admit(&self, _kept: &mut Kept, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable { Admission::Send } else { paced_by_probing_rate(now, message, &load.non) }
    }

    fn sent(&self, kept: &mut Kept, timer: &mut Timer, event: &Sent) -> Duration {
        let first = || kept.get().unwrap_or_else(|| self.default.draw(event.random));
        timer.arm(event, first, Factor::TWO, self.default.cap())
    }

    fn expired(&self, _kept: &mut Kept, _timer: &mut Timer, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, kept: &mut Kept, timer: &Timer, event: &Acknowledged<'_>) {
        if let Some(armed) = timer.armed() {
            *kept = if event.retransmissions() > 0 { Kept(armed) } else { self.recovered(*kept) };
        }
    }

    fn abandoned(&self, kept: &mut Kept, timer: &Timer, event: &Abandoned<'_>) {
        kept.failed(timer.armed(), event);
    }

    fn drained(&self, _kept: &mut Kept, _now: Instant, _load: &Load) {}

    fn base(&self, kept: &mut Kept, _now: Instant) -> Duration {
        kept.get().unwrap_or(self.default.initial()).into()
    }

    fn snapshot(&self, kept: &Kept) -> Snapshot {
        Snapshot { rto: kept.get().unwrap_or(self.default.initial()).into(), ..Snapshot::default() }
    }
}

/// What CoCoA keeps of a backed-off timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Variant 1: the timer as it was armed.
    #[default]
    Unchanged,
    /// Variant 2: the larger of the armed timer and the updated RTO, backed off once more.
    OnceMore,
}

/// CoCoA with full backoff.
///
/// ```
/// use conche_cc::cocoa::Cocoa;
/// use conche_cc::full_backoff::CocoaFullBackoff;
///
/// // As ANRW'18 ran it.
/// let measured = CocoaFullBackoff { cocoa: Cocoa::anrw18(), ..CocoaFullBackoff::variant_2() };
/// assert_ne!(measured, CocoaFullBackoff::variant_2());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CocoaFullBackoff {
    /// The algorithm while no timer is kept; its estimators take samples all the time.
    pub cocoa: Cocoa,
    /// What is kept of a backed-off timer.
    pub growth: Growth,
}

impl CocoaFullBackoff {
    /// Variant 1 of ANRW'18.
    #[must_use]
    pub fn variant_1() -> Self {
        Self::default()
    }

    /// Variant 2 of ANRW'18.
    #[must_use]
    pub fn variant_2() -> Self {
        Self { growth: Growth::OnceMore, ..Self::default() }
    }

    fn what_to_keep(&self, armed: Micros, rto: Micros) -> Micros {
        match self.growth {
            Growth::Unchanged => armed,
            Growth::OnceMore => {
                let longer = armed.max(rto);
                let grown = longer.scaled(VariableBackoff::DRAFT03.factor(longer));
                grown.min(self.cocoa.backoff_limit.into())
            }
        }
    }
}

/// What CoCoA with full backoff remembers of a peer: 28 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CocoaFullBackoffPeer {
    cocoa: CocoaPeer,
    kept: Kept,
}

/// The feature table's row of variant 1 of CoCoA.
pub const COCOA_FB1_FEATURES: Features = Features {
    about: "CoCoA, whose backed-off timer is kept until an exchange needs no retransmission",
    reuses_backed_off_rto: true,
    source: "ANRW'18 §4.2",
    peer_bytes: size_of::<CocoaFullBackoffPeer>(),
    published_bytes: None,
    ..cocoa::draft03::FEATURES
};

/// The feature table's row of variant 2 of CoCoA.
pub const COCOA_FB2_FEATURES: Features =
    Features { about: "CoCoA, whose backed-off timer is backed off once more and kept", ..COCOA_FB1_FEATURES };

impl Controller for CocoaFullBackoff {
    type Peer = CocoaFullBackoffPeer;
    type Flight = cocoa::CocoaFlight;

    fn measures_rtt(&self) -> bool {
        true
    }

    fn peer(&self, now: Instant) -> CocoaFullBackoffPeer {
        CocoaFullBackoffPeer { cocoa: self.cocoa.peer(now), kept: Kept::default() }
    }

    fn seed(&self, now: Instant, group: &Group) -> CocoaFullBackoffPeer {
        group.as_first_sample(self, now)
    }

    fn admit(&self, peer: &mut Self::Peer, now: Instant, message: &Submission, load: &Load) -> Admission {
        if message.confirmable {
            return Admission::Send;
        }
        paced_by_rto(now, message, &load.non, self.base(peer, now).into())
    }

    fn sent(&self, peer: &mut Self::Peer, flight: &mut Self::Flight, event: &Sent) -> Duration {
        self.cocoa.arm(&mut peer.cocoa, flight, event, peer.kept.get())
    }

    fn expired(&self, _peer: &mut Self::Peer, _flight: &mut Self::Flight, event: &Expired) -> Instant {
        event.now
    }

    fn acknowledged(&self, peer: &mut Self::Peer, flight: &Self::Flight, event: &Acknowledged<'_>) {
        self.cocoa.acknowledged(&mut peer.cocoa, flight, event);
        if let Some(armed) = flight.armed() {
            peer.kept = if event.retransmissions() > 0 {
                Kept(self.what_to_keep(armed, self.cocoa.rto(&peer.cocoa)))
            } else {
                Kept::default()
            };
        }
    }

    fn abandoned(&self, peer: &mut Self::Peer, flight: &Self::Flight, event: &Abandoned<'_>) {
        peer.kept.failed(flight.armed(), event);
    }

    fn drained(&self, _peer: &mut Self::Peer, _now: Instant, _load: &Load) {}

    fn base(&self, peer: &mut Self::Peer, now: Instant) -> Duration {
        match peer.kept.get() {
            Some(kept) => kept.into(),
            None => self.cocoa.base(&mut peer.cocoa, now),
        }
    }

    fn snapshot(&self, peer: &Self::Peer) -> Snapshot {
        let snapshot = self.cocoa.snapshot(&peer.cocoa);
        Snapshot { rto: peer.kept.get().map_or(snapshot.rto, Duration::from), ..snapshot }
    }
}

#[cfg(test)]
mod tests;
