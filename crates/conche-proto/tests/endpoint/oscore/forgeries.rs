//! Replayed and modified messages leave no trace, and genuine ones are still accepted.

use conche_proto::codec::{Code, OptionNumber, OwnedMessage, Type};
use conche_proto::oscore::{ContextId, ReplayWindow};
use conche_proto::{EndpointConfig, Event, ExchangeId};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::{CLIENT_ID, SERVER_ID, context};
use crate::model::Address;
use crate::support::direct::{Direct, Given, changed};
use crate::support::{CLIENT, SERVER, STRANGER, request};

const KEPT: usize = 40;

struct End {
    direct: Direct,
    context: ContextId,
}

impl End {
    fn new(own: &[u8], other: &[u8], seed: u64) -> Self {
        let mut direct = Direct::seeded(EndpointConfig::default(), seed);
        let context = direct.endpoint.add_context(context(own, other)).expect("the first one");
        let given = direct.drain();
        let mut end = Self { direct, context };
        end.keep(given);
        end
    }

    fn keep(&mut self, mut given: Given) -> Given {
        for event in &given.events {
            if let Event::Reserve(reserve) = event {
                self.direct.endpoint.reserved(*reserve);
            }
        }
        given.events.retain(|event| !matches!(event, Event::Reserve(_)));
        given
    }

    fn receive(&mut self, from: Address, datagram: &[u8]) -> Given {
        let given = self.direct.receive(from, datagram);
        self.keep(given)
    }

    fn ask(&mut self) -> (ExchangeId, Vec<u8>) {
        let post = request(Code::POST, "/count").protected(self.context);
        let asked = self.direct.endpoint.request(self.direct.now, SERVER, post).expect("room");
        let given = self.direct.drain();
        (asked, self.keep(given).datagram().to_vec())
    }

    fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        let asked = self.receive(CLIENT, request).request();
        assert_eq!(self.direct.endpoint.security(asked), Some(self.context));
        let given = self.direct.respond(asked, changed());
        self.keep(given).datagram().to_vec()
    }

    fn window(&self) -> ReplayWindow {
        self.direct.endpoint.context(self.context).and_then(|context| context.window()).expect("it is known")
    }

    fn is_answered(given: &Given, asked: ExchangeId) -> bool {
        given.events.iter().any(|event| matches!(event, Event::Response { exchange, .. } if *exchange == asked))
    }
}

fn disguised(kept: &[u8], ty: Type, id: u16, token: &[u8]) -> Vec<u8> {
    let length = usize::from(kept[0] & 15);
    let head = [0x40 | (ty as u8) << 4 | u8::try_from(token.len()).expect("short"), kept[1]];
    [&head, &id.to_be_bytes(), token, &kept[4 + length..]].concat()
}

/// Only the protection detects flips after the token.
fn flip(message: &mut [u8], count: u32, random: &mut ChaCha8Rng) {
    let before = 8 * (4 + usize::from(message[0] & 15));
    for _ in 0..count {
        let bit = before + random.next_u32() as usize % (message.len() * 8 - before);
        message[bit / 8] ^= 1 << (bit % 8);
    }
}

fn forge(count: u32) {
    let (mut client, mut server) = (End::new(CLIENT_ID, SERVER_ID, 1), End::new(SERVER_ID, CLIENT_ID, 2));
    let (mut requests, mut responses) = (Vec::new(), Vec::new());
    for _ in 0..KEPT {
        let (asked, request) = client.ask();
        let response = server.answer(&request);
        assert!(End::is_answered(&client.receive(SERVER, &response), asked));
        requests.push(request);
        responses.push(response);
    }
    // One request waits for its answer, which is held back.
    let (waiting, request) = client.ask();
    let truth = server.answer(&request);
    requests.push(request.clone());
    let token = &request[4..4 + usize::from(request[0] & 15)];
    let held = server.direct.endpoint.occupancy();
    let (window, numbers) =
        (server.window(), server.direct.endpoint.context(server.context).expect("it is there").next_number());
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let (mut protected, mut plain) = (0, 0);
    for turn in 0..count {
        let (id, changes) = (random.next_u32() as u16, [0, 0, 1, 8][random.next_u32() as usize % 4]);
        let which = random.next_u32() as usize;
        if turn % 2 == 0 {
            let ty = if turn % 4 == 0 { Type::Confirmable } else { Type::NonConfirmable };
            let mut forged = disguised(&requests[which % requests.len()], ty, id, &id.to_be_bytes());
            flip(&mut forged, changes, &mut random);
            let is_protected = OwnedMessage::decode(forged.clone())
                .is_ok_and(|message| message.option(OptionNumber::OSCORE).is_some());
            protected += u64::from(is_protected);
            let from = if random.next_u32() % 2 == 0 { CLIENT } else { STRANGER };
            let given = server.receive(from, &forged);
            for asked in given.requests() {
                // Without the option it is a plain request, and treated as one.
                assert!(!is_protected && server.direct.endpoint.security(asked).is_none(), "{forged:x?}");
                server.direct.respond(asked, changed());
                plain += 1;
            }
        } else {
            // Earlier responses in place of this one, and modifications of this one.
            let ty = [Type::Confirmable, Type::NonConfirmable, Type::Acknowledgement][which % 3];
            let id = if ty == Type::Acknowledgement { u16::from_be_bytes([request[2], request[3]]) } else { id };
            let kept = if changes == 0 { &responses[which % KEPT] } else { &truth };
            let mut forged = disguised(kept, ty, id, token);
            flip(&mut forged, changes, &mut random);
            let given = client.receive(SERVER, &forged);
            let told = given.events.iter().find(|event| !matches!(event, Event::Acknowledged { .. }));
            assert!(told.is_none(), "{told:?} of {forged:x?}");
        }
    }
    let refused = server.direct.endpoint.refused_protection();
    // The ID may equal that of a plain or recorded message: then the reply to that one is repeated.
    let copies = server.direct.endpoint.stats().duplicates;
    assert!(refused + copies >= protected && protected > u64::from(count / 4), "{refused} + {copies} of {protected}");
    assert_eq!(server.window(), window, "nothing that is not authentic moves the window");
    let now = server.direct.endpoint.occupancy();
    assert_eq!((now.incoming, now.exchanges), (held.incoming, held.exchanges));
    assert_eq!(server.direct.endpoint.context(server.context).expect("it is there").next_number(), numbers);
    println!(
        "{protected} of {count} were requests that say they are protected, {refused} refused, {copies} taken for copies; {plain} had become others"
    );
    // Genuine messages are still accepted: the delayed answer as a separate message, and the next
    // request.
    let late = disguised(&truth, Type::NonConfirmable, 9, token);
    assert!(End::is_answered(&client.receive(SERVER, &late), waiting));
    let (asked, request) = client.ask();
    let response = server.answer(&request);
    assert!(End::is_answered(&client.receive(SERVER, &response), asked));
}

#[test]
fn messages_again_or_changed_are_not_accepted_and_leave_no_trace() {
    forge(20_000);
}

#[test]
#[ignore = "a million each: cargo test --release -- --ignored"]
fn a_million_messages_again_and_a_million_changed_ones_are_not_accepted() {
    forge(2_000_000);
}
