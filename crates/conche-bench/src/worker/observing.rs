//! Registrations and their notifications (RFC 7641).

use conche_proto::{Event, ExchangeId, Request, RequestError, SubscriptionId};

use super::{NO_SLOT, Phase, Worker};
use crate::tally::nanos;

impl Worker<'_> {
    pub(super) fn observe(&mut self, lane: u32, request: Request) -> Result<ExchangeId, RequestError> {
        let (exchange, subscription) = self.endpoint.subscribe(self.now, lane, request)?;
        self.subscriptions.insert(subscription, self.now);
        Ok(exchange)
    }

    pub(super) fn handle_observation_event(&mut self, event: Event<u32>) {
        match event {
            Event::Notification { subscription, .. } => self.notified(subscription),
            Event::Stale { subscription, .. } => {
                // Otherwise the observation ends with an event.
                let _ = self.endpoint.reregister(self.now, subscription);
            }
            Event::SubscriptionOver { subscription, .. } => {
                self.subscriptions.remove(&subscription);
                self.tally.not_observed += 1;
            }
            // No other event matters.
            _ => {}
        }
    }

    fn notified(&mut self, subscription: SubscriptionId) {
        self.interval.notifications += 1;
        let Some(heard) = self.subscriptions.get_mut(&subscription) else { return };
        let gap = self.now - std::mem::replace(heard, self.now);
        if self.phase == Phase::Measuring {
            self.tally.notifications += 1;
            self.tally.gaps.saturating_record(nanos(gap));
        }
    }

    pub(super) fn end_observations(&mut self) {
        for subscription in std::mem::take(&mut self.subscriptions).into_keys() {
            if let Ok(exchange) = self.endpoint.unsubscribe(self.now, subscription) {
                self.record_slot(exchange.place(), NO_SLOT);
                self.in_flight += 1;
            }
        }
    }
}
