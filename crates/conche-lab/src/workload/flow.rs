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
    /// A clock, whose rate may change, in the order of time.
    Clock(Vec<Segment>),
    /// One after pauses that are exponentially distributed with this mean.
    Poisson(Duration),
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

/// From a time on, messages are generated in this interval, the first ones at once; until the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// From when on.
    pub from: Instant,
    /// From one time to the next.
    pub interval: Duration,
    /// How many there are each time.
    pub messages: u32,
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
            Pace::Closed => Some(self.start),
            Pace::Clock(segments) => segments.iter().map(|segment| segment.from).find(|from| *from >= self.start),
            Pace::Poisson(mean) => Some(self.start + mean.mul_f64(stream.exponential())),
            Pace::At(times) => times.first().map(|time| self.start + *time),
            Pace::Turns { phase, .. } => Some(self.start + *phase),
        }
    }

    /// When the next one is, after one at `now`.
    pub(super) fn next(&self, now: Instant, stream: &mut Stream) -> Option<Instant> {
        match &self.pace {
            Pace::Closed => None,
            Pace::Clock(segments) => next_of(segments, now),
            Pace::Poisson(mean) => Some(now + mean.mul_f64(stream.exponential())),
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
            Pace::Clock(segments) => current(segments, now).map_or(0, |segment| segment.messages.into()),
            Pace::Poisson(_) | Pace::Turns { .. } => 1,
            Pace::At(times) => times.iter().filter(|time| self.start + **time == now).count() as u64,
        }
    }
}

/// The time of the first message after `now`, one interval after it; a segment's first message comes with its begin.
fn next_of(segments: &[Segment], now: Instant) -> Option<Instant> {
    let in_current = current(segments, now).map(|segment| now + segment.interval);
    let next_segment = segments.iter().map(|segment| segment.from).find(|from| *from > now);
    in_current.into_iter().chain(next_segment).min()
}

/// The segment that a time is in.
fn current(segments: &[Segment], now: Instant) -> Option<&Segment> {
    segments.iter().rev().find(|segment| segment.from <= now)
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

    /// When the first messages of a flow are due.
    fn times<const N: usize>(flow: &Flow) -> [Instant; N] {
        let mut stream = conche_netsim::rng::Streams::new(1)
            .stream(conche_netsim::rng::Entity::Run, conche_netsim::rng::Purpose::named("test"));
        let mut next = flow.first(&mut stream);
        std::array::from_fn(|_| {
            let due = next.expect("it goes on for ever");
            next = flow.next(due, &mut stream);
            due
        })
    }

    #[test]
    fn a_clock_changes_its_rate_with_its_segments() {
        let segment =
            |from, seconds, messages| Segment { from: at(from), interval: Duration::from_secs(seconds), messages };
        let pace = Pace::Clock(vec![segment(10, 4, 1), segment(20, 2, 3), segment(23, 1, 1)]);
        let flow = Flow { pace, ..Flow::to(NodeId::BROADCAST) };
        let times: [Instant; 7] = times(&flow);
        assert_eq!(times, [10, 14, 18, 20, 22, 23, 24].map(at));
        assert_eq!(times.map(|time| flow.due(time)), [1, 1, 1, 3, 3, 1, 1]);
    }

    #[test]
    fn a_clock_goes_in_turns() {
        let seconds = Duration::from_secs;
        let pace = Pace::Turns { phase: seconds(1), interval: seconds(4), on: seconds(10), off: seconds(5) };
        let flow = Flow { start: at(100), pace, ..Flow::to(NodeId::BROADCAST) };
        assert_eq!(times(&flow), [101, 105, 109, 116, 120, 124, 131].map(at));
    }

    #[test]
    fn a_body_fills_its_message() {
        assert_eq!(body_of(28, 8).len() + 4 + 8, 28);
        assert_eq!(body_of(12, 8), Body::EMPTY);
    }
}
