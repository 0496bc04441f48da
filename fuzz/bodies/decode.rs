//! Any datagram is decoded or refused, and a decoded message's accessors are consistent.

use conche_proto::codec::{DecodeErrorKind, Message, OptionNumber, OwnedMessage};

/// Decodes `datagram` and asks everything.
pub fn run(datagram: &[u8]) {
    let extended = Message::decode_extended(datagram);
    match Message::decode(datagram) {
        Ok(message) => {
            assert_eq!(extended, Ok(message), "what RFC 7252 allows RFC 8974 allows");
            ask(&message);
        }
        Err(error) => {
            let silent = matches!(error.kind, DecodeErrorKind::TooShort | DecodeErrorKind::Version);
            assert_eq!(
                error.header.is_none(),
                silent,
                "only what has a header of version 1 can be rejected by a Reset"
            );
            assert!(!error.to_string().is_empty());
            match extended {
                Ok(message) => {
                    assert!(error.kind == DecodeErrorKind::TokenLength && message.token_bytes().len() > 8);
                    ask(&message);
                }
                Err(other) => assert_eq!(other.header, error.header),
            }
        }
    }
}

fn ask(message: &Message<'_>) {
    let owned = OwnedMessage::from(*message);
    assert_eq!(owned.view(), *message);

    let mut previous = OptionNumber(0);
    for option in message.options() {
        assert!(option.number >= previous, "options ascend");
        previous = option.number;
    }
    let known = [OptionNumber::BLOCK1, OptionNumber::BLOCK2, OptionNumber::OSCORE, OptionNumber(65_001)];
    let unacceptable = message.unacceptable_option(&[]);
    assert!(unacceptable.is_none_or(OptionNumber::is_critical));
    assert!(unacceptable.is_some() || message.unacceptable_option(&known).is_none(), "knowing more accepts more");

    for number in (0..=300).map(OptionNumber).filter(|number| number.spec().is_some()) {
        let values = message.values(number).count();
        assert!(values <= message.options().filter(|option| option.number == number).count());
        assert_eq!(message.option(number).is_some(), values > 0);
        assert!(message.uint(number).is_none() || values > 0);
        let once = number.spec().is_some_and(|spec| !spec.repeatable);
        assert!(!once || values <= 1);
    }

    let path = message.uri_path();
    assert!(path.starts_with('/') && path.is_ascii());
    assert_eq!(message.uri_queries().count(), message.values(OptionNumber::URI_QUERY).count());
    assert!(!message.to_string().contains(char::is_control), "nothing printed controls a terminal");
}
