//! From outer to inner messages (RFC 8613 §8.2, §8.4).

use super::{Binding, ContextId};
use crate::codec::OwnedMessage;

/// A request that came from who it says, and did not come before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprotected {
    /// The inner request, with type, message ID and token of the outer one, and those of its options that proxies use.
    pub message: OwnedMessage,
    /// What its responses are to be protected with.
    pub binding: Binding,
}

/// A response that came from who was asked, and answers what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprotectedResponse {
    /// The inner response, with type, message ID and token of the outer one. The Observe option of a notification has the
    /// number of its sender (RFC 8613 §4.1.3.5.2), by which notifications are ordered as RFC 7641 has it.
    pub message: OwnedMessage,
    /// Whose keys it was protected with.
    pub context: ContextId,
}
