//! Errors and exact output of the encoder.

use super::super::*;

fn encoder(buffer: &mut [u8]) -> Encoder<'_> {
    Encoder::new(buffer, Type::NonConfirmable, Code::POST, MessageId(0x0102), &Token::EMPTY).expect("a header fits")
}

#[test]
fn a_request_is_written_byte_for_byte() {
    let mut buffer = [0xee; 32];
    let token = Token::new(&[0xaa, 0xbb]).expect("short enough");
    let length = Encoder::new(&mut buffer, Type::Confirmable, Code::PUT, MessageId(0x0102), &token)
        .and_then(|mut encoder| {
            encoder
                .option(OptionNumber::URI_PATH, b"a")?
                .uint(OptionNumber::CONTENT_FORMAT, 0)?
                .uint(OptionNumber::SIZE1, 0x0400)?
                .payload(b"hi")
                .map(|encoder| encoder.finish())
        })
        .expect("everything fits");
    assert_eq!(&buffer[..length], b"\x42\x03\x01\x02\xaa\xbb\xb1a\x10\xd2\x23\x04\x00\xffhi");
}

// RFC 7252 §4.2 (Q05)
#[test]
fn an_empty_message_is_four_bytes_of_type_and_id() {
    assert_eq!(encode_empty(Type::Reset, MessageId(0x2018)), [0x70, 0, 0x20, 0x18]);
    assert_eq!(encode_empty(Type::Acknowledgement, MessageId(1)), [0x60, 0, 0, 1]);
}

// RFC 7252 §4.1 (Q01)
#[test]
fn an_empty_message_takes_no_content() {
    let mut buffer = [0; 32];
    let token = Token::from([1; 8]);
    let with_token = Encoder::new(&mut buffer, Type::Confirmable, Code::EMPTY, MessageId(1), &token);
    assert_eq!(with_token.err(), Some(EncodeError::EmptyWithContent));

    let mut empty = Encoder::new(&mut buffer, Type::Confirmable, Code::EMPTY, MessageId(1), &Token::EMPTY)
        .expect("an Empty message without a token is legal");
    assert_eq!(empty.option(OptionNumber::URI_PATH, b"a").err(), Some(EncodeError::EmptyWithContent));
    assert_eq!(empty.uint(OptionNumber::OBSERVE, 0).err(), Some(EncodeError::EmptyWithContent));
    assert_eq!(empty.payload(b"a").err(), Some(EncodeError::EmptyWithContent));
    let body = BodyBuilder::new().path("/a").build().expect("legal");
    assert_eq!(empty.body(&body).err(), Some(EncodeError::EmptyWithContent));
    assert_eq!(empty.payload(b"").and_then(|empty| empty.body(&Body::EMPTY)).map(|empty| empty.finish()), Ok(4));
}

#[test]
fn options_out_of_order_are_refused() {
    let mut buffer = [0; 32];
    let mut encoder = encoder(&mut buffer);
    encoder.option(OptionNumber::URI_PATH, b"a").expect("fits");
    let error = encoder.option(OptionNumber::URI_HOST, b"h").err();
    let (number, previous) = (OptionNumber::URI_HOST, OptionNumber::URI_PATH);
    assert_eq!(error, Some(EncodeError::OptionOrder { number, previous }));
}

#[test]
fn a_body_after_an_option_is_refused() {
    let mut buffer = [0; 32];
    let mut encoder = encoder(&mut buffer);
    encoder.uint(OptionNumber::OBSERVE, 0).expect("fits");
    let body = BodyBuilder::new().path("/a").build().expect("legal");
    assert!(matches!(encoder.body(&body).err(), Some(EncodeError::OptionOrder { .. })));
}

#[test]
fn nothing_follows_a_payload_or_body() {
    let body = BodyBuilder::new().path("/a").build().expect("legal");
    for by_body in [false, true] {
        let mut buffer = [0; 32];
        let mut encoder = encoder(&mut buffer);
        if by_body { encoder.body(&body) } else { encoder.payload(b"x") }.expect("fits");
        assert_eq!(encoder.option(OptionNumber::SIZE1, b"").err(), Some(EncodeError::AfterPayload));
        assert_eq!(encoder.payload(b"x").err(), Some(EncodeError::AfterPayload));
        assert_eq!(encoder.body(&body).err(), Some(EncodeError::AfterPayload));
    }
}

#[test]
fn a_value_longer_than_any_option_is_refused() {
    let mut buffer = alloc::vec![0; 70_000];
    let value = alloc::vec![0; MAX_OPTION_LENGTH + 1];
    let mut encoder = encoder(&mut buffer);
    let number = OptionNumber(9999);
    assert_eq!(encoder.option(number, &value).err(), Some(EncodeError::OptionTooLong { number }));
    encoder.option(number, &value[1..]).expect("the longest value fits");
}
