//! CoCoA+ as its authors ran it on motes.
//!
//! Source: the authors' code for Contiki (apps/er-coap/er-cocoa.c, Wireless Networks Group, UPC,
//! 2015). Its header names draft-bormann-core-cocoa-02, but the code differs from all drafts:
//!
//! - exchanges with any number of retransmissions, and failed ones, give a weak sample;
//! - a weak estimate weighs 3/4: the code applies the weight of 1/4 to the old RTO;
//! - more than three retransmissions without a strong sample reset the strong estimator;
//! - the backoff factor is 2.5, 2 or 1.5, by the exchange's RTO before randomisation;
//! - ageing applies once at the start of an exchange, by the time since the last sample, which
//!   ageing does not advance: an RTO below 1 s becomes 1 s after 16 RTO, one above 3 s becomes 1 s
//!   plus RTO/2 after 4 RTO;
//! - without a sample, the RTO is randomised, doubled for each running exchange, and randomised
//!   again.
//!
//! MAXRTO_VALUE is 60 s, COAP_INITIAL_RTO 2 s and NSTART 1 (er-coap-transactions.h of the same
//! copies).
//!
//! Divergences:
//! - the code takes a peer as unmeasured whose RTO equals the initial one by chance;
//! - a Reset gives no sample, as for all controllers;
//! - an exchange's first timeout is at most 60 s, as for all controllers; in the code, 90 s;
//! - a blind RTO is drawn from ACK_RANDOM_FACTOR: [2, 3] s. Contiki 3's er-coap has
//!   COAP_RESPONSE_TIMEOUT 3, so that the code draws from [2, 3.5] s there;
//! - er-coap gives up at the last retransmission instead of awaiting its acknowledgement. That is
//!   the endpoint's part: the failed exchange's sample is the time until it gives up.

use core::time::Duration;

use super::ageing::exceeds;
use super::{BACKOFF_LIMIT, FrozenFactor, INITIAL_RTO, MAX_RTO, Vbf};
use crate::backoff::{LARGE_RTO, SMALL_RTO, VariableBackoff, dithered};
use crate::control::{AbandonReason, Abandoned, Acknowledged, Sent, Snapshot};
use crate::estimator::{Estimator, Gains};
use crate::features::Features;
use crate::parameters::Range;
use crate::rule::{RtoRule, RuleFlight};
use crate::sample;
use crate::time::Instant;
use crate::units::{Factor, Micros, Stamp};

/// CoCoA+ of the authors' Contiki code.
///
/// ```
/// use conche_cc::cocoa::CocoaContiki;
///
/// assert_eq!(CocoaContiki::default().weak_weight.permille(), 750);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CocoaContiki {
    /// RTO before the first sample.
    pub ack_timeout: Duration,
    /// Maximum first timeout in RTOs.
    pub ack_random_factor: Factor,
    /// K of the strong estimator: RTO_strong = SRTT + K·RTTVAR.
    pub strong_k: u8,
    /// K of the weak estimator: RTO_weak = SRTT + K·RTTVAR.
    pub weak_k: u8,
    /// Weight of RTO_strong in the RTO, at most 1.
    pub strong_weight: Factor,
    /// Weight of RTO_weak in the RTO, at most 1.
    pub weak_weight: Factor,
    /// Maximum retransmissions without a strong sample before the strong estimator is reset.
    pub missed_limit: u8,
    /// Backoff factors.
    pub backoff: VariableBackoff,
    /// Maximum RTO without a sample.
    pub blind_limit: Duration,
    /// Maximum RTO and timeout.
    pub max_rto: Duration,
}

impl Default for CocoaContiki {
    fn default() -> Self {
        Self {
            ack_timeout: INITIAL_RTO,
            ack_random_factor: Factor::ONE_AND_HALF,
            strong_k: 4,
            weak_k: 1,
            strong_weight: Factor::HALF,
            weak_weight: Factor::from_permille(750),
            missed_limit: 3,
            backoff: VariableBackoff { small: Factor::from_permille(2_500), ..VariableBackoff::DRAFT03 },
            blind_limit: BACKOFF_LIMIT,
            max_rto: MAX_RTO,
        }
    }
}

