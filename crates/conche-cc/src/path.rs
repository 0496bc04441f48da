//! What exchanges say of a path: round-trip times, queueing delay, losses.
//!
//! temper remembers this of each peer, and a [`Group`](crate::group::Group) of all its peers together.

use core::time::Duration;

use crate::backoff::suggests_congestion;
use crate::control::{Abandoned, AckKind, Acknowledged};
use crate::estimator::{Estimator, Gains};
use crate::sample;
use crate::time::Instant;
use crate::units::{Micros, Stamp, saturate};

/// What exchanges have said of a path so far: 36 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathState {
    pub(crate) estimator: Estimator,
    /// The least round-trip time of this window. While blind, the provisional timer; zero is none.
    least: Micros,
    /// That of the window before.
    least_before: Micros,
    /// When this window began.
    window: Stamp,
    /// The least of this pair of samples, and of the pair before: jitter does not pass a least of three or four.
    recent: [Micros; 2],
    /// When the last exchange started.
    pub(crate) last_start: Stamp,
    /// How many samples were taken of this very peer; from [`SETTLED`] on only whether they are odd or even. The estimator may
    /// have begun with what another one found out.
    samples: u8,
    /// How many exchanges in a row suggest that the RTO is wrong or the path full.
    pub(crate) doubt: u8,
    pub(crate) copies: Copies,
}

/// The least round-trip time is that of one or two windows of this length: routes change.
const WINDOW_MS: u32 = 300_000;
/// Where the count of samples begins to alternate.
const SETTLED: u8 = 4;
/// A queueing delay needs so many samples.
const LEAST_SAMPLES: u8 = 2;

impl PathState {
    /// A path of which this was known once: as if a first sample had been taken, of which the variation is known.
    pub(crate) fn remembered(srtt: Micros, rttvar: Micros, copies: u8) -> Self {
        let mut path = Self { copies: Copies(copies.min(Copies::ONE * 5)), ..Self::default() };
        path.estimator = Estimator::starting(srtt, rttvar);
        path.of_one_sample()
    }

    /// The same when it is long ago: how long a round trip takes and how much is lost, as unsure as after a first sample. There is no queue that
    /// was there then.
    pub(crate) fn of_one_sample(&self) -> Self {
        let Some(srtt) = self.estimator.srtt() else { return Self::default() };
        let rttvar = self.estimator.rttvar().unwrap_or_default().max(srtt.shifted(1));
        let estimator = Estimator::starting(srtt, rttvar);
        Self { estimator, copies: self.copies, least: srtt, least_before: srtt, ..Self::default() }
    }

    /// The state of another peer of this path: SRTT and RTO within `longest`. Its least round-trip
    /// time, losses and doubt are its own.
    pub(crate) fn of_a_neighbour(&self, longest: RoundTrip) -> Self {
        let Some(srtt) = self.estimator.srtt() else { return Self::default() };
        let (srtt, rttvar) = longest.bound(srtt, self.estimator.rttvar().unwrap_or_default());
        let estimator = Estimator::starting(srtt, rttvar);
        Self { estimator, least: srtt, least_before: srtt, ..Self::default() }
    }

    /// Smoothed round-trip time, its variation, and copies in 1/32.
    pub(crate) fn learnt(&self) -> Option<(Duration, Duration, u8)> {
        Some((self.estimator.srtt()?.into(), self.estimator.rttvar()?.into(), self.copies.get()))
    }

