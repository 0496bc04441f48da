//! Converts inner to outer messages (RFC 8613 §8.1, §8.3).

use alloc::vec::Vec;

use smallvec::SmallVec;
use thiserror::Error;

use super::classes::{Class, class};
use super::cose::additional_data;
use super::proxy_uri::Divided;
use super::{Binding, Context, EndId, OptionValue, PartialIv};
use crate::codec::{Body, Code, OptionNumber, RawOption, content_length, write_content};

/// A protected request, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// The outer code: POST, or FETCH for a request with Observe (RFC 8613 §4.2).
    pub code: Code,
    /// The outer options, and the ciphertext as payload.
    pub body: Body,
    /// Verifies the responses.
    pub binding: Binding,
}

/// A protected response, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedResponse {
    /// The outer code: 2.04, or 2.05 for a notification (RFC 8613 §4.2).
    pub code: Code,
    /// The outer options, and the ciphertext as payload.
    pub body: Body,
}

/// AbandonReason a message could not be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtectError {
    /// The context does not exist, or no longer.
    #[error("there is no such security context")]
    UnknownContext,
    /// No number may be used before the application has stored its reservation; see
    /// [`Contexts::poll_reserve`](super::Contexts::poll_reserve). Try again afterwards.
    #[error("no sequence number is reserved: the application has not stored how far they are used")]
    NotReserved,
    /// All 2⁴⁰ numbers are used: new credentials are required (RFC 8613 §7.2.1).
    #[error("all sequence numbers are used: new credentials are needed")]
    Exhausted,
    /// The message has an OSCORE option, hence is already protected (RFC 8613 §4.1.3.7).
    #[error("the message is protected already")]
    Nested,
    /// The binding refers to a request of this end, not to a received one.
    #[error("a response was to be protected for a request that this end itself made")]
    OwnRequest,
    /// Proxy-Uri is not an absolute URI, hence cannot be split into a visible and an encrypted part
    /// (RFC 8613 §4.1.3.3).
    #[error("the value of Proxy-Uri is no absolute URI with an authority")]
    ProxyUri,
    /// The encrypted part exceeds 65535 bytes.
    #[error("the message is longer than what can be encrypted")]
    TooLong,
}

/// Maximum plaintext length of AES-CCM with a 13-byte nonce.
const LONGEST_TEXT: usize = 0xffff;

type Options<'a> = SmallVec<[RawOption<'a>; 16]>;

/// A message to be protected, split into outer and inner options.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    code: Code,
    outer: Options<'a>,
    inner: Options<'a>,
    payload: &'a [u8],
}

impl<'a> Plain<'a> {
    /// Splits a message; `divided` is its Proxy-Uri, if it has one.
    pub(super) fn new(code: Code, body: &'a Body, divided: Option<&'a Divided>) -> Result<Self, ProtectError> {
        let (mut outer, mut inner) = (Options::new(), Options::new());
        for option in body.options() {
            match class(option.number) {
                Class::Inner => inner.push(option),
                Class::Outer => outer.push(option),
                Class::Both => {
                    outer.push(option);
                    // Notifications are ordered only by sequence numbers (§4.1.3.5.2).
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

    /// Returns `true` for a request that registers or cancels an observation, and for a
    /// notification.
    pub(super) fn observes(&self) -> bool {
        self.outer.iter().any(|option| option.number == OptionNumber::OBSERVE)
    }

    pub(super) fn outer_code(&self) -> Code {
        match (self.code.is_response(), self.observes()) {
            (false, false) => Code::POST,
            (false, true) => Code::FETCH,
            (true, false) => Code::CHANGED,
            (true, true) => Code::CONTENT,
        }
    }
}

/// The parameters of a protected message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seal<'a> {
    /// Sender and number of the request.
    pub(super) request: (EndId, PartialIv),
    /// Sender and number that form the nonce of this message.
    pub(super) counted: (EndId, PartialIv),
    /// The OSCORE option of this message.
    pub(super) told: OptionValue<'a>,
}

impl Context {
    /// Builds the outer message in a single buffer, and encrypts in place.
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
        // The payload starts with the inner code; everything written next belongs to it.
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
