//! Hand-made messages, as from another implementation or an attacker.

use conche_proto::codec::{Body, Code, Encoder, Message, MessageId, OptionNumber, Token, Type, encode_empty};

pub fn message(ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> Vec<u8> {
    let mut bytes = vec![0; 4 + token.encoded_len() + body.len()];
    let mut encoder = Encoder::new(&mut bytes, ty, code, id, token).expect("room for the header");
    let length = encoder.body(body).expect("room for the body").finish();
    bytes.truncate(length);
    bytes
}

pub fn bare(ty: Type, code: Code, id: u16, token: &[u8]) -> Vec<u8> {
    message(ty, code, MessageId(id), &Token::extended(token).expect("a legal token"), &Body::EMPTY)
}

pub fn request(ty: Type, code: Code, id: u16, token: &[u8], path: &str) -> Vec<u8> {
    let body = Body::builder().path(path).build().expect("a legal path");
    message(ty, code, MessageId(id), &Token::extended(token).expect("a legal token"), &body)
}

pub fn empty_ack(id: MessageId) -> Vec<u8> {
    encode_empty(Type::Acknowledgement, id).to_vec()
}

pub fn reset(id: MessageId) -> Vec<u8> {
    encode_empty(Type::Reset, id).to_vec()
}

pub fn piggybacked(datagram: &[u8], code: Code) -> Vec<u8> {
    let request = decode(datagram);
    message(Type::Acknowledgement, code, request.id(), &request.token(), &payload("hello"))
}

pub fn separate(datagram: &[u8], ty: Type, code: Code, id: u16) -> Vec<u8> {
    message(ty, code, MessageId(id), &decode(datagram).token(), &payload("hello"))
}

pub fn payload(text: &str) -> Body {
    Body::builder().payload(text.to_owned()).build().expect("no options")
}

pub fn decode(datagram: &[u8]) -> Message<'_> {
    Message::decode_extended(datagram).expect("a well-formed message")
}

/// The options may be illegal, in ascending order.
pub fn with_options(ty: Type, code: Code, id: u16, token: &[u8], options: &[(u16, &[u8])], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 2048];
    let token = Token::extended(token).expect("a legal token");
    let mut encoder = Encoder::new(&mut bytes, ty, code, MessageId(id), &token).expect("room for the header");
    for &(number, value) in options {
        encoder.option(OptionNumber(number), value).expect("ascending, and room");
    }
    let length = encoder.payload(payload).expect("room for the payload").finish();
    bytes.truncate(length);
    bytes
}
