//! Drives a controller through sequential exchanges, in milliseconds, with random draws in [0, 1].
//! Functions return the next timeout or, after an exchange, the next RTO.

use core::time::Duration;
use std::vec::Vec;

use crate::control::{
    AbandonReason, Abandoned, AckKind, AckedCopy, Acknowledged, Admission, Controller, Expired, Load, Sent, Submission,
};
use crate::non::PROBING_RATE;
use crate::time::Instant;

pub(crate) struct TestDriver<'a, C: Controller> {
    controller: &'a C,
    pub(crate) peer: C::Peer,
    pub(crate) flight: C::Flight,
    pub(crate) now: Instant,
    pub(crate) load: Load,
    pub(crate) bytes: u32,
    sent: Vec<Instant>,
    timer: Duration,
    random: u32,
}

impl<'a, C: Controller> TestDriver<'a, C> {
    pub(crate) fn new(controller: &'a C) -> Self {
        let now = Instant::from_millis(1_000);
        Self {
            controller,
            peer: controller.peer(now),
            flight: C::Flight::default(),
            now,
            load: Load::default(),
            bytes: 100,
            sent: Vec::new(),
            timer: Duration::ZERO,
            random: 0,
        }
    }

    pub(crate) fn start(&mut self, u: f64) -> u64 {
        self.flight = C::Flight::default();
        self.sent.clear();
        self.random = random(u);
        self.transmit(true)
    }

    pub(crate) fn time_out(&mut self) -> u64 {
        self.now += self.timer;
        let attempt = u8::try_from(self.sent.len() - 1).expect("few copies");
        let expired = Expired { now: self.now, attempt, load: self.load };
        self.now = self.controller.expired(&mut self.peer, &mut self.flight, &expired);
        self.transmit(true)
    }

    pub(crate) fn send_non(&mut self) -> u64 {
        self.flight = C::Flight::default();
        self.sent.clear();
        self.transmit(false)
    }

    fn transmit(&mut self, confirmable: bool) -> u64 {
        let attempt = u8::try_from(self.sent.len()).expect("few copies");
        let (now, bytes, random, load) = (self.now, self.bytes, self.random, self.load);
        let sent = Sent { now, attempt, confirmable, bytes, random, load };
        self.timer = self.controller.sent(&mut self.peer, &mut self.flight, &sent);
        self.sent.push(self.now);
        millis(self.timer)
    }

    pub(crate) fn ack_after(&mut self, ms: u64) -> u64 {
        self.now += Duration::from_millis(ms);
        self.acknowledged(AckKind::Piggybacked, AckedCopy::Unknown)
    }

    pub(crate) fn ack_at(&mut self, rtt_ms: u64) -> u64 {
        self.now = self.sent[0] + Duration::from_millis(rtt_ms);
        self.acknowledged(AckKind::Piggybacked, AckedCopy::Unknown)
    }

    pub(crate) fn acknowledged(&mut self, kind: AckKind, copy: AckedCopy) -> u64 {
        let event = Acknowledged { now: self.now, sent: &self.sent, copy, kind, load: self.load };
        self.controller.acknowledged(&mut self.peer, &self.flight, &event);
        self.base()
    }

    /// Runs an exchange without retransmission or randomisation.
    pub(crate) fn clean(&mut self, rtt_ms: u64) -> u64 {
        self.start(0.0);
        self.ack_after(rtt_ms)
    }

    pub(crate) fn end(&mut self, reason: AbandonReason) -> u64 {
        self.now += self.timer;
        let event = Abandoned { now: self.now, reason, sent: &self.sent, load: self.load };
        self.controller.abandoned(&mut self.peer, &self.flight, &event);
        self.base()
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    pub(crate) fn base(&mut self) -> u64 {
        millis(self.controller.base(&mut self.peer, self.now))
    }

    pub(crate) fn admit(&mut self, confirmable: bool) -> Admission {
        let message = Submission { confirmable, may_confirm: true, bytes: self.bytes, probing_rate: PROBING_RATE };
        self.controller.admit(&mut self.peer, self.now, &message, &self.load)
    }

    pub(crate) fn drained(&mut self) {
        self.controller.drained(&mut self.peer, self.now, &self.load);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "u is at most 1")]
fn random(u: f64) -> u32 {
    (u * f64::from(u32::MAX)).round() as u32
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).expect("timers are short")
}
