//! Example-based tests of the codec; `tests/codec` has properties over all datagrams.

mod body;
mod content;
mod encode;
mod print;
mod recognition;
mod sharing;
mod uri;
mod wire;

use alloc::vec;
use alloc::vec::Vec;

use super::{Code, Encoder, MessageId, OptionNumber, Token, Type};

/// Encodes a Confirmable message with these options, in ascending order, and an empty token.
fn datagram(code: Code, options: &[(OptionNumber, &[u8])], payload: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 2048];
    let mut encoder = Encoder::new(&mut buffer, Type::Confirmable, code, MessageId(0x1a2b), &Token::EMPTY)
        .expect("the buffer is long enough");
    for (number, value) in options {
        encoder.option(*number, value).expect("the options ascend and fit");
    }
    let length = encoder.payload(payload).expect("the payload fits").finish();
    buffer.truncate(length);
    buffer
}
