//! The server: it answers each request after a while.

use std::time::Duration;

use conche_netsim::NodeId;
use conche_netsim::packet::Cause;
use conche_proto::codec::{Body, Code};
use conche_proto::{Event, RequestId, Response};

use super::application::Context;
use crate::scenario::{self, Endpoint};
use crate::units::SpanRange;

/// Answers each request after a while.
#[derive(Debug)]
pub(super) struct Server {
    processing: SpanRange,
    response: Body,
}

impl Server {
    pub(super) fn new(server: &scenario::Server, endpoint: &Endpoint) -> Self {
        let before_payload = 4 + u64::from(endpoint.token_length) + 1;
        let payload = usize::try_from(server.response.0 - before_payload).expect("checked when the scenario was read");
        let response = Body::builder().payload(vec![b'.'; payload]).build().expect("a payload needs no option");
        Self { processing: server.processing, response }
    }

    pub(super) fn event(&self, ctx: &mut Context<'_>, event: &Event<NodeId>) {
        if let Event::Request { id, .. } = event {
            let nanos = self.processing.as_nanos();
            let takes = Duration::from_nanos(ctx.rng().between(*nanos.start(), *nanos.end()));
            let cause = ctx.cause();
            ctx.set_timer(takes, Pending { request: *id, cause });
        }
    }

    pub(super) fn answer(&self, ctx: &mut Context<'_>, due: Pending) {
        let response = Response::new(Code::CONTENT, self.response.clone());
        // An error would mean that the request was forgotten; then its client repeats it.
        let _ = ctx.respond_to(due.cause, due.request, response);
    }
}

/// An answer that is being worked on.
#[derive(Debug)]
pub(super) struct Pending {
    request: RequestId,
    cause: Option<Cause>,
}
