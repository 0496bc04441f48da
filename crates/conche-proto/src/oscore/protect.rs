//! Converts inner to outer messages and back (RFC 8613 §8).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use smallvec::SmallVec;
use thiserror::Error;

use super::cose::{additional_data, open};
use super::{Context, ContextId, EndId, OptionValue, PartialIv};
use crate::codec::link_format::hexadecimal;
use crate::codec::{
    Body, Code, Content, Encoder, Message, MessagePool, OptionNumber, OscoreClass, OwnedMessage, RawOption, Token,
    content_length, write_content,
};

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

/// Reason why a message could not be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtectError {
    /// The context does not exist.
    #[error("there is no such security context")]
    UnknownContext,
    /// No reserved number is left until a [reservation](super::Contexts::poll_reserve) is stored.
    #[error("no sequence number is reserved: the application has not stored how far they are used")]
    NotReserved,
    /// All 2⁴⁰ numbers are used: new credentials are required (RFC 8613 §7.2.1).
    #[error("all sequence numbers are used: new credentials are needed")]
    Exhausted,
    /// The message is already protected (RFC 8613 §4.1.3.7).
    #[error("the message is protected already")]
    Nested,
    /// The binding refers to a request of this end.
    #[error("a response was to be protected for a request that this end itself made")]
    OwnRequest,
    /// Proxy-Uri is not an absolute URI, and cannot be split (RFC 8613 §4.1.3.3).
    #[error("the value of Proxy-Uri is no absolute URI with an authority")]
    ProxyUri,
    /// The encrypted part exceeds 65535 bytes.
    #[error("the message is longer than what can be encrypted")]
    TooLong,
}

/// Maximum plaintext of AES-CCM with a 13-byte nonce.
const LONGEST_TEXT: usize = 0xffff;

type Options<'a> = SmallVec<[RawOption<'a>; 16]>;

/// A message split into outer and inner options.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    code: Code,
    outer: Options<'a>,
    inner: Options<'a>,
    payload: &'a [u8],
}

impl<'a> Plain<'a> {
    pub(super) fn new(code: Code, body: &'a Body, divided: Option<&'a SplitProxyUri>) -> Result<Self, ProtectError> {
        let (mut outer, mut inner) = (Options::new(), Options::new());
        for option in body.options() {
            match option.number.oscore_class() {
                OscoreClass::Encrypted => inner.push(option),
                OscoreClass::Visible => outer.push(option),
                OscoreClass::Both => {
                    outer.push(option);
                    // Notifications are ordered only by sequence numbers (§4.1.3.5.2).
                    let value = if code.is_response() { &[][..] } else { option.value };
                    inner.push(RawOption { value, ..option });
                }
                OscoreClass::Divided => {
                    let divided = divided.ok_or(ProtectError::ProxyUri)?;
                    outer.push(RawOption { value: divided.proxy_uri(), ..option });
                    inner.extend(divided.inner_options());
                }
                OscoreClass::Nested => return Err(ProtectError::Nested),
            }
        }
        inner.sort_by_key(|option| option.number);
        let payload = body.payload_slice();
        if 1 + content_length(&inner, payload) > LONGEST_TEXT {
            return Err(ProtectError::TooLong);
        }
        Ok(Self { code, outer, inner, payload })
    }

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

#[derive(Clone, Copy, Debug)]
pub(super) struct Seal<'a> {
    pub(super) request: (EndId, PartialIv),
    pub(super) counted: (EndId, PartialIv),
    pub(super) told: OptionValue<'a>,
}

impl Context {
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
        // The inner code starts the payload; the rest follows.
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

/// An authentic, new request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprotected {
    /// The inner request with the outer type, message ID, token, and options for proxies.
    pub message: OwnedMessage,
    /// Protects the responses.
    pub binding: Binding,
}

/// An authentic response to the request.
///
/// Notifications are in order; older ones are [refused](Refused::Replayed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprotectedResponse {
    /// The inner response with the outer type, message ID and token. A notification's Observe holds
    /// the lower 24 bits of `number` (RFC 8613 §4.1.3.5.2), or 0 without one.
    pub message: OwnedMessage,
    /// The sequence number; `None` if the response used the request's.
    pub number: Option<u64>,
}

/// Reusable buffers for decryption.
#[derive(Default)]
pub(super) struct Workspace {
    pub(super) text: Vec<u8>,
    pub(super) message: Vec<u8>,
}

/// Omits the plaintext of the last message.
impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Workspace")
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sealed<'a> {
    pub(super) option: OptionValue<'a>,
    message: Message<'a>,
}

