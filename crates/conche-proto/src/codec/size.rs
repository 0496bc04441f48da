//! [`Overhead`]: the size of a message beyond its options and payload.
//!
//! Every size check of a message uses this type, so that the checked size equals the sent size: it
//! includes the encoded token and options that are added later.

use super::header::HEADER_LENGTH;
use super::{Body, Message, Token};

/// Longest encoding of a Block or Q-Block option, in bytes: two bytes of header, and the value.
pub(crate) const BLOCK_BYTES: usize = 2 + 3;
/// Longest encoding of Size1 or Size2, in bytes.
pub(crate) const SIZE_BYTES: usize = 2 + 4;

/// Longest encoding of Observe, in bytes: one byte of header, and a 24-bit number.
pub(crate) const OBSERVE_BYTES: usize = 1 + 3;

/// Size of the payload marker in bytes.
pub(crate) const MARKER_BYTES: usize = 1;

/// The size of a message beyond its [`Body`]: header, token, and options that are added later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Overhead(usize);

impl Overhead {
    /// Returns the size of header and token, including an extended token length (RFC 8974 §2.1).
    #[inline]
    pub(crate) fn of(token: &Token) -> Self {
        Self(HEADER_LENGTH + token.encoded_len())
    }

    /// Returns the size of the header and a token of `length` bytes.
    pub(crate) const fn of_token_length(length: usize) -> Self {
        Self(HEADER_LENGTH + Token::encoded_len_of(length))
    }

    /// Returns the overhead of a response to this message: header and the same token.
    #[inline]
    pub(crate) fn of_response_to(message: &Message<'_>) -> Self {
        Self(HEADER_LENGTH + message.encoded_token_len())
    }

    /// Adds `bytes` to the overhead.
    #[inline]
    pub(crate) const fn with(self, bytes: usize) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    /// Returns the size of a message with a body of `bytes`.
    #[inline]
    pub(crate) const fn and(self, bytes: usize) -> usize {
        self.0.saturating_add(bytes)
    }

    #[inline]
    pub(crate) fn message(self, body: &Body) -> usize {
        self.and(body.len())
    }

    /// Returns `true` if a message with this body has at most `limit` bytes.
    #[inline]
    pub(crate) fn fits(self, body: &Body, limit: usize) -> bool {
        self.message(body) <= limit
    }

    /// Returns the room for a body in a message of `limit` bytes; `None` if the overhead alone
    /// exceeds the limit.
    #[inline]
    pub(crate) const fn room(self, limit: usize) -> Option<usize> {
        limit.checked_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Code, MessageId, OptionNumber, Type, encode_to_vec, encode_uint};
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn an_encoded_message_has_the_computed_size_with_tokens_of_each_length() {
        let body = Body::builder().path("/a").payload("payload").build().expect("legal options");
        for length in [0, 1, 8, 9, 12, 13, 268, 269, 65_804] {
            let token = Token::extended(&vec![7; length]).expect("no longer than RFC 8974 allows");
            let datagram = encode_to_vec(Type::Confirmable, Code::PUT, MessageId(1), &token, &body);
            assert_eq!(Overhead::of(&token).message(&body), datagram.len());
            assert_eq!(Overhead::of_token_length(length), Overhead::of(&token));
            let message = Message::decode_extended(&datagram).expect("well-formed");
            assert_eq!(Overhead::of_response_to(&message), Overhead::of(&token));
        }
    }

    proptest! {
        #[test]
        fn options_that_are_added_take_no_more_than_is_reserved_for_them(
            numbers in prop::collection::btree_set(1..400_u16, 0..6), lengths in prop::collection::vec(0..300_usize, 6),
        ) {
            use OptionNumber as N;
            let mut body = Body::builder();
            for (number, length) in numbers.into_iter().zip(lengths) {
                let with = body.clone().option(N(number), &vec![1; length]);
                // Registered options have length bounds.
                body = if with.clone().build().is_ok() { with } else { body };
            }
            let body = body.build().expect("each option was accepted");
            let grown = |added: &[(N, u32)]| {
                let added: vec::Vec<_> = added.iter().map(|(number, value)| (*number, encode_uint(*value))).collect();
                body.rewritten(|_| true, &added, b"").len() - body.len()
            };
            for number in [N::BLOCK1, N::BLOCK2, N::Q_BLOCK1, N::Q_BLOCK2] {
                prop_assert!(grown(&[(number, 0xff_ffff)]) <= BLOCK_BYTES);
                prop_assert!(grown(&[(number, 0xff_ffff), (N::SIZE1, u32::MAX)]) <= BLOCK_BYTES + SIZE_BYTES);
                prop_assert!(grown(&[(number, 0xff_ffff), (N::SIZE2, u32::MAX)]) <= BLOCK_BYTES + SIZE_BYTES);
            }
            prop_assert!(grown(&[(N::OBSERVE, 0xff_ffff)]) <= OBSERVE_BYTES);
        }
    }
}
