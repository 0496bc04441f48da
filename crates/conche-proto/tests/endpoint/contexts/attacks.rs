//! The on-path attacks of draft-ietf-core-attacks-on-coap, and the protection of RFC 8613.

use conche_proto::Instant;
use conche_proto::codec::{Body, Code, OptionNumber, OwnedMessage, Type};
use conche_proto::oscore::{Credentials, ProtectError, Refused, Start};

use super::support::{End, altered, credentials, message, option, pair};

// draft-ietf-core-attacks-on-coap, response delay and mismatch
#[test]
fn a_response_to_another_request_is_refused_though_its_token_fits() {
    let [mut client, mut server] = pair();
    let (lock, mut is_locked) = client.get("/lock");
    let (window, mut is_open) = client.get("/window");
    let locked = server.receive(&lock).expect("authentic");
    let open = server.receive(&window).expect("authentic");
    let (locked, open) = (server.say(&locked.binding, "locked"), server.say(&open.binding, "open"));
    assert_eq!(locked.token(), open.token());
    assert_eq!(client.hear(&mut is_locked, &open), Err(Refused::Forged));
    assert_eq!(client.hear(&mut is_open, &locked), Err(Refused::Forged));
    assert_eq!(client.hear(&mut is_locked, &locked).expect("its own").message.payload(), b"locked");
    assert_eq!(client.hear(&mut is_open, &open).expect("its own").message.payload(), b"open");
}

// draft-ietf-core-attacks-on-coap, response delay: a response held until the request is repeated
#[test]
fn a_response_that_was_kept_back_is_no_answer_to_the_same_question_asked_later() {
    let [mut client, mut server] = pair();
    let (then, _) = client.get("/lock");
    let asked = server.receive(&then).expect("authentic");
    let (kept, numbered) = (server.say(&asked.binding, "locked"), server.say(&asked.binding, "locked"));
    assert!(option(&kept).is_empty() && !option(&numbered).is_empty());
    let (_, mut now) = client.get("/lock");
    for old in [kept, numbered] {
        assert_eq!(client.hear(&mut now, &old), Err(Refused::Forged));
    }
}

// draft-ietf-core-attacks-on-coap, request delay
#[test]
fn a_request_that_was_kept_back_longer_than_the_window_is_refused() {
    let [mut client, mut server] = pair();
    let (unlock, _) = client.get("/unlock");
    for _ in 0..Credentials::LARGEST_WINDOW {
        server.receive(&client.get("/").0).expect("authentic");
    }
    assert_eq!(server.receive(&unlock), Err(Refused::Replayed));
}

#[test]
fn a_request_that_is_repeated_is_refused_and_answered_with_nothing_but_that() {
    let [mut client, mut server] = pair();
    let (unlock, _) = client.get("/unlock");
    assert!(server.receive(&unlock).is_ok());
    for _ in 0..1000 {
        let refused = server.receive(&unlock).expect_err("a replay");
        assert_eq!(refused, Refused::Replayed);
        let (code, body) = server.contexts.refusal(Instant::ZERO, &refused).expect("an answer");
        assert_eq!((code, body.option(OptionNumber::OSCORE)), (Code::UNAUTHORIZED, None));
    }
    assert_eq!(server.context().next_number(), 0, "nothing was protected for it");
}

#[test]
fn a_response_is_taken_once() {
    let [mut client, mut server] = pair();
    let (request, mut binding) = client.get("/lock");
    let asked = server.receive(&request).expect("authentic");
    let response = server.say(&asked.binding, "locked");
    assert!(client.hear(&mut binding, &response).is_ok());
    assert_eq!(client.hear(&mut binding, &response), Err(Refused::Replayed));
}

// RFC 8613 appendix D.4
#[test]
fn a_reflected_message_is_refused() {
    let [mut client, mut server] = pair();
    let (request, mut binding) = client.get("/lock");
    assert_eq!(client.receive(&request), Err(Refused::UnknownContext));
    assert_eq!(client.hear(&mut binding, &request), Err(Refused::Forged));
    let asked = server.receive(&request).expect("authentic");
    let response = server.say(&asked.binding, "locked");
    assert!(server.receive(&response).is_err());
    let of_client = altered(&response, option(&request), response.payload());
    assert!(server.receive(&of_client).is_err());
}

// RFC 8613 §5.2: otherwise a request and a response of the same end could share a nonce
#[test]
fn an_end_does_not_answer_its_own_request() {
    let [mut client, mut server] = pair();
    let (request, binding) = client.get("/lock");
    let (back, _) = server.get("/lock");
    server.receive(&request).expect("authentic");
    client.receive(&back).expect("both ends may ask");
    let refused = client.contexts.protect_response(&binding, Code::CONTENT, &Body::EMPTY);
    assert_eq!(refused, Err(ProtectError::OwnRequest));
}

