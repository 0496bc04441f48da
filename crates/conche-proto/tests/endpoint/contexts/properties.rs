//! Properties of all messages.

use conche_proto::codec::{Body, Code, OptionNumber, OwnedMessage};
use conche_proto::oscore::{Aead, Credentials, Hkdf, Refused, Start, is_protected};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

use super::support::{End, altered, credentials, option, pair, said};

/// Options of all classes; known ones with legal values, and unknown ones.
fn body() -> impl Strategy<Value = Body> {
    let value = || vec(any::<u8>(), 1..8);
    let known = prop_oneof![
        Just(OptionNumber::IF_MATCH),
        Just(OptionNumber::URI_HOST),
        Just(OptionNumber::URI_PATH),
        Just(OptionNumber::URI_QUERY),
        Just(OptionNumber::PROXY_SCHEME),
        Just(OptionNumber::ECHO),
        Just(OptionNumber::REQUEST_TAG),
    ];
    let number = prop_oneof![known, (2000_u16..=u16::MAX).prop_map(OptionNumber)];
    let options = vec((number, value()), 0..10);
    let numbers = vec((prop_oneof![Just(7_u16), Just(12), Just(16), Just(23), Just(27), Just(258)], 1_u32..200), 0..3);
    (options, numbers, prop::option::of(0_u32..2), vec(any::<u8>(), 0..100)).prop_filter_map(
        "some options may not be repeated",
        |(options, numbers, observe, payload)| {
            let mut builder = Body::builder().payload(payload);
            for (number, value) in options {
                builder = builder.option(number, &value);
            }
            for (number, value) in numbers {
                builder = builder.uint(OptionNumber(number), value);
            }
            if let Some(observe) = observe {
                builder = builder.uint(OptionNumber::OBSERVE, observe);
            }
            builder.build().ok()
        },
    )
}

fn algorithms() -> impl Strategy<Value = [Credentials; 2]> {
    let hkdf = prop_oneof![Just(Hkdf::Sha256), Just(Hkdf::Sha512)];
    (prop::sample::select(&Aead::ALL[..]), hkdf)
        .prop_map(|(aead, hkdf)| credentials().map(|credentials| Credentials { aead, hkdf, ..credentials }))
}

