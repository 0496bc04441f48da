//! The test vectors of RFC 8613, appendix C, and tests of private items.

use alloc::string::String;
use alloc::vec::Vec;
use std::collections::BTreeMap;
use std::format;

use conche_cc::Instant;

use super::cose::{SecretBytes, additional_data};
use super::*;
use crate::codec::{Body, Code, Encoder, Message, MessagePool};

/// Fields by name, by section number.
type Vectors = BTreeMap<String, BTreeMap<String, serde_json::Value>>;

struct Vector(BTreeMap<String, serde_json::Value>);

impl Vector {
    fn all() -> Vec<(String, Self)> {
        let vectors: Vectors =
            serde_json::from_str(include_str!("../../tests/data/oscore-vectors.json")).expect("as its README says");
        vectors.into_iter().map(|(section, fields)| (section, Self(fields))).collect()
    }

    fn of(section: &str) -> Self {
        Self::all().into_iter().find(|(name, _)| name == section).expect("such a section").1
    }

    fn bytes(&self, field: &str) -> Vec<u8> {
        self.get(field).unwrap_or_else(|| panic!("no field {field}"))
    }

    fn get(&self, field: &str) -> Option<Vec<u8>> {
        let text = self.0.get(field)?.as_str().expect("hexadecimal");
        let digits = |pair: &[u8]| core::str::from_utf8(pair).map(|pair| u8::from_str_radix(pair, 16));
        Some(text.as_bytes().chunks(2).map(|pair| digits(pair).expect("ASCII").expect("digits")).collect())
    }

    fn id(&self, field: &str) -> EndId {
        EndId::new(&self.bytes(field)).expect("short")
    }

    fn credentials(&self) -> Credentials {
        Credentials {
            master_salt: self.get("Master Salt").unwrap_or_default(),
            id_context: self.get("ID Context").map(Vec::into_boxed_slice),
            ..Credentials::new(self.bytes("Master Secret"), self.id("Sender ID"), self.id("Recipient ID"))
        }
    }

    fn context(&self, next: u64) -> (Contexts, ContextId) {
        let start = Start::Resumed { next, window: ReplayWindow::EMPTY };
        contexts(Context::derive(&self.credentials(), start).expect("legal credentials"))
    }
}

fn contexts(context: Context) -> (Contexts, ContextId) {
    let mut contexts = Contexts::new(1, [7; 32]);
    let id = contexts.insert(context).expect("room");
    let reserve = contexts.poll_reserve().expect("it needs numbers");
    contexts.reserved(reserve);
    (contexts, id)
}

fn body_of(message: &Message<'_>) -> Body {
    Body::builder().options(message.options()).payload(message.payload().to_vec()).build().expect("legal")
}

/// Encodes a message like this one with another code and body.
fn datagram(like: &Message<'_>, code: Code, body: &Body) -> Vec<u8> {
    let mut buffer = [0; 256];
    let mut encoder = Encoder::new(&mut buffer, like.ty(), code, like.id(), &like.token()).expect("room");
    let length = encoder.body(body).expect("room").finish();
    buffer[..length].to_vec()
}

// RFC 8613 appendix C.1 to C.3
#[test]
fn keys_and_nonces_are_those_of_the_rfc_for_both_ends() {
    let sections: Vec<_> =
        Vector::all().into_iter().filter(|(_, vector)| vector.get("sender nonce").is_some()).collect();
    assert_eq!(sections.len(), 6);
    for (section, vector) in sections {
        let context = Context::derive(&vector.credentials(), Start::First).expect("legal credentials");
        assert_eq!(context.sender_key.0[..16], vector.bytes("Sender Key"), "{section}");
        assert_eq!(context.recipient_key.0[..16], vector.bytes("Recipient Key"), "{section}");
        assert_eq!(context.common_iv.0[..], vector.bytes("Common IV"), "{section}");
        let zero = PartialIv::new(0).expect("small");
        for (id, field) in [(context.sender_id(), "sender nonce"), (context.recipient_id(), "recipient nonce")] {
            assert_eq!(context.nonce(id, zero).as_slice(), vector.bytes(field), "{section}");
        }
    }
}

