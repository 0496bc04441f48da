//! [`PathState`]: round-trip times, queueing delay and losses of a peer's or a shared path.

use core::time::Duration;

use crate::backoff::suggests_congestion;
use crate::estimator::{Estimator, Gains};
use crate::event::{Abandoned, AckKind, Acknowledged};
use crate::sample;
use crate::time::Instant;
use crate::units::{Micros, Stamp, saturate};

/// Measurements of a path: 36 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathState {
    pub(crate) estimator: Estimator,
    /// The window's minimum round-trip time, or without a sample the provisional timeout.
    min_rtt: Micros,
    min_rtt_before: Micros,
    window: Stamp,
    /// Minima of this and the previous pair of samples, to remove jitter.
    recent: [Micros; 2],
    pub(crate) last_start: Stamp,
    /// The peer's own samples; from [`SETTLED`], their parity. The estimator may have started from
    /// another's.
    samples: u8,
    /// Consecutive exchanges that indicate a wrong RTO or a full path.
    pub(crate) doubt: u8,
    pub(crate) retransmissions: MeanRetransmissions,
}

/// The minimum covers one or two windows, since routes change.
const WINDOW_MS: u32 = 300_000;
/// From here, the count of samples alternates.
const SETTLED: u8 = 4;
/// Minimum samples for a queueing delay.
const MIN_SAMPLES: u8 = 2;

impl PathState {
    /// Returns a path with stored estimates, as after one sample.
    pub(crate) fn remembered(srtt: Micros, rttvar: Micros, copies: u8) -> Self {
        let mut path =
            Self { retransmissions: MeanRetransmissions(copies.min(MeanRetransmissions::ONE * 5)), ..Self::default() };
        path.estimator = Estimator::starting(srtt, rttvar);
        path.as_one_sample()
    }

    /// Keeps the round-trip time, as after one sample, and the losses.
    pub(crate) fn as_one_sample(&self) -> Self {
        let Some(srtt) = self.estimator.srtt() else { return Self::default() };
        let rttvar = self.estimator.rttvar().unwrap_or_default().max(srtt.shifted(1));
        let estimator = Estimator::starting(srtt, rttvar);
        Self {
            estimator,
            retransmissions: self.retransmissions,
            min_rtt: srtt,
            min_rtt_before: srtt,
            ..Self::default()
        }
    }

    /// Bounds SRTT and RTO by `longest`; drops losses and doubt.
    pub(crate) fn for_neighbour(&self, longest: RoundTrip) -> Self {
        let Some(srtt) = self.estimator.srtt() else { return Self::default() };
        let (srtt, rttvar) = longest.bound(srtt, self.estimator.rttvar().unwrap_or_default());
        let estimator = Estimator::starting(srtt, rttvar);
        Self { estimator, min_rtt: srtt, min_rtt_before: srtt, ..Self::default() }
    }

    pub(crate) fn learnt(&self) -> Option<(Duration, Duration, u8)> {
        Some((self.estimator.srtt()?.into(), self.estimator.rttvar()?.into(), self.retransmissions.get()))
    }

    #[must_use]
    /// Returns whether there is an estimate or a provisional timeout.
    pub fn is_known(&self) -> bool {
        !self.estimator.is_unmeasured() || self.provisional().is_some()
    }

    pub(crate) fn is_measured(&self) -> bool {
        self.samples > 0
    }

    pub(crate) fn started(&mut self, sent: &[Instant], now: Instant) {
        self.last_start = Stamp::at(sent.first().copied().unwrap_or(now));
    }

    /// The time of separate responses includes processing.
    pub(crate) fn acknowledged(&mut self, event: &Acknowledged<'_>, ambiguity: Ambiguity, max_doubt: u8) {
        if event.kind == AckKind::Separate {
            return;
        }
        self.retransmissions.count(event.retransmissions());
        match sample::rtt_of_known_copy(event) {
            Some(rtt) => {
                self.sample(rtt, event.now);
                self.doubt = 0;
            }
            None => self.ambiguous(event, ambiguity, max_doubt),
        }
    }

    fn ambiguous(&mut self, event: &Acknowledged<'_>, ambiguity: Ambiguity, max_doubt: u8) {
        let since = |sent: Option<&Instant>| sent.map_or(Micros::MIN, |sent| sample::between(*sent, event.now));
        let (first, last) = (since(event.sent.first()), since(event.sent.last()));
        if self.estimator.is_unmeasured() {
            self.set_provisional(first);
            return;
        }
        let lost = match ambiguity {
            Ambiguity::Likely => self.is_plausible_rtt(last),
            Ambiguity::Loss => true,
            Ambiguity::Late => false,
        };
        if lost {
            self.add_doubt(1, max_doubt);
        } else {
            self.sample(first, event.now);
            self.doubt = 0;
        }
    }

    pub(crate) fn abandoned(&mut self, event: &Abandoned<'_>, max_doubt: u8) {
        if suggests_congestion(event) {
            self.add_doubt(2, max_doubt);
            self.retransmissions.count(MeanRetransmissions::MAX);
        }
    }

    fn add_doubt(&mut self, more: u8, most: u8) {
        self.doubt = self.doubt.saturating_add(more).min(most);
    }

