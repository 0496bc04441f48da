//! Q-Block (RFC 9177), both roles.

mod bodies;
mod client;
mod confirmable;
mod lossy;
mod queued_bursts;
mod refusals;
mod responses;
mod server;
mod states;

use conche_proto::codec::{Block, Body, Code, OptionNumber, OwnedMessage};
use conche_proto::{EndpointConfig, ExchangeId, Limits, QBlock, Request};

use crate::model::Address;
use crate::support::world::by_name;
use crate::support::{CLIENT, Fixture, SERVER, World, end_of};

/// Bodies of up to two mebibytes, in bursts of ten.
fn in_bursts() -> EndpointConfig {
    let limits = Limits { body_bytes: 2 << 20, ..Limits::default() };
    let hours = std::time::Duration::from_secs(24 * 3_600);
    EndpointConfig { limits, transfer_lifetime: hours, q_block: Some(QBlock::default()), ..EndpointConfig::default() }
}

fn pair(client: EndpointConfig, server: EndpointConfig, controller: &str, seed: u64) -> World {
    let mut world = World::empty();
    world.in_bursts = true;
    world.add(CLIENT, client, by_name(controller), seed);
    world.add(SERVER, server, by_name(controller), seed ^ u64::MAX);
    world.node(SERVER).app = Some(Fixture::default());
    world
}

fn put(path: &str, payload: &[u8]) -> Request {
    Request::new(Code::PUT, Body::builder().path(path).payload(payload.to_vec()).build().expect("legal"))
}

fn response_to(world: &World, id: ExchangeId) -> &OwnedMessage {
    let (_, end) = end_of(world.events(CLIENT), id).expect("it is over");
    end.expect("it ended with a response")
}

fn block_of(message: &OwnedMessage, number: OptionNumber) -> Option<Block> {
    message.content().block(number).expect("endpoints send no reserved sizes")
}

fn blocks_sent(world: &World, from: Address, number: OptionNumber) -> Vec<String> {
    let messages = world.sent_by(from).map(|sent| sent.message());
    messages.filter_map(|message| block_of(&message, number).map(|block| block.to_string())).collect()
}
