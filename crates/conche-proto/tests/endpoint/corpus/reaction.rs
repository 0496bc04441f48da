//! Compares an endpoint's reaction with those of the corpus.

use conche_proto::codec::{Message, Type};

use super::entry::{Reaction, bytes};
use crate::support::wire::decode;

pub fn matches(accepted: &Reaction, sent: &[Vec<u8>]) -> bool {
    match (accepted, sent) {
        (Reaction::Silent, sent) => sent.is_empty(),
        (Reaction::Rst { hex } | Reaction::EmptyAck { hex }, [sent]) => *sent == bytes(hex),
        (Reaction::Response { ty, code, prefix, token, oscore_protected, .. }, [sent]) => {
            assert!(oscore_protected.is_none(), "not of this group");
            let message = decode(sent);
            ty.split('|').any(|ty| ty == message.ty().to_string())
                && format!("{:?}", message.code()) == *code
                && prefix.as_ref().is_none_or(|prefix| sent.starts_with(&bytes(prefix)))
                && token.as_ref().is_none_or(|token| message.token().as_slice() == bytes(token))
        }
        (Reaction::Any { .. }, sent) => sent.len() <= 1,
        (Reaction::Dtls { content_type, handshake_type }, _) => {
            panic!("DTLS {content_type}/{handshake_type} is deferred")
        }
        (Reaction::Rst { .. } | Reaction::EmptyAck { .. } | Reaction::Response { .. }, _) => false,
    }
}

pub fn check_absences(id: &str, must_not: &[String], sent: &[Vec<u8>]) {
    for absent in must_not {
        let happened: Box<dyn Fn(&Message<'_>) -> bool> = match absent.as_str() {
            "RST" => Box::new(|message| message.ty() == Type::Reset),
            "ACK" => Box::new(|message| message.ty() == Type::Acknowledgement),
            "any reply carrying a token" => Box::new(|message| !message.token().is_empty()),
            "RST with token" => Box::new(|message| message.ty() == Type::Reset && message.as_bytes().len() > 4),
            code if code.len() == 4 && code.as_bytes()[1] == b'.' => {
                Box::new(|message| format!("{:?}", message.code()) == *code)
            }
            // Checked through the server's occupancy.
            "allocation > 64 KiB" => Box::new(|_| false),
            other => panic!("{id}: unknown absence {other:?}"),
        };
        assert!(!sent.iter().any(|datagram| happened(&decode(datagram))), "{id}: {absent} must not happen");
    }
}
