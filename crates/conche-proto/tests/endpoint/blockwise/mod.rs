//! Block-wise transfer (RFC 7959), both roles.

mod attacks;
pub mod bodies;
mod client;
mod etsi;
pub mod fairness;
mod fetch;
mod overload;
mod server;
mod streams;
mod streams_script;
mod tokens;

use conche_proto::codec::{Block, BlockSize, Body, Code, MessageId, OptionNumber, OwnedMessage, Token, Type};
use conche_proto::{EndpointConfig, Event, ExchangeId, Limits, Request};

use crate::model::Address;
use crate::support::world::by_name;
use crate::support::{CLIENT, SERVER, World, end_of, wire};

fn with_block_size(size: BlockSize) -> EndpointConfig {
    EndpointConfig { block_size: size, ..EndpointConfig::default() }
}

fn roomy() -> EndpointConfig {
    let limits = Limits { body_bytes: 2 << 20, ..Limits::default() };
    let hours = std::time::Duration::from_secs(24 * 3_600);
    EndpointConfig { limits, transfer_lifetime: hours, ..EndpointConfig::default() }
}

fn pair(client: EndpointConfig, server: EndpointConfig, seed: u64) -> World {
    let mut world = World::empty();
    world.add(CLIENT, client, by_name("default"), seed);
    world.add(SERVER, server, by_name("default"), seed ^ u64::MAX);
    world.node(SERVER).app = Some(crate::support::Fixture::default());
    world
}

fn request_with(code: Code, path: &str, payload: &[u8]) -> Request {
    let body = Body::builder().path(path).payload(payload.to_vec()).build().expect("a legal path");
    Request::new(code, body)
}

fn block_message(
    (ty, code, id): (Type, Code, u16),
    path: &str,
    blocks: &[(OptionNumber, Block)],
    payload: &[u8],
) -> Vec<u8> {
    let mut body = Body::builder().path(path).payload(payload.to_vec());
    for (number, block) in blocks {
        body = body.option(*number, block.encode().as_slice());
    }
    let token = Token::new(b"token678").expect("eight bytes");
    wire::message(ty, code, MessageId(id), &token, &body.build().expect("legal options"))
}

const fn b64(num: u32, more: bool) -> Block {
    Block { num, more, size: BlockSize::B64 }
}

fn block_of(message: &OwnedMessage, number: OptionNumber) -> Option<Block> {
    message.content().block(number).expect("endpoints send no reserved sizes")
}

/// In order, without retransmissions.
fn blocks_sent(world: &World, from: Address, number: OptionNumber) -> Vec<String> {
    let mut blocks: Vec<_> = Vec::new();
    for sent in world.sent_by(from) {
        blocks.extend(block_of(&sent.message(), number).map(|block| block.to_string()));
    }
    blocks.dedup();
    blocks
}

fn response_to(world: &World, id: ExchangeId) -> &OwnedMessage {
    let (_, end) = end_of(world.events(CLIENT), id).expect("it is over");
    end.expect("it ended with a response")
}

fn given(world: &World) -> usize {
    world.events(SERVER).iter().filter(|(_, event)| matches!(event, Event::Request { .. })).count()
}
