//! The errors of RFC 8613 §8.2 for requests that cannot be unprotected.

use conche_proto::Instant;
use conche_proto::codec::{Body, Code, OptionNumber, Type};
use conche_proto::oscore::{
    Aead, Context, Contexts, Credentials, CredentialsError, EndId, InsertError, ProtectError, Refused, ReplayWindow,
    Start,
};

use super::support::{End, altered, credentials, id, message, option, pair};

// RFC 8613 §6.1
#[test]
fn an_option_that_the_rfc_does_not_describe_is_malformed() {
    let [mut client, mut server] = pair();
    let (request, _) = client.get("/x");
    let values: [(&str, &[u8]); 12] = [
        ("nothing that a request has", b""),
        ("flags that say nothing", b"\x00"),
        ("no number", b"\x08C"),
        ("no kid", b"\x01\x00"),
        ("a reserved bit", b"\x29\x00C"),
        ("the highest reserved bit", b"\x89\x00C"),
        ("a number of six bytes", b"\x0e\x01\x02\x03\x04\x05\x06C"),
        ("a number of seven bytes", b"\x0f\x01\x02\x03\x04\x05\x06\x07C"),
        ("a number that is cut off", b"\x0a\x01"),
        ("a number with a leading zero", b"\x0a\x00\x01C"),
        ("a kid context that is cut off", b"\x19\x00\x05wher"),
        ("a kid context without its length", b"\x11\x00"),
    ];
    for (what, value) in values {
        let refused = server.receive(&altered(&request, value, request.payload()));
        assert_eq!(refused, Err(Refused::Malformed), "{what}");
    }
    let trailing = b"\x11\x00\x05where!";
    assert_eq!(
        server.receive(&altered(&request, trailing, b"x")),
        Err(Refused::Malformed),
        "bytes behind the last field"
    );
    assert_eq!(server.receive(&altered(&request, option(&request), b"")), Err(Refused::Malformed), "nothing encrypted");
    let plain = message(Type::Confirmable, Code::GET, &Body::EMPTY);
    assert_eq!(server.receive(&plain), Err(Refused::Malformed), "no option");
}

// RFC 8613 §8.2
#[test]
fn refusals_carry_the_diagnostics_of_the_rfc_and_a_zero_max_age() {
    let cases = [
        (Refused::Malformed, Code::BAD_OPTION, "Failed to decode COSE"),
        (Refused::UnknownContext, Code::UNAUTHORIZED, "Security context not found"),
        (Refused::Replayed, Code::UNAUTHORIZED, "Replay detected"),
        (Refused::Forged, Code::BAD_REQUEST, "Decryption failed"),
    ];
    let [_, mut server] = pair();
    for (refused, code, diagnosis) in cases {
        let (said, body) = server.contexts.refusal(Instant::ZERO, &refused).expect("an answer");
        assert_eq!((said, body.payload().as_ref()), (code, diagnosis.as_bytes()));
        assert_eq!(body.option(OptionNumber::MAX_AGE), Some(&b""[..]), "zero");
        assert_eq!(body.options().count(), 1, "it is not protected");
    }
}

// RFC 8613 §5.1, §8.2
#[test]
fn unknown_contexts_and_wrong_keys_give_different_errors() {
    let [mut client, mut server] = pair();
    let (request, _) = client.get("/x");
    let sealed = request.payload();
    for stranger in [&b"\x19\x00\x05whereX"[..], b"\x19\x00\x05elsewC", b"\x19\x00\x00C", b"\x09\x0012345678"] {
        assert_eq!(server.receive(&altered(&request, stranger, sealed)), Err(Refused::UnknownContext), "{stranger:?}");
    }
    assert_eq!(server.receive(&altered(&request, b"\x19\x01\x05whereC", sealed)), Err(Refused::Forged));
    assert_eq!(server.receive(&altered(&request, option(&request), b"7 bytes")), Err(Refused::Forged));
}

// RFC 8613 §3.3, §5.1
#[test]
fn a_request_without_its_id_context_finds_the_right_one_of_several() {
    let id_contexts: [Option<&[u8]>; 4] = [None, Some(b"one"), Some(b"two"), Some(b"three")];
    let with = |credentials: Credentials, id_context: Option<&[u8]>| Credentials {
        id_context: id_context.map(Box::from),
        ..credentials
    };
    let mut server = Contexts::new(id_contexts.len(), [1; 32]);
    for id_context in id_contexts {
        let [_, credentials] = credentials();
        server.insert(Context::derive(&with(credentials, id_context), Start::First).expect("legal")).expect("room");
    }
    while let Some(reserve) = server.poll_reserve() {
        server.reserved(reserve);
    }
    let pool = &mut conche_proto::codec::MessagePool::new();
    for id_context in id_contexts {
        let [credentials, _] = credentials();
        let (request, _) = End::ready(&with(credentials, id_context), Start::First).get("/x");
        let asked =
            server.unprotect_request(Instant::ZERO, &altered(&request, b"\x09\x00C", request.payload()).view(), pool);
        let found = server.get(asked.expect("authentic").binding.context()).expect("it is there");
        assert_eq!(found.id_context(), id_context);
    }
}

