//! From inner to outer messages (RFC 8613 §8.1, §8.3).

use alloc::vec::Vec;

use smallvec::SmallVec;
use thiserror::Error;

use super::classes::{Class, class};
use super::cose::additional_data;
use super::proxy_uri::Divided;
use super::{Binding, Context, EndId, OptionValue, PartialIv};
use crate::codec::{Body, Code, OptionNumber, RawOption, content_length, write_content};

/// A request that is ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// The outer code: POST, or FETCH for a request with Observe (RFC 8613 §4.2).
    pub code: Code,
    /// The outer options, and the ciphertext as payload.
    pub body: Body,
    /// What its responses are to be checked against.
    pub binding: Binding,
}

/// A response that is ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedResponse {
    /// The outer code: 2.04, or 2.05 for a notification (RFC 8613 §4.2).
    pub code: Code,
    /// The outer options, and the ciphertext as payload.
    pub body: Body,
}

/// A message could not be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtectError {
    /// The context is not there, or not there any more.
    #[error("there is no such security context")]
    UnknownContext,
    /// No number may be used before the application has stored that it may have been; see
    /// [`Contexts::poll_reserve`](super::Contexts::poll_reserve). It is worth another try after that.
    #[error("no sequence number is reserved: the application has not stored how far they are used")]
    NotReserved,
    /// All 2⁴⁰ numbers are used: new credentials are needed (RFC 8613 §7.2.1).
    #[error("all sequence numbers are used: new credentials are needed")]
    Exhausted,
    /// The message has an OSCORE option, which only a protected one can have (RFC 8613 §4.1.3.7).
    #[error("the message is protected already")]
    Nested,
    /// The binding is that of a request that this end made, and not one that it answers.
    #[error("a response was to be protected for a request that this end itself made")]
    OwnRequest,
    /// A Proxy-Uri that is no absolute URI cannot be divided into what a proxy has to see and what it must not
    /// (RFC 8613 §4.1.3.3).
    #[error("the value of Proxy-Uri is no absolute URI with an authority")]
    ProxyUri,
    /// Code, options and payload that are encrypted have more than 65535 bytes.
    #[error("the message is longer than what can be encrypted")]
    TooLong,
}

/// The most that AES-CCM with a nonce of 13 bytes can encrypt.
const LONGEST_TEXT: usize = 0xffff;

type Options<'a> = SmallVec<[RawOption<'a>; 16]>;

/// What is to be protected, divided into what everybody may see and what nobody may.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    code: Code,
    outer: Options<'a>,
    inner: Options<'a>,
    payload: &'a [u8],
}

impl<'a> Plain<'a> {
    /// `divided` is what becomes of a Proxy-Uri, if there is one.
    pub(super) fn new(code: Code, body: &'a Body, divided: Option<&'a Divided>) -> Result<Self, ProtectError> {
        let (mut outer, mut inner) = (Options::new(), Options::new());
        for option in body.options() {
            match class(option.number) {
                Class::Inner => inner.push(option),
                Class::Outer => outer.push(option),
                Class::Both => {
                    outer.push(option);
                    // Notifications are ordered by their numbers, and nothing else (§4.1.3.5.2).
                    let value = if code.is_response() { &[][..] } else { option.value };
                    inner.push(RawOption { value, ..option });
                }
                Class::Divided => {
                    let divided = divided.ok_or(ProtectError::ProxyUri)?;
                    outer.push(RawOption { value: divided.proxy_uri(), ..option });
                    inner.extend(divided.inner_options());
                }
                Class::Nested => return Err(ProtectError::Nested),
            }
        }
        inner.sort_by_key(|option| option.number);
        let payload = body.payload_slice();
        if 1 + content_length(&inner, payload) > LONGEST_TEXT {
            return Err(ProtectError::TooLong);
        }
        Ok(Self { code, outer, inner, payload })
    }

    /// A request that registers an observation, or ends it; a response that is a notification.
    pub(super) fn observes(&self) -> bool {
        self.outer.iter().any(|option| option.number == OptionNumber::OBSERVE)
    }

    /// The outer code (RFC 8613 §4.2).
    pub(super) fn outer_code(&self) -> Code {
        match (self.code.is_response(), self.observes()) {
            (false, false) => Code::POST,
            (false, true) => Code::FETCH,
            (true, false) => Code::CHANGED,
            (true, true) => Code::CONTENT,
        }
    }
}

/// What a message is protected with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seal<'a> {
    /// Who gave the request its number, and which.
    pub(super) request: (EndId, PartialIv),
    /// Whose number is the nonce of this message, and which it is.
    pub(super) counted: (EndId, PartialIv),
    /// What the message tells of that.
    pub(super) told: OptionValue<'a>,
}

impl Context {
    /// The outer message, in one piece of memory: what is encrypted stays where it was written.
    pub(super) fn seal(&self, plain: Plain<'_>, seal: Seal<'_>) -> Result<Body, ProtectError> {
        let Plain { code, outer, inner, payload } = plain;
        let value = seal.told.encode();
        let option = RawOption { number: OptionNumber::OSCORE, value: &value };
        let mut outer: Options<'_> = outer.iter().copied().chain([option]).collect();
        outer.sort_by_key(|option| option.number);

        let text = 1 + content_length(&inner, payload);
        let sealed = text + self.aead.tag_length();
        let marker = 1;
        let mut bytes = Vec::with_capacity(content_length(&outer, &[]) + marker + sealed);
        // A payload of one byte, which is the code; all that follows is payload too.
        write_content(&mut bytes, &outer, &[code.0]);
        let start = bytes.len() - 1;
        write_content(&mut bytes, &inner, payload);

        let (kid, number) = seal.request;
        let (counted_by, counted) = seal.counted;
        let nonce = self.nonce(counted_by, counted);
        let additional = additional_data(self.aead, kid, number);
        let text = bytes.get_mut(start..).unwrap_or_default();
        let tag = super::cose::seal(self.aead, &self.sender_key, nonce, &additional, text)
            .map_err(|_| ProtectError::TooLong)?;
        bytes.extend_from_slice(&tag);
        Ok(Body::encoded(bytes.into()))
    }
}