    pub(crate) fn sample(&mut self, rtt: Micros, now: Instant) {
        let now = Stamp::at(now);
        if self.samples == 0 {
            // The first own sample replaces other peers' state.
            self.estimator = Estimator::default();
            (self.min_rtt, self.min_rtt_before, self.window) = (rtt, rtt, now);
            (self.recent, self.samples) = ([rtt; 2], 1);
        } else {
            self.remember(rtt);
            self.update_min_rtt(rtt, now);
        }
        self.estimator.sample(rtt, Gains::RFC6298);
    }

    fn remember(&mut self, rtt: Micros) {
        let [current, _] = self.recent;
        self.recent = if self.samples.is_multiple_of(2) { [rtt, current] } else { [current.min(rtt), self.recent[1]] };
        self.samples = if self.samples > SETTLED { SETTLED } else { self.samples + 1 };
    }

    fn update_min_rtt(&mut self, rtt: Micros, now: Stamp) {
        if self.window.age_ms(now) > WINDOW_MS {
            (self.min_rtt_before, self.min_rtt, self.window) = (self.min_rtt, rtt, now);
        } else {
            self.min_rtt = self.min_rtt.min(rtt);
        }
    }

    fn min_rtt(&self) -> Micros {
        self.min_rtt.min(self.min_rtt_before)
    }

    pub(crate) fn queueing_delay(&self) -> Micros {
        if self.samples < MIN_SAMPLES {
            return Micros::ZERO;
        }
        let [current, before] = self.recent;
        current.min(before).minus(self.min_rtt())
    }

    /// Adapts to a longer route, whose delay varies less than a queue's: the minimum rises by a
    /// sixteenth of recent round trips' excess, if above `variations` · RTTVAR.
    pub(crate) fn adapt_min_rtt(&mut self, variations: u32) {
        let excess = self.queueing_delay();
        let is_steady = self.estimator.rttvar().is_some_and(|rttvar| rttvar.times(variations) < excess);
        if variations > 0 && is_steady {
            let closer = self.min_rtt().plus(excess.shifted(4));
            (self.min_rtt, self.min_rtt_before) = (self.min_rtt.max(closer), self.min_rtt_before.max(closer));
        }
    }

    /// SRTT's relative excess over the minimum, at least `at_least`.
    pub(crate) fn inflation(&self, at_least: Micros) -> Inflation {
        let least = self.min_rtt().max(at_least);
        let excess = self.estimator.srtt().unwrap_or(least).minus(least);
        let ratio = u64::from(excess.get()) * u64::from(Inflation::ONE) / u64::from(least.get().max(1));
        Inflation(saturate(ratio).min(Inflation::ONE))
    }

    /// At least half the minimum and at most the RTO.
    pub(crate) fn is_plausible_rtt(&self, since_copy: Micros) -> bool {
        (self.min_rtt().shifted(1)..=self.estimator.rto(4)).contains(&since_copy)
    }

    pub(crate) fn provisional(&self) -> Option<Micros> {
        (self.min_rtt != Micros::ZERO).then_some(self.min_rtt)
    }

    /// Sets the timeout after an ambiguous exchange without a sample.
    pub(crate) fn set_provisional(&mut self, elapsed: Micros) {
        self.min_rtt = elapsed;
    }
}

/// Upper bounds of state from other peers.
#[derive(Clone, Copy)]
pub(crate) struct RoundTrip {
    pub(crate) srtt: Micros,
    pub(crate) rto: Micros,
}

impl RoundTrip {
    /// Reduces both so that SRTT and SRTT + 4·RTTVAR are within the bounds.
    pub(crate) fn bound(self, srtt: Micros, rttvar: Micros) -> (Micros, Micros) {
        let srtt = srtt.min(self.srtt);
        (srtt, rttvar.min(self.rto.minus(srtt).shifted(2)))
    }
}

/// Interpretation of an ambiguous acknowledgement, given a round-trip estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ambiguity {
    /// It answers the last transmission if it comes one round trip later, else the original.
    #[default]
    Likely,
    /// It answers the last transmission: a loss.
    Loss,
    /// It answers the original, late.
    Late,
}

crate::parameters::words!(Ambiguity { Likely = "likely", Loss = "loss", Late = "late" });

#[derive(Clone, Copy)]
pub(crate) struct Inflation(u32);

impl Inflation {
    const ONE: u32 = 256;

    pub(crate) fn of(self, span: Micros) -> Micros {
        Micros::new(saturate(u64::from(span.get()) * u64::from(self.0) / u64::from(Self::ONE)))
    }
}

/// Mean retransmissions per exchange in 1/32, with a gain of 1/8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MeanRetransmissions(u8);

impl MeanRetransmissions {
    const ONE: u8 = 32;
    /// Maximum per exchange, and a failed one's count.
    pub(crate) const MAX: usize = 5;

    pub(crate) const fn get(self) -> u8 {
        self.0
    }

    pub(crate) fn count(&mut self, retransmissions: usize) {
        let target = Self::ONE * u8::try_from(retransmissions.min(Self::MAX)).unwrap_or(0);
        // Rounded away from the present value, to reach the target.
        self.0 = match target.checked_sub(self.0) {
            Some(0) => self.0,
            Some(up) => self.0 + (up / 8).max(1),
            None => self.0 - (self.0 - target).div_ceil(8),
        };
    }

    pub(crate) fn times(self, span: Micros) -> Micros {
        span.shifted(5).times(u32::from(self.0))
    }
}
