//! The server: it answers each request at once. The time that its host takes is part of the network, so that it is spent
//! on duplicates as well, which the endpoint answers by itself.

use conche_netsim::NodeId;
use conche_proto::codec::{Body, Code};
use conche_proto::{Event, Response};

use super::application::Context;
use crate::scenario::{self, Endpoint};

/// Answers each request with the same content.
#[derive(Debug)]
pub(super) struct Server {
    response: Body,
}

impl Server {
    pub(super) fn new(server: &scenario::Server, endpoint: &Endpoint) -> Self {
        let before_payload = 4 + u64::from(endpoint.token_length) + 1;
        let payload = usize::try_from(server.response.0 - before_payload).expect("checked when the scenario was read");
        let response = Body::builder().payload(vec![b'.'; payload]).build().expect("a payload needs no option");
        Self { response }
    }

    pub(super) fn event(&self, ctx: &mut Context<'_>, event: &Event<NodeId>) {
        if let Event::Request { id, .. } = event {
            let response = Response::new(Code::CONTENT, self.response.clone());
            ctx.respond(*id, response).expect("the request was just announced, and its answer is small");
        }
    }
}