impl<'a> Sealed<'a> {
    /// The message must have a single valid OSCORE option and a payload.
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

#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) request: (EndId, PartialIv),
    pub(super) counted: (EndId, PartialIv),
}

impl Context {
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

/// `observe` replaces an inner Observe.
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
    // Other outer options are for proxies (RFC 8613 §8.2 and §8.4, step 1).
    let visible =
        |option: &RawOption<'_>| matches!(option.number.oscore_class(), OscoreClass::Visible | OscoreClass::Divided);
    for option in outer.options().filter(visible) {
        // Protected options have precedence.
        if options.iter().take(inner_ones).all(|inner| inner.number != option.number) {
            options.push(option);
        }
    }
    options.sort_by_key(|option| option.number);

    // A delta grows only by an omitted option, which frees as many bytes.
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

const LONGEST_OBSERVE: usize = 3;

/// The request of a protected response, at client and server. Responses to other requests are
/// refused.
///
/// Clones refer to the same request: the server's context records used request numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    context: ContextId,
    epoch: u32,
    kid: EndId,
    number: PartialIv,
    observes: bool,
    proposal: bool,
    /// At a client: a response without its own number arrived.
    answered: bool,
    /// At a client: the newest notification's number plus one (RFC 8613 §7.4.1), or 0.
    newest: u64,
}

impl Binding {
    pub(super) const fn new(context: ContextId, epoch: u32, kid: EndId, number: PartialIv, observes: bool) -> Self {
        Self { context, epoch, kid, number, observes, proposal: false, answered: false, newest: 0 }
    }

    pub(super) const fn proposing(self, proposal: bool) -> Self {
        Self { proposal, ..self }
    }

    /// At a client: returns `true` if only the client knows the request's keys
    /// ([`Start::Anew`](super::Start::Anew)). No server can have executed it.
    #[must_use]
    pub const fn is_proposal(&self) -> bool {
        self.proposal
    }

    pub(super) const fn request(&self) -> (EndId, PartialIv) {
        (self.kid, self.number)
    }

    pub(super) const fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(super) const fn observes(&self) -> bool {
        self.observes
    }

    /// Records the number of an authentic response. An error if it is not newer than previous
    /// responses.
    pub(super) fn take(&mut self, number: Option<u64>) -> Result<(), Refused> {
        match number {
            // A response without a number is older than any other (RFC 8613 §4.1.3.5.2).
            None if self.answered || self.newest > 0 => return Err(Refused::Replayed),
            None => self.answered = true,
            Some(number) if number < self.newest => return Err(Refused::Replayed),
            Some(number) => self.newest = number.saturating_add(1),
        }
        Ok(())
    }

    /// Returns the context that protects the request.
    #[must_use]
    pub const fn context(&self) -> ContextId {
        self.context
    }

    /// Returns the sequence number of the request.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.number()
    }
}

/// Reason why a protected message was refused. A response is dropped; a request is
/// [answered](super::Contexts::refusal).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// Option or message do not conform to RFC 8613 §5 and §6.1.
    #[error("the OSCORE option or what it announces is malformed")]
    Malformed,
    /// No context has the sender's ID and ID context, or the request's context was removed.
    #[error("there is no security context for this message")]
    UnknownContext,
    /// The number was received before, or is too old to tell.
    #[error("the message was received before, or is too old to tell")]
    Replayed,
    /// The key is not the context's, the response is for another request, or the plaintext is
    /// malformed.
    #[error("the message is not authentic")]
    Forged,
    /// The request is authentic, but must prove its freshness (RFC 8613 appendix B.1.2). The
    /// application must not see it.
    #[error("the request is authentic but not known to be fresh")]
    NotFresh(Binding),
    /// The request is authentic, with keys [proposed](super::Start::Anew) by the other end, but may
    /// be a replay. Its sender must repeat it with the offered keys. The application must not see
    /// it.
    #[error("the request is authentic, with keys that are not agreed on")]
    Proposed {
        /// The request.
        binding: Binding,
        /// The ID context of the proposed keys.
        id_context: Box<[u8]>,
    },
    /// The keys have changed; the request was not executed, and must be repeated.
    #[error("the keys of the security context have changed since the request was made, which has to be made again")]
    Renewed,
    /// The keys have changed; the request may have been executed, but its response is lost.
    #[error("the keys of the security context have changed since the request was made, which may have been executed")]
    Outdated,
}

