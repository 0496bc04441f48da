//! Properties of all datagrams and all messages.

use std::ops::Range;

use conche_proto::codec::{
    Body, BodyBuilder, Code, Content, DecodeErrorKind, Encoder, Message, MessageId, OptionNumber, OwnedMessage, Token,
    Type,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::reference::{self, Fields};

const TYPES: [Type; 4] = [Type::Confirmable, Type::NonConfirmable, Type::Acknowledgement, Type::Reset];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_decode_as_the_reference_does(datagram in datagram()) {
        assert_agrees_with_reference(&datagram);
    }

    #[test]
    fn an_encoded_message_decodes_to_the_same_fields(fields in message()) {
        let datagram = encode(&fields);
        let message = Message::decode_extended(&datagram).expect("the encoder writes well-formed messages");
        prop_assert_eq!(fields_of(&message), fields);
        prop_assert_eq!(message.as_bytes(), &datagram[..]);
        let owned = OwnedMessage::from(message);
        prop_assert_eq!(owned.view(), message);
        let decoded = OwnedMessage::decode(datagram.clone()).map(|owned| owned.view() == message);
        prop_assert_eq!(decoded.ok(), (message.token_bytes().len() <= 8).then_some(true));
    }

    #[test]
    fn a_message_decodes_the_same_after_a_byte_was_changed(fields in message(), at: prop::sample::Index, byte: u8) {
        let mut datagram = encode(&fields);
        let at = at.index(datagram.len());
        datagram[at] = byte;
        assert_agrees_with_reference(&datagram);
    }

    #[test]
    fn no_buffer_shorter_than_the_message_is_enough(fields in message()) {
        let datagram = encode(&fields);
        for length in 0..datagram.len() {
            prop_assert!(try_encode(&fields, &mut vec![0; length]).is_none());
        }
    }

    #[test]
    fn a_body_equals_the_encoding_of_its_sorted_options(
        options in vec((1000_u16..=u16::MAX, vec(any::<u8>(), 0..20)), 0..8),
        payload in vec(any::<u8>(), 0..20),
    ) {
        let builder = options.iter().fold(BodyBuilder::new(), |builder, (number, value)| {
            builder.option(OptionNumber(*number), value)
        });
        let body = builder.payload(payload.clone()).build().expect("unknown options may hold anything");
        let mut sorted = options;
        sorted.sort_by_key(|(number, _)| *number);
        let fields = Fields { ty: 0, code: Code::POST.0, id: 7, token: vec![1, 2], options: sorted, payload };
        let datagram = encode(&fields);
        prop_assert_eq!(&datagram[6..], body.as_bytes());
        prop_assert_eq!(encode_body(&body), datagram);
    }

    #[test]
    fn whatever_is_received_can_be_printed_and_asked(datagram in datagram(), number: u16) {
        if let Ok(message) = Message::decode(&datagram) {
            let text = message.to_string();
            prop_assert!(!text.contains(|c: char| c.is_control()), "{}", text);
            prop_assert!(message.uri_path().starts_with('/'));
            prop_assert!(message.uri_path().is_ascii());
            let values = message.values(OptionNumber(number)).count();
            let occurrences = message.options().filter(|option| option.number.0 == number).count();
            prop_assert!(values <= occurrences);
            if let Some(number) = message.unacceptable_option(&[]) {
                prop_assert!(number.is_critical());
                prop_assert!(message.options().any(|option| option.number == number));
            }
        }
    }
}

// The longest test.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn every_prefix_of_a_possible_request_decodes_as_the_reference_does(fields in message_of(0..2)) {
        assert_that_prefixes_agree_with_reference(&encode(&fields));
    }

    #[test]
    fn every_prefix_of_an_acknowledgement_or_a_reset_decodes_as_the_reference_does(fields in message_of(2..4)) {
        assert_that_prefixes_agree_with_reference(&encode(&fields));
    }
}

