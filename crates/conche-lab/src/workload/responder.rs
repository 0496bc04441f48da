//! The responder: it answers each request at once, and records what arrives.

use std::collections::BTreeSet;

use conche_netsim::{Instant, NodeId};
use conche_proto::codec::{Body, Code, Type};
use conche_proto::{Event, Response};

use super::application::Context;

/// Whom a responder answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Every request.
    All,
    /// Confirmable requests only.
    Confirmable,
}

/// A request that arrived; duplicates are the endpoint's affair and do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// From whom.
    pub from: NodeId,
    /// It was Confirmable.
    pub confirmable: bool,
}

/// Answers requests with the same content.
#[derive(Clone, Debug)]
pub struct Responder {
    answers: Answers,
    code: Code,
    body: Body,
    /// Who gets no answer.
    unanswered: BTreeSet<NodeId>,
    arrivals: Vec<Arrival>,
}

impl Responder {
    /// Answers with this code and content.
    #[must_use]
    pub fn new(answers: Answers, code: Code, body: Body) -> Self {
        Self { answers, code, body, unanswered: BTreeSet::new(), arrivals: Vec::new() }
    }

    /// The same, which leaves these peers without an answer.
    #[must_use]
    pub fn leaving(self, unanswered: BTreeSet<NodeId>) -> Self {
        Self { unanswered, ..self }
    }

    /// Whether it answers as another one does.
    #[must_use]
    pub fn answers_as(&self, other: &Self) -> bool {
        (self.answers, self.code, &self.body) == (other.answers, other.code, &other.body)
    }

    /// What has arrived, in the order of time.
    #[must_use]
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    pub(super) fn event(&mut self, ctx: &mut Context<'_>, event: &Event<NodeId>) {
        let Event::Request { id, from, message } = event else { return };
        let confirmable = message.header().ty == Type::Confirmable;
        self.arrivals.push(Arrival { at: ctx.now(), from: *from, confirmable });
        let is_answered = (confirmable || self.answers == Answers::All) && !self.unanswered.contains(from);
        if is_answered {
            let response = Response::new(self.code, self.body.clone());
            ctx.respond(*id, response).expect("the request was just announced, and its answer is small");
        } else {
            ctx.ignore(*id);
        }
    }
}
