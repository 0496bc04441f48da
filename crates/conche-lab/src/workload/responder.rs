//! The responder answers requests at once, and may record arrivals.

use std::collections::BTreeSet;

use conche_netsim::{Instant, NodeId};
use conche_proto::codec::{Body, Code, OptionNumber};
use conche_proto::{Event, Response};

use super::application::Context;

/// A received request; the endpoint removes duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time.
    pub at: Instant,
    /// Client.
    pub from: NodeId,
    /// Requested resource.
    pub resource: usize,
}

/// Answers the requests for each resource alike.
#[derive(Clone, Debug, Default)]
pub struct Responder {
    resources: Vec<(Code, Body)>,
    unanswered: BTreeSet<NodeId>,
    /// `None`: arrivals are not recorded.
    arrivals: Option<Vec<Arrival>>,
}

/// Returns the Uri-Path segment of a resource; `None` for the first, at the root.
#[must_use]
pub fn segment_of(resource: usize) -> Option<String> {
    (resource > 0).then(|| resource.to_string())
}

impl Responder {
    /// Answers with this code and content at the root.
    #[must_use]
    pub fn new(code: Code, body: Body) -> Self {
        Self { resources: vec![(code, body)], ..Self::default() }
    }

    /// Returns the resource that answers with this code and content, which it adds if there is none.
    pub fn resource(&mut self, code: Code, body: &Body) -> usize {
        let known = self.resources.iter().position(|(known, content)| (*known, content) == (code, body));
        known.unwrap_or_else(|| {
            self.resources.push((code, body.clone()));
            self.resources.len() - 1
        })
    }

    /// Stops answering these clients.
    #[must_use]
    pub fn without_answer_to(self, unanswered: BTreeSet<NodeId>) -> Self {
        Self { unanswered, ..self }
    }

    /// Records arrivals.
    #[must_use]
    pub fn with_arrivals(self) -> Self {
        Self { arrivals: Some(Vec::new()), ..self }
    }

    /// Recorded arrivals by time.
    #[must_use]
    pub fn arrivals(&self) -> &[Arrival] {
        self.arrivals.as_deref().unwrap_or_default()
    }

    pub(super) fn event(&mut self, ctx: &mut Context<'_>, event: &Event<NodeId>) {
        let Event::Request { id, from, message } = event else { return };
        let segment = message.option(OptionNumber::URI_PATH).map(str::from_utf8);
        // Any other path is the root's.
        let number = segment.and_then(|segment| segment.ok()?.parse().ok());
        let resource = number.filter(|number: &usize| *number < self.resources.len()).unwrap_or(0);
        let from = ctx.node_at(*from);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.push(Arrival { at: ctx.now(), from, resource });
        }
        match self.resources.get(resource) {
            Some((code, body)) if !self.unanswered.contains(&from) => {
                // A program may read a resource to which simulated clients post.
                let is_read = message.code() == Code::GET && *code == Code::CHANGED;
                let code = if is_read { Code::CONTENT } else { *code };
                let response = Response::new(code, body.clone());
                ctx.respond(*id, response).expect("the request was just announced, and the limits allow its answer");
            }
            _ => ctx.ignore(*id),
        }
    }
}
