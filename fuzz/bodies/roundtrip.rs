//! A decoded message has one encoding.

use conche_proto::codec::{BodyBuilder, EncodeError, Encoder, Message, encode_empty};

pub fn run(datagram: &[u8]) {
    let Ok(message) = Message::decode_extended(datagram) else { return };
    if message.code().is_empty() {
        assert_eq!(datagram, encode_empty(message.ty(), message.id()));
    }

    let mut buffer = vec![0; datagram.len()];
    let length = encode(&message, &mut buffer).expect("a message fits where it came from");
    assert_eq!(&buffer[..length], datagram);
    assert_eq!(Message::decode_extended(&buffer), Ok(message));

    if let Some(shorter) = buffer.len().checked_sub(1) {
        assert_eq!(encode(&message, &mut buffer[..shorter]), Err(EncodeError::BufferTooSmall));
    }
    encode_by_body(&message);
}

fn encode(message: &Message<'_>, buffer: &mut [u8]) -> Result<usize, EncodeError> {
    let mut encoder = Encoder::new(buffer, message.ty(), message.code(), message.id(), &message.token())?;
    for option in message.options() {
        encoder.option(option.number, option.value)?;
    }
    encoder.payload(message.payload()).map(|encoder| encoder.finish())
}

fn encode_by_body(message: &Message<'_>) {
    let mut builder = BodyBuilder::new();
    for option in message.options() {
        builder = builder.option(option.number, option.value);
    }
    let Ok(body) = builder.payload(message.payload().to_vec()).build() else { return };
    let mut buffer = vec![0; message.as_bytes().len()];
    let encoder = Encoder::new(&mut buffer, message.ty(), message.code(), message.id(), &message.token());
    let length = encoder.and_then(|mut encoder| encoder.body(&body).map(|encoder| encoder.finish()));
    assert_eq!(length, Ok(buffer.len()));
    assert_eq!(buffer, message.as_bytes());
}