    /// Something is known of it.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.estimator.is_blind() || self.provisional().is_some()
    }

    /// A round-trip time was sampled, and not taken over from other peers.
    pub(crate) fn is_measured(&self) -> bool {
        self.samples > 0
    }

    /// An exchange began with the first of these copies.
    pub(crate) fn started(&mut self, sent: &[Instant], now: Instant) {
        self.last_start = Stamp::at(sent.first().copied().unwrap_or(now));
    }

    /// What was sent is acknowledged. A separate response says nothing: its time holds the server's, and so does that of the
    /// copies before it.
    pub(crate) fn acknowledged(&mut self, event: &Acknowledged<'_>, ambiguity: Ambiguity, max_doubt: u8) {
        if event.kind == AckKind::Separate {
            return;
        }
        self.copies.count(event.retransmissions());
        match sample::rtt_of_known_copy(event) {
            Some(rtt) => {
                self.sample(rtt, event.now);
                self.doubt = 0;
            }
            None => self.ambiguous(event, ambiguity, max_doubt),
        }
    }

    /// An acknowledgement that any of several copies may have brought about.
    fn ambiguous(&mut self, event: &Acknowledged<'_>, ambiguity: Ambiguity, max_doubt: u8) {
        let since = |sent: Option<&Instant>| sent.map_or(Micros::MIN, |sent| sample::between(*sent, event.now));
        let (first, last) = (since(event.sent.first()), since(event.sent.last()));
        if self.estimator.is_blind() {
            self.set_provisional(first);
            return;
        }
        let lost = match ambiguity {
            Ambiguity::Likely => self.is_a_round_trip(last),
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

    /// What was sent ends without an acknowledgement.
    pub(crate) fn abandoned(&mut self, event: &Abandoned<'_>, max_doubt: u8) {
        if suggests_congestion(event) {
            self.add_doubt(2, max_doubt);
            self.copies.count(Copies::MOST);
        }
    }

    fn add_doubt(&mut self, more: u8, most: u8) {
        self.doubt = self.doubt.saturating_add(more).min(most);
    }

    /// Takes a round-trip time that is known, or bounded, by the exchange that ends now.
    pub(crate) fn sample(&mut self, rtt: Micros, now: Instant) {
        let now = Stamp::at(now);
        if self.samples == 0 {
            // What others have found out has had its time.
            self.estimator = Estimator::default();
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
    pub(crate) fn queueing_delay(&self) -> Micros {
        if self.samples < LEAST_SAMPLES {
            return Micros::ZERO;
        }
        let [current, before] = self.recent;
        current.min(before).minus(self.least())
    }

    /// A queue's delay varies as those do who are in it, and that of a longer route does not: where recent round trips exceed
    /// the least one by more than so many of their variations, the least one comes a sixteenth closer with each acknowledgement.
    pub(crate) fn learn_route(&mut self, variations: u32) {
        let excess = self.queueing_delay();
        let is_steady = self.estimator.rttvar().is_some_and(|rttvar| rttvar.times(variations) < excess);
        if variations > 0 && is_steady {
            let closer = self.least().plus(excess.shifted(4));
            (self.least, self.least_before) = (self.least.max(closer), self.least_before.max(closer));
        }
    }

    /// How far the smoothed round-trip time is above the least one, which is so much at least.
    pub(crate) fn inflation(&self, at_least: Micros) -> Inflation {
        let least = self.least().max(at_least);
        let excess = self.estimator.srtt().unwrap_or(least).minus(least);
        let ratio = u64::from(excess.get()) * u64::from(Inflation::ONE) / u64::from(least.get().max(1));
        Inflation(saturate(ratio).min(Inflation::ONE))
    }

    /// A copy's answer may come after this time: it is neither much shorter than any round trip nor longer than the RTO.
    pub(crate) fn is_a_round_trip(&self, since_copy: Micros) -> bool {
        (self.least().shifted(1)..=self.estimator.rto(4)).contains(&since_copy)
    }

    /// The timer of a blind peer that has answered after a retransmission.
    pub(crate) fn provisional(&self) -> Option<Micros> {
        (self.least != Micros::ZERO).then_some(self.least)
    }

    /// A blind peer answered an exchange with retransmissions after `elapsed`: longer than any round trip that it may
    /// have been, and so a timer that will not be too short, but no sample.
    pub(crate) fn set_provisional(&mut self, elapsed: Micros) {
        self.least = elapsed;
    }
}

/// Upper bounds of the values that a peer takes over from others.
#[derive(Clone, Copy)]
pub(crate) struct RoundTrip {
    pub(crate) srtt: Micros,
    pub(crate) rto: Micros,
}

impl RoundTrip {
    /// SRTT and RTTVAR, reduced until SRTT and RTO are within the bounds.
    pub(crate) fn bound(self, srtt: Micros, rttvar: Micros) -> (Micros, Micros) {
        let srtt = srtt.min(self.srtt);
        (srtt, rttvar.min(self.rto.minus(srtt).shifted(2)))
    }
}

/// What an acknowledgement is taken for that may answer any of several copies, once a round-trip time is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ambiguity {
    /// For the last copy's if it comes within what a round trip takes of it, else for a late one of the original's.
    #[default]
    Likely,
    /// For the last copy's: something was lost.
    Loss,
    /// For the original's: it was late.
    Late,
}

/// A share from 0 to 1.
#[derive(Clone, Copy)]
pub(crate) struct Inflation(u32);

impl Inflation {
    const ONE: u32 = 256;

    pub(crate) fn of(self, span: Micros) -> Micros {
        Micros::new(saturate(u64::from(span.get()) * u64::from(self.0) / u64::from(Self::ONE)))
    }
}

/// The mean of copies that an exchange needs beyond the first, in 1/32, moved by an eighth of the way each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copies(u8);

impl Copies {
    const ONE: u8 = 32;
    /// More are not told apart, and an exchange that fails counts as so many.
    pub(crate) const MOST: usize = 5;

    pub(crate) const fn get(self) -> u8 {
        self.0
    }

    pub(crate) fn count(&mut self, retransmissions: usize) {
        let target = Self::ONE * u8::try_from(retransmissions.min(Self::MOST)).unwrap_or(0);
        // An eighth of the way, rounded away from the present value, so that it arrives.
        self.0 = match target.checked_sub(self.0) {
            Some(0) => self.0,
            Some(up) => self.0 + (up / 8).max(1),
            None => self.0 - (self.0 - target).div_ceil(8),
        };
    }

    /// So many times `span`.
    pub(crate) fn times(self, span: Micros) -> Micros {
        span.shifted(5).times(u32::from(self.0))
    }
}