// RFC 8613 appendix C.4 to C.6
#[test]
fn requests_are_protected_and_unprotected_as_the_rfc_has_them() {
    for (section, client, server) in [("C.4", "C.1.1", "C.1.2"), ("C.5", "C.2.1", "C.2.2"), ("C.6", "C.3.1", "C.3.2")] {
        let vector = Vector::of(section);
        let (plain, protected) =
            (vector.bytes("Unprotected CoAP request"), vector.bytes("Protected CoAP request (OSCORE message)"));
        let plain = Message::decode(&plain).expect("well-formed");
        let number = vector.0["Sender Sequence Number"].as_u64().expect("a number");

        let (mut contexts, id) = Vector::of(client).context(number);
        let request = contexts.protect_request(id, plain.code(), &body_of(&plain)).expect("a number");
        assert_eq!(datagram(&plain, request.code, &request.body), protected, "{section}");
        assert_eq!(request.binding.number(), number);
        let additional = additional_data(Aead::default(), vector.id("kid"), PartialIv::new(number).expect("small"));
        assert_eq!(additional.as_slice(), vector.bytes("AAD"), "{section}");

        let (mut contexts, id) = Vector::of(server).context(0);
        let received = Message::decode(&protected).expect("well-formed");
        let requested =
            contexts.unprotect_request(Instant::ZERO, &received, &mut MessagePool::new()).expect("authentic");
        assert_eq!(requested.message.view(), plain, "{section}");
        assert_eq!((requested.binding.context(), requested.binding.number()), (id, number));
    }
}

// RFC 8613 appendix C.7 and C.8
#[test]
fn responses_are_protected_and_unprotected_as_the_rfc_has_them() {
    let request = Vector::of("C.4");
    let number = request.0["Sender Sequence Number"].as_u64().expect("a number");
    let request = request.bytes("Protected CoAP request (OSCORE message)");
    let request = Message::decode(&request).expect("well-formed");
    let pool = &mut MessagePool::new();
    for (section, own_number) in [("C.7", None), ("C.8", Some(0))] {
        let vector = Vector::of(section);
        let (plain, protected) =
            (vector.bytes("Unprotected CoAP response"), vector.bytes("Protected CoAP response (OSCORE message)"));
        let plain = Message::decode(&plain).expect("well-formed");

        let (mut server, id) = Vector::of("C.1.2").context(0);
        let requested = server.unprotect_request(Instant::ZERO, &request, pool).expect("authentic");
        if own_number.is_some() {
            // As if a response had used the request's number.
            let arrivals = server.get_mut(id).and_then(|context| context.arrivals.as_mut()).expect("synchronised");
            assert!(arrivals.take(number) && !arrivals.take(number));
        }
        let response = server.protect_response(&requested.binding, plain.code(), &body_of(&plain)).expect("a number");
        assert_eq!(datagram(&plain, response.code, &response.body), protected, "{section}");

        let (mut client, id) = Vector::of("C.1.1").context(number);
        let mut binding = client.protect_request(id, Code::GET, &Body::EMPTY).expect("a number").binding;
        let received = Message::decode(&protected).expect("well-formed");
        let answer = client.unprotect_response(&mut binding, &received, pool).expect("authentic");
        assert_eq!((answer.message.view(), answer.number), (plain, own_number), "{section}");
    }
}

#[test]
fn nothing_secret_is_shown() {
    let vector = Vector::of("C.3.1");
    let context = Context::derive(&vector.credentials(), Start::First).expect("legal credentials");
    let shown = format!("{context:?} {:?}", vector.credentials());
    for field in ["Master Secret", "Sender Key", "Recipient Key", "Common IV"] {
        let bytes = vector.bytes(field);
        assert!(!shown.contains(&format!("{bytes:?}")[1..20]), "{field}: {shown}");
        assert!(!shown.contains(vector.0[field].as_str().expect("text")), "{field}: {shown}");
    }
    assert!(shown.contains("Secret(16 bytes)") && shown.contains("sender_key: _"), "{shown}");
}

#[test]
fn a_context_is_small_and_wipes_its_keys() {
    if cfg!(target_pointer_width = "64") {
        assert_eq!((size_of::<Context>(), size_of::<Binding>()), (232, 40));
    }
    let mut key = SecretBytes([7; 32]);
    key.wipe();
    assert_eq!(key.0, [0; 32]);
    assert!(core::mem::needs_drop::<SecretBytes<32>>(), "it does that when it is dropped");
}

