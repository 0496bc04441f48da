//! [`PathState`]: round-trip times, queueing delay and losses of a peer's or a shared path.

use core::time::Duration;

use crate::backoff::suggests_congestion;
use crate::estimator::{Estimator, Gains};
use crate::event::{Abandoned, AckKind, Acknowledged};
use crate::sample;
use crate::time::Instant;
use crate::units::{Factor, Micros, Stamp, saturate};

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
    /// The last start or end of an exchange.
    last_activity: Stamp,
    /// The peer's own samples; from [`SETTLED`], their parity. The estimator may have started from
    /// another's.
    samples: u8,
    /// Consecutive exchanges that indicate a wrong RTO or a full path.
    pub(crate) doubt: u8,
    losses: LossShare,
    /// Exchanges left without a gate: the sender does not wait for responses.
    open_loop: u8,
}

/// Ambiguous exchanges in a row that do not double the RTO.
pub(crate) const GRACE: u8 = 3;
/// Further ones double it up to this often.
pub(crate) const MAX_DOUBLINGS: u8 = 14;
/// The minimum covers one or two windows, since routes change.
const WINDOW_MS: u32 = 300_000;
/// From here, the count of samples alternates.
const SETTLED: u8 = 4;
/// Variation of a response's delay in its host.
const HOSTS_DELAY: Micros = Micros::from_millis(10);
/// Minimum samples for a queueing delay.
const MIN_SAMPLES: u8 = 2;
/// Round trips above the minimum by more than this many RTTVARs are a longer route, not a queue.
const ROUTE_CHANGE_RTTVARS: u32 = 16;
/// A sender that waits for responses is idle for less than 1/2^n of SRTT.
const IDLE_SHIFT: u8 = 2;
/// Idle time in SRTTs after which measurements are old (draft-ietf-core-cocoa-03 §4.3).
const OLD_ROUND_TRIPS: u32 = 16;
/// Exchanges without a gate after an idle time, to send the requests that became due.
const OPEN_LOOP_EXCHANGES: u8 = 64;

impl PathState {
    /// Returns a path with stored estimates, as after one sample.
    pub(crate) fn remembered(srtt: Micros, rttvar: Micros) -> Self {
        Self { estimator: Estimator::starting(srtt, rttvar), ..Self::default() }.as_one_sample()
    }

