//! The sending side: send window, retransmission queue and timeouts.
//!
//! After a timeout the window is one segment, and later unacknowledged segments are retransmitted
//! in order ("go back"). Of several losses in a window only the first's timer counts. Arrived
//! segments are not retransmitted: the oldest's acknowledgment covers them first.

use std::collections::VecDeque;
use std::time::Duration;

use conche_proto::cc::Controller;
use conche_proto::cc::control::{
    AbandonReason, Abandoned, AckKind, AckedCopy, Acknowledged, Admission, Expired, Load, Sent, Submission,
};
use conche_proto::cc::non::PROBING_RATE;
use rand_core::RngCore;
use smallvec::SmallVec;

use super::{Acknowledgments, Segment};
use crate::Instant;
use crate::rng::Stream;

/// The parameters of a transfer.
///
/// ```toml
/// segments = 100
/// segment_bytes = 48
/// window_limit = 4
/// min_rto = "1s"
/// max_timeouts = 10
/// acknowledgments = "positive"
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Data segments.
    pub segments: u32,
    /// Bytes of a data segment, as the controller counts them.
    pub segment_bytes: u32,
    /// Maximum number of unacknowledged segments.
    pub window_limit: u16,
    /// Minimum timeout.
    pub min_rto: Duration,
    /// Timeouts of one segment until the transfer aborts.
    pub max_timeouts: u8,
    /// Meaning of acknowledgments.
    pub acknowledgments: Acknowledgments,
}

/// State of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In progress.
    Open,
    /// Fully acknowledged at this time.
    Completed(Instant),
    /// Aborted at this time.
    Aborted(Instant),
}

/// A sender's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this segment and poll again.
    Transmit(Segment),
    /// Poll after the next acknowledgment, and by this time.
    Wait(Option<Instant>),
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Segments sent, with handshake and retransmissions.
    pub sent: u32,
    /// Retransmissions.
    pub retransmissions: u32,
    /// Timeouts.
    pub timeouts: u32,
    /// Segments with an unambiguous round-trip time: sent once, acknowledged individually.
    pub samples: u32,
    /// Sum of these times.
    pub round_trips: Duration,
}

/// Sends one transfer.
///
/// The SYN takes the first place in the sequence (RFC 793, page 26), like any segment.
#[derive(Debug)]
pub struct Sender<C: Controller> {
    config: SenderConfig,
    controller: C,
    peer: C::Peer,
    state: State,
    /// Segments from the oldest unacknowledged one.
    queue: VecDeque<Exchange<C>>,
    /// The queue head's place in the sequence; 0 for the SYN.
    head: u32,
    /// Segments from the head that may be in flight.
    window: Window,
    stats: SenderStats,
}

impl<C: Controller> Sender<C> {
    /// Creates a sender before its handshake.
    pub fn new(config: SenderConfig, controller: C, now: Instant) -> Self {
        let (peer, queue, stats) = (controller.peer(now), VecDeque::new(), SenderStats::default());
        let window = Window::limited(config.window_limit);
        Self { config, controller, peer, state: State::Open, queue, head: 0, window, stats }
    }

    /// Adds congestion control (RFC 5681, RFC 6582); requires cumulative acknowledgments.
    #[must_use]
    pub fn with_reno(self) -> Self {
        Self { window: Window::reno(self.config.window_limit), ..self }
    }

    /// Returns the state of the transfer.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// Returns the next step; call it until [`Output::Wait`].
    pub fn poll(&mut self, now: Instant, stream: &mut Stream) -> Output {
        self.expire(now);
        if self.state != State::Open {
            return Output::Wait(None);
        }
        match self.next_to_send(now) {
            NextSegment::Send(place) => Output::Transmit(self.transmit(now, place, stream)),
            NextSegment::At(at) => Output::Wait(Some(self.next_deadline().map_or(at, |deadline| deadline.min(at)))),
            NextSegment::Nothing => Output::Wait(self.next_deadline()),
        }
    }

