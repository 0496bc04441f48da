//! The endpoint around a controller under test: replays events and observes the results.

use std::collections::BTreeMap;
use std::time::Duration;

use conche_cc::control::{
    AbandonReason, Abandoned, AckKind, AckedCopy, Acknowledged, Admission, Expired, Load, NonHistory, Sent, Submission,
};
use conche_cc::non::PROBING_RATE;
use conche_cc::{Controller, Instant};

use super::compare::{Observed, tolerance_ms};
use super::schema::{Event, Kind, Millis, Vector};
use super::subject::Observer;
use super::{Failure, Unusable};

/// Replays `vector` against `controller`, and returns the failed expectations.
///
/// # Errors
/// If the vector contradicts itself or the schema.
pub fn run<C: Controller>(controller: C, vector: &Vector) -> Result<Vec<Failure>, Unusable> {
    run_observed(controller, Observer::default(), vector)
}

/// As [`run`], with an observer for values beyond the trait.
///
/// # Errors
/// Like [`run`].
pub fn run_observed<C: Controller>(
    controller: C,
    observer: Observer<C>,
    vector: &Vector,
) -> Result<Vec<Failure>, Unusable> {
    let mut failures = Vec::new();
    let mut endpoint = Endpoint::new(controller, observer, vector);
    let inconsistent = |event, reason| Unusable::Inconsistent { id: vector.id.clone(), event, reason };
    if vector.params.cycle_start.is_some_and(|start| start != 1) {
        return Err(inconsistent(0, "params.cycle_start: only 1 is implemented".to_owned()));
    }
    for (n, event) in vector.events.iter().enumerate() {
        let failure = |key: &str, expected: String, got: String| Failure {
            id: vector.id.clone(),
            event: format!("{n} ({:?} at {} ms)", event.ev, event.t.as_f64()),
            key: key.to_owned(),
            expected,
            got,
        };
        let observed = match endpoint.replay(event) {
            Ok(observed) => observed,
            Err(Stop::Inconsistent(reason)) => return Err(inconsistent(n, reason)),
            Err(Stop::InvalidAdmission { expected, got }) => {
                failures.push(failure("admission", expected.to_owned(), got));
                return Ok(failures);
            }
        };
        for (key, expected) in &event.expect {
            if let Some(got) = observed.compare(key, expected).map_err(|reason| inconsistent(n, reason.to_string()))? {
                failures.push(failure(key, expected.to_string(), got));
            }
        }
    }
    Ok(failures)
}

enum Stop {
    Inconsistent(String),
    InvalidAdmission { expected: &'static str, got: String },
}

/// Maximum admission requests for one message.
const ADMISSION_ATTEMPTS: usize = 100;

struct Endpoint<C: Controller> {
    controller: C,
    observer: Observer<C>,
    peer: C::Peer,
    clock: Instant,
    max_retransmit: u8,
    nstart: u16,
    exchanges: BTreeMap<u32, Exchange<C::Flight>>,
    non: NonHistory,
    idle_since: Option<Instant>,
}

struct Exchange<F> {
    flight: F,
    sent: Vec<Instant>,
    timer: Duration,
    bytes: u32,
}

impl<C: Controller> Endpoint<C> {
    fn new(controller: C, observer: Observer<C>, vector: &Vector) -> Self {
        Self {
            peer: controller.peer(Instant::ZERO),
            controller,
            observer,
            clock: Instant::ZERO,
            max_retransmit: vector.params.max_rtx.unwrap_or(4),
            nstart: vector.params.nstart.unwrap_or(1),
            exchanges: BTreeMap::new(),
            non: NonHistory::default(),
            idle_since: None,
        }
    }

    fn replay(&mut self, event: &Event) -> Result<Observed, Stop> {
        if event.ev != Kind::Rto {
            self.clock = self.clock.max(event.t.as_instant());
        }
        let mut observed = Observed::default();
        match event.ev {
            Kind::Start => self.start(event, &mut observed)?,
            Kind::Rto => self.timer_fires(event, &mut observed)?,
            Kind::Ack => self.acknowledge(event)?,
            Kind::Query => self.ask(event, &mut observed),
            Kind::NonSubmit => self.submit_non(event, &mut observed)?,
            Kind::Send => self.send(event, &mut observed)?,
            Kind::Resend => self.resend(event, &mut observed)?,
        }
        observed.set_span("next_base_ms", self.controller.base(&mut self.peer, self.clock));
        if let Some(phase) = (self.observer.phase)(&self.peer) {
            observed.set("state", phase);
        }
        if let Some(state) = (self.observer.rate)(&self.peer) {
            observed.set_rate(&state);
            observed.set("inflight", self.exchanges.values().map(|exchange| exchange.bytes).sum::<u32>());
        }
        Ok(observed)
    }

