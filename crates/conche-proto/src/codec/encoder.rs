//! [`Encoder`]: writes a message into the caller's buffer (RFC 7252 §3); [`Overhead`]: its size.

use alloc::vec::Vec;

use smallvec::SmallVec;
use thiserror::Error;

use super::message::HEADER_LENGTH;
use super::option::{OptionHeader, PAYLOAD_MARKER};
use super::{Body, Code, Header, MAX_OPTION_LENGTH, Message, MessageId, OptionNumber, Token, Type, encode_uint};

/// Writes one message: framing and token, then options in ascending order, then the payload.
///
/// After an error the buffer must not be sent.
#[derive(Debug)]
pub struct Encoder<'b> {
    buffer: &'b mut [u8],
    length: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The message is Empty: nothing may follow.
    Empty,
    /// Options from this number on may follow.
    Options(OptionNumber),
    /// Nothing may follow.
    Payload,
}

impl<'b> Encoder<'b> {
    /// Writes header and token.
    ///
    /// # Errors
    ///
    /// [`EncodeError::BufferTooSmall`]; [`EncodeError::EmptyWithContent`] for an Empty message with
    /// a token.
    #[inline]
    pub fn new(buffer: &'b mut [u8], ty: Type, code: Code, id: MessageId, token: &Token) -> Result<Self, EncodeError> {
        let stage = match (code.is_empty(), token.is_empty()) {
            (true, true) => Stage::Empty,
            (true, false) => return Err(EncodeError::EmptyWithContent),
            (false, _) => Stage::Options(OptionNumber(0)),
        };
        let framing = Header { ty, code, id }.to_bytes(token.tkl());
        Ok(Self { stage, ..Self::framed(buffer, &framing, token)? })
    }