// RFC 7252 §3.1
#[test]
fn every_option_sequence_of_three_bytes_decodes_as_the_reference_does() {
    let mut datagram = [0x40, 0x01, 0, 0, 0, 0, 0];
    for first in 0..=u8::MAX {
        for second in 0..=u8::MAX {
            // The kinds of nibbles, and low bytes.
            for third in [0x00, 0x01, 0x0c, 0x0d, 0x0e, 0x0f, 0xc0, 0xd0, 0xe0, 0xf0, 0xf2, 0xf3, 0xfe, 0xff] {
                datagram[4..].copy_from_slice(&[first, second, third]);
                assert_agrees_with_reference(&datagram);
            }
        }
    }
}

// RFC 7252 §3.1
#[test]
fn every_option_number_and_length_around_an_extension_survives() {
    let numbers = [0, 1, 11, 12, 13, 14, 267, 268, 269, 270, 524, 525, 65_534, u16::MAX];
    let lengths = [0, 1, 12, 13, 14, 268, 269, 270, 524, 525, 65_535, 65_536, 65_803, 65_804];
    for first in numbers {
        for second in numbers.into_iter().filter(|&second| second >= first) {
            for length in lengths {
                let options = vec![(first, vec![1; length]), (second, vec![2; length])];
                let fields = Fields { ty: 1, code: 1, id: 1, token: Vec::new(), options, payload: vec![3] };
                let datagram = encode(&fields);
                let message = Message::decode(&datagram).expect("well-formed");
                assert_eq!(fields_of(&message), fields);
            }
        }
    }
}

// RFC 8974 §2.1 (Q401, Q402)
#[test]
fn every_token_length_around_an_extension_survives() {
    for length in [0, 8, 9, 12, 13, 14, 268, 269, 270, 525, 65_803, 65_804] {
        let token = vec![7; length];
        let fields = Fields { ty: 1, code: 1, id: 1, token, options: vec![(11, b"a".to_vec())], payload: vec![3] };
        let datagram = encode(&fields);
        let beside = 4 + usize::from(length > 12) + usize::from(length > 268) + 2 + 2;
        assert_eq!(datagram.len(), beside + length);
        let message = Message::decode_extended(&datagram).expect("well-formed");
        assert_eq!(fields_of(&message), fields);
        assert_eq!(message.token_bytes(), fields.token);
        for end in (0..datagram.len()).step_by(1 + length / 20) {
            assert_agrees_with_reference(&datagram[..end]);
        }
    }
    assert!(Token::extended(&[0; 65_805]).is_none());
}

// RFC 8974 §2.1 (Q403)
#[test]
fn a_token_length_of_15_is_a_format_error_even_with_extended_tokens() {
    let datagram = [&[0x4f, 1, 0, 7][..], &[0; 300]].concat();
    for refused in [Message::decode(&datagram), Message::decode_extended(&datagram)] {
        let error = refused.expect_err("15 is reserved");
        assert_eq!(
            (error.kind, error.header.map(|header| header.id)),
            (DecodeErrorKind::TokenLength, Some(MessageId(7)))
        );
    }
}

// RFC 7252 §3.1, §12.2
#[test]
fn deltas_that_add_up_to_more_than_65535_are_refused_at_every_split() {
    for first in (0..=u16::MAX).step_by(251).chain([u16::MAX]) {
        let mut datagram = [0_u8; 32];
        let end = Encoder::new(&mut datagram, Type::Confirmable, Code::GET, MessageId(1), &Token::EMPTY)
            .expect("a header fits")
            .option(OptionNumber(first), &[])
            .expect("an option fits")
            .finish();
        for (past, legal) in [(0, true), (1, false), (268, false)] {
            let delta = u32::from(u16::MAX - first) + past;
            let second = match delta {
                0..=12 => vec![u8::try_from(delta << 4).expect("a nibble")],
                13..=268 => vec![0xd0, u8::try_from(delta - 13).expect("a byte")],
                _ => match u16::try_from(delta - 269) {
                    Ok(extension) => [&[0xe0][..], &extension.to_be_bytes()].concat(),
                    Err(_) => continue,
                },
            };
            let datagram = [&datagram[..end], &second].concat();
            assert_eq!(Message::decode(&datagram).is_ok(), legal, "{first} + {delta}");
            assert_agrees_with_reference(&datagram);
        }
    }
}

fn assert_that_prefixes_agree_with_reference(datagram: &[u8]) {
    for length in 0..datagram.len() {
        assert_agrees_with_reference(&datagram[..length]);
    }
}

