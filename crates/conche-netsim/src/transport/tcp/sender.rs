//! The sending side: send window, retransmission queue and timeouts.
//!
//! After a timeout the window is one segment, and segments after the oldest are retransmitted in
//! order, unless acknowledged meanwhile ("go back"). Of several losses in a window only the first's
//! timer counts. Segments that arrived are not retransmitted: the oldest's acknowledgment covers
//! them first.

use std::collections::VecDeque;
use std::time::Duration;

use conche_proto::cc::Controller;
use conche_proto::cc::control::{AbandonReason, Admission, Load, Submission};
use conche_proto::cc::non::PROBING_RATE;
use rand_core::RngCore;

use super::exchange::{Exchange, Known};
use super::window::Window;
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
    /// Number of data segments.
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
    /// Poll again after the next acknowledgment, and by this time.
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
    /// Data segments with an unambiguous round-trip time: sent once, acknowledged individually.
    pub samples: u32,
    /// Sum of these times.
    pub round_trips: Duration,
}

/// Sends one transfer.
///
/// The SYN takes the first place in the sequence (RFC 793, page 26): it is sent, timed and
/// retransmitted like any segment.
#[derive(Debug)]
pub struct Sender<C: Controller> {
    config: SenderConfig,
    controller: C,
    peer: C::Peer,
    state: State,
    /// Segments sent and unacknowledged, or behind such a one.
    queue: VecDeque<Exchange<C>>,
    /// The queue head's place in the sequence; the SYN has 0.
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
            Next::Send(place) => Output::Transmit(self.transmit(now, place, stream)),
            Next::At(at) => Output::Wait(Some(self.next_deadline().map_or(at, |deadline| deadline.min(at)))),
            Next::Nothing => Output::Wait(self.next_deadline()),
        }
    }

    /// Handles a segment that arrived.
    pub fn receive(&mut self, now: Instant, segment: Segment) {
        if self.state != State::Open {
            return;
        }
        let is_new = match segment {
            Segment::SynAck => {
                // The window stays at one segment.
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

    /// Returns the place of the segment at this index.
    fn place(&self, index: usize) -> u32 {
        self.head + u32::try_from(index).expect("the queue is not longer than the sequence")
    }

    fn end(&self) -> u32 {
        self.config.segments.saturating_add(1)
    }

    /// Acknowledges segments before this place; returns `true` if any was queued.
    fn acknowledge_until(&mut self, now: Instant, place: u32) -> bool {
        let covered = place.saturating_sub(self.head) as usize;
        let covered = covered.min(self.queue.len());
        for index in 0..covered {
            // The newest segment triggered the delayed acknowledgment.
            let known = if index + 1 == covered { Known::InTime } else { Known::Late };
            self.acknowledge(now, index, known);
        }
        covered > 0
    }

    /// Returns `true` if the segment was unacknowledged.
    fn acknowledge_one(&mut self, now: Instant, place: u32) -> bool {
        let Some(index) = place.checked_sub(self.head).map(|index| index as usize) else { return false };
        let is_new = self.queue.get(index).is_some_and(|exchange| !exchange.acknowledged);
        if is_new {
            self.acknowledge(now, index, Known::InTime);
        }
        is_new
    }

    fn acknowledge(&mut self, now: Instant, index: usize, known: Known) {
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

    /// Returns the window's first segment not in flight.
    fn next_to_send(&mut self, now: Instant) -> Next {
        let window = usize::from(self.window.segments());
        let idle = |exchange: &Exchange<C>| !exchange.acknowledged && exchange.deadline.is_none();
        if let Some(index) = self.queue.iter().take(window).position(idle) {
            let load = self.load(index);
            let at = self.queue[index].may_leave_again(&self.controller, &mut self.peer, now, load);
            return if at <= now { Next::Send(index) } else { Next::At(at) };
        }
        if self.queue.len() >= window || self.place(self.queue.len()) >= self.end() {
            return Next::Nothing;
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
                Next::Send(self.queue.len() - 1)
            }
            Admission::At(at) if at > now => Next::At(at),
            Admission::At(_) | Admission::OnEvent => Next::Nothing,
        }
    }

    fn transmit(&mut self, now: Instant, index: usize, stream: &mut Stream) -> Segment {
        let (load, place) = (self.load(index), self.place(index));
        let exchange = &mut self.queue[index];
        self.stats.sent += 1;
        self.stats.retransmissions += u32::from(!exchange.sent.is_empty());
        let timeout = exchange.transmit(
            &self.controller,
            &mut self.peer,
            now,
            self.config.segment_bytes,
            stream.next_u32(),
            load,
        );
        exchange.deadline = Some(now + timeout.max(self.config.min_rto));
        place.checked_sub(1).map_or(Segment::Syn, |number| Segment::Data { number })
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.queue.iter().filter_map(|exchange| exchange.deadline).min()
    }

    /// Besides this segment, in flight and waiting.
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

enum Next {
    /// The one at this index.
    Send(usize),
    /// Not before this time.
    At(Instant),
    /// None.
    Nothing,
}

#[cfg(test)]
mod tests;
