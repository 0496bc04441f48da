//! The requests of a node to one peer.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use conche_netsim::rng::Stream;
use conche_netsim::{Instant, NodeId};
use conche_proto::codec::{Body, Code};

use crate::scenario::Range;

/// Schedule, concurrency and size of a node's requests to a peer.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Destination.
    pub peer: NodeId,
    /// Start time.
    pub start: Instant,
    /// Time after which no exchange opens; `None` for no end.
    pub stop: Option<Instant>,
    /// Schedule of its exchanges.
    pub pace: Pace,
    /// Maximum concurrent exchanges.
    pub outstanding: u16,
    /// Limit on the number of exchanges.
    pub limit: Limit,
    /// Missing successes, counted down by flows that share it; 0 ends the run.
    pub enough: Option<Rc<Cell<u64>>>,
    /// Successes after which the flow resets the peer's congestion state.
    pub batch: Option<Range>,
    /// GET, POST, …
    pub method: Code,
    /// Options and payload.
    pub body: Body,
    /// Whether requests are Confirmable.
    pub confirmable: bool,
}

/// Schedule of exchanges. Open-loop messages queue without limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// An exchange's end opens the next.
    Closed,
    /// A clock with changing rate; segments by time.
    Clock(Vec<Segment>),
    /// Exponentially distributed pauses with this mean.
    Poisson(Duration),
    /// Times since the flow's start, in order.
    At(Vec<Duration>),
    /// A clock that is alternately on and off, first on.
    Turns {
        /// First tick of an on period.
        phase: Duration,
        /// Time between messages.
        interval: Duration,
        /// Length of an on period.
        on: Duration,
        /// Length of an off period.
        off: Duration,
    },
}

/// Limit on exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// No limit.
    None,
    /// Opens at most this many.
    Opened(u64),
    /// Runs until this many have succeeded.
    Succeeded(u64),
}

/// A clock's rate until the next segment; the first messages are due at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Start.
    pub from: Instant,
    /// Time between ticks.
    pub interval: Duration,
    /// Messages per tick.
    pub messages: u32,
}

impl Flow {
    /// Returns an endless closed loop of single GET requests without payload.
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

    pub(super) fn first(&self, stream: &mut Stream) -> Option<Instant> {
        match &self.pace {
            Pace::Closed => Some(self.start),
            Pace::Clock(segments) => segments.iter().map(|segment| segment.from).find(|from| *from >= self.start),
            Pace::Poisson(mean) => Some(self.start + mean.mul_f64(stream.exponential())),
            Pace::At(times) => times.first().map(|time| self.start + *time),
            Pace::Turns { phase, .. } => Some(self.start + *phase),
        }
    }

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

    pub(super) fn due(&self, now: Instant) -> u64 {
        match &self.pace {
            Pace::Closed => 0,
            Pace::Clock(segments) => current(segments, now).map_or(0, |segment| segment.messages.into()),
            Pace::Poisson(_) | Pace::Turns { .. } => 1,
            Pace::At(times) => times.iter().filter(|time| self.start + **time == now).count() as u64,
        }
    }
}

fn next_of(segments: &[Segment], now: Instant) -> Option<Instant> {
    let in_current = current(segments, now).map(|segment| now + segment.interval);
    let next_segment = segments.iter().map(|segment| segment.from).find(|from| *from > now);
    in_current.into_iter().chain(next_segment).min()
}

fn current(segments: &[Segment], now: Instant) -> Option<&Segment> {
    segments.iter().rev().find(|segment| segment.from <= now)
}

const HEADER_BYTES: usize = 4;

/// Returns a payload for a message of this size, with this token length.
///
/// # Panics
/// If the message exceeds the maximum payload.
#[must_use]
pub fn body_of(message_bytes: usize, token_bytes: usize) -> Body {
    const MARKER_BYTES: usize = 1;
    match message_bytes.saturating_sub(HEADER_BYTES + token_bytes + MARKER_BYTES) {
        0 => Body::EMPTY,
        payload => Body::builder().payload(vec![b'.'; payload]).build().expect("a payload needs no option"),
    }
}

/// Returns the body of a request for a path of these segments; `None` if the message size is too
/// small.
#[must_use]
pub fn request_body(message_bytes: Option<usize>, token_bytes: usize, path: &[String]) -> Option<Body> {
    if path.is_empty() {
        return Some(body_of(message_bytes.unwrap_or(0), token_bytes));
    }
    let builder = path.iter().fold(Body::builder(), |builder, segment| builder.segment(segment));
    let Some(bytes) = message_bytes else { return builder.build().ok() };
    let option = builder.clone().build().ok()?.len();
    let rest = body_of(bytes.checked_sub(option)?, token_bytes);
    let body = builder.payload(rest.payload()).build().ok()?;
    (HEADER_BYTES + token_bytes + body.len() == bytes).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

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

    #[test]
    fn a_request_for_a_segment_has_the_size_of_its_message() {
        let path = |segment: Option<&str>| Vec::from_iter(segment.map(str::to_owned));
        let bytes = |size, segment| request_body(size, 4, &path(segment)).map(|body| body.len() + 4 + 4);
        assert_eq!((bytes(None, None), bytes(Some(20), None)), (Some(8), Some(20)));
        assert_eq!((bytes(None, Some("1")), bytes(Some(20), Some("1"))), (Some(10), Some(20)));
        assert_eq!((bytes(Some(10), Some("1")), bytes(Some(12), Some("1"))), (Some(10), Some(12)));
        assert_eq!((bytes(Some(8), Some("1")), bytes(Some(11), Some("1"))), (None, None), "too small");
    }
}