fn assert_agrees_with_reference(datagram: &[u8]) {
    let message = Message::decode(datagram);
    if let Ok(message) = message {
        let alone = Content::decode(message.code(), message.token().tkl(), &datagram[4..]);
        assert_eq!(alone, Ok(message.content()), "{datagram:02x?}");
    }
    let decoded = message.map(|message| fields_of(&message));
    assert_eq!(decoded.ok(), reference::decode(datagram, 8), "{datagram:02x?}");
    let message = Message::decode_extended(datagram);
    if let Ok(message) = message {
        let alone = Content::decode_extended(message.code(), message.token().tkl(), &datagram[4..]);
        assert_eq!(alone, Ok(message.content()), "{datagram:02x?}");
    }
    let decoded = message.map(|message| fields_of(&message));
    assert_eq!(decoded.ok(), reference::decode(datagram, 65_804), "{datagram:02x?}");
}

fn fields_of(message: &Message<'_>) -> Fields {
    let ty = TYPES.iter().position(|&ty| ty == message.ty()).and_then(|ty| u8::try_from(ty).ok());
    Fields {
        ty: ty.expect("all types are listed"),
        code: message.code().0,
        id: message.id().0,
        token: message.token().as_slice().to_vec(),
        options: message.options().map(|option| (option.number.0, option.value.to_vec())).collect(),
        payload: message.payload().to_vec(),
    }
}

fn encode(fields: &Fields) -> Vec<u8> {
    let mut buffer = vec![0; 200_000];
    let length = try_encode(fields, &mut buffer).expect("the buffer is long enough");
    buffer.truncate(length);
    buffer
}

fn try_encode(fields: &Fields, buffer: &mut [u8]) -> Option<usize> {
    let token = Token::extended(&fields.token).expect("short enough");
    let ty = TYPES[usize::from(fields.ty)];
    let mut encoder = Encoder::new(buffer, ty, Code(fields.code), MessageId(fields.id), &token).ok()?;
    for (number, value) in &fields.options {
        encoder.option(OptionNumber(*number), value).ok()?;
    }
    Some(encoder.payload(&fields.payload).ok()?.finish())
}

fn encode_body(body: &Body) -> Vec<u8> {
    let token = Token::new(&[1, 2]).expect("short enough");
    let mut buffer = vec![0; 6 + body.len()];
    let length = Encoder::new(&mut buffer, Type::Confirmable, Code::POST, MessageId(7), &token)
        .and_then(|mut encoder| encoder.body(body).map(|encoder| encoder.finish()))
        .expect("the buffer is long enough");
    buffer.truncate(length);
    buffer
}

fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || vec(any::<u8>(), 0..48);
    prop_oneof![
        bytes(),
        (0_u8..64, any::<[u8; 3]>(), bytes())
            .prop_map(|(first, header, rest)| { [&[0x40 | first][..], &header, &rest].concat() }),
        // Small bytes form many short options.
        (any::<[u8; 3]>(), vec(prop_oneof![0_u8..0x40, any::<u8>()], 0..48))
            .prop_map(|(header, rest)| { [&[0x40][..], &header, &rest].concat() }),
    ]
}

fn message() -> impl Strategy<Value = Fields> {
    message_of(0..4)
}

prop_compose! {
    fn message_of(types: Range<u8>)(
        ty in types,
        code in 1_u8..,
        id: u16,
        token in token(),
        mut options in vec((option_number(), option_value()), 0..6),
        payload in vec(any::<u8>(), 0..32),
    ) -> Fields {
        options.sort_by_key(|(number, _)| *number);
        Fields { ty, code, id, token, options, payload }
    }
}

fn token() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![6 => vec(any::<u8>(), 0..=8), 1 => vec(any::<u8>(), 9..20), 1 => vec(any::<u8>(), 260..280)]
}

fn option_number() -> impl Strategy<Value = u16> {
    prop_oneof![0_u16..=64, 200_u16..=300, 500_u16..=600, any::<u16>()]
}

fn option_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![8 => vec(any::<u8>(), 0..16), 1 => vec(any::<u8>(), 260..280)]
}
