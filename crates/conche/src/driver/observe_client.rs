//! Observations of remote resources (RFC 7641 §3). A [`Feed`] passes the newest state to the
//! observation; a slow reader skips outdated ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use conche_proto::codec::OwnedMessage;
use conche_proto::{Instant, RequestError, SubscriptionEnd, SubscriptionId};
use tracing::{debug, debug_span};

use super::channels::OutcomeSender;
use super::commands::{CancelMode, ExchangeError};
use super::exchanges::Caller;
use super::{Address, Driver, Sender, Service, SharedController};

#[derive(Debug, Default)]
pub(crate) struct Feed(Arc<Mutex<Inner>>);

#[derive(Debug)]
pub(crate) struct FeedSender(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    newest: Option<State>,
    end: Option<End>,
    waker: Option<Waker>,
}

#[derive(Debug)]
pub(crate) enum Update {
    State(State),
    End(End),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) from: Sender,
    pub(crate) message: OwnedMessage,
    pub(crate) received: tokio::time::Instant,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Over(SubscriptionEnd),
    Refused(RequestError),
    #[cfg_attr(not(feature = "dtls"), expect(dead_code, reason = "there are no sessions"))]
    SessionOver,
    Stopped,
}

impl Feed {
    pub(crate) fn sender(&self) -> FeedSender {
        FeedSender(Arc::clone(&self.0))
    }

    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Update> {
        let mut inner = lock(&self.0);
        if let Some(state) = inner.newest.take() {
            return Poll::Ready(Update::State(state));
        }
        match inner.end {
            Some(end) => Poll::Ready(Update::End(end)),
            None => {
                inner.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl FeedSender {
    pub(super) fn send(&self, from: Sender, message: OwnedMessage) {
        let state = State { from, message, received: tokio::time::Instant::now() };
        self.change(|inner| inner.newest = Some(state));
    }

    pub(super) fn end(&self, reason: SubscriptionEnd) {
        self.change(|inner| inner.end = Some(End::Over(reason)));
    }

    pub(super) fn refuse(&self, refusal: RequestError) {
        self.change(|inner| inner.end = Some(End::Refused(refusal)));
    }

    #[cfg(feature = "dtls")]
    pub(super) fn lose_session(&self) {
        self.change(|inner| inner.end = Some(End::SessionOver));
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let waker = {
            let mut inner = lock(&self.0);
            change(&mut inner);
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for FeedSender {
    fn drop(&mut self) {
        self.change(|inner| {
            inner.end.get_or_insert(End::Stopped);
        });
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Delay before retrying a registration.
const REGISTRATION_RETRY_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Observations {
    observed: HashMap<SubscriptionId, Observed>,
    tickets: HashMap<u64, SubscriptionId>,
    /// Stale observations that found no room.
    stale: Vec<SubscriptionId>,
    again: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Observed {
    pub(super) ticket: u64,
    #[cfg_attr(not(any(feature = "dtls", feature = "edhoc")), expect(dead_code, reason = "no peer loses its keys"))]
    pub(super) peer: Address,
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

    fn tickets(&self) -> Vec<u64> {
        self.tickets.keys().copied().collect()
    }

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

    fn refused(&mut self, subscription: SubscriptionId, refusal: RequestError) {
        if let Some(observed) = self.observed.remove(&subscription) {
            self.tickets.remove(&observed.ticket);
            observed.feed.refuse(refusal);
        }
    }

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
    /// RFC 7641 §3.3.1.
    pub(super) fn refresh(&mut self, subscription: SubscriptionId) {
        match self.endpoint.reregister(self.now, subscription) {
            Ok(()) => debug!("an observation has become stale and is registered again"),
            Err(refusal) if refusal.is_busy() => {
                debug!(%refusal, "an observation has become stale and waits for room to be registered again");
                self.observations.stale.push(subscription);
                self.observations.again.get_or_insert(self.now + REGISTRATION_RETRY_DELAY);
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

    pub(super) fn retry_refresh(&mut self) {
        if self.observations.again.take_if(|again| *again <= self.now).is_some() {
            for subscription in std::mem::take(&mut self.observations.stale) {
                self.refresh(subscription);
            }
        }
    }

    /// Notifies the server (RFC 7641 §3.6). If unwanted, or without room, rejects its next
    /// notification instead.
    pub(super) fn end_observation(&mut self, ticket: u64, mode: CancelMode) {
        if let Some((subscription, _)) = self.observations.remove(ticket)
            && (mode == CancelMode::Silent || self.endpoint.unsubscribe(self.now, subscription).is_err())
        {
            self.endpoint.forget(self.now, subscription);
        }
    }

    /// Their streams end as if the driver had ended.
    pub(super) fn end_observations(&mut self) {
        for ticket in self.observations.tickets() {
            self.end_observation(ticket, CancelMode::Deregister);
        }
    }

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
    pub(super) fn refresh_from(&mut self, peer: Address) {
        for subscription in self.observations.from(peer) {
            self.refresh(subscription);
        }
    }
}

#[cfg(feature = "dtls")]
impl<C: SharedController, S: Service> Driver<C, S> {
    pub(super) fn observations_lost(&mut self, peer: Address) {
        for subscription in self.observations.lose(peer) {
            self.endpoint.forget(self.now, subscription);
        }
    }
}
