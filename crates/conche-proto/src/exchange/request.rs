//! What an application hands to the endpoint: requests and responses, before they have a message ID and a token.

use core::time::Duration;

use crate::codec::{Body, Code, Token};
#[cfg(feature = "oscore")]
use crate::oscore::ContextId;

/// A request to send.
#[derive(Clone, Debug)]
pub struct Request {
    /// GET, POST, …
    pub code: Code,
    /// Options and payload.
    pub body: Body,
    /// How it is sent.
    pub reliability: Reliability,
    /// How long the application waits for the response, queueing included. `None`: as long as the protocol does.
    pub timeout: Option<Duration>,
    /// The token to send it with. `None`: a random one, which an attacker off the path cannot guess (RFC 7252 §5.3.1).
    pub token: Option<Token>,
    /// Bodies are whole, `true` by default: one that does not fit into a message goes in blocks, and of a response that is
    /// a block of a larger body the rest is fetched (RFC 7959). With `false` the application asks for single blocks and
    /// gets them. A request that asks for a block in the middle gets that one either way.
    pub whole: bool,
    /// The response's body is told as it comes, `false` by default: each block but the last by
    /// [`Event::Block`](crate::Event::Block), and the next one is asked for when
    /// [`Endpoint::fetch_next`](crate::Endpoint::fetch_next) says so. The last one, or what comes in the place of blocks, is
    /// the [`Event::Response`](crate::Event::Response). Then no limit holds for the body.
    pub streamed: bool,
    /// The payload is only the beginning of the request's body, and this is known of the rest, which
    /// [`Endpoint::supply`](crate::Endpoint::supply) brings. It goes in blocks, of which the first must be there, and a byte
    /// more: [`EndpointConfig::block_size`](crate::EndpointConfig::block_size) at most. `None`, the default: it is all there.
    pub rest: Option<Rest>,
    /// A body that goes in blocks has a Request-Tag (RFC 9175 §3) that tells them from those of all others, `false` by default. To be set
    /// where peers are behind DTLS, and those on the path cannot change messages but hold them back: without it a block of one body could
    /// be put into another. What is protected with a security context has one in any case.
    pub tagged: bool,
    /// The security context that it is protected with (OSCORE, RFC 8613), and its response has to be. `None`: it is sent as
    /// it is.
    #[cfg(feature = "oscore")]
    pub security: Option<ContextId>,
}

/// What is known of the rest of a body that is supplied block by block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// The bytes of the whole body, or an estimate, which the peer is told in Size1 or Size2 (RFC 7959 §4).
    pub size: Option<u32>,
}

impl Request {
    /// A Confirmable request without a deadline of its own.
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

    /// The same request, with a response that is told block by block.
    #[must_use]
    pub fn streamed(self) -> Self {
        Self { streamed: true, ..self }
    }

    /// The same request, of whose body the payload is only the beginning.
    #[must_use]
    pub fn with_rest(self, rest: Rest) -> Self {
        Self { rest: Some(rest), ..self }
    }

    /// The same request, whose blocks are told from those of all others.
    #[must_use]
    pub fn tagged(self) -> Self {
        Self { tagged: true, ..self }
    }

    /// The same request, sent in this way.
    #[must_use]
    pub fn with_reliability(self, reliability: Reliability) -> Self {
        Self { reliability, ..self }
    }

    /// The same request, protected with this security context.
    #[cfg(feature = "oscore")]
    #[must_use]
    pub fn protected(self, context: ContextId) -> Self {
        Self { security: Some(context), ..self }
    }

    /// The same request with a deadline.
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
    /// As a Non-confirmable message, except that the controller may turn one in a while into a Confirmable one in order
    /// to learn whether the peer is still there (draft-ietf-core-cocoa-03 §5).
    NonConfirmable,
    /// As a Non-confirmable message under all circumstances.
    NeverConfirmable,
}

/// A response to send.
#[derive(Clone, Debug)]
pub struct Response {
    /// 2.05 Content, …
    pub code: Code,
    /// Options and payload.
    pub body: Body,
    /// How a separate response is sent. `None`: as the request was.
    pub reliability: Option<Reliability>,
    /// It is sent to the sender of a request to a group even if it is an error or has no payload, `false` by default
    /// (RFC 7252 §8.2). Without a meaning for other requests.
    pub even_to_group: bool,
}

impl Response {
    /// A response that is sent as the request was.
    #[must_use]
    pub fn new(code: Code, body: Body) -> Self {
        Self { code, body, reliability: None, even_to_group: false }
    }

    /// The same response, sent to the sender of a request to a group whatever it says.
    #[must_use]
    pub fn even_to_group(self) -> Self {
        Self { even_to_group: true, ..self }
    }
}