    /// Observes when the next exchange may start, without changing the controller's state.
    fn ask(&mut self, event: &Event, observed: &mut Observed) {
        let peer = self.peer.clone();
        self.end_idle_time();
        if let Ok((at, _)) = self.admitted(&confirmable(event)) {
            observed.set_instant("earliest_start_ms", at);
        }
        self.peer = peer;
    }

    /// As an endpoint before it admits a message.
    fn end_idle_time(&mut self) {
        if self.idle_since.is_some_and(|since| since < self.clock) {
            let load = self.load(u32::MAX);
            self.controller.drained(&mut self.peer, self.clock, &load);
        }
    }

    fn start(&mut self, event: &Event, observed: &mut Observed) -> Result<(), Stop> {
        if self.exchanges.contains_key(&event.x) {
            return Err(Stop::Inconsistent(format!("exchange {} is running already", event.x)));
        }
        if event.ev == Kind::Start {
            self.end_idle_time();
            self.idle_since = None;
        }
        let load = self.load(event.x);
        if load.exchanges >= self.nstart {
            let reason = format!("params.nstart is {}, but as many exchanges are running already", self.nstart);
            return Err(Stop::Inconsistent(reason));
        }
        observed.set_span(
            "base_ms",
            (self.observer.initial_rto)(&self.controller, &mut self.peer, self.clock, load.exchanges),
        );
        let mut exchange =
            Exchange { flight: C::Flight::default(), sent: Vec::new(), timer: Duration::ZERO, bytes: bytes(event) };
        self.transmit(&mut exchange, event, load);
        observed.set_span("timeout_ms", exchange.timer);
        if let Some(first) = (self.observer.is_first)(&exchange.flight) {
            observed.set("tagged_first", first);
        }
        self.exchanges.insert(event.x, exchange);
        self.non.since_confirmable = 0;
        Ok(())
    }

    /// At the controller's time, not the reference's.
    fn timer_fires(&mut self, event: &Event, observed: &mut Observed) -> Result<(), Stop> {
        let mut exchange = self.take(event)?;
        let load = self.load(event.x);
        let due = exchange.sent.last().map_or(self.clock, |last| *last + exchange.timer);
        self.clock = self.clock.max(due);
        if exchange.sent.len() > usize::from(self.max_retransmit) {
            let abandoned = Abandoned { now: self.clock, reason: AbandonReason::GaveUp, sent: &exchange.sent, load };
            self.controller.abandoned(&mut self.peer, &exchange.flight, &abandoned);
            self.idle_since = self.exchanges.is_empty().then_some(self.clock);
            observed.set("gave_up", true);
            return Ok(());
        }
        self.expire(&mut exchange, load);
        self.transmit(&mut exchange, event, load);
        observed.set_span("timeout_ms", exchange.timer);
        observed.set("gave_up", false);
        self.exchanges.insert(event.x, exchange);
        Ok(())
    }

    fn acknowledge(&mut self, event: &Event) -> Result<(), Stop> {
        let exchange = self.take(event)?;
        let retransmissions = exchange.sent.len() - 1;
        if event.rtx.is_some_and(|rtx| usize::from(rtx) != retransmissions) {
            return Err(Stop::Inconsistent(format!("rtx: {retransmissions} retransmissions have been made")));
        }
        let acknowledged = Acknowledged {
            now: self.clock,
            sent: &exchange.sent,
            copy: if retransmissions == 0 { AckedCopy::Exact(0) } else { AckedCopy::Unknown },
            kind: AckKind::Piggybacked,
            load: self.load(event.x),
        };
        self.controller.acknowledged(&mut self.peer, &exchange.flight, &acknowledged);
        self.idle_since = self.exchanges.is_empty().then_some(self.clock);
        self.non.unanswered_since = None;
        self.non.unanswered_bytes = 0;
        Ok(())
    }

