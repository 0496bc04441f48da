//! The publisher: changes topics and notifies observers.

use std::collections::BTreeMap;

use conche_netsim::{Instant, NodeId};
use conche_proto::codec::{Body, Code, OptionNumber};
use conche_proto::{Event, ObserverEnd, Reliability, Response};

use super::application::{Context, Timer};
use super::flow::Flow;
use crate::scenario::STATE_BYTES;

/// A topic that clients observe.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Changes, as a flow of which pace, start, stop and body size count.
    pub changes: Flow,
    /// Reliability of notifications; `None` for the endpoint's default.
    pub reliability: Option<Reliability>,
}

/// Serves topics that change.
#[derive(Debug)]
pub struct Publisher {
    topics: Vec<Topic>,
    /// Each client's topic.
    observers: BTreeMap<NodeId, u32>,
    changes: Vec<Vec<Instant>>,
    given_up: Vec<NodeId>,
}

impl Publisher {
    /// Serves these topics; `observers` holds each client's topic.
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
                let Some(number) = self.observers.get(from).copied() else { return false };
                // Without room, the client gets a plain response and asks again.
                ctx.observe(*id, number.into());
                let state = self.state(number);
                ctx.respond(*id, state).expect("the request was just announced, and its answer is small");
                true
            }
            Event::ObserverGone { from, reason: ObserverEnd::Failed(_), .. } => {
                self.given_up.push(*from);
                true
            }
            _ => false,
        }
    }

    /// The time of the last change, padded to the body size.
    fn state(&self, number: u32) -> Response {
        let Topic { changes, reliability } = &self.topics[number as usize];
        let changed = self.changes[number as usize].last().copied().unwrap_or(Instant::ZERO);
        let mut payload = changed.as_nanos().to_be_bytes().to_vec();
        // One byte is the payload marker.
        payload.resize(changes.body.len().saturating_sub(1).max(payload.len()), b'.');
        let body = Body::builder().payload(payload).build().expect("a payload needs no option");
        Response { reliability: *reliability, ..Response::new(Code::CONTENT, body) }
    }
}

/// `None` if the payload is no state.
pub(super) fn changed_at(payload: &[u8]) -> Option<Instant> {
    let nanos = payload.first_chunk::<STATE_BYTES>()?;
    Some(Instant::from_nanos(u64::from_be_bytes(*nanos)))
}
