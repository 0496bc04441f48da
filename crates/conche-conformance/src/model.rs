//! A model endpoint that drives any controller with arbitrary legal events and checks the results:
//! at most NSTART exchanges and `MAX_RETRANSMIT` retransmissions, a monotonic clock, and
//! acknowledgements of open exchanges only. The [`Plan`] determines network, application and clock.

use core::fmt::{self, Write};
use core::time::Duration;
use std::collections::VecDeque;

use conche_cc::control::{
    AbandonReason, Abandoned, AckKind, AckedCopy, Acknowledged, Admission, Expired, Load, NonHistory, Sent, Submission,
};
use conche_cc::non::PROBING_RATE;
use conche_cc::{Controller, Instant};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Start of the endpoint, in nanoseconds.
    pub(crate) start: u64,
    pub(crate) nstart: usize,
    pub(crate) max_retransmit: usize,
    pub(crate) steps: Vec<Step>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, nstart, max_retransmit, steps } = self;
        write!(f, "with these events, from {start} ns on, NSTART {nstart}, MAX_RETRANSMIT {max_retransmit}:")?;
        steps.iter().try_for_each(|step| write!(f, "\n  {step:?}"))
    }
}

/// `pick` chooses among the open exchanges.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The application submits a message.
    Submit { confirmable: bool, may_confirm: bool, bytes: u16 },
    /// Time passes, and due timers fire.
    Wait { millis: u32 },
    /// The clock jumps ahead, as after suspension; every timer is late.
    Jump { hours: u8 },
    /// The clock steps back; the endpoint hides this from the controller.
    BackwardClock,
    /// The next timer fires.
    NextTimer,
    /// An acknowledgement arrives, `micros` from now.
    Acknowledge { pick: u8, micros: u32, kind: u8, told: bool },
    /// An acknowledgement of a completed exchange arrives. The endpoint ignores it.
    LateAcknowledge,
    /// An exchange ends otherwise.
    End { pick: u8, reason: u8 },
    /// The RTO is queried.
    Ask,
}

/// Plans of up to 150 steps.
pub(crate) fn plans() -> impl Strategy<Value = Plan> {
    let starts = prop_oneof![
        Just(0),
        any::<u64>(),
        // Near the wrap of a 32-bit millisecond clock, and the end of time.
        (0..200_u64).prop_map(|s| (u64::from(u32::MAX) - 100_000 + s * 1_000) * 1_000_000),
        (0..200_u64).prop_map(|s| u64::MAX - s * 1_000_000_000),
    ];
    let steps = proptest::collection::vec(steps(), 1..150);
    (starts, 1..=8_usize, 0..=20_usize, steps).prop_map(|(start, nstart, max_retransmit, steps)| Plan {
        start,
        nstart,
        max_retransmit,
        steps,
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let submit = (any::<bool>(), any::<bool>(), 4..1_300_u16)
        .prop_map(|(confirmable, may_confirm, bytes)| Step::Submit { confirmable, may_confirm, bytes });
    let acknowledge = (any::<u8>(), prop_oneof![0..1_000_u32, 0..3_000_000_u32], any::<u8>(), any::<bool>())
        .prop_map(|(pick, micros, kind, told)| Step::Acknowledge { pick, micros, kind, told });
    prop_oneof![
        6 => submit,
        6 => acknowledge,
        6 => Just(Step::NextTimer),
        3 => prop_oneof![0..100_u32, 0..100_000_u32].prop_map(|millis| Step::Wait { millis }),
        1 => (1..200_u8).prop_map(|hours| Step::Jump { hours }),
        1 => Just(Step::BackwardClock),
        1 => Just(Step::LateAcknowledge),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(pick, reason)| Step::End { pick, reason }),
        1 => Just(Step::Ask),
    ]
}

/// Bounds that every result of a controller must keep.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum timer and RTO.
    pub cap: Duration,
    /// Whether timers never shrink within an exchange.
    pub backoff_never_shrinks: bool,
}

