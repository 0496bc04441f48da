//! From inner to outer messages (RFC 8613 §8.1, §8.3).

use thiserror::Error;

use super::Binding;
use crate::codec::{Body, Code};

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
    /// A Proxy-Uri that is no absolute URI cannot be divided into what a proxy has to see and what it must not
    /// (RFC 8613 §4.1.3.3).
    #[error("the value of Proxy-Uri is no absolute URI")]
    ProxyUri,
    /// The outer message would be longer than any can be.
    #[error("the message is too long")]
    TooLong,
}
