//! Tokens (RFC 7252 §5.3.1).

use std::collections::HashSet;

use conche_proto::codec::{Code, Token, Type};
use conche_proto::{Endpoint, EndpointConfig, Instant, Limits, Output, RequestError, TransmissionParameters};
use proptest::prelude::*;

use crate::model::Address;
use crate::support::statistics::uniform_chi_square_z;
use crate::support::world::{by_name, seed_of};
use crate::support::{CLIENT, SERVER, STRANGER, World, request, s, wire};

proptest! {
    // RFC 7252 §5.3.1 (Q66, Q69)
    #[test]
    fn any_token_of_a_peer_is_echoed_unchanged(token in prop::collection::vec(any::<u8>(), 0..=8)) {
        for (ty, path) in [(Type::Confirmable, "/test"), (Type::NonConfirmable, "/nope"), (Type::Confirmable, "/separate")] {
            let mut world = World::server();
            world.inject(STRANGER, SERVER, &wire::request(ty, Code::GET, 3, &token, path));
            world.run(s(6));
            let response = world.sent.last().expect("a response").message();
            prop_assert!(response.code().is_response());
            prop_assert_eq!(response.token(), Token::new(&token).expect("a legal token"));
        }
    }
}

// RFC 7252 §5.3.1 (Q67)
#[test]
fn tokens_in_use_toward_a_peer_differ() {
    let transmission = TransmissionParameters { nstart: 300, ..TransmissionParameters::default() };
    let limits = Limits { queue_per_peer: 300, ..Limits::default() };
    let config = EndpointConfig { token_length: 1, transmission, limits, ..EndpointConfig::default() };
    let mut world = World::client_of(&config, by_name("cocoa"));
    let mut tokens = HashSet::new();
    let refused = loop {
        let now = world.now;
        match world.node(CLIENT).endpoint.request(now, SERVER, request(Code::GET, "/")) {
            Ok(id) => {
                world.node(CLIENT).checker.opened(now, id, SERVER, None);
                world.settle(CLIENT);
                assert!(tokens.insert(world.first_copy(id).message().token()), "a token is used twice");
            }
            Err(error) => break error,
        }
    };
    assert_eq!(refused, RequestError::NoToken { length: 1 });
    assert!((200..=256).contains(&tokens.len()), "{} of 256 tokens", tokens.len());
}

// RFC 7252 §5.3.1 (Q67)
#[test]
fn a_token_that_the_application_chose_is_refused_while_it_is_in_use() {
    let mut world = World::client();
    let token = Token::new(b"mine");
    let mine = || conche_proto::Request { token: token.clone(), ..request(Code::GET, "/test") };
    let asked = world.request(mine());
    let now = world.now;
    assert_eq!(world.node(CLIENT).endpoint.request(now, SERVER, mine()), Err(RequestError::TokenInUse));
    world.request_to(STRANGER, mine());
    assert!(world.cancel(asked));
    world.request(mine());
}

// RFC 7252 §5.3.1 (Q68)
#[test]
fn a_million_tokens_have_eight_random_bytes_each() {
    const TOKENS: usize = 1_000_000;
    let mut endpoint: Endpoint<Address, _> =
        Endpoint::new(EndpointConfig::default(), by_name("default"), seed_of(68)).expect("legal parameters");
    let (mut now, mut buffer) = (Instant::ZERO, [0; 1152]);
    let mut seen = HashSet::with_capacity(TOKENS);
    let mut values = [[0; 256]; 8];
    let mut successions = [[0; 16]; 16];
    let mut last = 0;
    for _ in 0..TOKENS {
        // Slow enough for the message IDs of one peer.
        now += std::time::Duration::from_millis(4);
        let exchange = endpoint.request(now, SERVER, request(Code::GET, "/")).expect("room");
        let Output::Transmit(transmit) = endpoint.poll(now, &mut buffer) else { panic!("the request leaves") };
        let token = wire::decode(&buffer[..transmit.len]).token();
        let bytes: [u8; 8] = token.as_slice().try_into().expect("eight bytes");
        assert!(seen.insert(bytes), "a token came twice: of 2^64, that is no coincidence");
        for (counts, byte) in values.iter_mut().zip(bytes) {
            counts[usize::from(byte)] += 1;
        }
        let nibble = usize::from(bytes[0] & 0xf);
        successions[last][nibble] += 1;
        last = nibble;
        assert!(endpoint.cancel(now, exchange));
    }
    for counts in &values {
        let z = uniform_chi_square_z(counts);
        assert!(z < 3.1, "z = {z}");
    }
    let z = uniform_chi_square_z(successions.as_flattened());
    assert!(z < 3.1, "z = {z}: a token tells of the next");
}