/// 60 s, and a backoff that never shrinks.
impl Default for Bounds {
    fn default() -> Self {
        Self { cap: Duration::from_secs(60), backoff_never_shrinks: true }
    }
}

/// Minimum timer of every controller.
const MIN_TIMER: Duration = Duration::from_millis(1);

pub(crate) struct Endpoint<'a, C: Controller> {
    controller: &'a C,
    bounds: Bounds,
    peer: C::Peer,
    now: Instant,
    nstart: usize,
    max_retransmit: usize,
    open: Vec<Exchange<C::Flight>>,
    queue: VecDeque<Submission>,
    non: NonHistory,
    draws: u32,
    /// All results, for comparison.
    pub(crate) trace: String,
}

struct Exchange<F> {
    flight: F,
    sent: Vec<Instant>,
    confirmable: bool,
    bytes: u32,
    timer: Duration,
    /// When the timer fires, or when a paced retransmission may leave.
    due: Instant,
    waits_to_leave: bool,
}

impl<'a, C: Controller> Endpoint<'a, C> {
    pub(crate) fn new(controller: &'a C, bounds: Bounds, plan: &Plan) -> Self {
        let now = Instant::from_nanos(plan.start);
        Self {
            controller,
            bounds,
            peer: controller.peer(now),
            now,
            nstart: plan.nstart,
            max_retransmit: plan.max_retransmit,
            open: Vec::new(),
            queue: VecDeque::new(),
            non: NonHistory::default(),
            draws: 0,
            trace: String::new(),
        }
    }

    pub(crate) fn run(&mut self, plan: &Plan) {
        for step in &plan.steps {
            self.step(*step);
            self.flush();
            self.check_base();
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Submit { confirmable, may_confirm, bytes } => {
                let (bytes, probing_rate) = (u32::from(bytes), PROBING_RATE);
                self.queue.push_back(Submission { confirmable, may_confirm, bytes, probing_rate });
            }
            Step::Wait { millis } => self.wait_until(self.now + Duration::from_millis(u64::from(millis))),
            Step::Jump { hours } => {
                self.now += Duration::from_secs(3_600 * u64::from(hours));
                self.fire_due_timers();
            }
            Step::BackwardClock | Step::LateAcknowledge => {}
            Step::NextTimer => {
                if let Some(due) = self.next_due() {
                    self.wait_until(due);
                }
            }
            Step::Acknowledge { pick, micros, kind, told } => self.acknowledge(pick, micros, kind, told),
            Step::End { pick, reason } => {
                let reason = [AbandonReason::Cancelled, AbandonReason::Reset, AbandonReason::Unreachable]
                    [usize::from(reason) % 3];
                if let Some(exchange) = self.take(pick) {
                    self.abandon(&exchange, reason);
                }
            }
            Step::Ask => self.check_base(),
        }
    }

    /// Ends all exchanges, empties the queue, and completes `count` exchanges, 2 s apart.
    pub(crate) fn heal(&mut self, count: usize, rtt: Duration) -> Duration {
        self.queue.clear();
        while let Some(exchange) = self.take(0) {
            self.abandon(&exchange, AbandonReason::Cancelled);
        }
        for _ in 0..count {
            let message = Submission { confirmable: true, may_confirm: false, bytes: 60, probing_rate: PROBING_RATE };
            let departure = self.departure_when_idle(&message);
            assert!(departure - self.now <= Duration::from_secs(3_600), "an idle peer waits {departure:?}");
            self.now = departure;
            self.transmit_new(&message, true);
            self.now += rtt;
            if let Some(exchange) = self.take(0) {
                self.end_acknowledged(&exchange, AckKind::Piggybacked, AckedCopy::Unknown);
            }
            self.now += Duration::from_secs(2);
        }
        self.controller.base(&mut self.peer, self.now)
    }

    fn next_due(&self) -> Option<Instant> {
        self.open.iter().map(|exchange| exchange.due).min()
    }