#[test]
fn debug_output_of_contexts_shows_no_key_and_no_plaintext() {
    let vector = Vector::of("C.1.1");
    let credentials = vector.credentials();
    let anew = Context::derive(&credentials, Start::Anew).expect("legal credentials");
    let (mut client, id) = vector.context(20);
    let body = Body::builder().payload("a plaintext").build().expect("legal");
    let protected = client.protect_request(id, Code::POST, &body).expect("there are numbers");
    let swapped =
        Credentials { sender_id: credentials.recipient_id, recipient_id: credentials.sender_id, ..credentials.clone() };
    let (mut server, _) = contexts(Context::derive(&swapped, Start::First).expect("legal credentials"));
    let (kind, token) = (crate::codec::Type::Confirmable, crate::codec::Token::from([1; 8]));
    let message_id = crate::codec::MessageId(1);
    let message = crate::codec::OwnedMessage::encode(kind, protected.code, message_id, &token, &protected.body);
    let message = message.expect("short");
    server.unprotect_request(Instant::ZERO, &message.view(), &mut MessagePool::new()).expect("authentic");

    let shown = format!("{credentials:?} {anew:?} {client:?} {server:?}");
    let context = client.get(id).expect("it is there");
    let secrets = [
        vector.bytes("Master Secret"),
        context.sender_key.0[..16].to_vec(),
        context.recipient_key.0[..16].to_vec(),
        context.common_iv.0.to_vec(),
        b"a plaintext".to_vec(),
    ];
    for secret in secrets {
        let numbers = format!("{:?}", &secret[..8]);
        let numbers = numbers.trim_matches(['[', ']']);
        let digits: String = secret.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        assert!(!shown.contains(numbers) && !shown.contains(&digits), "{shown}");
        assert!(!shown.contains("a plaintext"), "{shown}");
    }
}

/// A simple model of `Arrivals`.
struct Model {
    size: u64,
    newest: Option<u64>,
    seen: Vec<u64>,
    answered: Vec<u64>,
}

impl Model {
    fn is_inside(&self, number: u64) -> bool {
        self.newest.is_none_or(|newest| number > newest || newest - number < self.size)
    }
}

#[test]
fn a_replay_window_of_any_size_takes_each_number_once_and_lets_one_response_take_it() {
    for size in [1, 2, 31, 32, 63, 64, 65, 100, 128, 1024] {
        let mut arrivals = window::Arrivals::new(ReplayWindow::EMPTY, size);
        let mut model = Model { size: size.into(), newest: None, seen: Vec::new(), answered: Vec::new() };
        let mut state = 7_u64;
        let mut base = 0;
        for step in 0..3_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let draw = state >> 33;
            // Mostly near the end, occasionally far ahead.
            base += if step % 500 == 499 { draw % 3_000 } else { draw % 2 };
            let number = (base + draw % 40).saturating_sub(draw % (2 * u64::from(size)));
            let is_new = model.is_inside(number) && !model.seen.contains(&number);
            assert_eq!(arrivals.is_new(number), is_new, "{number} in a window of {size} after {:?}", model.newest);
            if is_new {
                arrivals.insert(number);
                model.seen.push(number);
                model.answered.retain(|other| *other != number);
                model.newest = model.newest.max(Some(number));
            }
            let other = number.saturating_sub(draw % 7);
            let may = model.newest.is_some()
                && model.is_inside(other)
                && model.seen.contains(&other)
                && !model.answered.contains(&other);
            assert_eq!(arrivals.take(other), may, "the response to {other} in a window of {size}");
            model.answered.push(other);
            let stored = arrivals.window();
            assert_eq!(stored.end(), model.newest.map_or(0, |newest| newest + 1));
        }
    }
}

#[test]
fn a_request_that_up_to_a_window_of_newer_ones_overtook_is_taken_once() {
    let vector = Vector::of("C.1.1");
    let pool = &mut MessagePool::new();
    let request = |client: &mut Contexts, id| {
        let body = Body::builder().path("/door").build().expect("legal");
        let protected = client.protect_request(id, Code::GET, &body).expect("there are numbers");
        while let Some(reserve) = client.poll_reserve() {
            client.reserved(reserve);
        }
        let (kind, token) = (crate::codec::Type::Confirmable, crate::codec::Token::from([1; 8]));
        let message_id = crate::codec::MessageId(1);
        let message = crate::codec::OwnedMessage::encode(kind, protected.code, message_id, &token, &protected.body);
        message.expect("short")
    };
    for (size, newer, is_taken) in
        [(32, 31, true), (32, 32, false), (100, 99, true), (100, 100, false), (1024, 1023, true), (1024, 1024, false)]
    {
        let credentials = vector.credentials();
        let at_server = Credentials {
            sender_id: credentials.recipient_id,
            recipient_id: credentials.sender_id,
            replay_window: size,
            ..credentials.clone()
        };
        let (mut client, id) = contexts(Context::derive(&credentials, Start::First).expect("legal credentials"));
        let (mut server, _) = contexts(Context::derive(&at_server, Start::First).expect("legal credentials"));
        let lost = request(&mut client, id);
        for _ in 0..newer {
            let message = request(&mut client, id);
            server.unprotect_request(Instant::ZERO, &message.view(), pool).expect("authentic and new");
        }
        let late = server.unprotect_request(Instant::ZERO, &lost.view(), pool).map(drop);
        assert_eq!(late, if is_taken { Ok(()) } else { Err(Refused::Replayed) }, "{newer} newer, window of {size}");
        let again = server.unprotect_request(Instant::ZERO, &lost.view(), pool).map(drop);
        assert_eq!(again, Err(Refused::Replayed));
    }
    for size in [0, 1025] {
        let credentials = Credentials { replay_window: size, ..vector.credentials() };
        assert_eq!(credentials.check(), Err(CredentialsError::ReplayWindow { size }));
    }
}

