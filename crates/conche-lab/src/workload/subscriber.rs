//! The subscriber: observes servers, and records states.

use std::time::Duration;

use conche_netsim::{Instant, NodeId};
use conche_proto::codec::{Body, Code, OwnedMessage};
use conche_proto::{Event, ExchangeId, Request, SubscriptionId};

use super::application::{Context, Timer};
use super::publisher::changed_at;

/// A state that an observer received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedState {
    /// Time of arrival.
    pub at: Instant,
    /// Time of the change at the server.
    pub changed: Instant,
}

/// Observes servers.
#[derive(Debug)]
pub struct Subscriber {
    servers: Vec<NodeId>,
    /// Upper bound of the registration time.
    within: Duration,
    /// Open registrations and subscriptions, by server index.
    registering: Vec<(ExchangeId, u32)>,
    observing: Vec<(SubscriptionId, u32)>,
    received: Vec<Vec<ReceivedState>>,
}

/// For a failed or cancelled registration (assumption).
const PAUSE: Duration = Duration::from_secs(1);

impl Subscriber {
    /// Observes these servers, registering at random times up to `within`.
    #[must_use]
    pub fn new(servers: Vec<NodeId>, within: Duration) -> Self {
        let received = vec![Vec::new(); servers.len()];
        Self { servers, within, registering: Vec::new(), observing: Vec::new(), received }
    }

    /// States from each server, each newer than the last.
    #[must_use]
    pub fn received(&self) -> &[Vec<ReceivedState>] {
        &self.received
    }

    pub(super) fn start(&self, ctx: &mut Context<'_>) {
        for (number, _) in (0..).zip(&self.servers) {
            let after = self.within.mul_f64(ctx.rng().unit());
            ctx.set_timer(after, Timer::Register(number));
        }
    }

    pub(super) fn timer(&mut self, ctx: &mut Context<'_>, number: u32) {
        let request = Request::new(Code::GET, Body::EMPTY);
        match ctx.subscribe(self.servers[number as usize], request) {
            Ok((exchange, subscription)) => {
                self.registering.push((exchange, number));
                self.observing.push((subscription, number));
            }
            Err(_) => {
                ctx.set_timer(PAUSE, Timer::Register(number));
            }
        }
    }

    pub(super) fn event(&mut self, ctx: &mut Context<'_>, event: &Event<NodeId>) {
        match event {
            Event::Response { exchange, message, .. } => {
                if let Some(number) = take(&mut self.registering, exchange) {
                    self.handle_state(ctx.now(), number, message);
                }
            }
            Event::Failed { exchange, .. } => {
                take(&mut self.registering, exchange);
            }
            Event::Notification { subscription, message, .. } => {
                let observing = self.observing.iter().find(|(known, _)| known == subscription);
                if let Some((_, number)) = observing.copied() {
                    self.handle_state(ctx.now(), number, message);
                }
            }
            // The server may have lost the registration.
            Event::Stale { subscription, .. } => self.renew(ctx, subscription),
            Event::SubscriptionOver { subscription, .. } => self.over(ctx, subscription),
            _ => {}
        }
    }

    /// Registers again, or anew if refused.
    fn renew(&mut self, ctx: &mut Context<'_>, subscription: &SubscriptionId) {
        if ctx.reregister(*subscription).is_err() {
            ctx.forget(*subscription);
            self.over(ctx, subscription);
        }
    }

    fn over(&mut self, ctx: &mut Context<'_>, subscription: &SubscriptionId) {
        if let Some(number) = take(&mut self.observing, subscription) {
            ctx.set_timer(PAUSE, Timer::Register(number));
        }
    }

    fn handle_state(&mut self, at: Instant, number: u32, message: &OwnedMessage) {
        let received = &mut self.received[number as usize];
        let newer =
            changed_at(message.payload()).filter(|changed| received.last().is_none_or(|last| last.changed < *changed));
        received.extend(newer.map(|changed| ReceivedState { at, changed }));
    }
}

fn take<K: PartialEq>(list: &mut Vec<(K, u32)>, key: &K) -> Option<u32> {
    let place = list.iter().position(|(known, _)| known == key)?;
    Some(list.swap_remove(place).1)
}
