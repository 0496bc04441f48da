//! Decoding and encoding do not allocate, and owned types allocate less than once per message.

use allocation_counter::measure;
use conche_proto::codec::{
    Body, Code, Encoder, Message, MessageId, MessagePool, OptionNumber, OwnedMessage, Token, Type, encode_empty,
};

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

const RESPONSE: [u8; 60] = {
    let mut datagram = [b'x'; 60];
    [datagram[0], datagram[1], datagram[2], datagram[3], datagram[4]] = [0x50, 0x45, 0x00, 0x01, 0xff];
    datagram
};

/// Keeps the last `kept` responses.
fn pooling(pool: &mut MessagePool, messages: usize, kept: usize) -> allocation_counter::AllocationInfo {
    let mut window: Vec<Option<OwnedMessage>> = vec![None; kept.max(1)];
    measure(|| {
        for index in 0..messages {
            let message = Message::decode(&RESPONSE).expect("well-formed");
            let message = OwnedMessage::pooled(message, pool);
            assert_eq!(message.payload_bytes().len(), 55);
            if kept > 0 {
                window[index % kept] = Some(message);
            }
        }
    })
}

#[test]
fn messages_that_are_dropped_soon_share_one_chunk() {
    let mut pool = MessagePool::new();
    let first = pooling(&mut pool, 1000, 0);
    assert!(first.count_total <= 3, "{first:?}");
    assert_eq!(pooling(&mut pool, 1000, 0).count_total, 0, "the chunk is there");
}

#[test]
fn messages_that_are_kept_a_while_cost_a_chunk_for_as_many_as_it_holds() {
    let in_a_chunk = MessagePool::CHUNK / RESPONSE.len();
    let most = u64::try_from(1000 / in_a_chunk + 1).expect("a small number");
    let keeping = pooling(&mut MessagePool::new(), 1000, 10);
    assert!(keeping.count_total <= 2 * most, "{keeping:?}");
    let chunks_alive = u64::try_from(2 * (MessagePool::CHUNK + 100)).expect("a small number");
    assert!(keeping.bytes_max <= chunks_alive, "ten messages lie in two chunks at most: {keeping:?}");
}

#[test]
fn clones_and_slices_of_a_message_do_not_allocate() {
    let message = OwnedMessage::pooled(Message::decode(&RESPONSE).expect("well-formed"), &mut MessagePool::new());
    let sharing = measure(|| {
        let clone = message.clone();
        assert_eq!(clone.payload_bytes(), message.payload());
    });
    assert_eq!(sharing.count_total, 0);
}

#[test]
fn a_body_of_a_payload_is_allocated_once() {
    let building = measure(|| {
        let body = Body::builder().path("/a").payload("21.5").build().expect("legal");
        assert_eq!(body.len(), 7);
    });
    assert_eq!(building.count_total, 1);
}

#[test]
fn the_measurement_sees_allocations() {
    assert_eq!(measure(|| drop(std::hint::black_box(Box::new(1)))).count_total, 1);
}
