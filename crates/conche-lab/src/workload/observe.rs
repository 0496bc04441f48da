//! Topics that change, and their observers (RFC 7641).

use std::collections::BTreeMap;
use std::time::Duration;

use conche_netsim::{Instant, NodeId};
use conche_proto::codec::{Body, Code, OptionNumber, OwnedMessage};
use conche_proto::{Event, ExchangeId, ObserverEnd, Reliability, Request, Response, SubscriptionId};

use super::application::{Context, Timer};
use super::flow::Flow;
use crate::scenario::STATE_BYTES;

/// A topic that clients observe.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its changes; only pace, start, stop and body size matter.
    pub changes: Flow,
    /// Reliability of notifications; `None` for the endpoint's default.
    pub reliability: Option<Reliability>,
}

/// Changes topics and notifies observers.
#[derive(Debug)]
pub struct Publisher {
    topics: Vec<Topic>,
    observers: BTreeMap<NodeId, u32>,
    changes: Vec<Vec<Instant>>,
    given_up: Vec<NodeId>,
}

impl Publisher {
    /// Creates a publisher; `observers` holds each client's topic.
    #[must_use]
    pub fn new(topics: Vec<Topic>, observers: BTreeMap<NodeId, u32>) -> Self {
        let changes = vec![Vec::new(); topics.len()];
        Self { topics, observers, changes, given_up: Vec::new() }
    }

    /// Times of each topic's changes.
    #[must_use]
    pub fn changes(&self) -> &[Vec<Instant>] {
        &self.changes
    }

    /// The observer of each undelivered notification.
    #[must_use]
    pub fn given_up(&self) -> &[NodeId] {
        &self.given_up
    }

    pub(super) fn start(&self, ctx: &mut Context<'_>) {
        for (number, topic) in (0..).zip(&self.topics) {
            if let Some(first) = topic.changes.first(ctx.rng()) {
                ctx.set_timer(first - ctx.now(), Timer::Change(number));
            }
        }
    }

    pub(super) fn timer(&mut self, ctx: &mut Context<'_>, number: u32) {
        let now = ctx.now();
        let changes = &self.topics[number as usize].changes;
        if changes.stop.is_some_and(|stop| now >= stop) {
            return;
        }
        if let Some(next) = changes.next(now, ctx.rng()) {
            ctx.set_timer(next - now, Timer::Change(number));
        }
        self.changes[number as usize].push(now);
        let state = self.state(number);
        ctx.notify(number.into(), state).expect("a small state is a response");
    }

    /// Returns whether the event concerned an observer.
    pub(super) fn event(&mut self, ctx: &mut Context<'_>, event: &Event<NodeId>) -> bool {
        match event {
            Event::Request { id, from, message } if message.option(OptionNumber::OBSERVE).is_some() => {
                let Some(number) = self.observers.get(&ctx.node_at(*from)).copied() else { return false };
                // Without room, the client gets a plain response.
                ctx.observe(*id, number.into());
                let state = self.state(number);
                ctx.respond(*id, state).expect("the request was just announced, and its answer is small");
                true
            }
            Event::ObserverGone { from, reason: ObserverEnd::Failed(_), .. } => {
                self.given_up.push(ctx.node_at(*from));
                true
            }
            _ => false,
        }
    }

    /// Returns the last change's time, padded to the body size.
    fn state(&self, number: u32) -> Response {
        let Topic { changes, reliability } = &self.topics[number as usize];
        let changed = self.changes[number as usize].last().copied().unwrap_or(Instant::ZERO);
        let mut payload = changed.as_nanos().to_be_bytes().to_vec();
        payload.resize(changes.body.len().saturating_sub(1).max(payload.len()), b'.');
        let body = Body::builder().payload(payload).build().expect("a payload needs no option");
        Response { reliability: *reliability, ..Response::new(Code::CONTENT, body) }
    }
}

fn changed_at(payload: &[u8]) -> Option<Instant> {
    let nanos = payload.first_chunk::<STATE_BYTES>()?;
    Some(Instant::from_nanos(u64::from_be_bytes(*nanos)))
}

/// A state that an observer received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedState {
    /// Time of arrival.
    pub at: Instant,
    /// Time of the change at the server.
    pub changed: Instant,
}

/// Observes servers, and records states.
#[derive(Debug)]
pub struct Subscriber {
    servers: Vec<NodeId>,
    within: Duration,
    /// By server index.
    registering: Vec<(ExchangeId, u32)>,
    observing: Vec<(SubscriptionId, u32)>,
    received: Vec<Vec<ReceivedState>>,
}

/// After a failed or cancelled registration (assumption).
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
