//! What temper remembers of a peer, and what that says of the path: queueing delay, inflation, losses.

use crate::estimator::{Estimator, Gains};
use crate::time::Instant;
use crate::units::{Micros, Stamp, saturate};

/// What temper remembers of a peer: 36 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TemperPeer {
    pub(super) estimator: Estimator,
    /// The least round-trip time of this window. While blind, the provisional timer; zero is none.
    least: Micros,
    /// That of the window before.
    least_before: Micros,
    /// When this window began.
    window: Stamp,
    /// The least of this pair of samples, and of the pair before: jitter does not pass a least of three or four.
    recent: [Micros; 2],
    /// When the last exchange started.
    pub(super) last_start: Stamp,
    /// How many samples were taken; from [`SETTLED`] on only whether they are odd or even.
    samples: u8,
    /// How many exchanges in a row suggest that the RTO is wrong or the path full.
    pub(super) doubt: u8,
    pub(super) copies: Copies,
}

/// The least round-trip time is that of one or two windows of this length: routes change.
const WINDOW_MS: u32 = 300_000;
/// Where the count of samples begins to alternate.
const SETTLED: u8 = 4;
/// A queueing delay needs so many samples.
const LEAST_SAMPLES: u8 = 2;

impl TemperPeer {
    /// Takes a round-trip time that is known, or bounded, by the exchange that ends now.
    pub(super) fn sample(&mut self, rtt: Micros, now: Instant) {
        let now = Stamp::at(now);
        if self.estimator.is_blind() {
            (self.least, self.least_before, self.window) = (rtt, rtt, now);
            (self.recent, self.samples) = ([rtt; 2], 1);
        } else {
            self.remember(rtt);
            self.lower_least(rtt, now);
        }
        self.estimator.sample(rtt, Gains::RFC6298);
    }

    /// Enters a sample into the current pair, or begins the next one with it.
    fn remember(&mut self, rtt: Micros) {
        let [current, _] = self.recent;
        self.recent = if self.samples.is_multiple_of(2) { [rtt, current] } else { [current.min(rtt), self.recent[1]] };
        self.samples = if self.samples > SETTLED { SETTLED } else { self.samples + 1 };
    }

    fn lower_least(&mut self, rtt: Micros, now: Stamp) {
        if self.window.age_ms(now) > WINDOW_MS {
            (self.least_before, self.least, self.window) = (self.least, rtt, now);
        } else {
            self.least = self.least.min(rtt);
        }
    }

    /// The least round-trip time of both windows.
    fn least(&self) -> Micros {
        self.least.min(self.least_before)
    }

    /// By how much recent round trips all exceed the least: a delay that every flow of the bottleneck sees.
    pub(super) fn queueing_delay(&self) -> Micros {
        if self.samples < LEAST_SAMPLES {
            return Micros::ZERO;
        }
        let [current, before] = self.recent;
        current.min(before).minus(self.least())
    }

    /// How far the smoothed round-trip time is above the least one.
    pub(super) fn inflation(&self) -> Inflation {
        let least = self.least();
        let excess = self.estimator.srtt().unwrap_or(least).minus(least);
        let ratio = u64::from(excess.get()) * u64::from(Inflation::ONE) / u64::from(least.get().max(1));
        Inflation(saturate(ratio).min(Inflation::ONE))
    }

    /// A copy's answer may come after this time: it is neither much shorter than any round trip nor longer than the RTO.
    pub(super) fn is_a_round_trip(&self, since_copy: Micros) -> bool {
        (self.least().shifted(1)..=self.estimator.rto(4)).contains(&since_copy)
    }

    /// The timer of a blind peer that has answered after a retransmission.
    pub(super) fn provisional(&self) -> Option<Micros> {
        (self.least != Micros::ZERO).then_some(self.least)
    }

    /// A blind peer answered an exchange with retransmissions after `elapsed`: longer than any round trip that it may
    /// have been, and so a timer that will not be too short, but no sample.
    pub(super) fn set_provisional(&mut self, elapsed: Micros) {
        self.least = elapsed;
    }
}

/// A share from 0 to 1.
#[derive(Clone, Copy)]
pub(super) struct Inflation(u32);

impl Inflation {
    const ONE: u32 = 256;

    pub(super) fn of(self, span: Micros) -> Micros {
        Micros::new(saturate(u64::from(span.get()) * u64::from(self.0) / u64::from(Self::ONE)))
    }
}

/// The mean of copies that an exchange needs beyond the first, in 1/32, moved by an eighth of the way each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Copies(u8);

impl Copies {
    const ONE: u8 = 32;
    /// More are not told apart, and an exchange that fails counts as so many.
    pub(super) const MOST: usize = 5;

    pub(super) fn count(&mut self, retransmissions: usize) {
        let target = Self::ONE * u8::try_from(retransmissions.min(Self::MOST)).unwrap_or(0);
        // An eighth of the way, rounded away from the present value, so that it arrives.
        self.0 = match target.checked_sub(self.0) {
            Some(0) => self.0,
            Some(up) => self.0 + (up / 8).max(1),
            None => self.0 - (self.0 - target).div_ceil(8),
        };
    }

    /// So many times `span`.
    pub(super) fn times(self, span: Micros) -> Micros {
        span.shifted(5).times(u32::from(self.0))
    }
}
