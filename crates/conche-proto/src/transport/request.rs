//! Requests and responses as the application submits them.

use core::time::Duration;

use crate::codec::{Body, Code, Token};
use crate::security::ContextId;
use crate::store::index_type;

/// A request to send.
#[derive(Clone, Debug)]
pub struct Request {
    /// GET, POST, …
    pub code: Code,
    /// Options and payload.
    pub body: Body,
    /// How the request is sent.
    pub reliability: Reliability,
    /// Maximum time until the response, including queueing. `None`: the protocol's limits apply.
    pub timeout: Option<Duration>,
    /// The token. `None`: a random token, which an off-path attacker cannot guess (RFC 7252
    /// §5.3.1).
    pub token: Option<Token>,
    /// Transfer whole bodies (RFC 7959); `true` by default: a request body that exceeds a message
    /// is sent block-wise, and the remaining blocks of a response are fetched. With `false`, and
    /// for a request for a block in the middle, the application handles single blocks.
    pub whole: bool,
    /// Stream the response body, of any size; `false` by default: each block but the last is an
    /// [`Event::Block`](crate::Event::Block), and
    /// [`Endpoint::fetch_next`](crate::Endpoint::fetch_next) requests the next one. The last block
    /// is the [`Event::Response`](crate::Event::Response).
    pub streamed: bool,
    /// The payload is only the start of the body; [`Endpoint::supply`](crate::Endpoint::supply)
    /// provides the rest. It must contain the first block and one more byte, with blocks of at most
    /// [`EndpointConfig::block_size`](crate::EndpointConfig::block_size). `None`, the default: the
    /// payload is complete.
    pub rest: Option<RemainingBody>,
    /// Add a Request-Tag (RFC 9175 §3) to a block-wise body; `false` by default. Set it for peers
    /// behind DTLS, where an attacker on the path can delay messages and thus mix blocks of two
    /// bodies. Protected requests always have one.
    pub tagged: bool,
    /// The security context for the request and its response (OSCORE, RFC 8613). `None`: no
    /// protection.
    #[cfg(feature = "oscore")]
    pub security: Option<ContextId>,
}

/// The remaining part of a body that is supplied block by block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemainingBody {
    /// Size of the whole body in bytes, or an estimate, sent to the peer in Size1 or Size2
    /// (RFC 7959 §4).
    pub size: Option<u32>,
}

impl Request {
    /// Creates a Confirmable request without a deadline.
    #[must_use]
    pub fn new(code: Code, body: Body) -> Self {
        let (reliability, timeout, token) = (Reliability::Confirmable, None, None);
        Self {
            code,
            body,
            reliability,
            timeout,
            token,
            whole: true,
            streamed: false,
            rest: None,
            tagged: false,
            #[cfg(feature = "oscore")]
            security: None,
        }
    }

    /// Sets the request to receive its response block by block.
    #[must_use]
    pub fn streamed(self) -> Self {
        Self { streamed: true, ..self }
    }

    /// Declares the payload to be only the start of the body.
    #[must_use]
    pub fn with_rest(self, rest: RemainingBody) -> Self {
        Self { rest: Some(rest), ..self }
    }

    /// Adds a Request-Tag to the blocks of the body.
    #[must_use]
    pub fn tagged(self) -> Self {
        Self { tagged: true, ..self }
    }

    /// Sets how the request is sent.
    #[must_use]
    pub fn with_reliability(self, reliability: Reliability) -> Self {
        Self { reliability, ..self }
    }

    pub(crate) fn context(&self) -> Option<ContextId> {
        #[cfg(feature = "oscore")]
        return self.security;
        #[cfg(not(feature = "oscore"))]
        return None;
    }

    /// Sets the security context.
    #[cfg(feature = "oscore")]
    #[must_use]
    pub fn protected(self, context: ContextId) -> Self {
        Self { security: Some(context), ..self }
    }

    /// Sets a timeout.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// As a Confirmable message, retransmitted until acknowledged.
    #[default]
    Confirmable,
    /// As a Non-confirmable message. The controller may convert one occasionally, to learn whether
    /// the peer still exists (draft-ietf-core-cocoa-03 §5).
    NonConfirmable,
    /// Always as a Non-confirmable message.
    NeverConfirmable,
}

index_type!(pub(crate) RequestIndex);

/// Identifies a received request that awaits its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId {
    pub(crate) index: RequestIndex,
    pub(crate) generation: u32,
}

/// A response to send.
#[derive(Clone, Debug)]
pub struct Response {
    /// 2.05 Content, …
    pub code: Code,
    /// Options and payload.
    pub body: Body,
    /// How a separate response is sent. `None`: like the request.
    pub reliability: Option<Reliability>,
    /// Send the response to a group request even if it is an error or has no payload; `false` by
    /// default (RFC 7252 §8.2). Ignored for other requests.
    pub even_to_group: bool,
}

impl Response {
    /// Creates a response that is sent like the request.
    #[must_use]
    pub fn new(code: Code, body: Body) -> Self {
        Self { code, body, reliability: None, even_to_group: false }
    }

    /// Sets the response to be sent to the sender of a group request in any case.
    #[must_use]
    pub fn even_to_group(self) -> Self {
        Self { even_to_group: true, ..self }
    }
}