    /// Handles a segment that arrived.
    pub fn receive(&mut self, now: Instant, segment: Segment) {
        if self.state != State::Open {
            return;
        }
        let is_new = match segment {
            Segment::SynAck => {
                self.acknowledge_until(now, 1);
                false
            }
            // Data segment n has place n + 1, after the SYN.
            Segment::Ack { number } => match self.config.acknowledgments {
                Acknowledgments::Cumulative => self.acknowledge_until(now, number.saturating_add(1)),
                Acknowledgments::Positive => self.acknowledge_one(now, number.saturating_add(1)),
            },
            Segment::Syn | Segment::Data { .. } => false,
        };
        let (before, flight) = (self.head, self.flight());
        while self.queue.front().is_some_and(|exchange| exchange.acknowledged) {
            self.queue.pop_front();
            self.head += 1;
        }
        let next_is_lost = if is_new {
            let count = u16::try_from(self.head - before).unwrap_or(u16::MAX);
            self.window.acknowledged(count, self.head)
        } else {
            matches!(segment, Segment::Ack { number } if number.saturating_add(1) == self.head && !self.queue.is_empty())
                && self.window.duplicate(flight, self.head, self.place(self.queue.len()))
        };
        if let Some(first) = self.queue.front_mut().filter(|_| next_is_lost) {
            first.lost(now);
        }
        if self.head == self.end() {
            self.state = State::Completed(now);
        }
    }

    fn flight(&self) -> u16 {
        let flying = self.queue.iter().filter(|exchange| exchange.deadline.is_some());
        u16::try_from(flying.count()).unwrap_or(u16::MAX)
    }

    fn place(&self, index: usize) -> u32 {
        self.head + u32::try_from(index).expect("the queue is not longer than the sequence")
    }

    fn end(&self) -> u32 {
        self.config.segments.saturating_add(1)
    }

    /// Returns `true` if any was queued.
    fn acknowledge_until(&mut self, now: Instant, place: u32) -> bool {
        let covered = place.saturating_sub(self.head) as usize;
        let covered = covered.min(self.queue.len());
        for index in 0..covered {
            // The newest segment triggered the delayed acknowledgment.
            let known = if index + 1 == covered { Detection::InTime } else { Detection::Late };
            self.acknowledge(now, index, known);
        }
        covered > 0
    }

    fn acknowledge_one(&mut self, now: Instant, place: u32) -> bool {
        let Some(index) = place.checked_sub(self.head).map(|index| index as usize) else { return false };
        let is_new = self.queue.get(index).is_some_and(|exchange| !exchange.acknowledged);
        if is_new {
            self.acknowledge(now, index, Detection::InTime);
        }
        is_new
    }

    fn acknowledge(&mut self, now: Instant, index: usize, known: Detection) {
        let load = self.load(index);
        let exchange = &mut self.queue[index];
        if exchange.acknowledged {
            return;
        }
        let sample = exchange.acknowledge(&self.controller, &mut self.peer, now, known, load);
        if let Some(round_trip) = sample.filter(|_| self.place(index) > 0) {
            self.stats.samples += 1;
            self.stats.round_trips += round_trip;
        }
    }

    fn expire(&mut self, now: Instant) {
        let due = |exchange: &Exchange<C>| exchange.deadline.is_some_and(|deadline| deadline <= now);
        while self.state == State::Open
            && let Some(index) = self.queue.iter().position(due)
        {
            self.stats.timeouts += 1;
            let flight = self.flight();
            self.queue[index].timeouts += 1;
            if self.queue[index].timeouts >= self.config.max_timeouts {
                self.abort(now);
            }
            // FlightSize counts data, not the SYN.
            let is_first = self.place(index) > 0 && self.queue[index].timeouts == 1;
            self.window.timed_out(is_first.then_some(flight), self.place(self.queue.len()));
            self.queue.iter_mut().for_each(|exchange| exchange.deadline = None);
        }
    }

