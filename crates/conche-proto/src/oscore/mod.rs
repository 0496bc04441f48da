//! OSCORE (RFC 8613): end-to-end encryption and authentication of requests and responses, across
//! proxies.
//!
//! ```text
//! request:   inner ──> protect_request ──> outer request ~~> unprotect_request ──> inner
//! response:  inner <── unprotect_response <~~ outer response <── protect_response <── inner
//! ```
//!
//! Both ends derive a [`Context`] from shared [`Credentials`] and store it in [`Contexts`], which
//! protect outgoing messages and verify incoming ones. A [`Binding`] binds responses to their
//! request. This module reads no clock or file: [`Contexts::poll_reserve`] returns the values that
//! the application must store persistently.
//!
//! A key and a nonce protect only one message. The nonce contains a number counted by its sender;
//! therefore
//!
//! - no number is used before the application has stored that it may be ([`Reserve`], RFC 8613
//!   appendix B.1.1), and no request is accepted before the application has stored anything since
//!   the start,
//! - a response uses its request's number at most once, otherwise a number of its own sender,
//! - after a restart that lost the received numbers, no request is accepted before an Echo proves
//!   its freshness (RFC 8613 appendix B.1.2, RFC 9175).
//!
//! If neither end can store anything, both derive new keys after each start ([`Start::Anew`],
//! appendix B.2).

mod context;
mod contexts;
mod cose;
mod credentials;
mod option;
mod protect;
mod renewal;
#[cfg(test)]
mod tests;
mod window;

pub use context::{Context, Reserve, Start};
pub use contexts::{ContextId, Contexts, InsertError};
pub use credentials::{Aead, Credentials, CredentialsError, EndId, Hkdf, Secret};
pub use protect::{Binding, ProtectError, Protected, ProtectedResponse, Refused, Unprotected, UnprotectedResponse};
pub use window::ReplayWindow;

use option::{OptionValue, PartialIv};

use crate::codec::{Content, OptionNumber};

pub(crate) fn kid_of(message: &Content<'_>) -> Option<EndId> {
    let option = message.options().find(|option| option.number == OptionNumber::OSCORE)?;
    EndId::new(OptionValue::decode(option.value)?.kid?)
}

/// Returns `true` for a message with an OSCORE option, which must be unprotected (RFC 8613 §2).
#[must_use]
pub fn is_protected(message: &Content<'_>) -> bool {
    message.options().any(|option| option.number == OptionNumber::OSCORE)
}