    /// Keeps the round-trip time, as after one sample, and the losses.
    pub(crate) fn as_one_sample(&self) -> Self {
        let Some(srtt) = self.estimator.srtt() else { return Self::default() };
        let rttvar = self.estimator.rttvar().unwrap_or_default().max(srtt.shifted(1));
        let estimator = Estimator::starting(srtt, rttvar);
        Self {
            estimator,
            losses: self.losses,
            last_activity: self.last_activity,
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
        let last_activity = self.last_activity;
        Self { estimator, last_activity, min_rtt: srtt, min_rtt_before: srtt, ..Self::default() }
    }

    pub(crate) fn learnt(&self) -> Option<(Duration, Duration)> {
        Some((self.estimator.srtt()?.into(), self.estimator.rttvar()?.into()))
    }

    #[must_use]
    /// Returns whether there is an estimate or a provisional timeout.
    pub fn is_known(&self) -> bool {
        !self.estimator.is_unmeasured() || self.provisional().is_some()
    }

    pub(crate) fn is_measured(&self) -> bool {
        self.samples > 0
    }

    /// Notes the start of an exchange.
    pub(crate) fn started(&mut self, now: Instant) {
        self.last_activity = Stamp::at(now);
        self.open_loop = self.open_loop.saturating_sub(1);
    }

    /// Notes the end of an exchange.
    pub(crate) fn ended(&mut self, now: Instant) {
        self.last_activity = Stamp::at(now);
    }

    /// Returns the last start or end of an exchange.
    pub(crate) fn last_activity(&self, now: Instant) -> Instant {
        self.last_activity.instant(now)
    }

    /// Notes the end of an idle time. A sender that was idle does not send because of the last
    /// response, and a pause would only delay it.
    pub(crate) fn resumed(&mut self, now: Instant) {
        let idle = Micros::between(self.last_activity(now), now);
        if self.estimator.srtt().is_some_and(|srtt| idle > srtt.shifted(IDLE_SHIFT)) {
            self.open_loop = OPEN_LOOP_EXCHANGES;
        }
    }

    /// Returns whether no exchange started or ended for many round trips, so that the path may have
    /// changed.
    pub(crate) fn is_old(&self, now: Instant) -> bool {
        let idle = Micros::between(self.last_activity(now), now);
        self.estimator.srtt().is_some_and(|srtt| idle > srtt.times(OLD_ROUND_TRIPS))
    }

    pub(crate) fn is_open_loop(&self) -> bool {
        self.open_loop > 0
    }

    /// The time of separate responses includes processing.
    pub(crate) fn acknowledged(&mut self, event: &Acknowledged<'_>, max_doubt: u8) {
        if event.kind == AckKind::Separate {
            if event.retransmissions() > 0 {
                self.add_doubt(1, max_doubt);
            }
            return;
        }
        match sample::rtt_of_known_copy(event) {
            Some(rtt) => {
                self.losses.count(false);
                self.sample(rtt, event.now);
                self.doubt = 0;
            }
            None => self.ambiguous(event, max_doubt),
        }
    }

    fn ambiguous(&mut self, event: &Acknowledged<'_>, max_doubt: u8) {
        let since = |sent: Option<&Instant>| sent.map_or(Micros::MIN, |sent| sample::between(*sent, event.now));
        let (first, last) = (since(event.sent.first()), since(event.sent.last()));
        if self.estimator.is_unmeasured() {
            self.losses.count(true);
            self.set_provisional(first);
            return;
        }
        if self.is_plausible_rtt(last) {
            // Several losses in a row are an outage, which tells nothing of the usual ones.
            if event.retransmissions() == 1 {
                self.losses.count(true);
            }
            self.add_doubt(1, max_doubt);
        } else {
            self.losses.count(false);
            self.sample(first, event.now);
            self.doubt = 0;
        }
    }

    /// A failure doubles the RTO despite `grace`.
    pub(crate) fn abandoned(&mut self, event: &Abandoned<'_>, grace: u8, max_doubt: u8) {
        if suggests_congestion(event) {
            self.doubt = self.doubt.max(grace.saturating_sub(1));
            self.add_doubt(2, max_doubt);
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
    /// sixteenth of recent round trips' excess, if above [`ROUTE_CHANGE_RTTVARS`].
    pub(crate) fn adapt_min_rtt(&mut self) {
        let excess = self.queueing_delay();
        if self.estimator.rttvar().is_some_and(|rttvar| rttvar.times(ROUTE_CHANGE_RTTVARS) < excess) {
            let closer = self.min_rtt().plus(excess.shifted(4));
            (self.min_rtt, self.min_rtt_before) = (self.min_rtt.max(closer), self.min_rtt_before.max(closer));
        }
    }

    /// SRTT's relative excess over the minimum, at least `at_least`.
    pub(crate) fn inflation(&self, at_least: Micros) -> Share {
        let least = self.min_rtt().max(at_least);
        Share::of_total(self.estimator.srtt().unwrap_or(least).minus(least), least)
    }

    /// Similarity of delays to collisions, where most delays are short and a few very long. RTTVAR's
    /// ratio to SRTT's excess over the minimum, at least `at_least`, gives 0 up to 13/16 of
    /// `collisions`, and 1 from `collisions` on. Even jitter has a ratio of a third to a half, queues
    /// any.
    pub(crate) fn collisions(&self, at_least: Micros, collisions: Factor) -> Share {
        let excess = self.estimator.srtt().unwrap_or_default().minus(self.min_rtt().max(at_least));
        let all = excess.scaled(collisions);
        let ramp = all.shifted(3).plus(all.shifted(4));
        let above = self.estimator.rttvar().unwrap_or_default().minus(all.minus(ramp));
        Share::of_total(above, ramp)
    }

    /// At least half the minimum, and at most the RTO, 1.25·SRTT, or SRTT and hosts' own delay.
    fn is_plausible_rtt(&self, since_copy: Micros) -> bool {
        let srtt = self.estimator.srtt().unwrap_or_default();
        let longest = self.estimator.rto(4).max(srtt.plus(srtt.shifted(2).max(HOSTS_DELAY)));
        (self.min_rtt().shifted(1)..=longest).contains(&since_copy)
    }

    /// One without losses, zero from a share of `usual` on.
    pub(crate) fn rarity_of_losses(&self, usual: Factor) -> Share {
        self.losses.rarity(usual)
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

/// A share from 0 to 1, in 1/256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Share(u32);

impl Share {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ALL: Self = Self(Self::ONE);
    const ONE: u32 = 256;

    /// Zero of nothing.
    fn of_total(part: Micros, total: Micros) -> Self {
        if total == Micros::ZERO {
            return Self::NONE;
        }
        if part >= total {
            return Self::ALL;
        }
        Self(saturate(u64::from(part.get()) * u64::from(Self::ONE) / u64::from(total.get())))
    }

    pub(crate) fn of(self, span: Micros) -> Micros {
        Micros::new(saturate(u64::from(span.get()) * u64::from(self.0) / u64::from(Self::ONE)))
    }
}

/// Share of answered exchanges with a loss in 1/256, with a gain of 1/16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LossShare(u8);

impl LossShare {
    fn count(&mut self, lost: bool) {
        self.0 = if lost {
            self.0.saturating_add(((u8::MAX - self.0) / 16).max(1))
        } else {
            self.0.saturating_sub((self.0 / 16).max(1))
        };
    }

    /// One without losses, zero from `usual` on.
    fn rarity(self, usual: Factor) -> Share {
        let usual = (u32::from(usual.permille()) * Share::ONE).div_ceil(1_000).max(1);
        Share(Share::ONE - (u32::from(self.0) * Share::ONE / usual).min(Share::ONE))
    }
}