impl CocoaContiki {
    /// As [`Cocoa::initial_rto`](super::Cocoa::initial_rto).
    pub fn initial_rto(&self, peer: &mut CocoaContikiPeer, now: Instant, running: u16) -> Duration {
        self.age(peer, now);
        self.initial(peer, running, 0).into()
    }

    fn initial(&self, peer: &CocoaContikiPeer, running: u16, random: u32) -> Micros {
        if peer.is_unmeasured() {
            let drawn = dithered(self.ack_timeout.into(), self.ack_random_factor, random);
            drawn.times(1 << running.min(31)).min(self.blind_limit.into())
        } else {
            peer.aged
        }
    }

    /// Returns an exchange's first timeout, after ageing, and selects its backoff factor.
    pub(super) fn start(&self, peer: &mut CocoaContikiPeer, factor: &mut FrozenFactor, sent: &Sent) -> Micros {
        // Two draws: the upper half of the bits for all exchanges, the lower one for blind ones.
        let initial = self.initial(peer, sent.load.exchanges, sent.random << 16);
        peer.rto = peer.aged;
        factor.freeze(self.backoff, initial);
        dithered(initial, self.ack_random_factor, sent.random).min(self.cap())
    }

    pub(super) fn sample(&self, peer: &mut CocoaContikiPeer, measured: Measured, now: Instant) {
        let Measured { rtt, retransmissions } = measured;
        let (estimator, k, weight) = if retransmissions == 0 {
            peer.missed = 0;
            (&mut peer.strong, self.strong_k, self.strong_weight)
        } else {
            peer.missed = peer.missed.saturating_add(retransmissions);
            if peer.missed > self.missed_limit {
                (peer.strong, peer.missed) = (Estimator::default(), 0);
            }
            (&mut peer.weak, self.weak_k, self.weak_weight)
        };
        estimator.sample(rtt, Gains::RFC6298);
        let estimate = estimator.rto(k.into()).min(self.cap());
        peer.rto = peer.rto.blended(estimate, weight).max(Micros::MIN);
        (peer.aged, peer.last) = (peer.rto, Stamp::at(now));
    }

    fn cap(&self) -> Micros {
        self.max_rto.into()
    }
}

/// An exchange's sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) rtt: Micros,
    retransmissions: u8,
}

impl Measured {
    pub(super) fn acknowledged(event: &Acknowledged<'_>) -> Option<Self> {
        let retransmissions = u8::try_from(event.retransmissions()).unwrap_or(u8::MAX);
        sample::rtt(event).map(|rtt| Self { rtt, retransmissions })
    }

    /// A failed exchange took as long as it lasted; `timeout` excludes Non-confirmable messages.
    pub(super) fn failed(timeout: Option<Micros>, event: &Abandoned<'_>) -> Option<Self> {
        let first = timeout.and(event.sent.first()).filter(|_| event.reason == AbandonReason::GaveUp)?;
        let retransmissions = u8::try_from(event.sent.len() - 1).unwrap_or(u8::MAX).max(1);
        Some(Self { rtt: sample::between(*first, event.now), retransmissions })
    }
}

/// Per-peer state: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CocoaContikiPeer {
    strong: Estimator,
    weak: Estimator,
    rto: Micros,
    /// The RTO for an exchange that starts now.
    aged: Micros,
    /// Time of the last sample.
    last: Stamp,
    /// Retransmissions since the last strong sample.
    missed: u8,
}

impl CocoaContikiPeer {
    fn is_unmeasured(&self) -> bool {
        self.strong.is_unmeasured() && self.weak.is_unmeasured()
    }
}