    /// Writes the framing of another transport, then the token. `framing` must contain the code and
    /// the [token length](Token::tkl). The length of options and payload is that of the [`Body`].
    ///
    /// # Errors
    ///
    /// [`EncodeError::BufferTooSmall`].
    ///
    /// ```
    /// use conche_proto::codec::{Body, Code, Encoder, Token};
    ///
    /// // CoAP over TCP (RFC 8323 §3.2): the length in the upper half of the first byte, below 13, and the token's.
    /// let body = Body::builder().path("/abc").build()?;
    /// let token = Token::new(&[7]).expect("a short token");
    /// let lengths = u8::try_from(body.len())? << 4 | token.tkl();
    /// let mut frame = [0; 16];
    /// let length = Encoder::framed(&mut frame, &[lengths, Code::GET.0], &token)?.body(&body)?.finish();
    /// assert_eq!(&frame[..length], b"\x41\x01\x07\xb3abc");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn framed(buffer: &'b mut [u8], framing: &[u8], token: &Token) -> Result<Self, EncodeError> {
        let mut encoder = Self { buffer, length: 0, stage: Stage::Options(OptionNumber(0)) };
        encoder.write(framing)?;
        match token.padded() {
            Some((bytes, length)) => encoder.write_padded(bytes, length)?,
            None => encoder.write_extended(token)?,
        }
        Ok(encoder)
    }

    /// Writes the extended token length and the token (RFC 8974 §2.1).
    #[cold]
    fn write_extended(&mut self, token: &Token) -> Result<(), EncodeError> {
        self.write(&length_extension(token))?;
        self.write(token.as_slice())
    }

    /// Appends an option.
    ///
    /// # Errors
    ///
    /// [`EncodeError::OptionOrder`] after an option with a higher number,
    /// [`EncodeError::AfterPayload`], [`EncodeError::OptionTooLong`],
    /// [`EncodeError::EmptyWithContent`], [`EncodeError::BufferTooSmall`].
    #[inline]
    pub fn option(&mut self, number: OptionNumber, value: &[u8]) -> Result<&mut Self, EncodeError> {
        self.start_option(number, value.len())?;
        self.write(value)?;
        Ok(self)
    }

    /// Appends an option of format uint in its shortest form.
    ///
    /// # Errors
    ///
    /// As for [`option`](Self::option).
    #[inline]
    pub fn uint(&mut self, number: OptionNumber, value: u32) -> Result<&mut Self, EncodeError> {
        let value = encode_uint(value);
        self.start_option(number, value.len().into())?;
        self.write_padded(value.padded(), value.len())?;
        Ok(self)
    }

    /// Appends encoded options and payload, directly after the token: the first delta counts from
    /// 0.
    ///
    /// # Errors
    ///
    /// [`EncodeError::OptionOrder`] after an option, [`EncodeError::AfterPayload`],
    /// [`EncodeError::EmptyWithContent`], [`EncodeError::BufferTooSmall`].
    #[inline]
    pub fn body(&mut self, body: &Body) -> Result<&mut Self, EncodeError> {
        match self.stage {
            _ if body.is_empty() => return Ok(self),
            Stage::Options(OptionNumber(0)) => {}
            Stage::Options(previous) => return Err(EncodeError::OptionOrder { number: OptionNumber(0), previous }),
            Stage::Payload => return Err(EncodeError::AfterPayload),
            Stage::Empty => return Err(EncodeError::EmptyWithContent),
        }
        self.write(body.as_bytes())?;
        self.stage = Stage::Payload;
        Ok(self)
    }

    /// Appends marker and payload; nothing for an empty payload.
    ///
    /// # Errors
    ///
    /// [`EncodeError::AfterPayload`], [`EncodeError::EmptyWithContent`],
    /// [`EncodeError::BufferTooSmall`].
    pub fn payload(&mut self, payload: &[u8]) -> Result<&mut Self, EncodeError> {
        match self.stage {
            _ if payload.is_empty() => return Ok(self),
            Stage::Options(_) => {}
            Stage::Payload => return Err(EncodeError::AfterPayload),
            Stage::Empty => return Err(EncodeError::EmptyWithContent),
        }
        self.write(&[PAYLOAD_MARKER])?;
        self.write(payload)?;
        self.stage = Stage::Payload;
        Ok(self)
    }

    /// Returns the length of the message in bytes.
    #[must_use]
    pub fn finish(&self) -> usize {
        self.length
    }

    #[inline]
    fn start_option(&mut self, number: OptionNumber, length: usize) -> Result<(), EncodeError> {
        let previous = match self.stage {
            Stage::Options(previous) => previous,
            Stage::Payload => return Err(EncodeError::AfterPayload),
            Stage::Empty => return Err(EncodeError::EmptyWithContent),
        };
        let delta = number.0.checked_sub(previous.0).ok_or(EncodeError::OptionOrder { number, previous })?;
        let header = OptionHeader::new(delta, length).ok_or(EncodeError::OptionTooLong { number })?;
        self.write_padded(header.padded(), header.len())?;
        self.stage = Stage::Options(number);
        Ok(())
    }

    /// Writes `length` bytes of `padded`. If there is room, one instruction stores all instead of a
    /// loop; the next write overwrites the excess.
    #[inline]
    fn write_padded<const N: usize>(&mut self, padded: [u8; N], length: u8) -> Result<(), EncodeError> {
        match self.buffer.get_mut(self.length..).and_then(|free| free.first_chunk_mut::<N>()) {
            Some(target) => {
                *target = padded;
                self.length += usize::from(length);
                Ok(())
            }
            None => self.write(padded.get(..length.into()).unwrap_or(&padded)),
        }
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        let free = self.buffer.get_mut(self.length..).unwrap_or_default();
        let target = free.get_mut(..bytes.len()).ok_or(EncodeError::BufferTooSmall)?;
        target.copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }
}

/// Encodes a ping, an Empty ACK or a RST (RFC 7252 §4.1).
#[must_use]
pub fn encode_empty(ty: Type, id: MessageId) -> [u8; HEADER_LENGTH] {
    Header { ty, code: Code::EMPTY, id }.to_bytes(0)
}