    fn abort(&mut self, now: Instant) {
        for index in 0..self.queue.len() {
            let load = self.load(index);
            self.queue[index].abandon(&self.controller, &mut self.peer, now, AbandonReason::GaveUp, load);
        }
        self.state = State::Aborted(now);
    }

    fn next_to_send(&mut self, now: Instant) -> NextSegment {
        let window = usize::from(self.window.segments());
        let idle = |exchange: &Exchange<C>| !exchange.acknowledged && exchange.deadline.is_none();
        if let Some(index) = self.queue.iter().take(window).position(idle) {
            let load = self.load(index);
            let at = self.queue[index].may_leave_again(&self.controller, &mut self.peer, now, load);
            return if at <= now { NextSegment::Send(index) } else { NextSegment::At(at) };
        }
        if self.queue.len() >= window || self.place(self.queue.len()) >= self.end() {
            return NextSegment::Nothing;
        }
        let message = Submission {
            confirmable: true,
            may_confirm: true,
            bytes: self.config.segment_bytes,
            probing_rate: PROBING_RATE,
        };
        let load = self.load(self.queue.len());
        match self.controller.admit(&mut self.peer, now, &message, &load) {
            Admission::Send | Admission::SendConfirmable => {
                self.queue.push_back(Exchange::new());
                NextSegment::Send(self.queue.len() - 1)
            }
            Admission::At(at) if at > now => NextSegment::At(at),
            Admission::At(_) | Admission::OnEvent => NextSegment::Nothing,
        }
    }

    fn transmit(&mut self, now: Instant, index: usize, stream: &mut Stream) -> Segment {
        let (load, place) = (self.load(index), self.place(index));
        let exchange = &mut self.queue[index];
        self.stats.sent += 1;
        self.stats.retransmissions += u32::from(!exchange.sent.is_empty());
        let (attempt, bytes) = (exchange.copies(), self.config.segment_bytes);
        let sent = Sent { now, attempt, confirmable: true, bytes, random: stream.next_u32(), load };
        let timeout = exchange.transmit(&self.controller, &mut self.peer, &sent);
        exchange.deadline = Some(now + timeout.max(self.config.min_rto));
        place.checked_sub(1).map_or(Segment::Syn, |number| Segment::Data { number })
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.queue.iter().filter_map(|exchange| exchange.deadline).min()
    }

    fn load(&self, index: usize) -> Load {
        let others = self.queue.iter().enumerate().filter(|(i, exchange)| *i != index && exchange.deadline.is_some());
        let exchanges = u16::try_from(others.count()).unwrap_or(u16::MAX);
        let waiting = self.end().saturating_sub(self.place(self.queue.len().max(index + 1)));
        Load {
            exchanges,
            bytes: u32::from(exchanges) * self.config.segment_bytes,
            queued: u16::try_from(waiting).unwrap_or(u16::MAX),
            ..Load::default()
        }
    }
}

enum NextSegment {
    Send(usize),
    At(Instant),
    Nothing,
}

#[derive(Clone, Debug)]
struct Window {
    segments: u16,
    limit: u16,
    reno: Option<Reno>,
}

/// RFC 5681 with RFC 6582's recovery, in segments.
#[derive(Clone, Copy, Debug)]
struct Reno {
    /// From this size, the window grows by one segment per round trip.
    threshold: u16,
    /// Acknowledgments of new data since the last growth.
    new_acks: u16,
    /// Consecutive duplicate acknowledgments.
    duplicates: u16,
    /// End of the data in flight at the last detected loss; earlier losses are the same event.
    recover: u32,
    /// Repairing a loss detected by duplicate acknowledgments.
    recovers: bool,
}