    /// Does not move the clock: the next message may follow before this leaves.
    fn submit_non(&mut self, event: &Event, observed: &mut Observed) -> Result<(), Stop> {
        let message =
            Submission { confirmable: false, may_confirm: true, bytes: bytes(event), probing_rate: PROBING_RATE };
        let (at, as_con) = self.admitted(&message)?;
        observed.set_instant("send_at_ms", at);
        observed.set("as_con", as_con);
        self.non.last = Some(at);
        if as_con {
            self.non.since_confirmable = 0;
        } else {
            self.non.since_confirmable = self.non.since_confirmable.saturating_add(1);
            self.non.unanswered_since = self.non.unanswered_since.or(Some(at));
            self.non.unanswered_bytes = self.non.unanswered_bytes.saturating_add(message.bytes);
        }
        Ok(())
    }

    fn admitted(&mut self, message: &Submission) -> Result<(Instant, bool), Stop> {
        let (mut at, load) = (self.clock, self.load(u32::MAX));
        for _ in 0..ADMISSION_ATTEMPTS {
            match self.controller.admit(&mut self.peer, at, message, &load) {
                Admission::Send => return Ok((at, false)),
                Admission::SendConfirmable => return Ok((at, true)),
                Admission::At(later) if later > at => at = later,
                answer => {
                    let got = format!("{answer:?} when asked at {at:?}");
                    return Err(Stop::InvalidAdmission { expected: "a permission or a later time", got });
                }
            }
        }
        Err(Stop::InvalidAdmission {
            expected: "a permission",
            got: format!("none after asking {ADMISSION_ATTEMPTS} times"),
        })
    }

    fn send(&mut self, event: &Event, observed: &mut Observed) -> Result<(), Stop> {
        let load = self.load(event.x);
        match self.controller.admit(&mut self.peer, self.clock, &confirmable(event), &load) {
            Admission::Send => {}
            Admission::At(at) => self.wait_a_little_until(at, event.t)?,
            answer => return Err(Stop::InvalidAdmission { expected: "a permission", got: format!("{answer:?}") }),
        }
        self.start(event, observed)
    }

    fn resend(&mut self, event: &Event, observed: &mut Observed) -> Result<(), Stop> {
        let mut exchange = self.take(event)?;
        let load = self.load(event.x);
        let earliest = self.expire(&mut exchange, load);
        self.wait_a_little_until(earliest, event.t)?;
        self.transmit(&mut exchange, event, load);
        observed.set_span("timeout_ms", exchange.timer);
        self.exchanges.insert(event.x, exchange);
        Ok(())
    }

    /// Within the schema's tolerance.
    fn wait_a_little_until(&mut self, at: Instant, expected: Millis) -> Result<(), Stop> {
        let late_ms = (at - self.clock).as_secs_f64() * 1_000.0;
        if late_ms > tolerance_ms(expected.as_f64()) {
            return Err(Stop::InvalidAdmission {
                expected: "departure now",
                got: format!("departure in {late_ms:.3} ms"),
            });
        }
        self.clock = self.clock.max(at);
        Ok(())
    }

    fn expire(&mut self, exchange: &mut Exchange<C::Flight>, load: Load) -> Instant {
        let expired = Expired { now: self.clock, attempt: attempt(exchange.sent.len() - 1), load };
        self.controller.expired(&mut self.peer, &mut exchange.flight, &expired)
    }

    fn transmit(&mut self, exchange: &mut Exchange<C::Flight>, event: &Event, load: Load) {
        let sent = Sent {
            now: self.clock,
            attempt: attempt(exchange.sent.len()),
            confirmable: true,
            bytes: exchange.bytes,
            random: event.u.as_bits(),
            load,
        };
        exchange.timer = self.controller.sent(&mut self.peer, &mut exchange.flight, &sent);
        exchange.sent.push(self.clock);
    }

    fn take(&mut self, event: &Event) -> Result<Exchange<C::Flight>, Stop> {
        self.exchanges
            .remove(&event.x)
            .ok_or_else(|| Stop::Inconsistent(format!("exchange {} is not running", event.x)))
    }

    fn load(&self, x: u32) -> Load {
        let others = || self.exchanges.iter().filter(|(id, _)| **id != x).map(|(_, exchange)| exchange);
        Load {
            exchanges: u16::try_from(others().count()).unwrap_or(u16::MAX),
            bytes: others().map(|exchange| exchange.bytes).sum(),
            queued: 0,
            non: self.non,
        }
    }
}

fn confirmable(event: &Event) -> Submission {
    Submission { confirmable: true, may_confirm: false, bytes: bytes(event), probing_rate: PROBING_RATE }
}

fn bytes(event: &Event) -> u32 {
    event.size.unwrap_or(100)
}

fn attempt(copies: usize) -> u8 {
    u8::try_from(copies).unwrap_or(u8::MAX)
}
