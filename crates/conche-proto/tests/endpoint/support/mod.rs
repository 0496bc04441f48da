//! Endpoints in virtual time, the fixture server, and hand-made messages.

pub mod direct;
pub mod fixture;
pub mod statistics;
pub mod streamer;
pub mod wire;
pub mod world;

pub use direct::Direct;
pub use fixture::Fixture;
pub use streamer::Streamer;
pub use world::World;

use std::time::Duration;

use conche_proto::codec::{Body, Code, OwnedMessage};
use conche_proto::{EndpointConfig, Event, ExchangeId, Failure, Instant, Request, TransmissionParameters};

use crate::model::Address;

pub const CLIENT: Address = 1;
pub const SERVER: Address = 2;
pub const STRANGER: Address = 3;

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn at_ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

pub fn request(code: Code, path: &str) -> Request {
    Request::new(code, Body::builder().path(path).build().expect("a legal path"))
}

pub fn request_with_payload(code: Code, path: &str, bytes: usize) -> Request {
    let body = Body::builder().path(path).payload(vec![b'x'; bytes]).build();
    Request::new(code, body.expect("a legal path"))
}

pub fn with_transmission(transmission: TransmissionParameters) -> EndpointConfig {
    EndpointConfig { transmission, ..EndpointConfig::default() }
}

pub fn end_of(
    events: &[(Instant, Event<Address>)],
    id: ExchangeId,
) -> Option<(Instant, Result<&OwnedMessage, Failure>)> {
    events.iter().find_map(|(at, event)| match event {
        Event::Response { exchange, message, .. } if *exchange == id => Some((*at, Ok(message))),
        Event::Failed { exchange, reason, .. } if *exchange == id => Some((*at, Err(*reason))),
        _ => None,
    })
}

pub fn acknowledged_at(events: &[(Instant, Event<Address>)], id: ExchangeId) -> Option<Instant> {
    events.iter().find_map(|(at, event)| match event {
        Event::Acknowledged { exchange, .. } if *exchange == id => Some(*at),
        _ => None,
    })
}