    fn wait_until(&mut self, end: Instant) {
        // More events mean that time does not advance.
        for _ in 0..(self.max_retransmit + 2) * 3 * (self.open.len() + 1) {
            match self.next_due() {
                Some(due) if due <= end => {
                    self.now = self.now.max(due);
                    self.fire_due_timers();
                }
                _ => break,
            }
        }
        self.now = self.now.max(end);
    }

    fn fire_due_timers(&mut self) {
        for index in (0..self.open.len()).rev() {
            if self.open[index].due <= self.now {
                let exchange = self.open.remove(index);
                self.fire(exchange);
            }
        }
    }

    fn fire(&mut self, mut exchange: Exchange<C::Flight>) {
        let exhausted = exchange.sent.len() > self.max_retransmit || !exchange.confirmable;
        if exhausted && !exchange.waits_to_leave {
            self.abandon(&exchange, AbandonReason::GaveUp);
            return;
        }
        if !exchange.waits_to_leave {
            let expired = Expired { now: self.now, attempt: index(exchange.sent.len() - 1), load: self.load() };
            let departure = self.controller.expired(&mut self.peer, &mut exchange.flight, &expired);
            assert!(departure >= self.now, "a copy would have to leave in the past");
            self.note("expired", departure);
            if departure > self.now {
                (exchange.due, exchange.waits_to_leave) = (departure, true);
                self.open.push(exchange);
                return;
            }
        }
        self.transmit(exchange);
    }

    fn flush(&mut self) {
        while let Some(message) = self.queue.front().copied() {
            if message.confirmable && self.confirmables() >= self.nstart {
                return;
            }
            match self.admission(&message) {
                Admission::Send => self.transmit_new(&message, message.confirmable),
                Admission::SendConfirmable if self.confirmables() < self.nstart => self.transmit_new(&message, true),
                _ => return,
            }
            self.queue.pop_front();
        }
        let load = self.load();
        self.controller.drained(&mut self.peer, self.now, &load);
    }

    fn admission(&mut self, message: &Submission) -> Admission {
        let load = self.load();
        let answer = self.controller.admit(&mut self.peer, self.now, message, &load);
        let again = self.controller.admit(&mut self.peer, self.now, message, &load);
        assert_eq!(answer, again, "asking changes the answer");
        match answer {
            Admission::Send => {}
            Admission::SendConfirmable => assert!(!message.confirmable && message.may_confirm),
            Admission::At(at) => assert!(at > self.now, "At({at:?}) is not in the future"),
            Admission::OnEvent => assert!(load.exchanges > 0, "no event will ever come"),
        }
        self.note("admit", answer);
        if load.exchanges == 0 {
            self.departure_when_idle(message);
        }
        answer
    }

    /// Returns when a message leaves an idle endpoint. A Confirmable one must leave at the time
    /// first returned.
    fn departure_when_idle(&mut self, message: &Submission) -> Instant {
        let (mut peer, mut at) = (self.peer.clone(), self.now);
        // An RTO that ages moves the departure, but not often.
        let most_questions = if message.confirmable { 2 } else { 40 };
        for _ in 0..most_questions {
            match self.controller.admit(&mut peer, at, message, &self.load()) {
                Admission::Send | Admission::SendConfirmable => return at,
                Admission::At(later) if later > at => at = later,
                answer => panic!("deadlock: {answer:?} at {at:?} with nothing on its way"),
            }
        }
        panic!("never admitted: still waiting at {at:?}");
    }

    fn transmit_new(&mut self, message: &Submission, confirmable: bool) {
        self.transmit(Exchange {
            flight: C::Flight::default(),
            sent: Vec::new(),
            confirmable,
            bytes: message.bytes,
            timer: Duration::ZERO,
            due: self.now,
            waits_to_leave: false,
        });
        if confirmable {
            self.non.since_confirmable = 0;
        } else {
            self.non.last = Some(self.now);
            self.non.since_confirmable = self.non.since_confirmable.saturating_add(1);
            self.non.unanswered_since = self.non.unanswered_since.or(Some(self.now));
            self.non.unanswered_bytes = self.non.unanswered_bytes.saturating_add(message.bytes);
        }
    }