/// Visible options and those that name the context.
fn is_seen(number: OptionNumber) -> bool {
    matches!(
        number,
        OptionNumber::URI_HOST
            | OptionNumber::URI_PORT
            | OptionNumber::OBSERVE
            | OptionNumber::OSCORE
            | OptionNumber::HOP_LIMIT
            | OptionNumber::PROXY_SCHEME
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // RFC 8613 §4.1, figure 5
    #[test]
    fn protected_messages_round_trip_and_expose_only_outer_options(
        credentials in algorithms(),
        method in prop::sample::select(&[Code::GET, Code::POST, Code::FETCH, Code(0x1f)][..]),
        asked in body(),
        status in prop::sample::select(&[Code::CONTENT, Code::NOT_FOUND, Code::INTERNAL_SERVER_ERROR][..]),
        answered in body(),
    ) {
        let [mut client, mut server] = credentials.map(|credentials| End::ready(&credentials, Start::First));
        let (request, mut binding) = client.request(method, &asked);
        let observes = asked.option(OptionNumber::OBSERVE).is_some();
        prop_assert_eq!(request.code(), if observes { Code::FETCH } else { Code::POST });
        prop_assert!(is_protected(&request.content()));
        prop_assert!(request.content().options().all(|option| is_seen(option.number)));

        let unprotected = server.receive(&request).expect("authentic");
        let inner = asked.content(method).expect("well-formed");
        prop_assert_eq!(said(&unprotected.message.content()), said(&inner));
        prop_assert_eq!(unprotected.message.token(), request.token());
        prop_assert_eq!(unprotected.message.header().id, request.header().id);

        let notifies = answered.option(OptionNumber::OBSERVE).is_some();
        let response = server.respond(&unprotected.binding, status, &answered);
        prop_assert_eq!(response.code(), if notifies { Code::CONTENT } else { Code::CHANGED });
        let heard = client.hear(&mut binding, &response);
        if notifies && !observes {
            prop_assert_eq!(heard, Err(Refused::Forged), "nobody asked to be notified");
            return Ok(());
        }
        // The first response has no number, hence is the oldest.
        let inner = if notifies { answered.with_uint(OptionNumber::OBSERVE, 0) } else { answered };
        let inner = inner.content(status).expect("well-formed");
        prop_assert_eq!(said(&heard.expect("authentic").message.content()), said(&inner));
    }

    // RFC 8613 §7.4
    #[test]
    fn every_number_is_taken_once_and_none_that_is_too_old_to_tell(
        order in vec(0_usize..100, 1..300),
        size in 1_u16..120,
    ) {
        let [mut client, mut server] = credentials().map(|credentials| {
            End::ready(&Credentials { replay_window: size, ..credentials }, Start::First)
        });
        let requests: Vec<_> = (0..100).map(|_| client.get("/x").0).collect();
        let mut taken = BTreeSet::new();
        for number in order {
            let result = server.receive(&requests[number]);
            let newest = taken.last().copied().unwrap_or(0);
            if taken.contains(&number) || number + usize::from(size) <= newest {
                prop_assert_eq!(result, Err(Refused::Replayed), "{} after {:?}", number, taken);
            } else {
                prop_assert!(result.is_ok(), "{} after {:?}", number, taken);
                taken.insert(number);
            }
        }
    }

    #[test]
    fn arbitrary_options_and_ciphertexts_are_refused_and_move_no_window(
        value in vec(any::<u8>(), 0..30),
        payload in vec(any::<u8>(), 0..60),
    ) {
        let [mut client, mut server] = pair();
        let (request, mut binding) = client.get("/x");
        let before = server.context().window();
        let forged = altered(&request, &value, &payload);
        prop_assert!(server.receive(&forged).is_err());
        prop_assert!(client.hear(&mut binding, &forged).is_err());
        prop_assert_eq!(server.context().window(), before);
    }
}

/// `None` if the result is no message.
fn flipped(original: &OwnedMessage, bit: usize) -> Option<OwnedMessage> {
    let mut datagram = original.view().as_bytes().to_vec();
    datagram[bit / 8] ^= 1 << (bit % 8);
    OwnedMessage::decode(datagram).ok()
}

// RFC 8613 §4.2, figure 6
#[test]
fn no_flipped_bit_changes_a_message_or_the_replay_window() {
    let [mut client, mut server] = pair();
    let body = Body::builder().option(OptionNumber::URI_HOST, b"h").path("/a/b").uint(OptionNumber::OBSERVE, 0);
    let (request, mut binding) = client.request(Code::FETCH, &body.payload("how?").build().expect("legal"));
    let before = server.context().window();
    let (mut refused, mut unprotected_fields) = (0, 0);
    for bit in 0..8 * request.view().as_bytes().len() {
        let Some(flipped) = flipped(&request, bit) else { continue };
        let [_, mut fresh] = pair();
        match fresh.receive(&flipped) {
            // Header, token and proxy options are not protected.
            Ok(unprotected) => {
                let sealed = (option(&flipped), flipped.payload());
                assert_eq!(sealed, (option(&request), request.payload()), "bit {bit}");
                assert_eq!(unprotected.message.uri_path(), "/a/b");
                assert_eq!(unprotected.message.payload(), b"how?");
                unprotected_fields += 1;
            }
            Err(_) => {
                assert!(server.receive(&flipped).is_err());
                assert_eq!(server.context().window(), before, "bit {bit}");
                refused += 1;
            }
        }
    }
    assert!(unprotected_fields > 0 && refused > 8 * request.payload().len(), "{unprotected_fields}, {refused}");

    let asked = server.receive(&request).expect("authentic");
    let response = server.say(&asked.binding, "so");
    for bit in 0..8 * response.view().as_bytes().len() {
        let Some(flipped) = flipped(&response, bit) else { continue };
        let sealed =
            |message: &OwnedMessage| (message.option(OptionNumber::OSCORE).map(Vec::from), message.payload().to_vec());
        if sealed(&flipped) != sealed(&response) {
            assert!(client.hear(&mut binding, &flipped).is_err(), "bit {bit}");
        }
    }
    assert_eq!(client.hear(&mut binding, &response).expect("authentic").message.payload(), b"so");
}
