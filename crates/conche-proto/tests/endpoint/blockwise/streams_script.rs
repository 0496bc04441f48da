//! Random scripts of streamed bodies: nothing panics, and nothing is held at the end.

use bytes::Bytes;
use conche_proto::cc::AnyController;
use conche_proto::codec::{Block, BlockSize, Body, Code, MessageId, OptionNumber, Token, Type};
use conche_proto::endpoint::Occupancy;
use conche_proto::{
    Endpoint, EndpointConfig, Event, ExchangeId, IncompleteBody, Input, Instant, Limits, Output, RemainingBody,
    Request, RequestId, Response,
};
use proptest::prelude::*;

use crate::model::Address;
use crate::support::world::{by_name, seed_of};
use crate::support::{at_ms, ms, wire};

struct Machine {
    endpoint: Endpoint<Address, AnyController>,
    now: Instant,
    requests: Vec<RequestId>,
    exchanges: Vec<ExchangeId>,
    sent: Vec<(Address, Token, MessageId)>,
    buffer: Vec<u8>,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let limits = Limits { transfers: 6, transfers_per_peer: 2, incoming: 8, ..Limits::default() };
        let config = EndpointConfig { limits, block_size: BlockSize::B32, ..EndpointConfig::default() };
        let mut endpoint = Endpoint::new(config, by_name("default"), seed_of(seed)).expect("legal parameters");
        endpoint.stream_requests(Box::new(|message| message.uri_path() == "/s"));
        let (requests, exchanges, sent) = (Vec::new(), Vec::new(), Vec::new());
        Self { endpoint, now: at_ms(seed), requests, exchanges, sent, buffer: vec![0; 1_152] }
    }

    fn settle(&mut self) {
        loop {
            match self.endpoint.poll(self.now, &mut self.buffer) {
                Output::Transmit(transmit) => {
                    let message = conche_proto::codec::Message::decode(&self.buffer[..transmit.len]).expect("legal");
                    self.sent.push((transmit.to, message.token(), message.id()));
                }
                Output::Event(Event::Request { id, .. }) => self.requests.push(id),
                Output::Event(_) => {}
                Output::Wait(wake) => {
                    assert!(wake.is_none_or(|wake| wake > self.now), "a busy loop");
                    break;
                }
            }
        }
    }

    fn pass(&mut self, until: Instant) {
        while let Output::Wait(Some(wake)) = self.endpoint.poll(self.now, &mut self.buffer)
            && wake <= until
        {
            self.now = wake;
            self.settle();
        }
        self.now = until;
        self.settle();
    }

    fn receive(&mut self, [ty, code, path, id, option, num, length]: [u8; 7]) {
        let from = Address::from(id % 2);
        let types = [Type::Confirmable, Type::NonConfirmable, Type::Acknowledgement, Type::Confirmable];
        let ty = types[usize::from(ty % 4)];
        let codes = [Code::GET, Code::PUT, Code::POST, Code::FETCH, Code::CONTENT, Code::CONTINUE, Code::BAD_REQUEST];
        let code = codes[usize::from(code % 7)];
        let size = BlockSize::of_szx(num >> 6).expect("a small one");
        let block = Block { num: u32::from(num % 4), more: num & 0x20 != 0, size };
        let mut body = Body::builder().path(if path % 4 == 0 { "/t" } else { "/s" });
        for (bit, number) in [(1, OptionNumber::BLOCK1), (2, OptionNumber::BLOCK2)] {
            if option & bit != 0 {
                body = body.option(number, block.encode().as_slice());
            }
        }
        let length = if length % 4 == 0 { usize::from(length) } else { size.bytes() };
        let body = body.payload(vec![length as u8; length]).build().expect("legal");
        // A response must match an earlier request.
        let answered = self.sent.iter().rev().find(|(to, ..)| *to == from).filter(|_| code.is_response());
        let (token, id) = match answered {
            Some((_, token, sent)) => {
                (token.clone(), if ty == Type::Acknowledgement { *sent } else { MessageId(id.into()) })
            }
            None => (Token::EMPTY, MessageId(id.into())),
        };
        let datagram = wire::message(ty, code, id, &token, &body);
        self.endpoint.handle(self.now, Input::datagram(from, &datagram)).expect("drained");
    }

    fn decide(&mut self, [what, which, length, last]: [u8; 4]) {
        let now = self.now;
        let (piece, last) = (Bytes::from(vec![7; usize::from(length)]), last % 4 == 0);
        if let Some(&id) = self.requests.iter().rev().nth(usize::from(which % 4)) {
            let response = |code| Response::new(code, Body::EMPTY);
            // The endpoint decides whether this is allowed.
            let _ = match what % 8 {
                0..=2 => self.endpoint.continue_request(now, id).is_ok(),
                3 => self.endpoint.respond(now, id, response(Code::CHANGED)).is_ok(),
                4 => self.endpoint.respond_in_parts(now, id, response(Code::CONTENT), RemainingBody::default()).is_ok(),
                5 => self.endpoint.supply(now, IncompleteBody::Response(id), piece.clone(), last).is_ok(),
                6 => self.endpoint.acknowledge(now, id).is_ok(),
                _ => {
                    self.endpoint.ignore(now, id);
                    true
                }
            };
        }
        if let Some(&id) = self.exchanges.iter().rev().nth(usize::from(which % 4)) {
            match what % 4 {
                0 => self.endpoint.supply(now, IncompleteBody::Request(id), piece, last).unwrap_or(()),
                1 if which > 200 => assert!(!(self.endpoint.cancel(now, id) && self.endpoint.cancel(now, id))),
                _ => assert!(!(self.endpoint.fetch_next(now, id) && self.endpoint.fetch_next(now, id))),
            }
        }
    }

    fn ask(&mut self, [to, rest, streamed]: [u8; 3]) {
        let body = Body::builder().path("/x").payload(vec![5; 40]).build().expect("legal");
        let mut request = Request::new(if rest % 2 == 0 { Code::PUT } else { Code::FETCH }, body);
        request.rest = (rest % 4 < 2).then(RemainingBody::default);
        request.streamed = streamed % 2 == 0;
        self.exchanges.extend(self.endpoint.request(self.now, Address::from(to % 2), request));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_peers_and_applications_do_in_the_end_nothing_is_held(
        seed in 0..1_000_u64,
        steps in prop::collection::vec((0..10_u8, any::<[u8; 7]>(), 0..40_000_u64), 1..60),
    ) {
        let mut machine = Machine::new(seed);
        for (what, bytes, pause) in steps {
            let [first, second, third, fourth, ..] = bytes;
            match what {
                0 => machine.ask([first, second, third]),
                1 | 2 => machine.pass(machine.now + ms(pause)),
                3..=5 => machine.decide([first, second, third, fourth]),
                _ => machine.receive(bytes),
            }
            machine.settle();
            let held = machine.endpoint.occupancy();
            prop_assert!(held.streams <= 6 && held.incoming + held.responses <= 8, "{:?}", held);
        }
        // The applications release everything that only they can end.
        for id in std::mem::take(&mut machine.requests) {
            machine.endpoint.ignore(machine.now, id);
        }
        for id in std::mem::take(&mut machine.exchanges) {
            machine.endpoint.cancel(machine.now, id);
        }
        machine.settle();
        machine.pass(machine.now + ms(5_000_000));
        let held = machine.endpoint.occupancy();
        let mut nothing = Occupancy::default();
        nothing.peers = held.peers;
        prop_assert_eq!(held, nothing);
    }
}
