//! Handles the endpoint's events.

use conche_proto::codec::OwnedMessage;
use conche_proto::{Course, Event, ExchangeId, Failure, Instant};

use super::{NO_SLOT, PAUSE, Phase, Slot, Worker};
use crate::tally::{Loss, nanos};

impl Worker<'_> {
    #[inline]
    pub(super) fn handle_event(&mut self, event: Event<u32>) {
        match event {
            Event::Response { exchange, message, course, .. } => self.answered(exchange, &message, course),
            Event::Failed { exchange, reason, course, .. } => self.failed(exchange, reason, course),
            // Expected with a No-Response option.
            Event::Unanswered { exchange, course, .. } => self.failed(exchange, Failure::NoResponse, course),
            event => self.handle_observation_event(event),
        }
    }

    #[inline]
    fn answered(&mut self, exchange: ExchangeId, message: &OwnedMessage, course: Course) {
        self.has_answer = true;
        let Some((number, slot)) = self.over(exchange, &course) else { return };
        let end = slot.submitted + course.queued + course.elapsed;
        let latency = nanos(end - slot.due);
        self.ends(end);
        self.interval.answered += 1;
        self.interval.latency.saturating_record(latency);
        if self.phase != Phase::WarmingUp && self.at_end.is_none() {
            self.answered += 1;
        }
        if slot.counts {
            self.tally.answer(slot.kind as usize, message.code(), &course, latency);
        }
        // A registration keeps its slot.
        if !self.common.plan.observe {
            self.free.push_back(number);
        }
    }

    fn failed(&mut self, exchange: ExchangeId, reason: Failure, course: Course) {
        let Some((number, slot)) = self.over(exchange, &course) else { return };
        self.ends(slot.submitted + course.queued + course.elapsed);
        self.interval.lost += 1;
        if slot.counts {
            self.tally.lose(reason.into(), &course);
        }
        match Loss::from(reason) {
            Loss::TimedOut => {
                self.free.push_back(number);
                self.doubt_session(slot.lane);
            }
            // A retry would fail at once.
            _ => self.pausing.push_back((self.now + PAUSE, number)),
        }
    }

    #[inline]
    fn over(&mut self, exchange: ExchangeId, course: &Course) -> Option<(u32, Slot)> {
        let place = self.places.get_mut(exchange.place() as usize)?;
        let number = std::mem::replace(place, NO_SLOT);
        self.in_flight = self.in_flight.saturating_sub(1);
        let slot = self.slots.get_mut(number as usize)?;
        slot.open = false;
        let slot = *slot;
        self.source_ports.ends(slot.lane, course.messages);
        self.close_session(slot.lane);
        Some((number, slot))
    }

    #[inline]
    fn ends(&mut self, at: Instant) {
        self.last_end = self.last_end.max(at);
    }
}
