//! The test vectors of RFC 8613, appendix C, and what the public interface cannot show.

use alloc::string::String;
use alloc::vec::Vec;
use std::collections::BTreeMap;
use std::format;

use conche_cc::Instant;

use super::cose::{Hidden, additional_data};
use super::*;
use crate::codec::{Body, Code, Encoder, Message, MessagePool};

/// Sections by number, fields by name.
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

    /// Those of the context that this vector's messages are protected with.
    fn credentials(&self) -> Credentials {
        Credentials {
            master_salt: self.get("Master Salt").unwrap_or_default(),
            id_context: self.get("ID Context").map(Vec::into_boxed_slice),
            ..Credentials::new(self.bytes("Master Secret"), self.id("Sender ID"), self.id("Recipient ID"))
        }
    }

    /// A context whose next number is this.
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

/// Code, options and payload of a whole message.
fn body_of(message: &Message<'_>) -> Body {
    Body::builder().options(message.options()).payload(message.payload().to_vec()).build().expect("legal")
}

/// A message like this one with another code and body.
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
        let asked = contexts.unprotect_request(Instant::ZERO, &received, &mut MessagePool::new()).expect("authentic");
        assert_eq!(asked.message.view(), plain, "{section}");
        assert_eq!((asked.binding.context(), asked.binding.number()), (id, number));
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
        let asked = server.unprotect_request(Instant::ZERO, &request, pool).expect("authentic");
        if own_number.is_some() {
            // As if a response had taken the request's number.
            let arrivals = server.get_mut(id).and_then(|context| context.arrivals.as_mut()).expect("synchronised");
            assert!(arrivals.take(number) && !arrivals.take(number));
        }
        let response = server.protect_response(&asked.binding, plain.code(), &body_of(&plain)).expect("a number");
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
        assert_eq!((size_of::<Context>(), size_of::<Binding>()), (192, 40));
    }
    let mut key = Hidden([7; 32]);
    key.wipe();
    assert_eq!(key.0, [0; 32]);
    assert!(core::mem::needs_drop::<Hidden<32>>(), "it does that when it is dropped");
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
