//! [`Refused`]: why a protected message was refused, and the answer to it (RFC 8613 §8.2, §8.4).

use alloc::boxed::Box;

use thiserror::Error;

use super::Binding;
use crate::codec::{Body, Code, OptionNumber};

/// AbandonReason a protected message was refused. A response is dropped; the answer to a request is
/// [`Contexts::refusal`](super::Contexts::refusal).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// Option value or message do not conform to RFC 8613 §5 and §6.1.
    #[error("the OSCORE option or what it announces is malformed")]
    Malformed,
    /// No context has the sender's ID and ID context, or the context of the response's request was
    /// removed.
    #[error("there is no security context for this message")]
    UnknownContext,
    /// The number was received before, or is too old to decide.
    #[error("the message was received before, or is too old to tell")]
    Replayed,
    /// The message was not created with the key of the context, or for another request, or its
    /// plaintext is malformed.
    #[error("the message is not authentic")]
    Forged,
    /// The request is authentic, but may be a replay: its sender must prove its freshness (RFC 8613
    /// appendix B.1.2). The application must not see it.
    #[error("the request is authentic but not known to be fresh")]
    NotFresh(Binding),
    /// The request is authentic, with keys proposed by the other end
    /// ([`Start::Anew`](super::Start::Anew)), and may be a replay: its sender must repeat it with
    /// the keys of the offer. The application must not see it.
    #[error("the request is authentic, with keys that are not agreed on")]
    Proposed {
        /// The request.
        binding: Binding,
        /// The ID context of the proposed keys.
        id_context: Box<[u8]>,
    },
    /// The keys have changed since the request. It cannot have been executed, and must be repeated.
    #[error("the keys of the security context have changed since the request was made, which has to be made again")]
    Renewed,
    /// The keys have changed since the request, which may have been executed: its response can no
    /// longer be decrypted.
    #[error("the keys of the security context have changed since the request was made, which may have been executed")]
    Outdated,
}

impl Refused {
    /// Returns outer code, options and payload of the unprotected answer to a refused request
    /// (RFC 8613 §7.4, §8.2). `None` for [`NotFresh`](Self::NotFresh) and
    /// [`Proposed`](Self::Proposed), whose answers are protected, and for responses.
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
