//! EDHOC (RFC 9528): key exchange between two ends that know each other's public keys. It
//! establishes [OSCORE](crate::oscore) credentials in three messages.
//!
//! ```text
//! Initiator::begin ──message_1──> Responder::answer
//! Initiator::finish <──message_2── (HalfOpen)
//!        ╰─────────message_3──> Responder::finish
//! ```
//!
//! Both ends obtain the same [`Agreed::credentials`] for
//! [`Context::agreed`](crate::oscore::Context::agreed). They are new for each exchange and must not
//! be stored. This module reads no clock or random source. The application transports the messages
//! over CoAP: [`split_id`] and [`with_id`] handle the prefix of requests (RFC 9528 appendix A.2).
//!
//! Supported are method 3, static Diffie-Hellman keys of both ends, and cipher suite 2:
//! AES-CCM-16-64-128, SHA-256, P-256. Credentials are CWT Claims Sets known to both ends,
//! identified by key ID. The initiator does not wait for message_4, and external authorization data
//! (EAD) is not supported.
//!
//! The crate `lakers` computes the messages. It panics on malformed ones; therefore it only
//! receives messages that were checked before, including encrypted parts.
//!
//! ```
//! use std::sync::Arc;
//! use conche_proto::edhoc::{Credential, Initiator, OwnCredential, PeerCredentials, PrivateKey, Responder};
//! use conche_proto::oscore::EndId;
//!
//! let end = |bytes: [u8; 32], kid: &[u8], name: &str| {
//!     let key = PrivateKey::new(&bytes).expect("a key");
//!     let credential = Credential::of(&key, kid, name).expect("short");
//!     Arc::new(OwnCredential::new(key, credential).expect("they belong together"))
//! };
//! let (lamp, hall) = (end([1; 32], b"\x01", "lamp-7"), end([2; 32], b"\x02", "hall"));
//! let knows = |other: &OwnCredential| PeerCredentials::of([other.credential().clone()]).expect("one alone");
//!
//! // These come from the operating system.
//! let [x, y] = [[3; 32], [4; 32]].map(|bytes| PrivateKey::new(&bytes).expect("a key"));
//! let [c_i, c_r] = [b"i", b"r"].map(|id| EndId::new(id).expect("short"));
//!
//! let (initiator, message_1) = Initiator::begin(lamp.clone(), c_i, x)?;
//! let (responder, message_2) = Responder::answer(&hall, c_r, y, &message_1)?;
//! let (at_lamp, message_3) = initiator.finish(&message_2, &knows(&hall))?;
//! let (at_hall, _) = responder.finish(&message_3, &knows(&lamp))?;
//! assert_eq!(at_lamp.credentials.master_secret, at_hall.credentials.master_secret);
//! assert_eq!((at_lamp.peer.subject(), at_hall.peer.subject()), (Some("hall"), Some("lamp-7")));
//! # Ok::<(), conche_proto::edhoc::Error>(())
//! ```

mod backend;
mod credential;
mod error;
mod exchange;
#[cfg(test)]
mod tests;
mod wire;

pub use credential::{Credential, CredentialError, KEY_LENGTH, OwnCredential, PeerCredentials, PrivateKey};
pub use error::{Error, ErrorMessage};
pub use exchange::{Agreed, HalfOpen, Initiator, Responder};
pub use wire::{split_id, with_id};

/// Static Diffie-Hellman keys of both ends (RFC 9528 §3.2).
const METHOD: i64 = 3;

/// AES-CCM-16-64-128, SHA-256, P-256 (RFC 9528 §3.6).
const SUITE: i64 = 2;
