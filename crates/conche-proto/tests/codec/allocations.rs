//! Decoding and encoding allocate nothing.

use allocation_counter::measure;
use conche_proto::codec::{Code, Encoder, Message, MessageId, OptionNumber, Token, Type, encode_empty};

#[test]
fn decoding_and_encoding_do_not_allocate() {
    let mut buffer = [0; 128];
    let token = Token::from([7; 8]);
    let mut length = 0;
    let encoding = measure(|| {
        length = Encoder::new(&mut buffer, Type::Confirmable, Code::PUT, MessageId(1), &token)
            .and_then(|mut encoder| {
                encoder
                    .option(OptionNumber::URI_PATH, b"a")?
                    .option(OptionNumber::URI_PATH, b"b")?
                    .uint(OptionNumber::CONTENT_FORMAT, 50)?
                    .option(OptionNumber(2000), &[0; 20])?
                    .payload(b"{}")
                    .map(|encoder| encoder.finish())
            })
            .expect("the buffer is long enough");
        assert_eq!(encode_empty(Type::Reset, MessageId(1)), [0x70, 0, 0, 1]);
    });
    assert_eq!(encoding.count_total, 0);

    let datagram = &buffer[..length];
    let decoding = measure(|| {
        let message = Message::decode(datagram).expect("well-formed");
        assert_eq!(message.token(), token);
        assert_eq!(message.options().count(), 4);
        assert_eq!(message.values(OptionNumber::URI_PATH).count(), 2);
        assert_eq!(message.uint(OptionNumber::CONTENT_FORMAT), Some(50));
        assert_eq!(message.unacceptable_option(&[]), None);
        assert_eq!(message.payload(), b"{}");
    });
    assert_eq!(decoding.count_total, 0);
}

#[test]
fn refusing_a_malformed_datagram_does_not_allocate() {
    let malformed: [&[u8]; 5] = [&[], &[0x80; 20], &[0x49; 20], &[0x40, 1, 0, 1, 0xb4, 0x74], &[0x40, 1, 0, 1, 0xff]];
    let refusing = measure(|| {
        for datagram in malformed {
            assert!(Message::decode(datagram).is_err());
        }
    });
    assert_eq!(refusing.count_total, 0);
}

#[test]
fn the_measurement_sees_allocations() {
    assert_eq!(measure(|| drop(std::hint::black_box(Box::new(1)))).count_total, 1);
}
