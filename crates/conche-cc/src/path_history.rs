//! [`PathHistory`]: a path's state from all its peers' exchanges, as a start for new ones (RFC
//! 9040: temporal sharing; RFC 3124: one macroflow per path).
//!
//! The endpoint adds every exchange, and calls [`Controller::seed`](crate::Controller::seed) for a
//! peer without state. A history's only source gets the full state; others, perhaps hosts behind a
//! NAT that forge acknowledgements, get only the round-trip time, within a bound.
//!
//! ```
//! use conche_cc::control::{AckKind, AckedCopy, Acknowledged, Load};
//! use conche_cc::path_history::PathHistory;
//! use conche_cc::temper::Temper;
//! use conche_cc::{Controller, Instant};
//!
//! let (sent, now) = (Instant::from_millis(5_000), Instant::from_millis(5_400));
//! let mut history = PathHistory::new(now);
//! let (copy, kind) = (AckedCopy::Exact(0), AckKind::Piggybacked);
//! let peer = 17; // a hash of its address and port
//! let load = Load::default();
//! history.acknowledged(peer, &Acknowledged { now, sent: &[sent], copy, kind, load });
//!
//! let temper = Temper::default();
//! let returned = temper.seed(now, &history.seen_by(peer));
//! assert_eq!(temper.snapshot(&returned).srtt, Some(now - sent));
//! ```

use core::time::Duration;

use crate::event::{Abandoned, Acknowledged};
use crate::path::{GRACE, MAX_DOUBLINGS, PathState, RoundTrip};
use crate::sample;
use crate::time::Instant;
use crate::units::Micros;

/// A path's state from its peers' exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathHistory {
    source: Source,
    path: PathState,
    heard: Instant,
    short: ShortSamples,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    None,
    Peer(u64),
    /// Several or unknown peers.
    Several,
}

/// Consecutive samples below SRTT/2, up to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ShortSamples {
    count: u8,
    longest: Micros,
}

/// The randomised first timeout is at most twice RFC 7252's.
const MAX_SHARED: RoundTrip = RoundTrip { srtt: Micros::from_millis(2_000), rto: Micros::from_millis(3_500) };
const MAX_DOUBT: u8 = GRACE + MAX_DOUBLINGS;
/// Short samples that reset several peers' estimate.
const SHORT_SAMPLES_TO_RESET: u8 = 4;

impl PathHistory {
    /// Maximum age of unchanged state, as an idle peer's own (draft-ietf-core-cocoa-03 §4).
    pub const FRESH: Duration = Duration::from_secs(255);

    /// Maximum age of state. After [`FRESH`](Self::FRESH) it counts as a first sample, an
    /// assumption.
    pub const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

    /// Returns a path without state.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { source: Source::None, path: PathState::default(), heard: now, short: ShortSamples::default() }
    }

    /// Returns a path with stored state of time `heard`, for all peers within the bounds of
    /// [`to_store`](Self::to_store).
    #[must_use]
    pub fn remembered(heard: Instant, srtt: Duration, rttvar: Duration) -> Self {
        let (srtt, rttvar) = MAX_SHARED.bound(srtt.into(), rttvar.into());
        let path = PathState::remembered(srtt, rttvar);
        Self { source: Source::Several, path, ..Self::new(heard) }
    }

    /// Adds an acknowledged exchange. `peer` should be unique, such as a hash of address and port.
    pub fn acknowledged(&mut self, peer: u64, event: &Acknowledged<'_>) {
        self.renew(event.now);
        let sample = sample::rtt_of_known_copy(event);
        self.add_source(peer, sample.is_some());
        self.path.acknowledged(event, MAX_DOUBT);
        if let Some(rtt) = sample.filter(|_| self.source == Source::Several) {
            self.reset_after_short_samples(rtt, event.now);
        }
        self.path.ended(event.now);
    }

    /// Adds an unacknowledged Confirmable message to `peer`.
    pub fn abandoned(&mut self, peer: u64, event: &Abandoned<'_>) {
        self.renew(event.now);
        self.add_source(peer, false);
        self.path.abandoned(event, GRACE, MAX_DOUBT);
        self.path.ended(event.now);
    }

    fn add_source(&mut self, peer: u64, sampled: bool) {
        let own = Source::Peer(peer);
        if self.source != own && sampled && !self.path.is_measured() {
            // The first measurement replaces old or unmeasured state.
            self.path = PathState::default();
            self.source = own;
        } else if self.source == Source::None {
            self.source = own;
        } else if self.source != own {
            self.source = Source::Several;
        }
    }

    /// Delayed acknowledgements can raise SRTT by any amount.
    fn reset_after_short_samples(&mut self, rtt: Micros, now: Instant) {
        let srtt = self.path.estimator.srtt().unwrap_or_default();
        if rtt >= srtt.shifted(1) {
            self.short = ShortSamples::default();
            return;
        }
        self.short = ShortSamples { count: self.short.count + 1, longest: self.short.longest.max(rtt) };
        if self.short.count >= SHORT_SAMPLES_TO_RESET {
            self.path = PathState::default();
            self.path.sample(self.short.longest, now);
            self.short = ShortSamples::default();
        }
    }

    fn renew(&mut self, now: Instant) {
        if now - self.heard > Self::KEPT {
            *self = Self::new(now);
        }
        self.path = self.aged(now);
        self.heard = now;
    }

    /// Returns the seed for `peer`: full for the only source, otherwise bounded.
    #[must_use]
    pub fn seen_by(&self, peer: u64) -> Self {
        let source = if self.source == Source::Peer(peer) { self.source } else { Source::Several };
        Self { source, ..*self }
    }

    /// Returns a new peer's state, bounded unless [seen by](Self::seen_by) its only source.
    #[must_use]
    pub fn path(&self, now: Instant) -> PathState {
        let path = self.aged(now);
        if self.is_own() { path } else { path.for_neighbour(MAX_SHARED) }
    }

    pub(crate) fn is_own(&self) -> bool {
        matches!(self.source, Source::Peer(_))
    }

    fn aged(&self, now: Instant) -> PathState {
        match now - self.heard {
            age if age <= Self::FRESH => self.path,
            age if age <= Self::KEPT => self.path.as_one_sample(),
            _ => PathState::default(),
        }
    }

    /// Returns the time of the last update.
    #[must_use]
    pub fn heard(&self) -> Instant {
        self.heard
    }

    /// Returns the last SRTT and RTTVAR.
    #[must_use]
    pub fn learnt(&self) -> Option<(Duration, Duration)> {
        self.path.learnt()
    }

    /// Returns the same within other peers' bounds: SRTT at most 2 s, SRTT + 4·RTTVAR at most 3.5
    /// s.
    #[must_use]
    pub fn to_store(&self) -> Option<(Duration, Duration)> {
        let (srtt, rttvar) = self.learnt()?;
        let (srtt, rttvar) = MAX_SHARED.bound(srtt.into(), rttvar.into());
        Some((srtt.into(), rttvar.into()))
    }
}

#[cfg(test)]
mod tests;
