//! [`Encoder`]: writes a message into the caller's buffer (RFC 7252 §3).

use alloc::vec::Vec;

use smallvec::SmallVec;
use thiserror::Error;

use super::header::HEADER_LENGTH;
use super::wire::{OptionHeader, PAYLOAD_MARKER};
use super::{Body, Code, Header, MAX_OPTION_LENGTH, MessageId, OptionNumber, Overhead, Token, Type, encode_uint};

/// Writes one message: framing and token first, then options in ascending order, then the payload.
///
/// After an error the buffer holds a truncated message, which must not be sent.
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
    /// Options with this number or a higher one may follow.
    Options(OptionNumber),
    /// The body or payload is complete: nothing may follow.
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

    /// Writes the framing of another transport, then the token. `framing` must announce the code
    /// and the [token length](Token::tkl). If it announces the length of options and payload, that
    /// is the length of the [`Body`].
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

    /// Appends encoded options and payload. They must be everything that follows the token, since
    /// the first option's delta counts from 0.
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

    /// Appends the payload marker and the payload; nothing for an empty payload.
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

    /// Returns the length of the message in bytes, from the start of the buffer.
    #[must_use]
    pub fn finish(&self) -> usize {
        self.length
    }

    /// Writes the header of an option.
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

    /// Writes the first `length` bytes of `padded`. If there is room, all of `padded` is stored
    /// with one instruction instead of a loop; the next write overwrites the excess.
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

/// Encodes an Empty message: a ping, an Empty ACK or a RST (RFC 7252 §4.1).
#[must_use]
pub fn encode_empty(ty: Type, id: MessageId) -> [u8; HEADER_LENGTH] {
    Header { ty, code: Code::EMPTY, id }.to_bytes(0)
}

/// Encodes the extended length of a token of at least 13 bytes, which stands between header and
/// token (RFC 8974 §2.1).
fn length_extension(token: &Token) -> SmallVec<[u8; 8]> {
    token.length_field().map_or_else(SmallVec::new, |field| {
        let extension = field.extension.to_be_bytes();
        let length = usize::from(field.extension_bits / 8);
        extension.get(extension.len().saturating_sub(length)..).unwrap_or_default().into()
    })
}

/// Encodes a message into a new buffer without zeroing the buffer first. An Empty message consists
/// of its header (RFC 7252 §4.1).
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

/// AbandonReason a message could not be encoded.
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
    /// Options or a payload were written after the payload.
    #[error("nothing can follow the payload")]
    AfterPayload,
    /// An Empty message must not have a token, options or a payload (RFC 7252 §4.1).
    #[error("an Empty message carries neither token nor options nor payload")]
    EmptyWithContent,
}
