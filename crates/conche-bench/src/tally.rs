//! Counts and measurements, in total and per interval.

use std::time::Duration;

use conche_proto::codec::Code;
use conche_proto::{ExchangeStats, Failure};
use hdrhistogram::Histogram;

/// Of longer times, a thousandth.
const STEP_NANOS: u64 = 100;

/// No exchange takes longer.
const LONGEST_NANOS: u64 = 1_000_000_000_000;

/// Times in nanoseconds.
pub(crate) type Times = Histogram<u64>;

pub(crate) fn times() -> Times {
    // Valid: above 0, the highest more than twice the lowest, and 3 digits.
    Times::new_with_bounds(STEP_NANOS, LONGEST_NANOS, 3).unwrap_or_else(|_| unreachable!("constant bounds"))
}

#[inline]
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    TimedOut,
    Reset,
    Unreachable,
    Other,
}

impl From<Failure> for Loss {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::TimedOut | Failure::NoResponse | Failure::Deadline | Failure::QueueExpired => Self::TimedOut,
            Failure::Reset => Self::Reset,
            Failure::Unreachable => Self::Unreachable,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) codes: Box<[u64; 256]>,
    pub(crate) lost: [u64; 4],
    pub(crate) unsent: u64,
    pub(crate) unfinished: u64,
    pub(crate) retransmissions: u64,
    /// From due to response.
    pub(crate) latency: Times,
    /// From first transmission to response.
    pub(crate) service: Times,
    /// Delayed in an open loop for lack of slots.
    pub(crate) held: u64,
    /// Delayed by this program only.
    pub(crate) late: Times,
    pub(crate) notifications: u64,
    pub(crate) gaps: Times,
    pub(crate) not_observed: u64,
    pub(crate) kinds: Vec<KindTally>,
}

#[derive(Clone, Debug)]
pub(crate) struct KindTally {
    pub(crate) requests: u64,
    pub(crate) answered: u64,
    pub(crate) succeeded: u64,
    pub(crate) latency: Times,
}

impl Tally {
    pub(crate) fn new(kinds: usize) -> Self {
        let kind = || KindTally { requests: 0, answered: 0, succeeded: 0, latency: times() };
        Self {
            requests: 0,
            codes: Box::new([0; 256]),
            lost: [0; 4],
            unsent: 0,
            unfinished: 0,
            retransmissions: 0,
            latency: times(),
            service: times(),
            held: 0,
            late: times(),
            notifications: 0,
            gaps: times(),
            not_observed: 0,
            kinds: std::iter::repeat_with(kind).take(kinds).collect(),
        }
    }

    pub(crate) fn answered(&self) -> u64 {
        self.codes.iter().sum()
    }

    #[inline]
    pub(crate) fn begins(&mut self, kind: usize) {
        self.requests += 1;
        if self.has_kinds() {
            self.kinds[kind].requests += 1;
        }
    }

    #[inline]
    pub(crate) fn answer(&mut self, kind: usize, code: Code, course: &ExchangeStats, latency: u64) {
        self.codes[usize::from(code.0)] += 1;
        self.retransmissions += u64::from(course.transmissions.saturating_sub(course.messages));
        self.latency.saturating_record(latency);
        self.service.saturating_record(nanos(course.elapsed));
        if self.has_kinds() {
            let kind = &mut self.kinds[kind];
            kind.answered += 1;
            kind.succeeded += u64::from(code.is_success());
            kind.latency.saturating_record(latency);
        }
    }

    #[inline]
    fn has_kinds(&self) -> bool {
        self.kinds.len() > 1
    }

    pub(crate) fn lose(&mut self, loss: Loss, course: &ExchangeStats) {
        self.lost[loss as usize] += 1;
        self.retransmissions += u64::from(course.transmissions.saturating_sub(course.messages));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.codes.iter_mut().zip(other.codes.iter()).for_each(|(sum, more)| *sum += more);
        self.lost.iter_mut().zip(other.lost).for_each(|(sum, more)| *sum += more);
        self.unsent += other.unsent;
        self.unfinished += other.unfinished;
        self.retransmissions += other.retransmissions;
        self.held += other.held;
        self.notifications += other.notifications;
        self.not_observed += other.not_observed;
        add(&mut self.latency, &other.latency);
        add(&mut self.service, &other.service);
        add(&mut self.late, &other.late);
        add(&mut self.gaps, &other.gaps);
        for (kind, more) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.requests += more.requests;
            kind.answered += more.answered;
            kind.succeeded += more.succeeded;
            add(&mut kind.latency, &more.latency);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) answered: u64,
    pub(crate) lost: u64,
    pub(crate) notifications: u64,
    pub(crate) latency: Times,
}

impl Interval {
    pub(crate) fn new() -> Self {
        Self { answered: 0, lost: 0, notifications: 0, latency: times() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.answered == 0 && self.lost == 0 && self.notifications == 0
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.lost += other.lost;
        self.notifications += other.notifications;
        add(&mut self.latency, &other.latency);
    }
}

pub(crate) fn add(sum: &mut Times, more: &Times) {
    let _ = sum.add(more);
}