/// Returns a client, a restarted server, and requests recorded before the restart.
fn restarted(recorded: usize) -> (Contexts, ContextId, Contexts, ContextId, Vec<crate::codec::OwnedMessage>) {
    let credentials = Vector::of("C.1.1").credentials();
    let at_server =
        Credentials { sender_id: credentials.recipient_id, recipient_id: credentials.sender_id, ..credentials.clone() };
    let (mut client, id) = contexts(Context::derive(&credentials, Start::First).expect("legal credentials"));
    let recorded = (0..recorded).map(|_| recorded_request(&mut client, id)).collect();
    let start = Start::Restarted { next: 1_000 };
    let (server, at_server) = contexts(Context::derive(&at_server, start).expect("legal credentials"));
    (client, id, server, at_server, recorded)
}

fn recorded_request(client: &mut Contexts, id: ContextId) -> crate::codec::OwnedMessage {
    let body = Body::builder().path("/door").build().expect("legal");
    let protected = client.protect_request(id, Code::PUT, &body).expect("there are numbers");
    while let Some(reserve) = client.poll_reserve() {
        client.reserved(reserve);
    }
    let (kind, token) = (crate::codec::Type::Confirmable, crate::codec::Token::from([1; 8]));
    let message_id = crate::codec::MessageId(1);
    crate::codec::OwnedMessage::encode(kind, protected.code, message_id, &token, &protected.body).expect("short")
}

#[test]
fn recorded_requests_that_are_repeated_to_a_restarted_server_use_few_of_its_numbers() {
    for (recorded, most) in [(1, 3), (100, 100 + 32 + 101)] {
        let (mut client, id, mut server, at_server, requests) = restarted(recorded);
        let pool = &mut MessagePool::new();
        let (mut stores, mut answers) = (0, 0);
        for repeat in 0..100_000 {
            let now = Instant::from_millis(repeat);
            let request = &requests[usize::try_from(repeat).expect("small") % requests.len()];
            let refused = server.unprotect_request(now, &request.view(), pool).expect_err("it may be old");
            answers += usize::from(server.refusal(now, &refused).is_some());
            while let Some(reserve) = server.poll_reserve() {
                stores += 1;
                server.reserved(reserve);
            }
        }
        let used = server.get(at_server).expect("it is there").next_number() - 1_000;
        assert!(used <= most && stores <= 2, "{recorded} recorded: {used} numbers in {stores} writes");
        assert!(recorded > 1 || answers == 100_000, "each copy is answered");

        // A new request of the client is challenged, and the next one proves its freshness.
        let now = Instant::from_millis(100_000);
        let mut body = Body::builder().path("/door").build().expect("legal");
        for is_fresh in [false, true] {
            let mut protected = client.protect_request(id, Code::PUT, &body).expect("there are numbers");
            let token = crate::codec::Token::from([1; 8]);
            let encode = |code, body: &Body| {
                let (kind, message_id) = (crate::codec::Type::Confirmable, crate::codec::MessageId(1));
                crate::codec::OwnedMessage::encode(kind, code, message_id, &token, body).expect("short")
            };
            let request = encode(protected.code, &protected.body);
            let taken = server.unprotect_request(now, &request.view(), pool);
            assert_eq!(taken.is_ok(), is_fresh);
            let Err(refused) = taken else { break };
            let (code, challenge) = server.refusal(now, &refused).expect("a newer request is challenged");
            let challenge = encode(code, &challenge);
            let challenge = client.unprotect_response(&mut protected.binding, &challenge.view(), pool);
            let challenge = challenge.expect("authentic").message;
            let echo = challenge.option(crate::codec::OptionNumber::ECHO).expect("a challenge");
            let again = Body::builder().path("/door").option(crate::codec::OptionNumber::ECHO, echo);
            body = again.build().expect("legal");
        }
    }
}
