//! What is observed elsewhere (RFC 7641 §3): registered, registered again when it becomes stale, and ended.

use std::collections::HashMap;
use std::time::Duration;

use conche_proto::codec::OwnedMessage;
use conche_proto::{Instant, RequestError, SubscriptionEnd, SubscriptionId};
use tracing::{debug, debug_span};

use super::exchanges::Waiting;
use super::feed::Teller;
use super::handle::{ExchangeError, Farewell};
use super::reply::Reply;
use super::{Address, Driver, Sender};
use crate::controllers::SharedController;

/// When the endpoint has no room for a registration, it is tried again after this time.
const ANOTHER_TRY: Duration = Duration::from_secs(1);

/// All that a driver observes for somebody.
#[derive(Debug, Default)]
pub(super) struct Observations {
    observed: HashMap<SubscriptionId, Observed>,
    /// By what those who observe call them.
    tickets: HashMap<u64, SubscriptionId>,
    /// Stale ones for which there was no room, and when to try again.
    stale: Vec<SubscriptionId>,
    again: Option<Instant>,
}

/// An observation of a resource of a peer.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) ticket: u64,
    #[cfg_attr(not(any(feature = "dtls", feature = "edhoc")), expect(dead_code, reason = "no peer loses its keys"))]
    pub(super) peer: Address,
    /// The peer as its notifications authenticate it.
    pub(super) sender: Sender,
    pub(super) teller: Teller,
}

impl Observations {
    pub(super) fn insert(&mut self, subscription: SubscriptionId, observed: Observed) {
        self.tickets.insert(observed.ticket, subscription);
        self.observed.insert(subscription, observed);
    }

    /// Nobody observes it any more.
    fn remove(&mut self, ticket: u64) -> Option<(SubscriptionId, Sender)> {
        let subscription = self.tickets.remove(&ticket)?;
        let observed = self.observed.remove(&subscription)?;
        Some((subscription, observed.sender))
    }

    /// Hands a notification to the observer.
    pub(super) fn tell(&self, subscription: SubscriptionId, message: OwnedMessage) {
        if let Some(observed) = self.observed.get(&subscription) {
            observed.teller.tell(observed.sender.clone(), message);
        }
    }

    pub(super) fn over(&mut self, subscription: SubscriptionId, reason: SubscriptionEnd) {
        if let Some(observed) = self.observed.remove(&subscription) {
            self.tickets.remove(&observed.ticket);
            observed.teller.end(reason);
        }
    }

    /// It cannot be registered again.
    fn refused(&mut self, subscription: SubscriptionId, refusal: RequestError) {
        if let Some(observed) = self.observed.remove(&subscription) {
            self.tickets.remove(&observed.ticket);
            observed.teller.refuse(refusal);
        }
    }

    /// What is observed at a peer.
    #[cfg(any(feature = "dtls", feature = "edhoc"))]
    fn from(&self, peer: Address) -> Vec<SubscriptionId> {
        let from = self.observed.iter().filter(|(_, observed)| observed.peer == peer);
        from.map(|(subscription, _)| *subscription).collect()
    }

    /// When stale ones are to be registered again for which there was no room.
    pub(super) fn due(&self) -> Option<Instant> {
        self.again
    }
}

impl<C: SharedController> Driver<C> {
    /// Registers again what has become stale (RFC 7641 §3.3.1).
    pub(super) fn refresh(&mut self, subscription: SubscriptionId) {
        match self.endpoint.reregister(self.now, subscription) {
            Ok(()) => debug!("an observation has become stale and is registered again"),
            Err(refusal) if refusal.is_busy() => {
                debug!(%refusal, "an observation has become stale and waits for room to be registered again");
                self.observations.stale.push(subscription);
                self.observations.again.get_or_insert(self.now + ANOTHER_TRY);
            }
            // There is an event of that.
            Err(RequestError::NotSubscribed) => {}
            Err(refusal) => {
                debug!(%refusal, "an observation has become stale and cannot be registered again");
                self.endpoint.forget(self.now, subscription);
                self.observations.refused(subscription, refusal);
            }
        }
    }

    /// Tries again to register what there was no room for.
    pub(super) fn refresh_again(&mut self) {
        if self.observations.again.take_if(|again| *again <= self.now).is_some() {
            for subscription in std::mem::take(&mut self.observations.stale) {
                self.refresh(subscription);
            }
        }
    }

    /// Nobody observes this any more: the server is told (RFC 7641 §3.6), or if it is not to be told or there is no room for
    /// that, it learns when it notifies.
    pub(super) fn lose_interest(&mut self, ticket: u64, farewell: Farewell) {
        if let Some((subscription, _)) = self.observations.remove(ticket)
            && (farewell == Farewell::Silent || self.endpoint.unsubscribe(self.now, subscription).is_err())
        {
            self.endpoint.forget(self.now, subscription);
        }
    }

    /// The same for somebody who waits for the server's answer.
    pub(super) fn unsubscribe(&mut self, observed: u64, ticket: u64, outcome: Reply) {
        let refusal = match self.observations.remove(observed) {
            Some((subscription, peer)) => match self.endpoint.unsubscribe(self.now, subscription) {
                Ok(exchange) => {
                    let span = debug_span!("deregistration", peer = %peer.address, id = ticket + 1);
                    let waiting =
                        Waiting { ticket, ping: false, responses: None, told: None, outcome, place: None, peer, span };
                    return self.exchanges.insert(exchange, waiting);
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
    /// The session with a peer is over, and whatever was observed through it: whoever observes may register it through another.
    fn lose(&mut self, peer: Address) -> Vec<SubscriptionId> {
        let lost = self.from(peer);
        for observed in lost.iter().filter_map(|subscription| self.observed.remove(subscription)) {
            self.tickets.remove(&observed.ticket);
            observed.teller.lose_session();
        }
        lost
    }
}

#[cfg(feature = "edhoc")]
impl<C: SharedController> Driver<C> {
    /// Registers again what is observed at a peer, without waiting until it is stale.
    pub(super) fn refresh_from(&mut self, peer: Address) {
        for subscription in self.observations.from(peer) {
            self.refresh(subscription);
        }
    }
}

#[cfg(feature = "dtls")]
impl<C: SharedController> Driver<C> {
    /// The session with a peer is over.
    pub(super) fn observations_lost(&mut self, peer: Address) {
        for subscription in self.observations.lose(peer) {
            self.endpoint.forget(self.now, subscription);
        }
    }
}