// RFC 8613 §5.2: a nonce is used once
#[test]
fn only_one_response_takes_the_number_of_its_request_however_often_its_binding_is_cloned() {
    let [mut client, mut server] = pair();
    let (request, _) = client.get("/lock");
    let binding = server.receive(&request).expect("authentic").binding;
    let options: Vec<_> = (0..10).map(|_| option(&server.say(&binding.clone(), "locked")).to_vec()).collect();
    assert_eq!(options[0], b"");
    assert_eq!(options[1..], (0..9).map(|number| vec![1, number]).collect::<Vec<_>>());

    // The same for a response to a request outside the window.
    let (request, _) = client.get("/lock");
    let binding = server.receive(&request).expect("authentic").binding;
    for _ in 0..Credentials::LARGEST_WINDOW {
        server.receive(&client.get("/").0).expect("authentic");
    }
    assert_eq!(option(&server.say(&binding, "locked")), [1, 9]);
}

// draft-ietf-core-attacks-on-coap, request fragment rearrangement; RFC 8613 §4.1.3.4
#[test]
fn outer_options_do_not_change_the_protected_message() {
    let [mut client, mut server] = pair();
    let block = Body::builder().path("/firmware").uint(OptionNumber::BLOCK1, 0x1e).payload("third part").build();
    let (request, mut binding) = client.request(Code::PUT, &block.expect("legal"));
    let outside = |original: &OwnedMessage| {
        let body = Body::builder()
            .option(OptionNumber::OSCORE, option(original))
            .option(OptionNumber::IF_MATCH, b"x")
            .option(OptionNumber::ETAG, b"x")
            .path("/elsewhere")
            .uint(OptionNumber::MAX_AGE, 9)
            .uint(OptionNumber::BLOCK1, 0x0e)
            .uint(OptionNumber::BLOCK2, 0x0e)
            .uint(OptionNumber::SIZE1, 9)
            .uint(OptionNumber::NO_RESPONSE, 26)
            .option(OptionNumber::REQUEST_TAG, b"x")
            .option(OptionNumber(2049), b"unknown and critical")
            .payload(original.payload().to_vec());
        message(Type::Confirmable, original.code(), &body.build().expect("legal"))
    };
    let asked = server.receive(&outside(&request)).expect("authentic");
    let options: Vec<_> = asked.message.content().options().map(|option| option.number).collect();
    assert_eq!(options, [OptionNumber::URI_PATH, OptionNumber::BLOCK1]);
    assert_eq!(asked.message.uint(OptionNumber::BLOCK1), Some(0x1e));
    assert_eq!(asked.message.uri_path(), "/firmware");

    let response = server.say(&asked.binding, "taken");
    let heard = client.hear(&mut binding, &outside(&response)).expect("authentic");
    assert_eq!(heard.message.content().options().count(), 0);
}

#[test]
fn an_observation_cannot_be_begun_or_ended_from_outside() {
    let [mut client, mut server] = pair();
    for (inner, outer) in [(Some(0), None), (Some(0), Some(1)), (None, Some(0))] {
        let mut body = Body::builder().path("/lock");
        if let Some(value) = inner {
            body = body.uint(OptionNumber::OBSERVE, value);
        }
        let (request, _) = client.request(Code::GET, &body.build().expect("legal"));
        let mut body =
            Body::builder().option(OptionNumber::OSCORE, option(&request)).payload(request.payload().to_vec());
        if let Some(value) = outer {
            body = body.uint(OptionNumber::OBSERVE, value);
        }
        let changed = message(Type::Confirmable, Code::POST, &body.build().expect("legal"));
        let asked = server.receive(&changed).expect("authentic");
        assert_eq!(asked.message.uint(OptionNumber::OBSERVE), inner);
    }
}

#[test]
fn a_key_of_another_pair_opens_nothing() {
    let [credentials, _] = credentials();
    let others = [
        Credentials { master_secret: [1; 16].into(), ..credentials.clone() },
        Credentials { master_salt: vec![1], ..credentials.clone() },
        Credentials { aead: conche_proto::oscore::Aead::AesCcm16_128_128, ..credentials.clone() },
        Credentials { hkdf: conche_proto::oscore::Hkdf::Sha512, ..credentials },
    ];
    for other in others {
        let [_, mut server] = pair();
        let (request, _) = End::ready(&other, Start::First).get("/lock");
        assert_eq!(server.receive(&request), Err(Refused::Forged), "{other:?}");
        assert_eq!(server.context().window().map(|window| window.end()), Some(0));
    }
}