/// RFC 5681 §3.2.
const DUPLICATES: u16 = 3;
/// RFC 5681, equation (4).
const LEAST_THRESHOLD: u16 = 2;

impl Window {
    /// Grows by one segment per acknowledgment, up to `limit`.
    fn limited(limit: u16) -> Self {
        Self { segments: 1, limit, reno: None }
    }

    fn reno(limit: u16) -> Self {
        let reno = Reno { threshold: limit, new_acks: 0, duplicates: 0, recover: 0, recovers: false };
        Self { segments: 1, limit, reno: Some(reno) }
    }

    fn segments(&self) -> u16 {
        self.segments
    }

    /// Handles the acknowledgment of `count` ≥ 1 segments, up to `until`; returns `true` if the
    /// next is lost.
    fn acknowledged(&mut self, count: u16, until: u32) -> bool {
        let Some(reno) = &mut self.reno else {
            self.segments = self.segments.saturating_add(1).min(self.limit).max(1);
            return false;
        };
        reno.duplicates = 0;
        if reno.recovers && until < reno.recover {
            // Partial acknowledgment (RFC 6582 §3.2, step 3).
            self.segments = self.segments.saturating_sub(count).saturating_add(1).max(1);
            return true;
        }
        if reno.recovers {
            reno.recovers = false;
            self.segments = reno.threshold;
        } else if self.segments < reno.threshold {
            self.segments += 1;
        } else {
            reno.new_acks += 1;
            if reno.new_acks >= self.segments {
                reno.new_acks = 0;
                self.segments = self.segments.saturating_add(1);
            }
        }
        self.segments = self.segments.min(self.limit).max(1);
        false
    }

    /// `head` is the first of `flight` segments in flight; returns `true` if it is lost.
    fn duplicate(&mut self, flight: u16, head: u32, end: u32) -> bool {
        let Some(reno) = &mut self.reno else { return false };
        if reno.recovers {
            self.segments = self.segments.saturating_add(1).min(self.limit);
            return false;
        }
        reno.duplicates = reno.duplicates.saturating_add(1);
        // Segments sent before the last loss may arrive twice (RFC 6582 §3.2, step 2).
        if reno.duplicates < DUPLICATES || head <= reno.recover {
            return false;
        }
        reno.threshold = (flight / 2).max(LEAST_THRESHOLD);
        (reno.recover, reno.recovers) = (end, true);
        self.segments = reno.threshold.saturating_add(DUPLICATES).min(self.limit);
        true
    }

    /// `flight` is the data segments in flight, or `None`, which keeps the threshold, for a segment
    /// that was not data or had expired before (RFC 5681 §3.1).
    fn timed_out(&mut self, flight: Option<u16>, end: u32) {
        self.segments = 1;
        if let Some(reno) = &mut self.reno {
            let threshold = flight.map_or(reno.threshold, |flight| (flight / 2).max(LEAST_THRESHOLD));
            *reno = Reno { threshold, new_acks: 0, duplicates: 0, recover: end, recovers: false };
        }
    }
}

#[derive(Debug)]
struct Exchange<C: Controller> {
    flight: C::Flight,
    sent: SmallVec<[Instant; 2]>,
    deadline: Option<Instant>,
    /// Earliest time of the next retransmission, from the controller.
    again: Option<Instant>,
    timeouts: u8,
    acknowledged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detection {
    InTime,
    /// By a later segment's.
    Late,
}

impl<C: Controller> Exchange<C> {
    fn new() -> Self {
        let flight = C::Flight::default();
        Self { flight, sent: SmallVec::new(), deadline: None, again: None, timeouts: 0, acknowledged: false }
    }

    fn transmit(&mut self, controller: &C, peer: &mut C::Peer, sent: &Sent) -> Duration {
        self.again = None;
        self.sent.push(sent.now);
        controller.sent(peer, &mut self.flight, sent)
    }

