//! Decoding and encoding of messages of usual size.

use std::hint::black_box;

use conche_proto::codec::{BodyBuilder, Code, ContentFormat, Encoder, Message, MessageId, OptionNumber, Token, Type};
use criterion::{Criterion, criterion_group, criterion_main};

const PAYLOAD: &[u8] = b"{\"temperature\":21.75,\"unit\":\"Cel\"}";

fn codec(criterion: &mut Criterion) {
    let mut datagram = [0; 60];
    assert_eq!(encode(&mut datagram), 60);

    let mut group = criterion.benchmark_group("codec");
    group.bench_function("decode/response", |bencher| {
        bencher.iter(|| Message::decode(black_box(&datagram)).map(|message| black_box(message).code()));
    });
    group.bench_function("decode/response_and_read", |bencher| {
        bencher.iter(|| {
            let message = Message::decode(black_box(&datagram)).ok()?;
            let format = message.uint(OptionNumber::CONTENT_FORMAT);
            Some((message.token(), message.unacceptable_option(&[]), format, message.payload().len()))
        });
    });
    group.bench_function("reject/longest", |bencher| {
        // The most work before a datagram of 1152 bytes is refused: empty options, and the error in
        // the last byte.
        let mut datagram = [0x10; 1152];
        datagram[..4].copy_from_slice(&[0x40, 0x01, 0x20, 0x01]);
        datagram[1151] = 0xff;
        assert!(Message::decode(&datagram).is_err());
        bencher.iter(|| Message::decode(black_box(&datagram)).is_err());
    });
    group.bench_function("encode/response", |bencher| {
        let mut buffer = [0; 1152];
        bencher.iter(|| encode(black_box(&mut buffer)));
    });
    let body = BodyBuilder::new()
        .option(OptionNumber::ETAG, &[0xe7; 8])
        .content_format(ContentFormat::JSON)
        .uint(OptionNumber::MAX_AGE, 30)
        .payload(PAYLOAD)
        .build()
        .expect("the options are legal");
    group.bench_function("encode/response_from_body", |bencher| {
        let mut buffer = [0; 1152];
        bencher.iter(|| {
            let token = Token::from(black_box([7; 8]));
            Encoder::new(black_box(&mut buffer), Type::Acknowledgement, Code::CONTENT, MessageId(1), &token)
                .and_then(|mut encoder| encoder.body(&body).map(|encoder| encoder.finish()))
        });
    });
    group.finish();
}

/// Encodes a 2.05 response of 60 bytes: header 4, token 8, three options 13, marker 1, payload 34.
fn encode(buffer: &mut [u8]) -> usize {
    let token = Token::from(black_box([7; 8]));
    Encoder::new(buffer, Type::Acknowledgement, Code::CONTENT, MessageId(1), &token)
        .and_then(|mut encoder| {
            encoder
                .option(OptionNumber::ETAG, black_box(&[0xe7; 8]))?
                .uint(OptionNumber::CONTENT_FORMAT, black_box(50))?
                .uint(OptionNumber::MAX_AGE, black_box(30))?
                .payload(black_box(PAYLOAD))
                .map(|encoder| encoder.finish())
        })
        .unwrap_or_default()
}

criterion_group!(benches, codec);
criterion_main!(benches);
