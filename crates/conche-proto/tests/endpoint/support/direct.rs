//! [`Direct`]: a single endpoint for hand-made input.

use std::net::IpAddr;
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code, MessageId, OwnedMessage, Type};
use conche_proto::{
    Datagram, Endpoint, EndpointConfig, Event, Input, Instant, Limits, Output, RequestId, Response, SourceValidation,
    Transmit,
};

use super::wire;
use super::world::{by_name, seed_of};
use crate::model::Address;

pub struct Direct {
    pub endpoint: Endpoint<Address, AnyController>,
    pub now: Instant,
    pub wake: Option<Instant>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub struct Given {
    pub sent: Vec<(Transmit<Address>, OwnedMessage)>,
    pub datagrams: Vec<Vec<u8>>,
    pub events: Vec<Event<Address>>,
}

impl Direct {
    pub fn new(config: EndpointConfig) -> Self {
        Self::seeded(config, 23)
    }

    pub fn seeded(config: EndpointConfig, seed: u64) -> Self {
        Self::as_configured(EndpointConfig { source_validation: SourceValidation::Off, ..config }, seed)
    }

    pub fn validating(config: EndpointConfig) -> Self {
        Self::as_configured(config, 23)
    }

    fn as_configured(config: EndpointConfig, seed: u64) -> Self {
        let buffer = vec![0; config.limits.message_bytes];
        let endpoint = Endpoint::new(config, by_name("default"), seed_of(seed)).expect("legal parameters");
        Self { endpoint, now: Instant::ZERO, wake: None, buffer }
    }

    pub fn with_limits(limits: Limits) -> Self {
        Self::new(EndpointConfig { limits, ..EndpointConfig::default() })
    }

    pub fn receive(&mut self, from: Address, bytes: &[u8]) -> Given {
        self.receive_datagram(Datagram::new(from, bytes))
    }

    pub fn receive_at(&mut self, local: IpAddr, from: Address, bytes: &[u8]) -> Given {
        let mut datagram = Datagram::new(from, bytes);
        datagram.local = Some(local);
        self.receive_datagram(datagram)
    }

    pub fn receive_datagram(&mut self, datagram: Datagram<'_, Address>) -> Given {
        self.endpoint.handle(self.now, Input::Datagram(datagram)).expect("drained");
        self.drain()
    }

    pub fn respond(&mut self, request: RequestId, response: Response) -> Given {
        self.endpoint.respond(self.now, request, response).expect("the request waits");
        self.drain()
    }

    pub fn drain(&mut self) -> Given {
        let mut given = Given { sent: Vec::new(), datagrams: Vec::new(), events: Vec::new() };
        loop {
            match self.endpoint.poll(self.now, &mut self.buffer) {
                Output::Transmit(transmit) => {
                    let bytes = self.buffer[..transmit.len].to_vec();
                    given.sent.push((transmit, OwnedMessage::from(wire::decode(&bytes))));
                    given.datagrams.push(bytes);
                }
                Output::Event(event) => given.events.push(event),
                Output::Wait(wake) => {
                    assert!(wake.is_none_or(|wake| wake > self.now), "a busy loop");
                    self.wake = wake;
                    return given;
                }
            }
        }
    }

    pub fn run(&mut self, span: Duration) -> Given {
        let until = self.now + span;
        let mut given = self.drain();
        while let Some(wake) = self.wake.filter(|&wake| wake <= until) {
            self.now = wake;
            let more = self.drain();
            given.sent.extend(more.sent);
            given.datagrams.extend(more.datagrams);
            given.events.extend(more.events);
        }
        self.now = until;
        given
    }

    /// Asserts that nothing is held at the end.
    pub fn run_to_end(&mut self) -> Given {
        let given = self.run(Duration::from_secs(100_000));
        let left = self.endpoint.occupancy();
        assert_eq!((left.exchanges, left.queued, left.incoming, left.responses), (0, 0, 0, 0), "{left:?}");
        assert_eq!((left.timers, left.deduplication_entries, left.deduplication_bytes), (0, 0, 0), "{left:?}");
        assert_eq!((left.transfers, left.assemblies, left.representations, left.body_bytes), (0, 0, 0, 0), "{left:?}");
        given
    }
}

impl Given {
    pub fn requests(&self) -> Vec<RequestId> {
        let id = |event: &Event<Address>| match event {
            Event::Request { id, .. } => Some(*id),
            _ => None,
        };
        self.events.iter().filter_map(id).collect()
    }

    pub fn request(&self) -> RequestId {
        let [id] = self.requests()[..] else { panic!("not one request: {self:?}") };
        id
    }

    pub fn message(&self) -> &OwnedMessage {
        let [(_, message)] = &self.sent[..] else { panic!("not one message: {self:?}") };
        message
    }

    pub fn datagram(&self) -> &[u8] {
        self.message();
        &self.datagrams[0]
    }

    pub fn kinds(&self) -> Vec<(Type, Code)> {
        self.sent.iter().map(|(_, message)| (message.header().ty, message.code())).collect()
    }
}

/// Host `host` of the network 10.`network`.0.0/16.
pub fn address(network: u8, host: u16) -> Address {
    u32::from_be_bytes([10, network, 0, 0]) | u32::from(host)
}

/// Groups sources by /16, as servers on the Internet do.
pub fn count_by_network(server: &mut Direct) {
    server.endpoint.set_source_groups(Box::new(|source| u64::from(source >> 16)));
}

pub fn con(code: Code, id: u16) -> Vec<u8> {
    wire::bare(Type::Confirmable, code, id, b"token678")
}

pub fn non(code: Code, id: u16) -> Vec<u8> {
    wire::bare(Type::NonConfirmable, code, id, b"token678")
}

pub fn content(payload: &str) -> Response {
    Response::new(Code::CONTENT, wire::payload(payload))
}

pub fn changed() -> Response {
    Response::new(Code::CHANGED, Body::EMPTY)
}

pub fn ack_of(message: &OwnedMessage) -> Vec<u8> {
    wire::empty_ack(MessageId(message.header().id.0))
}
