//! The subscriber: it observes, and notes what it hears.

use std::time::Duration;

use conche_netsim::{Instant, NodeId};
use conche_proto::codec::{Body, Code, OwnedMessage};
use conche_proto::{Event, ExchangeId, Request, SubscriptionId};

use super::application::{Context, Timer};
use super::publisher::changed_at;

/// A state that an observer heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// When.
    pub at: Instant,
    /// When it had become so.
    pub changed: Instant,
}

/// Observes servers.
#[derive(Debug)]
pub struct Subscriber {
    servers: Vec<NodeId>,
    /// When it registers, at random, at the latest.
    within: Duration,
    /// Registrations and subscriptions that go on, by the place of their server.
    registering: Vec<(ExchangeId, u32)>,
    observing: Vec<(SubscriptionId, u32)>,
    heard: Vec<Vec<Heard>>,
}

/// After so long a registration is tried again that failed or was ended [assumption].
const PAUSE: Duration = Duration::from_secs(1);

impl Subscriber {
    /// Observes these servers, and registers with each at a random time within the first so much.
    #[must_use]
    pub fn new(servers: Vec<NodeId>, within: Duration) -> Self {
        let heard = vec![Vec::new(); servers.len()];
        Self { servers, within, registering: Vec::new(), observing: Vec::new(), heard }
    }

    /// What it heard of each server, each time of a newer state.
    #[must_use]
    pub fn heard(&self) -> &[Vec<Heard>] {
        &self.heard
    }

    pub(super) fn start(&self, ctx: &mut Context<'_>) {
        for (number, _) in (0..).zip(&self.servers) {
            let after = self.within.mul_f64(ctx.rng().unit());
            ctx.set_timer(after, Timer::Register(number));
        }
    }

    /// It is time to register.
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
                    self.hear(ctx.now(), number, message);
                }
            }
            Event::Failed { exchange, .. } => {
                take(&mut self.registering, exchange);
            }
            Event::Notification { subscription, message, .. } => {
                let observing = self.observing.iter().find(|(known, _)| known == subscription);
                if let Some((_, number)) = observing.copied() {
                    self.hear(ctx.now(), number, message);
                }
            }
            // The server may have forgotten it.
            Event::Stale { subscription, .. } => self.renew(ctx, subscription),
            Event::SubscriptionOver { subscription, .. } => self.over(ctx, subscription),
            _ => {}
        }
    }

    /// Registers again or, where that is refused, from the begin.
    fn renew(&mut self, ctx: &mut Context<'_>, subscription: &SubscriptionId) {
        if ctx.reregister(*subscription).is_err() {
            ctx.forget(*subscription);
            self.over(ctx, subscription);
        }
    }

    /// Nothing of a subscription comes any more.
    fn over(&mut self, ctx: &mut Context<'_>, subscription: &SubscriptionId) {
        if let Some(number) = take(&mut self.observing, subscription) {
            ctx.set_timer(PAUSE, Timer::Register(number));
        }
    }

    fn hear(&mut self, at: Instant, number: u32, message: &OwnedMessage) {
        let heard = &mut self.heard[number as usize];
        let news =
            changed_at(message.payload()).filter(|changed| heard.last().is_none_or(|last| last.changed < *changed));
        heard.extend(news.map(|changed| Heard { at, changed }));
    }
}

/// Takes what is known under this key out of a list.
fn take<K: PartialEq>(list: &mut Vec<(K, u32)>, key: &K) -> Option<u32> {
    let place = list.iter().position(|(known, _)| known == key)?;
    Some(list.swap_remove(place).1)
}
