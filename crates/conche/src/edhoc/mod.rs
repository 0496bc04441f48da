//! EDHOC (RFC 9528): authenticated exchange of keys for [OSCORE](crate::oscore), for one run.
//!
//! Each end has a private key, and a [`Credential`] that binds its public key to a name:
//!
//! ```
//! use conche::edhoc::{Credential, OwnCredential, Party, generate};
//! use conche::security::Identity;
//! use conche::server::get;
//! use conche::{Client, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let end = |kid: &[u8], name: &str| -> Result<OwnCredential, Box<dyn std::error::Error>> {
//!     let key = generate()?;
//!     let credential = Credential::of(&key, kid, name)?;
//!     Ok(OwnCredential::new(key, credential)?)
//! };
//! let (lamp, hall) = (end(b"\x01", "lamp-7")?, end(b"\x02", "hall")?);
//! let (lamp_credential, hall_credential) = (lamp.credential().clone(), hall.credential().clone());
//!
//! let greet = async |who: Identity| format!("hello, {who}");
//! let us = Party::new(hall).with_peer(lamp_credential)?;
//! let server = Server::builder().edhoc(us).secured_only().route("/hello", get(greet)).bind("127.0.0.1:0").await?;
//!
//! let client = Client::builder().edhoc(Party::new(lamp).with_peer(hall_credential)?).build()?;
//! let response = client.get(format!("coap://{}/hello", server.local_addr())).await?;
//! assert_eq!(response.text()?, "hello, lamp-7");
//! # Ok(())
//! # }
//! ```
//!
//! The client starts the exchange before its first request to a server: two messages to
//! `/.well-known/edhoc` and one back, after which both have a fresh OSCORE context. With
//! [`combined`](Party::combined) the last message travels with the request (RFC 9668), which saves
//! a round trip. Further requests wait. If the server has lost the keys, the request fails with
//! [`Failure::NotAuthenticated`](crate::Failure::NotAuthenticated), and the next one runs a new
//! exchange.
//!
//! Both ends authenticate with static Diffie-Hellman keys on P-256 (method 3, cipher suite 2), and
//! identify credentials by key ID. A server keeps the last [`CONTEXTS`] contexts per credential.
//! One network can hold at most half of the pending exchanges.

mod responder;

pub use conche_proto::edhoc::{Credential, CredentialError, Error, ErrorMessage, OwnCredential, PrivateKey};

pub(crate) use responder::{EdhocResponder, ResponderMessage, Source, WHAT};

use std::fmt;
use std::sync::Arc;

use conche_proto::codec::Hexadecimal;
use conche_proto::edhoc::PeerCredentials;
use conche_proto::oscore::EndId;
use zeroize::Zeroizing;

/// RFC 9528 appendix A.2.
pub(crate) const PATH: &str = "/.well-known/edhoc";

/// application/edhoc+cbor-seq, of responses.
pub(crate) const EDHOC: u16 = 64;

/// application/cid-edhoc+cbor-seq, of requests.
pub(crate) const CID_EDHOC: u8 = 65;

/// `true` in CBOR: precedes message_1 in place of a connection identifier.
pub(crate) const NO_ID: u8 = 0xf5;

/// Contexts that a server keeps per client credential, replacing the oldest.
pub const CONTEXTS: usize = 4;

/// Own credential and known peers of an EDHOC endpoint. Clones share both.
#[derive(Clone, Debug)]
pub struct Party {
    pub(crate) own: Arc<OwnCredential>,
    pub(crate) peers: Arc<PeerCredentials>,
    pub(crate) combined: bool,
    expected: Expected,
}

#[derive(Clone, Debug)]
enum Expected {
    Sole,
    One(Arc<Credential>),
    Any,
}

impl Party {
    /// Returns a party without known peers.
    #[must_use]
    pub fn new(own: OwnCredential) -> Self {
        Self { own: Arc::new(own), peers: Arc::default(), combined: false, expected: Expected::Sole }
    }

