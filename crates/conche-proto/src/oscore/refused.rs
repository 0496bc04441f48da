//! [`Refused`]: why a message is not taken, and what its sender hears of that (RFC 8613 §8.2, §8.4).

use alloc::boxed::Box;

use thiserror::Error;

use super::Binding;
use crate::codec::{Body, Code, OptionNumber};

/// A protected message is not taken. A response is dropped; a request is answered with what
/// [`Contexts::refusal`](super::Contexts::refusal) says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// The option's value or the message around it is not what RFC 8613 §5 and §6.1 describe.
    #[error("the OSCORE option or what it announces is malformed")]
    Malformed,
    /// No context has the sender's ID and ID context; or that of a response's request is gone.
    #[error("there is no security context for this message")]
    UnknownContext,
    /// A request with this number came already, or one that is too far behind to tell; or such a response.
    #[error("the message was received before, or is too old to tell")]
    Replayed,
    /// It was not made with the key of the context, or for another request; or what was encrypted is no message.
    #[error("the message is not authentic")]
    Forged,
    /// An authentic request, but nobody knows any more whether it came before: its sender has to show that it is fresh
    /// (RFC 8613 appendix B.1.2). The application must not see it.
    #[error("the request is authentic but not known to be fresh")]
    NotFresh(Binding),
    /// An authentic request with keys that the other end proposes ([`Start::Anew`](super::Start::Anew)), and which may be old: its sender has
    /// to make it again with those that it is offered. The application must not see it.
    #[error("the request is authentic, with keys that are not agreed on")]
    Proposed {
        /// The request.
        binding: Binding,
        /// What the keys are made of.
        id_context: Box<[u8]>,
    },
    /// The keys are others than when the request was made. Nobody has executed it, and it is to be made again.
    #[error("the keys of the security context have changed since the request was made, which has to be made again")]
    Renewed,
    /// The same, but the request may have been executed: what answers it cannot be read any more.
    #[error("the keys of the security context have changed since the request was made, which may have been executed")]
    Outdated,
}

impl Refused {
    /// The unprotected answer to a request that was refused (RFC 8613 §7.4, §8.2): outer code, options and payload. `None`
    /// for [`NotFresh`](Self::NotFresh) and [`Proposed`](Self::Proposed), whose answers are protected, and for what is no request.
    ///
    /// It tells no more than these sections let it, and is not to be stored on the way.
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
