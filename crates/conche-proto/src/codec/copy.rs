//! Which copy of a request a datagram is, or answers: an option for experiments (RFC 7252 §12.2), patched into each
//! datagram as it leaves.
//!
//! All copies of a request have one message ID, so a client cannot tell which of them an answer is for. With this option each copy of a
//! Confirmable request has its number, and a server that knows the option answers each copy with the number that it had. It is
//! elective: who does not know it, ignores it. It is no part of a cache key, so that it is no part of what a request for a
//! block asks for either (RFC 7959 §2.4); the price is that it is safe to forward, and a proxy that does not know it passes
//! on numbers of its own first copy. A client then measures from that, which is longer than the truth.

use core::num::NonZeroU8;

use super::wire::OptionHeader;
use super::{Message, OptionNumber};

/// The number of a copy, from 1 on, in one byte. Experimental use: 65000 to 65535.
pub(crate) const COPY: OptionNumber = OptionNumber(65_020);

/// The bytes of the option at most: its header with a difference of two bytes, and its value.
pub(crate) const NUMBERED_COPY_BYTES: u16 = 4;

/// Which copy a message is, or answers, if it says so.
pub(crate) fn copy_of(message: &Message<'_>) -> Option<NonZeroU8> {
    message.uint(COPY).and_then(|copy| u8::try_from(copy).ok()).and_then(NonZeroU8::new)
}

/// Says in the message of `length` bytes at the front of `buf` which copy it is, or answers, and answers how long it is then. A message
/// with no room for that within `longest` bytes stays as it is, and so does one with an option of this or a higher number.
pub(crate) fn number_copy(
    buf: &mut [u8],
    length: usize,
    longest: usize,
    longest_token: usize,
    copy: NonZeroU8,
) -> usize {
    let numbered = || {
        let message = Message::read(buf.get(..length)?, longest_token).ok()?;
        let (end, last) = message.options_end();
        let header = OptionHeader::new(COPY.0.checked_sub(last.0).filter(|&delta| delta > 0)?, 1)?;
        let grown = length + usize::from(header.len()) + 1;
        (grown <= longest.min(buf.len()) && !message.code().is_empty()).then_some((4 + end, header, grown))
    };
    let Some((end, header, grown)) = numbered() else { return length };
    buf.copy_within(end..length, end + grown - length);
    let bytes = header.bytes().chain([copy.get()]);
    buf[end..].iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    grown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Body, Code, Encoder, MessageId, Token, Type};

    fn numbered(body: &Body, longest: usize) -> ([u8; 64], usize) {
        let mut buf = [0; 64];
        let token = Token::new(&[7, 8]).expect("short");
        let mut encoder = Encoder::new(&mut buf, Type::Confirmable, Code::GET, MessageId(9), &token).expect("room");
        let length = encoder.body(body).expect("room").finish();
        let length = number_copy(&mut buf, length, longest, 8, NonZeroU8::MIN);
        (buf, length)
    }

    #[test]
    fn it_is_elective_and_no_part_of_a_cache_key() {
        assert!(!COPY.is_critical() && !COPY.is_unsafe() && COPY.is_no_cache_key());
        assert!((65_000..=65_535).contains(&COPY.0));
    }

    #[test]
    fn it_stands_behind_all_options_and_before_the_payload() {
        let bodies = [
            Body::EMPTY,
            Body::builder().path("/a/b").build().expect("legal"),
            Body::builder().path("/a").payload("hello").build().expect("legal"),
            Body::builder().payload("hello").build().expect("legal"),
        ];
        for body in bodies {
            let (buf, length) = numbered(&body, 64);
            let message = Message::decode(&buf[..length]).expect("well-formed");
            assert_eq!(copy_of(&message), Some(NonZeroU8::MIN));
            assert_eq!(message.options().count(), body.options().count() + 1);
            assert_eq!((message.payload(), message.token_bytes()), (body.payload().as_ref(), &[7, 8][..]));
        }
    }

    #[test]
    fn without_room_or_behind_a_higher_option_the_message_stays_as_it_is() {
        let body = Body::builder().path("/a").build().expect("legal");
        let (_, length) = numbered(&body, 64);
        assert_eq!(numbered(&body, length - 1).1, 4 + 2 + body.len());
        let higher = Body::builder().uint(OptionNumber(65_021), 1).build().expect("legal");
        assert_eq!(numbered(&higher, 64).1, 4 + 2 + higher.len());
    }
}
