//! [`Error`]: why an exchange is over before its end, and what the other end hears of it (RFC 9528 §6).

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use minicbor::Decoder;
use thiserror::Error as Derive;

use super::Credential;
use super::wire::sequence;
use crate::codec::Code;

/// No keys are agreed on. The exchange is over at both ends.
#[derive(Clone, Debug, PartialEq, Eq, Derive)]
#[non_exhaustive]
pub enum Error {
    /// A message is not what RFC 9528 §5 describes, or longer than any that is understood here.
    #[error("an EDHOC message is malformed")]
    Malformed,
    /// A public key is no point of the curve.
    #[error("an EDHOC message has a key that is no point on P-256")]
    NoPoint,
    /// The other end wants to be authenticated in another way than by static Diffie-Hellman keys of both ends.
    #[error("the other end asks for another method than 3, static Diffie-Hellman keys of both ends")]
    Method,
    /// The other end has selected another cipher suite, or one after the one that both have.
    #[error("the other end has selected another cipher suite than {}", super::SUITE)]
    Suite,
    /// The other end is unknown, or its credential is told in another way than by the ID of its key.
    #[error("the other end's credential is not known")]
    UnknownCredential,
    /// The other end has proved to be a known peer, but another one than expected.
    #[error("the other end is {found}, but {expected} was expected")]
    OtherPeer {
        /// The credential that was expected.
        expected: Arc<Credential>,
        /// The credential of the other end.
        found: Arc<Credential>,
    },
    /// The other end does not have the private key of its credential, has our credential with other bytes, or a message was changed.
    #[error("an EDHOC message is not authentic: the credentials are not those that both ends have, or it was changed")]
    NotAuthentic,
    /// The other end demands that something is understood that is not, or tells more than there is room for.
    #[error(
        "an EDHOC message has external authorization data (EAD) that is critical, which nobody here understands, or long"
    )]
    Ead,
    /// The other end gives itself the name that it has given to this one.
    #[error("the other end has chosen this end's own connection identifier for itself")]
    SameIds,
    /// No exchange waits for this message: it came too late, or twice.
    #[error("no EDHOC exchange waits for this message")]
    NoExchange,
    /// So many exchanges wait for their end that there is no room for another one.
    #[error("too many EDHOC exchanges are under way")]
    Busy,
    /// So many exchanges were begun lately that no more is computed for now.
    #[error("too many EDHOC exchanges were begun lately: they are bounded by the second")]
    TooOften,
    /// The computation panicked, which is a defect of this end.
    #[error("an EDHOC message could not be processed: internal error")]
    Internal,
    /// There are no random bytes for a key.
    #[error("the operating system gives no random bytes")]
    NoRandomness,
    /// The other end has answered with this code, and nothing that says why.
    #[error("the other end has answered a message of EDHOC with {0:?}")]
    Refused(Code),
    /// The other end has said that the exchange is over.
    #[error("the other end has ended the EDHOC exchange: {0}")]
    Told(Told),
}

/// What the other end said (RFC 9528 §6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Something in words.
    Unspecified(String),
    /// It does not have the selected cipher suite, or another one before that.
    Suites,
    /// It does not know our credential.
    UnknownCredential,
    /// Something with this number.
    Other(i64),
}

/// What a diagnosis has at most.
const LONGEST_DIAGNOSIS: usize = 128;

impl Error {
    /// The error message for the other end (RFC 9528 §6). It says no more than that needs.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        // Memory takes everything.
        sequence(|encoder| {
            let _ = match self {
                Self::Suite => encoder.i64(2).and_then(|encoder| encoder.i64(super::SUITE)),
                // Nor whom this end knows (ERR_CODE 3 would): it is said before anybody is authenticated.
                Self::UnknownCredential => {
                    encoder.i64(1).and_then(|encoder| encoder.str(&Self::NotAuthentic.to_string()))
                }
                other => encoder.i64(1).and_then(|encoder| encoder.str(&other.to_string())),
            };
        })
    }

    /// What the other end said, if this is an error message.
    #[must_use]
    pub fn told(message: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(message);
        let code = decoder.i64().ok()?;
        Some(Self::Told(match code {
            1 => {
                let words = decoder.str().unwrap_or_default();
                Told::Unspecified(words.chars().filter(|char| !char.is_control()).take(LONGEST_DIAGNOSIS).collect())
            }
            2 => Told::Suites,
            3 => Told::UnknownCredential,
            other => Told::Other(other),
        }))
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unspecified(words) => write!(f, "{words:?}"),
            Self::Suites => f.write_str("it has other cipher suites"),
            Self::UnknownCredential => f.write_str("it does not know our credential"),
            Self::Other(code) => write!(f, "error {code}"),
        }
    }
}