    /// Returns the earliest time of a transmission.
    fn may_leave_again(&mut self, controller: &C, peer: &mut C::Peer, now: Instant, load: Load) -> Instant {
        if self.sent.is_empty() {
            return now;
        }
        let (flight, attempt) = (&mut self.flight, self.sent.len().saturating_sub(1));
        let attempt = u8::try_from(attempt).unwrap_or(u8::MAX);
        *self.again.get_or_insert_with(|| controller.expired(peer, flight, &Expired { now, attempt, load }))
    }

    /// Allows a retransmission before the timeout.
    fn lost(&mut self, now: Instant) {
        (self.deadline, self.again) = (None, Some(now));
    }

    /// Returns an unambiguous round-trip time.
    fn acknowledge(
        &mut self,
        controller: &C,
        peer: &mut C::Peer,
        now: Instant,
        known: Detection,
        load: Load,
    ) -> Option<Duration> {
        // An earlier missing segment delayed the acknowledgment.
        let in_time = known == Detection::InTime && self.deadline.is_some();
        (self.acknowledged, self.deadline) = (true, None);
        // As with a separate response, the path is unmeasured.
        let kind = if in_time { AckKind::Empty } else { AckKind::Separate };
        let event = Acknowledged { now, sent: &self.sent, copy: AckedCopy::Unknown, kind, load };
        controller.acknowledged(peer, &self.flight, &event);
        (in_time && self.sent.len() == 1).then(|| event.since_first())
    }

    fn abandon(&mut self, controller: &C, peer: &mut C::Peer, now: Instant, reason: AbandonReason, load: Load) {
        if !self.acknowledged && !self.sent.is_empty() {
            controller.abandoned(peer, &self.flight, &Abandoned { now, reason, sent: &self.sent, load });
        }
    }

    fn copies(&self) -> u8 {
        u8::try_from(self.sent.len()).unwrap_or(u8::MAX)
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn below_the_threshold_it_doubles_in_a_round_trip_and_above_it_grows_by_one() {
        let mut window = Window::reno(64);
        window.timed_out(Some(16), 0);
        let mut sizes = vec![window.segments()];
        let mut place = 0;
        for _ in 0..6 {
            for _ in 0..window.segments() {
                place += 1;
                assert!(!window.acknowledged(1, place));
            }
            sizes.push(window.segments());
        }
        assert_eq!(sizes, [1, 2, 4, 8, 9, 10, 11]);
    }

    #[test]
    fn three_duplicates_halve_it_once_for_all_that_was_on_its_way() {
        let mut window = Window::reno(64);
        (1..=19).for_each(|place| assert!(!window.acknowledged(1, place)));
        assert_eq!(window.segments(), 20);
        let lost: Vec<bool> = (0..4).map(|_| window.duplicate(20, 19, 39)).collect();
        assert_eq!((lost, window.segments()), (vec![false, false, true, false], 10 + 3 + 1));
        assert!(window.acknowledged(4, 23), "a second one is missing");
        assert!(!window.acknowledged(16, 39), "all has arrived");
        assert_eq!(window.segments(), 10);
        window.timed_out(Some(10), 49);
        assert_eq!(window.segments(), 1);
    }

    #[test]
    fn duplicate_acknowledgments_after_a_timeout_signal_no_loss() {
        let mut window = Window::reno(64);
        (1..=19).for_each(|place| assert!(!window.acknowledged(1, place)));
        window.timed_out(Some(20), 39);
        assert!((0..9).all(|_| !window.duplicate(1, 19, 39)), "they may be of copies");
        assert!(!window.acknowledged(20, 39));
        assert!((0..9).all(|_| !window.duplicate(2, 39, 41)), "all of it arrived, and nothing behind it");
        assert!(!window.acknowledged(1, 40));
        let lost: Vec<bool> = (0..3).map(|_| window.duplicate(3, 40, 43)).collect();
        assert_eq!(lost, [false, false, true], "this is news");
    }
}