impl Refused {
    /// Returns the unprotected answer to a refused request (RFC 8613 §7.4, §8.2). `None` for
    /// responses, and for [`NotFresh`](Self::NotFresh) and [`Proposed`](Self::Proposed), which have
    /// protected answers.
    ///
    /// The answer reveals no more than these sections permit, and must not be cached.
    #[must_use]
    pub fn unprotected_answer(&self) -> Option<(Code, Body)> {
        let (code, diagnosis) = match self {
            Self::Malformed => (Code::BAD_OPTION, "Failed to decode COSE"),
            Self::UnknownContext => (Code::UNAUTHORIZED, "Security context not found"),
            Self::Replayed => (Code::UNAUTHORIZED, "Replay detected"),
            Self::Forged => (Code::BAD_REQUEST, "Decryption failed"),
            Self::NotFresh(_) | Self::Proposed { .. } | Self::Renewed | Self::Outdated => return None,
        };
        let body = Body::builder().uint(OptionNumber::MAX_AGE, 0).payload(diagnosis).build().ok()?;
        Some((code, body))
    }
}

#[derive(Debug)]
pub(super) struct SplitProxyUri {
    proxy_uri: Vec<u8>,
    inner: SmallVec<[(OptionNumber, Vec<u8>); 8]>,
}

impl SplitProxyUri {
    pub(super) fn of(body: &Body) -> Result<Option<Self>, ProtectError> {
        let divided = body.option(OptionNumber::PROXY_URI).map(|uri| Self::new(uri).ok_or(ProtectError::ProxyUri));
        divided.transpose()
    }

    /// `None` if the URI is not absolute or has no authority.
    fn new(uri: &[u8]) -> Option<Self> {
        let uri = core::str::from_utf8(uri).ok()?;
        let (scheme, rest) = uri.split_once("://").filter(|(scheme, _)| is_scheme(scheme))?;
        // Fragments are not sent (RFC 7252 §6.4, step 4).
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
        let path = rest.strip_prefix(authority)?;
        if authority.is_empty() {
            return None;
        }
        let segments = match path.strip_prefix('/') {
            None | Some("") => None,
            Some(path) => Some(path.split('/')),
        };
        let segments = segments.into_iter().flatten().map(|segment| (OptionNumber::URI_PATH, segment));
        let arguments = query.into_iter().flat_map(|query| query.split('&'));
        let arguments = arguments.map(|argument| (OptionNumber::URI_QUERY, argument));
        let inner: Option<_> =
            segments.chain(arguments).map(|(number, encoded)| Some((number, decoded(encoded)?))).collect();
        Some(Self { proxy_uri: [scheme, "://", authority].concat().into_bytes(), inner: inner? })
    }

    pub(super) fn proxy_uri(&self) -> &[u8] {
        &self.proxy_uri
    }

    pub(super) fn inner_options(&self) -> impl Iterator<Item = RawOption<'_>> {
        self.inner.iter().map(|(number, value)| RawOption { number: *number, value })
    }
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn decoded(encoded: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => hexadecimal(bytes.next()?)? << 4 | hexadecimal(bytes.next()?)?,
            literal => literal,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use std::format;

    use super::*;

    fn divided(uri: &str) -> Option<(String, Vec<String>)> {
        let divided = SplitProxyUri::new(uri.as_bytes())?;
        let inner = divided
            .inner_options()
            .map(|option| format!("{}={}", option.number, String::from_utf8_lossy(option.value)));
        let inner = inner.collect();
        Some((String::from_utf8(divided.proxy_uri).expect("text"), inner))
    }

    // RFC 8613 §4.1.3.3 (its example)
    #[test]
    fn a_proxy_sees_scheme_and_authority_only() {
        let (seen, hidden) = divided("coap://example.com/resource?q=1").expect("a URI");
        assert_eq!(
            (seen.as_str(), hidden),
            ("coap://example.com", ["Uri-Path=resource", "Uri-Query=q=1"].map(String::from).to_vec())
        );
        for uri in ["coap://h", "coap://h/", "coap://h#fragment"] {
            assert_eq!(divided(uri).expect("a URI"), (String::from("coap://h"), Vec::new()), "{uri}");
        }
        let (seen, hidden) = divided("http://[::1]:8080/a%2Fb//c?x=%26&y#f").expect("a URI");
        assert_eq!(seen, "http://[::1]:8080");
        assert_eq!(hidden, ["Uri-Path=a/b", "Uri-Path=", "Uri-Path=c", "Uri-Query=x=&", "Uri-Query=y"]);
    }

    #[test]
    fn only_an_absolute_uri_is_split() {
        for uri in ["", "/path", "coap:", "coap://", "coap:///path", "1x://h", "://h", "coap://h/%4", "coap://h/%zz"] {
            assert_eq!(divided(uri), None, "{uri}");
        }
        assert!(SplitProxyUri::new(b"coap://\xff").is_none());
    }
}
