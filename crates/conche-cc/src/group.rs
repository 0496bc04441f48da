//! [`Group`]: the state of a path, folded from the exchanges of all its peers, for peers that come
//! next.
//!
//! A peer that returns on a new port, or the next device behind the same border router, need not
//! measure again how long a round trip takes (RFC 9040: temporal sharing; RFC 3124: one macroflow
//! for all that one path carries). The endpoint folds each exchange of each peer into the group of
//! its path, the same for every controller, and asks [`Controller::seed`] for the state of a peer
//! that has none.
//!
//! A group knows whether all of its state comes from one peer. That peer gets it back in full. Any
//! other peer of the path may be another host, as behind a NAT, and any of them may lie: it gets
//! the round-trip time only, and that within a bound.
//!
//! ```
//! use conche_cc::control::{AckKind, AckedCopy, Acknowledged, Load};
//! use conche_cc::group::Group;
//! use conche_cc::temper::Temper;
//! use conche_cc::{Controller, Instant};
//!
//! let (sent, now) = (Instant::from_millis(5_000), Instant::from_millis(5_400));
//! let mut group = Group::new(now);
//! let (copy, kind) = (AckedCopy::Exact(0), AckKind::Piggybacked);
//! let peer = 17; // a hash of its address and port
//! let load = Load::default();
//! group.acknowledged(peer, &Acknowledged { now, sent: &[sent], copy, kind, load });
//!
//! let temper = Temper::default();
//! let returned = temper.seed(now, &group.seen_by(peer));
//! assert_eq!(temper.snapshot(&returned).srtt, Some(now - sent));
//! ```

use core::time::Duration;

use crate::control::{Abandoned, AckKind, AckedCopy, Acknowledged, Controller, Load};
use crate::path::{Ambiguity, PathState, RoundTrip};
use crate::sample;
use crate::time::Instant;
use crate::units::Micros;

/// The state of a path, from all exchanges with its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    source: Source,
    path: PathState,
    heard: Instant,
    shorter: Shorter,
}

/// The peers that the state of a path comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// There were none.
    Nobody,
    /// All of them were of this peer.
    Peer(u64),
    /// Peers that may be different hosts, or unknown ones.
    Several,
}

/// The run of samples below half of SRTT that ends with the last sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shorter {
    count: u8,
    longest: Micros,
}

/// Upper bounds of SRTT and RTO for a peer that starts from measurements of others. Its first
/// timer, dithering included, is at most twice RFC 7252's.
const LONGEST: RoundTrip = RoundTrip { srtt: Micros::from_millis(2_000), rto: Micros::from_millis(3_500) };
/// The same where a first sample makes the RTO three times as long.
const LONGEST_SAMPLE: Duration = Duration::from_millis(1_333);
/// A path does not pass on more doubt than this.
const MOST_DOUBT: u8 = 5;
/// After this number of samples in a row below half of SRTT, the estimate of several peers begins
/// anew.
const SHORTER_BEGIN_ANEW: u8 = 4;

impl Group {
    /// State up to this age is used unchanged; an idle peer's own state is kept as long
    /// (draft-ietf-core-cocoa-03 §4).
    pub const FRESH: Duration = Duration::from_secs(255);

    /// Older state is not used at all. Up to this age, and after [`FRESH`](Self::FRESH), it counts
    /// as much as a first sample, which is an assumption.
    pub const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