    /// Returns the own key and credential.
    #[must_use]
    pub fn own(&self) -> &OwnCredential {
        &self.own
    }

    /// Adds a known peer. A server accepts all of them. A client with several must name the
    /// expected one ([`expecting`](Self::expecting)), or use a party per server
    /// ([`edhoc_for`](crate::client::ClientBuilder::edhoc_for)).
    ///
    /// # Errors
    /// [`CredentialError::SameKid`] if another peer has the same key ID, and
    /// [`CredentialError::OwnKey`] for this end's own key: a reflected message would authenticate.
    pub fn with_peer(mut self, peer: Credential) -> Result<Self, CredentialError> {
        if peer.is_of(self.own.key()) {
            return Err(CredentialError::OwnKey);
        }
        Arc::make_mut(&mut self.peers).add(peer)?;
        Ok(self)
    }

    /// Names the known peer expected at all destinations of this party. If another one answers, the
    /// request fails with [`Error::OtherPeer`] and is not sent.
    ///
    /// # Errors
    /// [`CredentialError::UnknownKid`] if no known peer has this key ID.
    pub fn expecting(self, kid: &[u8]) -> Result<Self, CredentialError> {
        let peer = self.peers.get(kid).cloned().ok_or(CredentialError::UnknownKid)?;
        Ok(Self { expected: Expected::One(peer), ..self })
    }

    /// Accepts any known peer at any destination of this party. A peer that can redirect another's
    /// datagrams can then read and answer its requests, unless
    /// [`expect_peer`](crate::client::RequestBuilder::expect_peer) is set.
    #[must_use]
    pub fn expecting_any(self) -> Self {
        Self { expected: Expected::Any, ..self }
    }

    /// `None` accepts any peer.
    ///
    /// # Errors
    /// The number of known peers, if it is not one and none was named.
    pub(crate) fn expected(&self) -> Result<Option<&Arc<Credential>>, usize> {
        let mut peers = self.peers.iter();
        match (&self.expected, peers.len()) {
            (Expected::One(peer), _) => Ok(Some(peer)),
            (Expected::Any, _) => Ok(None),
            (Expected::Sole, 1) => Ok(peers.next()),
            (Expected::Sole, count) => Err(count),
        }
    }

    /// Sets whether a client sends the last EDHOC message with the first request (RFC 9668).
    /// `false` by default.
    ///
    /// The server must support it, as this crate's and those with `ed-comb-req` in
    /// `/.well-known/core` do. Non-confirmable and streamed requests do not carry the message.
    #[must_use]
    pub fn combined(self, combined: bool) -> Self {
        Self { combined, ..self }
    }
}

/// The holder of a credential's private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity(pub(crate) Arc<Credential>);

impl Identity {
    /// Returns the identity of this credential.
    #[must_use]
    pub fn of(credential: Credential) -> Self {
        Self(Arc::new(credential))
    }

    /// Returns the credential.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.0
    }
}

impl std::hash::Hash for Identity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.as_slice().hash(state);
    }
}

/// Formats the credential's subject, or else its key ID in hexadecimal.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.subject() {
            Some(subject) => write!(f, "{}", subject.escape_debug()),
            None => Hexadecimal(self.0.kid()).fmt(f),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

pub(crate) fn random_id<const LENGTH: usize>() -> Result<EndId, Error> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
    EndId::new(&bytes).ok_or(Error::NoRandomness)
}

/// Generates a private key.
///
/// # Errors
/// [`Error::NoRandomness`] if the operating system has no random bytes.
pub fn generate() -> Result<PrivateKey, Error> {
    let mut bytes = Zeroizing::new([0; 32]);
    loop {
        getrandom::fill(&mut *bytes).map_err(|_| Error::NoRandomness)?;
        // One in 2^32 is not a valid key.
        if let Some(key) = PrivateKey::new(&bytes) {
            return Ok(key);
        }
    }
}
