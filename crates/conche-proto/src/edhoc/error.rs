//! [`Error`]: why a key exchange failed, and the error message for the other end (RFC 9528 §6).

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use minicbor::Decoder;
use thiserror::Error as Derive;

use super::Credential;
use super::wire::sequence;
use crate::codec::Code;

/// A failed key exchange. It is over at both ends.
#[derive(Clone, Debug, PartialEq, Eq, Derive)]
#[non_exhaustive]
pub enum Error {
    /// A message does not conform to RFC 9528 §5, or exceeds the supported length.
    #[error("an EDHOC message is malformed")]
    Malformed,
    /// A public key is not a point on the curve.
    #[error("an EDHOC message has a key that is no point on P-256")]
    NoPoint,
    /// The other end requests another method.
    #[error("the other end asks for another method than 3, static Diffie-Hellman keys of both ends")]
    Method,
    /// The other end selected an unsupported cipher suite, or one after the common one.
    #[error("the other end has selected another cipher suite than {}", super::SUITE)]
    Suite,
    /// The other end is unknown, or its credential is not identified by a key ID.
    #[error("the other end's credential is not known")]
    UnknownCredential,
    /// The other end is a known and authentic peer, but not the expected one.
    #[error("the other end is {found}, but {expected} was expected")]
    OtherPeer {
        /// The expected credential.
        expected: Arc<Credential>,
        /// The other end's credential.
        found: Arc<Credential>,
    },
    /// The other end lacks its credential's private key or has another version of ours, or a
    /// message was modified.
    #[error("an EDHOC message is not authentic: the credentials are not those that both ends have, or it was changed")]
    NotAuthentic,
    /// The other end sent external authorization data that is critical or too long.
    #[error("an EDHOC message has external authorization data (EAD) that is critical but not supported, or too long")]
    Ead,
    /// The other end chose this end's connection identifier for itself.
    #[error("the other end has chosen this end's own connection identifier for itself")]
    SameIds,
    /// No exchange waits for this message: it is late or a duplicate.
    #[error("no EDHOC exchange waits for this message")]
    NoExchange,
    /// The maximum number of exchanges is in progress.
    #[error("too many EDHOC exchanges are under way")]
    Busy,
    /// The rate limit of new exchanges is exceeded.
    #[error("too many EDHOC exchanges were begun lately: they are bounded by the second")]
    TooOften,
    /// The computation panicked.
    #[error("an EDHOC message could not be processed: internal error")]
    Internal,
    /// The random source failed.
    #[error("the operating system gives no random bytes")]
    NoRandomness,
    /// The other end responded with this code.
    #[error("the other end has answered a message of EDHOC with {0:?}")]
    Refused(Code),
    /// The other end sent an EDHOC error message.
    #[error("the other end has ended the EDHOC exchange: {0}")]
    ErrorMessage(ErrorMessage),
}

/// The content of an error message (RFC 9528 §6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorMessage {
    /// A text.
    Unspecified(String),
    /// The other end does not support the cipher suite, or prefers one before it.
    Suites,
    /// The other end does not know our credential.
    UnknownCredential,
    /// Another error code.
    Other(i64),
}

/// Maximum length of a diagnostic text, in characters.
const LONGEST_DIAGNOSIS: usize = 128;

impl Error {
    /// Returns the error message for the other end (RFC 9528 §6).
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        // Writing to memory cannot fail.
        sequence(|encoder| {
            let _ = match self {
                Self::Suite => encoder.i64(2).and_then(|encoder| encoder.i64(super::SUITE)),
                // ERR_CODE 3 would reveal which peers are known, before authentication.
                Self::UnknownCredential => {
                    encoder.i64(1).and_then(|encoder| encoder.str(&Self::NotAuthentic.to_string()))
                }
                other => encoder.i64(1).and_then(|encoder| encoder.str(&other.to_string())),
            };
        })
    }

    /// Parses an error message; `None` if it is not one.
    #[must_use]
    pub fn from_message(message: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(message);
        let code = decoder.i64().ok()?;
        Some(Self::ErrorMessage(match code {
            1 => {
                let words = decoder.str().unwrap_or_default();
                ErrorMessage::Unspecified(
                    words.chars().filter(|char| !char.is_control()).take(LONGEST_DIAGNOSIS).collect(),
                )
            }
            2 => ErrorMessage::Suites,
            3 => ErrorMessage::UnknownCredential,
            other => ErrorMessage::Other(other),
        }))
    }
}

impl fmt::Display for ErrorMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unspecified(words) => write!(f, "{words:?}"),
            Self::Suites => f.write_str("it has other cipher suites"),
            Self::UnknownCredential => f.write_str("it does not know our credential"),
            Self::Other(code) => write!(f, "error {code}"),
        }
    }
}
