//! From outer to inner messages (RFC 8613 §8.2, §8.4).

use alloc::vec::Vec;
use core::fmt;

use smallvec::SmallVec;

use super::classes::is_taken_from_outside;
use super::cose::{additional_data, open};
use super::{Binding, Context, EndId, OptionValue, PartialIv, Refused};
use crate::codec::{Code, Content, Encoder, Message, MessagePool, OptionNumber, OwnedMessage, RawOption, Token};

/// A request that came from who it says, and did not come before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprotected {
    /// The inner request, with type, message ID and token of the outer one, and those of its options that proxies use.
    pub message: OwnedMessage,
    /// What its responses are to be protected with.
    pub binding: Binding,
}

/// A response that came from who was asked, and answers what was asked.
///
/// Of the notifications of an observation, each is newer than all before it: older ones are [refused](Refused::Replayed).
/// So their Observe options need not be compared any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprotectedResponse {
    /// The inner response, with type, message ID and token of the outer one. The Observe option of a notification has the
    /// lower 24 bits of `number` (RFC 8613 §4.1.3.5.2), or 0 without one.
    pub message: OwnedMessage,
    /// The number that its sender gave it; `None` if it took that of the request.
    pub number: Option<u64>,
}

/// Buffers for decrypting one message after the other.
#[derive(Default)]
pub(super) struct Workspace {
    /// The ciphertext, and then the text.
    pub(super) text: Vec<u8>,
    /// The message that is made of it.
    pub(super) message: Vec<u8>,
}

/// Hides the plaintext of the last message.
impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Workspace")
    }
}

/// The option of a protected message, and what it protects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sealed<'a> {
    pub(super) option: OptionValue<'a>,
    message: Message<'a>,
}

impl<'a> Sealed<'a> {
    /// The message, if its only OSCORE option says what one can, and there is something encrypted.
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

/// What a message has to be protected with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// Who gave the request its number, and which.
    pub(super) request: (EndId, PartialIv),
    /// Whose number is the nonce of this message, and which it is.
    pub(super) counted: (EndId, PartialIv),
}

impl Context {
    /// Decrypts into the workspace, and answers what was encrypted.
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

/// The inner message in place of the outer one, with this value of Observe if the inner one has that option.
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
        // What is protected goes before what is not.
        if options.iter().take(inner_ones).all(|inner| inner.number != option.number) {
            options.push(option);
        }
    }
    options.sort_by_key(|option| option.number);

    // An option can need more bytes for its number only by those of an option before it that is left out.
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

/// Bytes of the longest value of Observe.
const LONGEST_OBSERVE: usize = 3;
