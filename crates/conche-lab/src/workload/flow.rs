//! What one requester asks of one peer: when, how often, how much.

use std::time::Duration;

use conche_netsim::{Instant, NodeId};
use conche_proto::codec::{Body, Code};

/// The requests that a node sends to one peer.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Whom to.
    pub peer: NodeId,
    /// When it begins.
    pub start: Instant,
    /// From when on it opens no new exchange; `None`: never ends by itself.
    pub stop: Option<Instant>,
    /// How its exchanges follow one another.
    pub pace: Pace,
    /// GET, POST, …
    pub method: Code,
    /// Options and payload.
    pub body: Body,
    /// Whether requests are Confirmable.
    pub confirmable: bool,
}

/// How the exchanges of a flow follow one another.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// A closed loop: whenever an exchange ends, well or not, the next one begins.
    Closed {
        /// How many go on at the same time.
        outstanding: u16,
        /// How many it opens in all; `None`: no limit.
        exchanges: Option<u64>,
    },
    /// Messages are generated at a rate and wait, without limit, for their turn.
    Rate {
        /// How many exchanges go on at the same time; `None`: no limit.
        outstanding: Option<u16>,
        /// How often messages are generated, in the order of time.
        segments: Vec<Segment>,
    },
}

/// From a time on, messages are generated in this interval; until the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// From when on.
    pub from: Instant,
    /// One message in each such time; `None`: none.
    pub interval: Option<Duration>,
}

impl Pace {
    /// The time of the first message that is generated at or after `now`, one interval after it began to count.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let Self::Rate { segments, .. } = self else { return None };
        let current = segments.iter().rev().find(|segment| segment.from <= now);
        let next_segment = segments.iter().find(|segment| segment.from > now).map(|segment| segment.from);
        let in_current = current.and_then(|segment| Some(now + segment.interval?));
        match (in_current, next_segment) {
            (Some(at), Some(change)) if at < change => Some(at),
            // A segment's first message comes with its begin.
            (_, Some(change)) => self.first_from(change),
            (at, None) => at,
        }
    }

    /// The begin of the first segment, from `from` on, in which anything is generated.
    pub(super) fn first_from(&self, from: Instant) -> Option<Instant> {
        let Self::Rate { segments, .. } = self else { return None };
        let generating = |segment: &&Segment| segment.from >= from && segment.interval.is_some();
        segments.iter().find(generating).map(|segment| segment.from)
    }
}

/// Options and payload such that the whole message has this many bytes, with a token of this length; at least its header.
///
/// # Panics
/// If the message is longer than any payload may be.
#[must_use]
pub fn body_of(message_bytes: usize, token_bytes: usize) -> Body {
    const HEADER_BYTES: usize = 4;
    const MARKER_BYTES: usize = 1;
    match message_bytes.saturating_sub(HEADER_BYTES + token_bytes + MARKER_BYTES) {
        0 => Body::EMPTY,
        payload => Body::builder().payload(vec![b'.'; payload]).build().expect("a payload needs no option"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_rate_changes_with_its_segments_and_pauses_between_them() {
        let every = |seconds| Some(Duration::from_secs(seconds));
        let segments = vec![
            Segment { from: at(10), interval: every(4) },
            Segment { from: at(20), interval: None },
            Segment { from: at(30), interval: every(1) },
        ];
        let pace = Pace::Rate { outstanding: None, segments };
        let mut times = vec![pace.first_from(Instant::ZERO).expect("a segment")];
        while times.len() < 6 {
            times.push(pace.next(*times.last().expect("one")).expect("it goes on for ever"));
        }
        assert_eq!(times, [10, 14, 18, 30, 31, 32].map(at));
    }

    #[test]
    fn a_body_fills_its_message() {
        assert_eq!(body_of(28, 8).len() + 4 + 8, 28);
        assert_eq!(body_of(12, 8), Body::EMPTY);
    }
}