    /// A path without state.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { source: Source::Nobody, path: PathState::default(), heard: now, shorter: Shorter::default() }
    }

    /// A path with stored state, last updated at `heard`. `copies` is the mean number of copies
    /// beyond the first, in 1/32. The state is that of unknown peers: it is within the bounds of
    /// [`to_store`](Self::to_store), and no peer gets more of it than any other.
    #[must_use]
    pub fn remembered(heard: Instant, (srtt, rttvar): (Duration, Duration), copies: u8) -> Self {
        let (srtt, rttvar) = LONGEST.bound(srtt.into(), rttvar.into());
        let path = PathState::remembered(srtt, rttvar, copies);
        Self { source: Source::Several, path, ..Self::new(heard) }
    }

    /// An exchange with this peer of the path was acknowledged. `peer` is a number that no other
    /// peer is likely to have, such as a hash of its address and port.
    pub fn acknowledged(&mut self, peer: u64, event: &Acknowledged<'_>) {
        self.renew(event.now);
        let sample = sample::rtt_of_known_copy(event);
        self.count_from(peer, sample.is_some());
        self.path.acknowledged(event, Ambiguity::Likely, MOST_DOUBT);
        if let Some(rtt) = sample.filter(|_| self.source == Source::Several) {
            self.heal(rtt, event.now);
        }
        self.path.started(event.sent, event.now);
    }

    /// A Confirmable message to this peer of the path was given up.
    pub fn abandoned(&mut self, peer: u64, event: &Abandoned<'_>) {
        self.renew(event.now);
        self.count_from(peer, false);
        self.path.abandoned(event, MOST_DOUBT);
        self.path.started(event.sent, event.now);
    }

    /// Takes this peer's exchange into account.
    fn count_from(&mut self, peer: u64, sampled: bool) {
        let own = Source::Peer(peer);
        if self.source != own && sampled && !self.path.is_measured() {
            // The first measurement replaces state that is old or not measured.
            self.path = PathState::default();
            self.source = own;
        } else if self.source == Source::Nobody {
            self.source = own;
        } else if self.source != own {
            self.source = Source::Several;
        }
    }

    /// Begins the estimate anew after a run of short samples. A peer that delays its
    /// acknowledgements raises SRTT by any amount, and averaging takes tens of samples to forget
    /// that.
    fn heal(&mut self, rtt: Micros, now: Instant) {
        let srtt = self.path.estimator.srtt().unwrap_or_default();
        if rtt >= srtt.shifted(1) {
            self.shorter = Shorter::default();
            return;
        }
        self.shorter = Shorter { count: self.shorter.count + 1, longest: self.shorter.longest.max(rtt) };
        if self.shorter.count >= SHORTER_BEGIN_ANEW {
            self.path = PathState::default();
            self.path.sample(self.shorter.longest, now);
            self.shorter = Shorter::default();
        }
    }

    fn renew(&mut self, now: Instant) {
        if now - self.heard > Self::KEPT {
            *self = Self::new(now);
        }
        self.path = self.aged(now);
        self.heard = now;
    }

    /// This group as the seed of `peer`'s state: in full if all of it comes from this peer, and
    /// else within the bounds for other peers.
    #[must_use]
    pub fn seen_by(&self, peer: u64) -> Self {
        let source = if self.source == Source::Peer(peer) { self.source } else { Source::Several };
        Self { source, ..*self }
    }

    /// The state that a new peer starts from. It is bounded, except for the only source of a group
    /// that was [seen by](Self::seen_by) it.
    #[must_use]
    pub fn path(&self, now: Instant) -> PathState {
        let path = self.aged(now);
        if self.is_own() { path } else { path.of_a_neighbour(LONGEST) }
    }

    fn is_own(&self) -> bool {
        matches!(self.source, Source::Peer(_))
    }

    fn aged(&self, now: Instant) -> PathState {
        match now - self.heard {
            age if age <= Self::FRESH => self.path,
            age if age <= Self::KEPT => self.path.of_one_sample(),
            _ => PathState::default(),
        }
    }

    /// When it was last updated.
    #[must_use]
    pub fn heard(&self) -> Instant {
        self.heard
    }

    /// The state of the path as it was last updated: the smoothed round-trip time, its variation,
    /// and the mean number of copies beyond the first, in 1/32. `None` if no round trip could be
    /// measured.
    #[must_use]
    pub fn learnt(&self) -> Option<(Duration, Duration, u8)> {
        self.path.learnt()
    }

    /// The same within the bounds for other peers: SRTT at most 2 s, SRTT + 4·RTTVAR at most 3.5 s.
    /// A store that outlives the program does not know which peer returns.
    #[must_use]
    pub fn to_store(&self) -> Option<(Duration, Duration, u8)> {
        let (srtt, rttvar, copies) = self.learnt()?;
        let (srtt, rttvar) = LONGEST.bound(srtt.into(), rttvar.into());
        Some((srtt.into(), rttvar.into(), copies))
    }

    /// The state of a peer that has had one exchange without loss, as long as the path's smoothed round-trip time: for algorithms that
    /// have estimators of their own. Their RTO after it is three times as long, or less.
    pub fn as_first_sample<C: Controller>(&self, controller: &C, now: Instant) -> C::Peer {
        let mut peer = controller.peer(now);
        let Some((srtt, ..)) = self.path(now).learnt() else { return peer };
        let sample = if self.is_own() { srtt } else { srtt.min(LONGEST_SAMPLE) };
        let sent = now - sample;
        // The clock may have started less than the sample ago.
        if now - sent == sample {
            let (copy, kind) = (AckedCopy::Exact(0), AckKind::Piggybacked);
            let event = Acknowledged { now, sent: &[sent], copy, kind, load: Load::default() };
            controller.acknowledged(&mut peer, &C::Flight::default(), &event);
        }
        peer
    }
}

#[cfg(test)]
mod tests;
