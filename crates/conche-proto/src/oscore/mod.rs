//! OSCORE (RFC 8613): requests and responses that only their two ends can read, change or make, whatever stands between.
//!
//! ```text
//! request:   inner request ──> protect_request ──> outer request ~~> unprotect_request ──> inner request
//! response:  inner response <── unprotect_response <~~ outer response <── protect_response <── inner response
//! ```
//!
//! Two ends share [`Credentials`]. Each derives a [`Context`] of them, and keeps all of its contexts in [`Contexts`], which
//! protects what leaves and finds and checks what comes. What binds a response to its request is a [`Binding`]. Nothing
//! here reads a clock or a file: what has to outlive the program, the application keeps, and it is asked to by
//! [`Contexts::poll_reserve`].
//!
//! A key and a nonce protect one message only. The nonce is made of a number that its sender counts; so
//!
//! - no number is used before the application has stored that it may have been ([`Reserve`], RFC 8613 appendix B.1.1), and
//!   no request is taken before it has stored anything since the start,
//! - a response takes its request's number once at most, and otherwise one of its own sender,
//! - after a restart that forgot which requests had come, none is taken before an Echo shows that it is fresh
//!   (RFC 8613 appendix B.1.2, RFC 9175).
//!
//! Where neither end can remember anything, both agree on new keys after each start ([`Start::Anew`], appendix B.2).

mod algorithms;
mod binding;
mod challenges;
mod classes;
mod context;
mod contexts;
mod cose;
mod credentials;
mod derive;
mod exchange;
mod option;
mod protect;
mod proxy_uri;
mod refused;
mod renewal;
mod sequence;
#[cfg(test)]
mod tests;
mod unprotect;
mod window;

pub use algorithms::{Aead, Hkdf};
pub use binding::Binding;
pub use context::{Context, Start};
pub use contexts::{ContextId, Contexts, InsertError};
pub use credentials::{Credentials, CredentialsError, EndId, Secret};
pub use protect::{ProtectError, Protected, ProtectedResponse};
pub use refused::Refused;
pub use sequence::Reserve;
pub use unprotect::{Unprotected, UnprotectedResponse};
pub use window::ReplayWindow;

use option::{OptionValue, PartialIv};

use crate::codec::{Content, OptionNumber};

/// Who a protected message says to be of: the `kid` of its OSCORE option.
pub(crate) fn kid_of(message: &Content<'_>) -> Option<EndId> {
    let option = message.options().find(|option| option.number == OptionNumber::OSCORE)?;
    EndId::new(OptionValue::decode(option.value)?.kid?)
}

/// Whether a message has an OSCORE option, so that it has to be unprotected before anything in it means something
/// (RFC 8613 §2).
#[must_use]
pub fn is_protected(message: &Content<'_>) -> bool {
    message.options().any(|option| option.number == OptionNumber::OSCORE)
}
