//! OSCORE (RFC 8613) in the endpoint: protected exchanges, and attacks on them.

mod attacks;
mod flows;
mod forgeries;
mod numbers;
mod observe;
mod renewal;
mod wire;

use conche_proto::oscore::{Context, ContextId, Credentials, EndId, Start};
use conche_proto::{EndpointConfig, Request};

use crate::support::world::by_name;
use crate::support::{CLIENT, SERVER, World, request};
use conche_proto::codec::Code;

pub const CLIENT_ID: &[u8] = b"c";
pub const SERVER_ID: &[u8] = b"srv";

/// From the point of view of `sender`.
pub fn credentials(sender: &[u8], recipient: &[u8]) -> Credentials {
    let [sender, recipient] = [sender, recipient].map(|id| EndId::new(id).expect("short"));
    Credentials::new(*b"16 random bytes.", sender, recipient)
}

pub fn context(sender: &[u8], recipient: &[u8]) -> Context {
    Context::derive(&credentials(sender, recipient), Start::First).expect("legal credentials")
}

pub struct Pair {
    pub world: World,
    pub client: ContextId,
    pub server: ContextId,
}

impl Pair {
    pub fn new() -> Self {
        Self::of(&EndpointConfig::default(), 7)
    }

    pub fn of(config: &EndpointConfig, seed: u64) -> Self {
        let mut world = World::pair_of(config, &by_name("default"), seed);
        let mut add = |address, context| {
            let id = world.node(address).endpoint.add_context(context).expect("the first one");
            world.settle(address);
            id
        };
        let client = add(CLIENT, context(CLIENT_ID, SERVER_ID));
        let server = add(SERVER, context(SERVER_ID, CLIENT_ID));
        Self { world, client, server }
    }

    pub fn request(&self, code: Code, path: &str) -> Request {
        request(code, path).protected(self.client)
    }
}