    fn transmit(&mut self, mut exchange: Exchange<C::Flight>) {
        self.draws = self.draws.wrapping_add(0x9E37_79B9);
        let sent = Sent {
            now: self.now,
            attempt: index(exchange.sent.len()),
            confirmable: exchange.confirmable,
            bytes: exchange.bytes,
            random: self.draws,
            load: self.load(),
        };
        let timer = self.controller.sent(&mut self.peer, &mut exchange.flight, &sent);
        self.note("sent", timer);
        let cap = self.bounds.cap;
        assert!(timer >= MIN_TIMER && timer <= cap, "a timer of {timer:?}: {MIN_TIMER:?} to {cap:?} are allowed");
        if self.bounds.backoff_never_shrinks {
            assert!(timer >= exchange.timer, "the timer shrank from {:?} to {timer:?}", exchange.timer);
        }
        exchange.sent.push(self.now);
        (exchange.timer, exchange.due, exchange.waits_to_leave) = (timer, self.now + timer, false);
        self.open.push(exchange);
    }

    fn acknowledge(&mut self, pick: u8, micros: u32, kind: u8, told: bool) {
        self.wait_until(self.now + Duration::from_micros(u64::from(micros)));
        let Some(exchange) = self.take(pick) else { return };
        let kind = match kind % 3 {
            0 if exchange.confirmable => AckKind::Piggybacked,
            1 if exchange.confirmable => AckKind::Empty,
            _ => AckKind::Separate,
        };
        let copy = match (exchange.sent.len(), told) {
            (1, _) => AckedCopy::Exact(0),
            (copies, true) => AckedCopy::Exact(pick % index(copies)),
            (_, false) => AckedCopy::Unknown,
        };
        self.end_acknowledged(&exchange, kind, copy);
    }

    fn end_acknowledged(&mut self, exchange: &Exchange<C::Flight>, kind: AckKind, copy: AckedCopy) {
        (self.non.unanswered_since, self.non.unanswered_bytes) = (None, 0);
        let event = Acknowledged { now: self.now, sent: &exchange.sent, copy, kind, load: self.load() };
        self.controller.acknowledged(&mut self.peer, &exchange.flight, &event);
    }

    fn abandon(&mut self, exchange: &Exchange<C::Flight>, reason: AbandonReason) {
        let event = Abandoned { now: self.now, reason, sent: &exchange.sent, load: self.load() };
        self.controller.abandoned(&mut self.peer, &exchange.flight, &event);
    }

    fn take(&mut self, pick: u8) -> Option<Exchange<C::Flight>> {
        let index = usize::from(pick).checked_rem(self.open.len())?;
        Some(self.open.remove(index))
    }

    fn check_base(&mut self) {
        let base = self.controller.base(&mut self.peer, self.now);
        let cap = self.bounds.cap;
        assert!(
            base > Duration::ZERO && base <= cap,
            "an RTO of {base:?}: more than 0 and at most {cap:?} are allowed"
        );
        assert_eq!(base, self.controller.base(&mut self.peer, self.now), "asking changes the RTO");
        self.note("base", base);
        self.note("snapshot", self.controller.snapshot(&self.peer));
    }

    fn confirmables(&self) -> usize {
        self.open.iter().filter(|exchange| exchange.confirmable).count()
    }

    fn load(&self) -> Load {
        let confirmables = || self.open.iter().filter(|exchange| exchange.confirmable);
        Load {
            exchanges: u16::try_from(confirmables().count()).expect("NSTART is small"),
            bytes: confirmables().map(|exchange| exchange.bytes).sum(),
            queued: u16::try_from(self.queue.len()).expect("plans are short"),
            non: self.non,
        }
    }

    fn note(&mut self, what: &str, value: impl core::fmt::Debug) {
        writeln!(self.trace, "{:?} {what} {value:?}", self.now).expect("strings take all");
    }
}

fn index(count: usize) -> u8 {
    u8::try_from(count).expect("MAX_RETRANSMIT is 20 at most")
}
