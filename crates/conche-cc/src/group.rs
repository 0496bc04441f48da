//! [`Group`]: what the peers of one path have found out about it, for those that come next.
//!
//! A peer that returns on a new port, or the next device behind the same border router, need not find out again how long a round
//! trip takes and how much is lost (RFC 9040: temporal sharing; RFC 3124: one macroflow for all that one path carries).
//! The endpoint folds each exchange of each peer into the group of its path, the same for every controller, and asks
//! [`Controller::seed`] for the state of a peer of which nothing else is known.
//!
//! ```
//! use conche_cc::control::{AckKind, AckedCopy, Acknowledged, Load};
//! use conche_cc::group::{Group, Members};
//! use conche_cc::temper::Temper;
//! use conche_cc::{Controller, Instant};
//!
//! let (sent, now) = (Instant::from_millis(5_000), Instant::from_millis(5_400));
//! let mut group = Group::of(Members::OneHost, now);
//! let (copy, kind) = (AckedCopy::Exact(0), AckKind::Piggybacked);
//! group.acknowledged(&Acknowledged { now, sent: &[sent], copy, kind, load: Load::default() });
//!
//! let temper = Temper::default();
//! let returned = temper.seed(now, &group);
//! assert_eq!(temper.snapshot(&returned).srtt, Some(now - sent));
//! ```

use core::time::Duration;

use crate::control::{Abandoned, AckKind, AckedCopy, Acknowledged, Controller, Load};
use crate::path::{Ambiguity, PathState, RoundTrip};
use crate::time::Instant;
use crate::units::Micros;

/// What is known of a path from all exchanges with its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    members: Members,
    path: PathState,
    heard: Instant,
}

/// Who the peers of a path are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// One host on several ports, or one that returns: the round trips of one are those of all.
    OneHost,
    /// Hosts of one network. Each has a way of its own from where theirs part: the least round-trip time of one says nothing of
    /// another's, and any of them may lie.
    Many,
}

/// What several hosts have found out makes smoothed round-trip time and RTO of another one no longer than this. So its first
/// timer, dithering included, is no longer than twice RFC 7252's, and none of them can slow another by more.
const LONGEST: RoundTrip = RoundTrip { srtt: Micros::from_millis(2_000), rto: Micros::from_millis(3_500) };
/// The same where a first sample makes the RTO three times as long.
const LONGEST_SAMPLE: Duration = Duration::from_millis(1_333);
/// More doubt than this a path does not pass on to its next peer.
const MOST_DOUBT: u8 = 5;

impl Group {
    /// For so long what was learnt is taken as it is; an idle peer's own state is kept as long (draft-ietf-core-cocoa-03 §4).
    pub const FRESH: Duration = Duration::from_secs(255);

    /// What was learnt longer ago says nothing any more. Up to this age, and after a few minutes, it counts as much as a first sample
    /// would, which is an assumption.
    pub const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

    /// A path of which nothing is known.
    #[must_use]
    pub fn of(members: Members, now: Instant) -> Self {
        Self { members, path: PathState::default(), heard: now }
    }

    /// A path of which this is known, heard of last at `heard`. `copies` is the mean number of copies beyond the first, in 1/32.
    #[must_use]
    pub fn remembered(members: Members, heard: Instant, (srtt, rttvar): (Duration, Duration), copies: u8) -> Self {
        Self { members, path: PathState::remembered(srtt.into(), rttvar.into(), copies), heard }
    }

    /// An exchange with one of its peers was acknowledged.
    pub fn acknowledged(&mut self, event: &Acknowledged<'_>) {
        self.renew(event.now);
        self.path.acknowledged(event, Ambiguity::Likely, MOST_DOUBT);
        self.path.started(event.sent, event.now);
    }

    /// A Confirmable message to one of its peers was given up.
    pub fn abandoned(&mut self, event: &Abandoned<'_>) {
        self.renew(event.now);
        self.path.abandoned(event, MOST_DOUBT);
        self.path.started(event.sent, event.now);
    }

    fn renew(&mut self, now: Instant) {
        self.path = self.aged(now);
        self.heard = now;
    }

    /// What a new peer may start from.
    #[must_use]
    pub fn path(&self, now: Instant) -> PathState {
        let path = self.aged(now);
        match self.members {
            Members::OneHost => path,
            Members::Many => path.of_a_neighbour(LONGEST),
        }
    }

    fn aged(&self, now: Instant) -> PathState {
        match now - self.heard {
            age if age <= Self::FRESH => self.path,
            age if age <= Self::KEPT => self.path.of_one_sample(),
            _ => PathState::default(),
        }
    }

    /// When it was heard of last.
    #[must_use]
    pub fn heard(&self) -> Instant {
        self.heard
    }

    /// What was learnt of the path until it was heard of last, to be [remembered](Self::remembered): the smoothed round-trip time, its
    /// variation, and the mean number of copies beyond the first, in 1/32. `None` if no round trip could be measured.
    #[must_use]
    pub fn learnt(&self) -> Option<(Duration, Duration, u8)> {
        self.path.learnt()
    }

    /// The state of a peer that has had one exchange without loss, as long as the path's smoothed round-trip time: for algorithms that
    /// have estimators of their own. Their RTO after it is three times as long, or less.
    pub fn as_first_sample<C: Controller>(&self, controller: &C, now: Instant) -> C::Peer {
        let mut peer = controller.peer(now);
        let Some((srtt, ..)) = self.path(now).learnt() else { return peer };
        let sample = match self.members {
            Members::OneHost => srtt,
            Members::Many => srtt.min(LONGEST_SAMPLE),
        };
        let sent = now - sample;
        // Of a clock that began less than that ago there is no such sample.
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
