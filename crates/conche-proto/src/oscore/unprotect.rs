//! Converts outer to inner messages (RFC 8613 §8.2, §8.4).

use alloc::vec::Vec;
use core::fmt;

use smallvec::SmallVec;

use super::classes::is_taken_from_outside;
use super::cose::{additional_data, open};
use super::{Binding, Context, EndId, OptionValue, PartialIv, Refused};
use crate::codec::{Code, Content, Encoder, Message, MessagePool, OptionNumber, OwnedMessage, RawOption, Token};

/// An authentic request that is not a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprotected {
    /// The inner request with type, message ID and token of the outer one, and the outer options
    /// for proxies.
    pub message: OwnedMessage,
    /// Protects the responses.
    pub binding: Binding,
}

/// An authentic response to the request.
///
/// Each notification of an observation is newer than all before it; older ones are
/// [refused](Refused::Replayed). Their Observe options need not be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprotectedResponse {
    /// The inner response with type, message ID and token of the outer one. The Observe option of a
    /// notification holds the lower 24 bits of `number` (RFC 8613 §4.1.3.5.2), or 0 without one.
    pub message: OwnedMessage,
    /// The sequence number of the response; `None` if it used the request's.
    pub number: Option<u64>,
}

/// Reusable buffers for decryption.
#[derive(Default)]
pub(super) struct Workspace {
    /// The ciphertext, then the plaintext.
    pub(super) text: Vec<u8>,
    pub(super) message: Vec<u8>,
}

/// Omits the plaintext of the last message.
impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Workspace")
    }
}

/// A protected message and its decoded option.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sealed<'a> {
    pub(super) option: OptionValue<'a>,
    message: Message<'a>,
}

impl<'a> Sealed<'a> {
    /// Decodes a message; it must have a single valid OSCORE option and a payload.
    pub(super) fn new(message: Message<'a>) -> Result<Self, Refused> {
        let mut values = message.options().filter(|option| option.number == OptionNumber::OSCORE);
        let (Some(first), None) = (values.next(), values.next()) else { return Err(Refused::Malformed) };
        let option = OptionValue::decode(first.value).ok_or(Refused::Malformed)?;
        if message.payload().is_empty() {
            return Err(Refused::Malformed);
        }
        Ok(Self { option, message })
    }

    pub(super) const fn message(&self) -> &Message<'a> {
        &self.message
    }
}

/// The parameters for decryption.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// Sender and number of the request.
    pub(super) request: (EndId, PartialIv),
    /// Sender and number that form the nonce of this message.
    pub(super) counted: (EndId, PartialIv),
}

impl Context {
    /// Decrypts a message into `text`; returns the inner message.
    pub(super) fn open<'w>(
        &self,
        sealed: &Sealed<'_>,
        key: Key,
        text: &'w mut Vec<u8>,
    ) -> Result<Content<'w>, Refused> {
        text.clear();
        text.extend_from_slice(sealed.message.payload());
        let (kid, number) = key.request;
        let (counted_by, counted) = key.counted;
        let nonce = self.nonce(counted_by, counted);
        let additional = additional_data(self.aead, kid, number);
        let length = open(self.aead, &self.recipient_key, nonce, &additional, text).map_err(|_| Refused::Forged)?;
        let (code, rest) = text.get(..length).and_then(|text| text.split_first()).ok_or(Refused::Forged)?;
        Content::decode(Code(*code), 0, rest).map_err(|_| Refused::Forged)
    }
}

/// Merges the inner message into the outer one, with this value of Observe if the inner message has
/// that option.
pub(super) fn merged(
    outer: &Message<'_>,
    inner: &Content<'_>,
    observe: Option<&[u8]>,
    datagram: &mut Vec<u8>,
    pool: &mut MessagePool,
) -> Option<OwnedMessage> {
    let mut options: SmallVec<[RawOption<'_>; 16]> = inner.options().collect();
    let inner_ones = options.len();
    if let Some(value) = observe {
        options
            .iter_mut()
            .filter(|option| option.number == OptionNumber::OBSERVE)
            .for_each(|option| option.value = value);
    }
    for option in outer.options().filter(|option| is_taken_from_outside(option.number)) {
        // Protected options have precedence.
        if options.iter().take(inner_ones).all(|inner| inner.number != option.number) {
            options.push(option);
        }
    }
    options.sort_by_key(|option| option.number);

    // The delta of an option grows only if an option before it is omitted, which frees as many
    // bytes.
    let most = outer.as_bytes().len() + inner.encoded_options().len() + inner.payload().len() + LONGEST_OBSERVE + 1;
    datagram.clear();
    datagram.resize(most, 0);
    let token = outer.token();
    let mut encoder = Encoder::new(datagram, outer.ty(), inner.code(), outer.id(), &token).ok()?;
    for option in options {
        encoder.option(option.number, option.value).ok()?;
    }
    let length = encoder.payload(inner.payload()).ok()?.finish();
    let message = Message::read(datagram.get(..length)?, Token::MAX_EXTENDED_LENGTH).ok()?;
    Some(OwnedMessage::pooled(message, pool))
}

/// Length of the longest Observe value in bytes.
const LONGEST_OBSERVE: usize = 3;