// RFC 8613 §12.2: contexts that share an ID cost a few tries for a request without ID context only
#[test]
fn of_many_contexts_with_one_id_each_is_found_by_its_id_context() {
    const MANY: u16 = 300;
    let with = |credentials: &Credentials, number: u16| Credentials {
        id_context: Some(Box::from(number.to_be_bytes())),
        ..credentials.clone()
    };
    let [client, server] = credentials();
    let mut contexts = Contexts::new(MANY.into(), [1; 32]);
    let mut ids: Vec<_> = (0..MANY)
        .map(|number| Context::derive(&with(&server, number), Start::First).expect("legal"))
        .map(|context| contexts.insert(context).expect("room"))
        .collect();
    while let Some(reserve) = contexts.poll_reserve() {
        contexts.reserved(reserve);
    }
    for id in ids.drain(100..200) {
        assert!(contexts.remove(id).is_some());
    }
    let pool = &mut conche_proto::codec::MessagePool::new();
    for number in 0..MANY {
        let (request, _) = End::ready(&with(&client, number), Start::First).get("/x");
        let found = contexts.unprotect_request(Instant::ZERO, &request.view(), pool);
        let there = !(100..200).contains(&number);
        assert_eq!(
            found.map(|asked| asked.message.code()),
            if there { Ok(Code::GET) } else { Err(Refused::UnknownContext) }
        );
    }
    assert_eq!(contexts.len(), 200);
}

// RFC 8613 §7.2.1, §12.6
#[test]
fn the_last_number_is_used_and_none_comes_after_it() {
    const LAST: u64 = (1 << 40) - 1;
    let [client, server] = credentials();
    let mut client = End::ready(&client, Start::Resumed { next: LAST, window: ReplayWindow::EMPTY });
    let mut server = End::ready(&server, Start::First);
    let (request, binding) = client.get("/x");
    assert_eq!((binding.number(), option(&request)), (LAST, &b"\x1d\xff\xff\xff\xff\xff\x05whereC"[..]));
    assert!(server.receive(&request).is_ok());
    for _ in 0..3 {
        let refused = client.contexts.protect_request(client.id, Code::GET, &Body::EMPTY);
        assert_eq!(refused, Err(ProtectError::Exhausted));
        client.store();
    }
    assert_eq!(client.context().next_number(), LAST + 1);
    assert_eq!(server.receive(&request), Err(Refused::Replayed));
    let beyond = Start::Restarted { next: u64::MAX };
    let mut beyond = End::ready(&credentials()[0], beyond);
    assert_eq!(beyond.contexts.protect_request(beyond.id, Code::GET, &Body::EMPTY), Err(ProtectError::Exhausted));
}

// RFC 8613 §3.3
#[test]
fn credentials_that_cannot_be_safe_are_refused() {
    let check = |credentials: Credentials| Context::derive(&credentials, Start::First).map(|_| ());
    let new = |sender: &[u8], recipient: &[u8]| Credentials::new(*b"16 random bytes.", id(sender), id(recipient));
    assert_eq!(check(new(b"same", b"same")), Err(CredentialsError::SameIds));
    assert_eq!(check(new(b"", b"")), Err(CredentialsError::SameIds));
    assert_eq!(check(new(b"", b"7 bytes")), Ok(()));
    assert_eq!(EndId::new(b"8 bytes!"), None);
    for length in [0, 1, 15] {
        let short = Credentials { master_secret: vec![7; length].into(), ..new(b"a", b"b") };
        assert_eq!(check(short), Err(CredentialsError::ShortSecret { length }));
    }
    for (length, expected) in [(240, Ok(())), (241, Err(CredentialsError::IdContextLength { length: 241 }))] {
        let id_context = Some(vec![0; length].into_boxed_slice());
        assert_eq!(check(Credentials { id_context, ..new(b"a", b"b") }), expected);
    }
    let longest = Credentials { id_context: Some(vec![1; 240].into()), ..new(b"7 bytes", b"b") };
    let mut client = End::ready(&longest, Start::Resumed { next: 1 << 39, window: ReplayWindow::EMPTY });
    assert_eq!(option(&client.get("/x").0).len(), 254, "the longest option fits");
    assert_eq!(Aead::from_number(10), Some(Aead::default()));
    assert_eq!(Aead::from_number(1), None);
}