crate::parameters! {
    CocoaContiki {
        "ack_timeout" => ack_timeout, Range::millis(1, 60_000), "RTO before the first sample", "RFC 7252 §4.8";
        "ack_random_factor" => ack_random_factor, Range::permille(1_000, 10_000),
            "maximum first timeout in RTOs", "RFC 7252 §4.8";
        "strong_k" => strong_k, Range::count(0, 64), "K of RTO_strong = SRTT + K·RTTVAR", "er-cocoa.c";
        "weak_k" => weak_k, Range::count(0, 64), "K of RTO_weak = SRTT + K·RTTVAR", "er-cocoa.c";
        "strong_weight" => strong_weight, Range::permille(0, 1_000), "weight of RTO_strong in the RTO", "er-cocoa.c";
        "weak_weight" => weak_weight, Range::permille(0, 1_000), "weight of RTO_weak in the RTO", "er-cocoa.c";
        "missed_limit" => missed_limit, Range::count(0, 255),
            "maximum retransmissions before the strong estimator is reset", "er-cocoa.c";
        "backoff_small" => backoff.small, Range::permille(1_000, 10_000),
            "backoff factor of RTOs below 1 s", "er-cocoa.c";
        "backoff_medium" => backoff.medium, Range::permille(1_000, 10_000),
            "backoff factor of RTOs from 1 s to 3 s", "er-cocoa.c";
        "backoff_large" => backoff.large, Range::permille(1_000, 10_000),
            "backoff factor of RTOs above 3 s", "er-cocoa.c";
        "blind_limit" => blind_limit, Range::millis(1, 600_000), "maximum RTO without a sample", "er-cocoa.c";
        "max_rto" => max_rto, Range::millis(1_000, 600_000), "maximum RTO and timeout", "er-cocoa.c";
    }
}

/// Feature table row.
pub const FEATURES: Features = Features {
    about: "CoCoA+ as its authors ran it on Contiki: weak RTTs of any exchange, at 3/4",
    strong_rtt: true,
    weak_rtt: Some(u8::MAX),
    dithering: "[1, 1.5]",
    backoff: "variable 2.5/2/1.5, frozen for the exchange",
    ageing: "small to 1 s after 16 RTO, large half way to 2 s after 4 RTO",
    reuses_backed_off_rto: false,
    source: "Contiki, er-cocoa.c (UPC 2015)",
    peer_bytes: size_of::<CocoaContikiPeer>(),
    flight_bytes: size_of::<RuleFlight<FrozenFactor>>(),
    published_bytes: None,
};

impl RtoRule for CocoaContiki {
    type Peer = CocoaContikiPeer;
    type Exchange = FrozenFactor;
    const MEASURES_RTT: bool = true;

    fn new_peer(&self, now: Instant) -> CocoaContikiPeer {
        let (strong, weak) = (Estimator::default(), Estimator::default());
        let rto = Micros::from(self.ack_timeout).min(self.cap());
        CocoaContikiPeer { strong, weak, rto, aged: rto, last: Stamp::at(now), missed: 0 }
    }

    fn age(&self, peer: &mut CocoaContikiPeer, now: Instant) {
        let idle = peer.last.age_ms(Stamp::at(now));
        let mut rto = peer.rto;
        if rto < SMALL_RTO && exceeds(idle, rto.times(16)) {
            rto = SMALL_RTO;
        } else if rto > LARGE_RTO && exceeds(idle, rto.times(4)) {
            rto = Micros::from_millis(1_000).plus(rto.shifted(1));
        }
        if !peer.is_unmeasured() {
            peer.aged = rto.min(self.cap());
        }
    }

    fn rto(&self, peer: &CocoaContikiPeer) -> Micros {
        peer.aged
    }

    fn first_timeout(&self, peer: &mut CocoaContikiPeer, factor: &mut FrozenFactor, sent: &Sent) -> Micros {
        self.start(peer, factor, sent)
    }

    fn next_timeout(&self, _peer: &mut Self::Peer, factor: &mut FrozenFactor, current: Micros, _: &Sent) -> Micros {
        Vbf::Frozen.next(*factor, current, self.backoff, self.cap())
    }

    fn on_ack(&self, peer: &mut CocoaContikiPeer, _timeout: Option<Micros>, event: &Acknowledged<'_>) {
        if let Some(measured) = Measured::acknowledged(event) {
            self.sample(peer, measured, event.now);
        }
    }

    fn on_failure(&self, peer: &mut CocoaContikiPeer, timeout: Option<Micros>, event: &Abandoned<'_>) {
        if let Some(measured) = Measured::failed(timeout, event) {
            self.sample(peer, measured, event.now);
        }
    }

    fn report(&self, peer: &CocoaContikiPeer) -> Snapshot {
        let estimator = if peer.strong.is_unmeasured() { peer.weak } else { peer.strong };
        estimator.snapshot(peer.rto)
    }
}

#[cfg(test)]
mod tests;
