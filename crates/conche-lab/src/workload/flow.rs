//! What one requester asks of one peer: when, how often, how much.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use conche_netsim::rng::Stream;
use conche_netsim::{Instant, NodeId};
use conche_proto::codec::{Body, Code};

use crate::scenario::Range;

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
    /// How many go on at the same time.
    pub outstanding: u16,
    /// How many it has in all.
    pub limit: Limit,
    /// The run ends when so many exchanges have succeeded, of all flows that share this number; `None`: not through this flow.
    pub enough: Option<Rc<Cell<u64>>>,
    /// After each batch of so many exchanges that succeeded it forgets the peer's congestion state; `None`: never.
    pub batch: Option<Range>,
    /// GET, POST, …
    pub method: Code,
    /// Options and payload.
    pub body: Body,
    /// Whether requests are Confirmable.
    pub confirmable: bool,
}

/// How the exchanges of a flow follow one another. What is due by a clock or by chance waits, without limit, for its turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// A closed loop: whenever an exchange ends, well or not, the next one begins.
    Closed,
    /// How often messages are generated, in the order of time.
    Rate(Vec<Segment>),
    /// One after pauses that are exponentially distributed with this mean.
    Poisson(Duration),
    /// Several at the beginning of each such time.
    Bursts {
        /// From one burst to the next.
        interval: Duration,
        /// Messages of a burst.
        messages: u32,
    },
    /// At these times since the flow began, in their order.
    At(Vec<Duration>),
    /// By a clock in turns on and off; the first one is on, and begins with the flow.
    Turns {
        /// When within each turn the clock first goes.
        phase: Duration,
        /// From one message to the next.
        interval: Duration,
        /// How long it is on.
        on: Duration,
        /// And how long it is off, after that.
        off: Duration,
    },
}

/// How many exchanges a flow has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// As many as there is time for.
    None,
    /// It opens so many.
    Opened(u64),
    /// It goes on until so many have succeeded.
    Succeeded(u64),
}

/// From a time on, messages are generated in this interval; until the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// From when on.
    pub from: Instant,
    /// One message in each such time; `None`: none.
    pub interval: Option<Duration>,
}

impl Flow {
    /// A closed loop of GET requests without payload, one at a time and without end.
    #[must_use]
    pub const fn to(peer: NodeId) -> Self {
        Self {
            peer,
            start: Instant::ZERO,
            stop: None,
            pace: Pace::Closed,
            outstanding: 1,
            limit: Limit::None,
            enough: None,
            batch: None,
            method: Code::GET,
            body: Body::EMPTY,
            confirmable: true,
        }
    }

    /// When its first message is due.
    pub(super) fn first(&self, stream: &mut Stream) -> Option<Instant> {
        match &self.pace {
            Pace::Closed | Pace::Bursts { .. } => Some(self.start),
            Pace::Rate(segments) => first_from(segments, self.start),
            Pace::Poisson(mean) => Some(self.start + mean.mul_f64(stream.exponential())),
            Pace::At(times) => times.first().map(|time| self.start + *time),
            Pace::Turns { phase, .. } => Some(self.start + *phase),
        }
    }

    /// When the next one is, after one at `now`.
    pub(super) fn next(&self, now: Instant, stream: &mut Stream) -> Option<Instant> {
        match &self.pace {
            Pace::Closed => None,
            Pace::Rate(segments) => next_of(segments, now),
            Pace::Poisson(mean) => Some(now + mean.mul_f64(stream.exponential())),
            Pace::Bursts { interval, .. } => Some(now + *interval),
            Pace::At(times) => times.iter().map(|time| self.start + *time).find(|time| *time > now),
            Pace::Turns { phase, interval, on, off } => {
                let turn = on.saturating_add(*off).as_nanos().max(1);
                let since = (now - self.start + *interval).as_nanos();
                if since % turn < on.as_nanos() {
                    return Some(now + *interval);
                }
                let begin = u64::try_from((since / turn + 1) * turn).unwrap_or(u64::MAX);
                Some(self.start + Duration::from_nanos(begin) + *phase)
            }
        }
    }

    /// How many messages are due at `now`.
    pub(super) fn due(&self, now: Instant) -> u64 {
        match &self.pace {
            Pace::Closed => 0,
            Pace::Rate(_) | Pace::Poisson(_) | Pace::Turns { .. } => 1,
            Pace::Bursts { messages, .. } => u64::from(*messages),
            Pace::At(times) => times.iter().filter(|time| self.start + **time == now).count() as u64,
        }
    }
}

/// The time of the first message after `now`, one interval after it.
fn next_of(segments: &[Segment], now: Instant) -> Option<Instant> {
    let current = segments.iter().rev().find(|segment| segment.from <= now);
    let next_segment = segments.iter().find(|segment| segment.from > now).map(|segment| segment.from);
    let in_current = current.and_then(|segment| Some(now + segment.interval?));
    match (in_current, next_segment) {
        (Some(at), Some(change)) if at < change => Some(at),
        // A segment's first message comes with its begin.
        (_, Some(change)) => first_from(segments, change),
        (at, None) => at,
    }
}

/// The begin of the first segment, from `from` on, in which anything is generated.
fn first_from(segments: &[Segment], from: Instant) -> Option<Instant> {
    let generating = |segment: &&Segment| segment.from >= from && segment.interval.is_some();
    segments.iter().find(generating).map(|segment| segment.from)
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
        let mut times = vec![first_from(&segments, Instant::ZERO).expect("a segment")];
        while times.len() < 6 {
            times.push(next_of(&segments, *times.last().expect("one")).expect("it goes on for ever"));
        }
        assert_eq!(times, [10, 14, 18, 30, 31, 32].map(at));
    }

    #[test]
    fn a_clock_goes_in_turns() {
        let seconds = Duration::from_secs;
        let pace = Pace::Turns { phase: seconds(1), interval: seconds(4), on: seconds(10), off: seconds(5) };
        let flow = Flow { start: at(100), pace, ..Flow::to(NodeId::BROADCAST) };
        let mut stream = conche_netsim::rng::Streams::new(1)
            .stream(conche_netsim::rng::Entity::Run, conche_netsim::rng::Purpose::named("test"));
        let mut times = vec![flow.first(&mut stream).expect("a first one")];
        while times.len() < 7 {
            times.push(flow.next(*times.last().expect("one"), &mut stream).expect("it goes on for ever"));
        }
        assert_eq!(times, [101, 105, 109, 116, 120, 124, 131].map(at));
    }

    #[test]
    fn a_body_fills_its_message() {
        assert_eq!(body_of(28, 8).len() + 4 + 8, 28);
        assert_eq!(body_of(12, 8), Body::EMPTY);
    }
}