#[test]
fn a_table_of_contexts_is_bounded_and_names_are_not_used_again() {
    let [client, _] = credentials();
    let context = |recipient: u8| {
        let [sender_id, recipient_id] = [recipient + 10, recipient].map(|byte| id(&[byte]));
        Context::derive(&Credentials { sender_id, recipient_id, ..client.clone() }, Start::First).expect("legal")
    };
    let mut contexts = Contexts::new(2, [1; 32]);
    let first = contexts.insert(context(1)).expect("room");
    assert_eq!(contexts.insert(context(1)), Err(InsertError::Duplicate));
    let second = contexts.insert(context(2)).expect("room");
    assert_eq!(contexts.insert(context(3)), Err(InsertError::Full));
    assert!(contexts.remove(first).is_some() && contexts.remove(first).is_none());
    let third = contexts.insert(context(3)).expect("room");
    assert_ne!(first, third);
    assert!(contexts.get(first).is_none());
    assert_eq!(contexts.find(id(&[2]), Some(b"where")), Some(second));
    assert_eq!(contexts.find(id(&[1]), Some(b"where")), None);
    assert_eq!(contexts.find(id(&[3]), None), None);
    let asked: Vec<_> = core::iter::from_fn(|| contexts.poll_reserve()).map(|reserve| reserve.context).collect();
    assert_eq!(asked, [second, third], "nobody asks for what is gone");
    assert_eq!(contexts.protect_request(first, Code::GET, &Body::EMPTY), Err(ProtectError::UnknownContext));
}

#[test]
fn nested_and_oversized_messages_are_not_protected() {
    let [mut client, _] = pair();
    let mut refused = |body: conche_proto::codec::BodyBuilder| {
        client.contexts.protect_request(client.id, Code::PUT, &body.build().expect("legal")).err()
    };
    assert_eq!(refused(Body::builder().option(OptionNumber::OSCORE, b"")), Some(ProtectError::Nested));
    assert_eq!(refused(Body::builder().option(OptionNumber::PROXY_URI, b"/here")), Some(ProtectError::ProxyUri));
    assert_eq!(refused(Body::builder().payload(vec![0; 0xffff - 1])), Some(ProtectError::TooLong));
    assert_eq!(refused(Body::builder().payload(vec![0; 0xffff - 2])), None);
    assert_eq!(client.context().next_number(), 1, "what was not protected took no number");
}

// RFC 8613 §4.1.3.3
#[test]
fn a_proxy_uri_is_divided_and_comes_out_in_parts() {
    let [mut client, mut server] = pair();
    let body =
        Body::builder().option(OptionNumber::PROXY_URI, b"coap://example.com/resource?q=1").build().expect("legal");
    let (request, _) = client.request(Code::GET, &body);
    assert_eq!(request.option(OptionNumber::PROXY_URI), Some(&b"coap://example.com"[..]));
    assert_eq!(request.content().options().count(), 2);
    // A proxy removes it.
    let asked = server.receive(&altered_without_proxy(&request)).expect("authentic");
    assert_eq!(asked.message.uri_path(), "/resource");
    assert_eq!(asked.message.uri_queries().collect::<Vec<_>>(), ["q=1"]);
}

fn altered_without_proxy(request: &conche_proto::codec::OwnedMessage) -> conche_proto::codec::OwnedMessage {
    let body = Body::builder().option(OptionNumber::OSCORE, option(request)).payload(request.payload().to_vec());
    message(Type::Confirmable, request.code(), &body.build().expect("legal"))
}

// RFC 8613 §3.3
#[test]
fn a_context_that_shares_a_sender_key_with_another_is_refused() {
    let id = |id: &[u8]| EndId::new(id).expect("short");
    let context = |sender: &[u8], recipient: &[u8], salt: &[u8]| {
        let credentials = Credentials {
            master_salt: salt.to_vec(),
            ..Credentials::new(*b"one for a house.", id(sender), id(recipient))
        };
        Context::derive(&credentials, Start::First).expect("legal")
    };
    let mut contexts = Contexts::new(9, [7; 32]);
    let first = contexts.insert(context(b"s", b"1", b"")).expect("room");
    // A salt that differs only in trailing zeros gives the same keys (RFC 2104 §2).
    for salt in [&b""[..], b"\0"] {
        assert_eq!(contexts.insert(context(b"s", b"2", salt)), Err(InsertError::SameSender));
    }
    for (sender, recipient, salt) in [(&b"t"[..], b"3", &b""[..]), (b"s", b"4", b"salt")] {
        contexts.insert(context(sender, recipient, salt)).expect("it has a key of its own");
    }
    contexts.remove(first).expect("it is there");
    contexts.insert(context(b"s", b"2", b"")).expect("nobody else has its key");
}
