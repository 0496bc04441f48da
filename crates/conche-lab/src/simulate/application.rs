//! What runs on the nodes: a client or the server.

use std::convert::Infallible;

use conche_netsim::NodeId;
use conche_netsim::node;
use conche_proto::Event;
use conche_proto::cc::AnyController;

use super::client::Client;
use super::server::Server;

/// An application's access to its node.
pub(super) type Context<'a> = node::Context<'a, Application>;

/// A client or the server.
#[derive(Debug)]
pub(super) enum Application {
    Client(Client),
    Server(Server),
}

impl node::Application for Application {
    type Controller = AnyController;
    type Timer = Infallible;

    fn start(&mut self, ctx: &mut Context<'_>) {
        match self {
            Self::Client(client) => client.start(ctx),
            Self::Server(_) => {}
        }
    }

    fn event(&mut self, ctx: &mut Context<'_>, event: Event<NodeId>) {
        match self {
            Self::Client(client) => client.event(ctx, &event),
            Self::Server(server) => server.event(ctx, &event),
        }
    }

    fn timer(&mut self, _ctx: &mut Context<'_>, timer: Infallible) {
        match timer {}
    }
}