/// Encodes the extended length of a token of at least 13 bytes (RFC 8974 §2.1).
fn length_extension(token: &Token) -> SmallVec<[u8; 8]> {
    token.length_field().map_or_else(SmallVec::new, |field| {
        let extension = field.extension.to_be_bytes();
        let length = usize::from(field.extension_bits / 8);
        extension.get(extension.len().saturating_sub(length)..).unwrap_or_default().into()
    })
}

#[inline]
pub(crate) fn encode_to_vec(ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> Vec<u8> {
    if code.is_empty() {
        return encode_empty(ty, id).to_vec();
    }
    let header = Header { ty, code, id }.to_bytes(token.tkl());
    let mut datagram = Vec::with_capacity(Overhead::of(token).message(body));
    match token.padded() {
        Some((bytes, length)) => {
            let mut front = [0; HEADER_LENGTH + Token::MAX_LENGTH];
            let (first, rest) = front.split_at_mut(HEADER_LENGTH);
            first.copy_from_slice(&header);
            rest.copy_from_slice(&bytes);
            datagram.extend_from_slice(front.get(..HEADER_LENGTH + usize::from(length)).unwrap_or(&front));
        }
        None => {
            datagram.extend_from_slice(&header);
            datagram.extend_from_slice(&length_extension(token));
            datagram.extend_from_slice(token.as_slice());
        }
    }
    datagram.extend_from_slice(body.as_bytes());
    datagram
}

/// Reason why a message could not be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The message is longer than the buffer.
    #[error("the message does not fit into the buffer")]
    BufferTooSmall,
    /// Options were not written in ascending order.
    #[error("option {number} comes after option {previous}: options are written in ascending order of their numbers")]
    OptionOrder {
        /// The rejected option.
        number: OptionNumber,
        /// The option before it.
        previous: OptionNumber,
    },
    /// The option value exceeds [`MAX_OPTION_LENGTH`].
    #[error("the value of option {number} exceeds {MAX_OPTION_LENGTH} bytes")]
    OptionTooLong {
        /// The option.
        number: OptionNumber,
    },
    /// Something was written after the payload.
    #[error("nothing can follow the payload")]
    AfterPayload,
    /// An Empty message has no token, options or payload (RFC 7252 §4.1).
    #[error("an Empty message carries neither token nor options nor payload")]
    EmptyWithContent,
}

/// Longest Block or Q-Block option, in bytes: header and value.
pub(crate) const BLOCK_BYTES: usize = 2 + 3;
/// Longest encoding of Size1 or Size2, in bytes.
pub(crate) const SIZE_BYTES: usize = 2 + 4;

/// Longest Observe option, in bytes: header and value.
pub(crate) const OBSERVE_BYTES: usize = 1 + 3;

pub(crate) const MARKER_BYTES: usize = 1;

/// The size of a message beyond its [`Body`]: header, token, and later options. Every size check
/// uses this type, so that checked and sent size are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Overhead(usize);

impl Overhead {
    #[inline]
    pub(crate) fn of(token: &Token) -> Self {
        Self(HEADER_LENGTH + token.encoded_len())
    }

    pub(crate) const fn of_token_length(length: usize) -> Self {
        Self(HEADER_LENGTH + Token::encoded_len_of(length))
    }

    #[inline]
    pub(crate) fn of_response_to(message: &Message<'_>) -> Self {
        Self(HEADER_LENGTH + message.encoded_token_len())
    }

    #[inline]
    pub(crate) const fn with(self, bytes: usize) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    #[inline]
    pub(crate) const fn and(self, bytes: usize) -> usize {
        self.0.saturating_add(bytes)
    }

    #[inline]
    pub(crate) fn message(self, body: &Body) -> usize {
        self.and(body.len())
    }

    #[inline]
    pub(crate) fn fits(self, body: &Body, limit: usize) -> bool {
        self.message(body) <= limit
    }

    /// Returns the room for a body in a message of `limit` bytes.
    #[inline]
    pub(crate) const fn room(self, limit: usize) -> Option<usize> {
        limit.checked_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::codec::{Code, MessageId, OptionNumber, Type, encode_to_vec, encode_uint};

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
