//! Observations of remote resources (RFC 7641 §3): registration, renewal and end.

use std::collections::HashMap;
use std::time::Duration;

use conche_proto::codec::OwnedMessage;
use conche_proto::{Instant, RequestError, SubscriptionEnd, SubscriptionId};
use tracing::{debug, debug_span};

use super::exchanges::Caller;
use super::feed::FeedSender;
use super::handle::{CancelMode, ExchangeError};
use super::outcome_channel::OutcomeSender;
use super::{Address, Driver, Sender, Service, SharedController};

/// Delay before a registration is retried for which the endpoint had no room.
const ANOTHER_TRY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Observations {
    observed: HashMap<SubscriptionId, Observed>,
    /// Subscriptions by the ticket of their observer.
    tickets: HashMap<u64, SubscriptionId>,
    /// Stale observations that had no room, and the time of the next attempt.
    stale: Vec<SubscriptionId>,
    again: Option<Instant>,
}

/// An observation of a peer's resource.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) ticket: u64,
    #[cfg_attr(not(any(feature = "dtls", feature = "edhoc")), expect(dead_code, reason = "no peer loses its keys"))]
    pub(super) peer: Address,
    /// The authenticated sender of its notifications.
    pub(super) sender: Sender,
    pub(super) feed: FeedSender,
}

impl Observations {
    pub(super) fn insert(&mut self, subscription: SubscriptionId, observed: Observed) {
        self.tickets.insert(observed.ticket, subscription);
        self.observed.insert(subscription, observed);
    }

    fn remove(&mut self, ticket: u64) -> Option<(SubscriptionId, Sender)> {
        let subscription = self.tickets.remove(&ticket)?;
        let observed = self.observed.remove(&subscription)?;
        Some((subscription, observed.sender))
    }

    /// Passes a notification to the observer.
    pub(super) fn on_notification(&self, subscription: SubscriptionId, message: OwnedMessage) {
        if let Some(observed) = self.observed.get(&subscription) {
            observed.feed.send(observed.sender.clone(), message);
        }
    }

    pub(super) fn on_end(&mut self, subscription: SubscriptionId, reason: SubscriptionEnd) {
        if let Some(observed) = self.observed.remove(&subscription) {
            self.tickets.remove(&observed.ticket);
            observed.feed.end(reason);
        }
    }

    /// Ends an observation that cannot be registered again.
    fn refused(&mut self, subscription: SubscriptionId, refusal: RequestError) {
        if let Some(observed) = self.observed.remove(&subscription) {
            self.tickets.remove(&observed.ticket);
            observed.feed.refuse(refusal);
        }
    }

    /// Returns the observations at a peer.
    #[cfg(any(feature = "dtls", feature = "edhoc"))]
    fn from(&self, peer: Address) -> Vec<SubscriptionId> {
        let from = self.observed.iter().filter(|(_, observed)| observed.peer == peer);
        from.map(|(subscription, _)| *subscription).collect()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.again
    }
}

impl<C: SharedController, S: Service> Driver<C, S> {
    /// Registers a stale observation again (RFC 7641 §3.3.1).
    pub(super) fn refresh(&mut self, subscription: SubscriptionId) {
        match self.endpoint.reregister(self.now, subscription) {
            Ok(()) => debug!("an observation has become stale and is registered again"),
            Err(refusal) if refusal.is_busy() => {
                debug!(%refusal, "an observation has become stale and waits for room to be registered again");
                self.observations.stale.push(subscription);
                self.observations.again.get_or_insert(self.now + ANOTHER_TRY);
            }
            // An event reports this.
            Err(RequestError::NotSubscribed) => {}
            Err(refusal) => {
                debug!(%refusal, "an observation has become stale and cannot be registered again");
                self.endpoint.forget(self.now, subscription);
                self.observations.refused(subscription, refusal);
            }
        }
    }

    /// Retries registrations that had no room.
    pub(super) fn retry_refresh(&mut self) {
        if self.observations.again.take_if(|again| *again <= self.now).is_some() {
            for subscription in std::mem::take(&mut self.observations.stale) {
                self.refresh(subscription);
            }
        }
    }

    /// Ends an observation. The server is notified (RFC 7641 §3.6); if that is not wanted or there
    /// is no room, its next notification is rejected.
    pub(super) fn end_observation(&mut self, ticket: u64, mode: CancelMode) {
        if let Some((subscription, _)) = self.observations.remove(ticket)
            && (mode == CancelMode::Silent || self.endpoint.unsubscribe(self.now, subscription).is_err())
        {
            self.endpoint.forget(self.now, subscription);
        }
    }

    /// Ends an observation and waits for the server's response.
    pub(super) fn unsubscribe(&mut self, observed: u64, ticket: u64, outcome: OutcomeSender) {
        let refusal = match self.observations.remove(observed) {
            Some((subscription, peer)) => match self.endpoint.unsubscribe(self.now, subscription) {
                Ok(exchange) => {
                    let span = debug_span!("deregistration", peer = %peer.address, id = ticket + 1);
                    let caller = Caller {
                        ticket,
                        ping: false,
                        responses: None,
                        events: None,
                        outcome,
                        permit: None,
                        peer,
                        span,
                    };
                    return self.exchanges.insert(exchange, caller);
                }
                Err(refusal) => {
                    self.endpoint.forget(self.now, subscription);
                    refusal
                }
            },
            None => RequestError::NotSubscribed,
        };
        outcome.send(Err(ExchangeError::Refused(refusal)));
    }
}

#[cfg(feature = "dtls")]
impl Observations {
    /// Ends the observations of a session that is over; their observers may register through
    /// another.
    fn lose(&mut self, peer: Address) -> Vec<SubscriptionId> {
        let lost = self.from(peer);
        for observed in lost.iter().filter_map(|subscription| self.observed.remove(subscription)) {
            self.tickets.remove(&observed.ticket);
            observed.feed.lose_session();
        }
        lost
    }
}

#[cfg(feature = "edhoc")]
impl<C: SharedController, S: Service> Driver<C, S> {
    /// Registers all observations at a peer again, before they are stale.
    pub(super) fn refresh_from(&mut self, peer: Address) {
        for subscription in self.observations.from(peer) {
            self.refresh(subscription);
        }
    }
}

#[cfg(feature = "dtls")]
impl<C: SharedController, S: Service> Driver<C, S> {
    /// Ends the observations of a session that is over.
    pub(super) fn observations_lost(&mut self, peer: Address) {
        for subscription in self.observations.lose(peer) {
            self.endpoint.forget(self.now, subscription);
        }
    }
}
