//! The responder answers requests at once, and records arrivals.

use std::collections::BTreeSet;

use conche_netsim::{Instant, NodeId};
use conche_proto::codec::{Body, Code};
use conche_proto::{Event, Response};

use super::application::Context;

/// A received request; the endpoint removes duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time.
    pub at: Instant,
    /// Client.
    pub from: NodeId,
}

/// Answers all requests alike.
#[derive(Clone, Debug)]
pub struct Responder {
    code: Code,
    body: Body,
    unanswered: BTreeSet<NodeId>,
    arrivals: Vec<Arrival>,
}

impl Responder {
    /// Answers with this code and content.
    #[must_use]
    pub fn new(code: Code, body: Body) -> Self {
        Self { code, body, unanswered: BTreeSet::new(), arrivals: Vec::new() }
    }

    /// Stops answering these clients.
    #[must_use]
    pub fn without_answer_to(self, unanswered: BTreeSet<NodeId>) -> Self {
        Self { unanswered, ..self }
    }

    /// Whether it answers like another.
    #[must_use]
    pub fn answers_as(&self, other: &Self) -> bool {
        (self.code, &self.body) == (other.code, &other.body)
    }

    /// Arrivals by time.
    #[must_use]
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    pub(super) fn event(&mut self, ctx: &mut Context<'_>, event: &Event<NodeId>) {
        let Event::Request { id, from, .. } = event else { return };
        self.arrivals.push(Arrival { at: ctx.now(), from: *from });
        if !self.unanswered.contains(from) {
            let response = Response::new(self.code, self.body.clone());
            ctx.respond(*id, response).expect("the request was just announced, and its answer is small");
        } else {
            ctx.ignore(*id);
        }
    }
}
